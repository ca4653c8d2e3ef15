//! Deletion with the policy `Orphan`: dependents are released.

use crate::{
    custom::{definition, widget},
    world::*,
};

/// GC-55.
#[tokio::test(start_paused = true)]
async fn dependents_are_released_before_the_owner_goes() {
    let w = with_collector().await;
    let (a, p) = (create_map(&w, "a", &[]).await, create_map(&w, "p", &[]).await);
    create_map(&w, "b", &[&a]).await;
    create_map(&w, "c", &[&a, &p]).await;
    w.settle().await;
    w.clear_log();
    delete_map_and_settle(&w, "a", "Orphan").await;
    assert_eq!(maps(&w).await, ["b", "c", "p"]);
    assert!(owner_names(&w.get(MAPS, "b").await).is_empty());
    assert_eq!(owner_names(&w.get(MAPS, "c").await), ["p"]);
    assert_eq!((removed_objects(&w), delete_requests(&w)), (vec!["a".to_owned()], Vec::new()));
}

/// GC-56.
#[tokio::test(start_paused = true)]
async fn every_dependent_is_released_despite_failed_requests() {
    let w = with_collector().await;
    let a = create_map(&w, "a", &[]).await;
    for n in 0..5 {
        create_map(&w, &format!("b{n}"), &[&a]).await;
    }
    w.settle().await;
    w.fault(rule(Action::InternalError, "patch", MAPS).skip(2).times(4));
    delete_map_and_settle(&w, "a", "Orphan").await;
    assert_eq!(maps(&w).await, ["b0", "b1", "b2", "b3", "b4"]);
    for name in maps(&w).await {
        assert!(owner_names(&w.get(MAPS, &name).await).is_empty(), "{name}");
    }
    assert_eq!(delete_requests(&w), [""; 0]);
}

/// Makes all lists and watches of a resource fail.
fn fail(w: &World, action: &Action, resource: &str) {
    for verb in ["list", "watch"] {
        w.fault(rule(action.clone(), verb, resource));
    }
}

/// GC-59, GC-80.
#[tokio::test(start_paused = true)]
async fn an_owner_waits_for_dependents_whose_first_list_fails() {
    for action in [Action::Unavailable, Action::TooManyRequests(1), Action::CutBefore, Action::InternalError] {
        let mut w = without_collector().await;
        let a = create_map(&w, "a", &[]).await;
        let mut secret = map("s", &[reference(&a, false)]);
        secret["kind"] = json!("Secret");
        w.create(secret).await;
        delete_map(&w, "a", "Orphan").await;
        fail(&w, &action, "secrets");
        w.start();
        // Work begins after 30 seconds, even if an initial list is missing.
        w.wait(45).await;
        assert_eq!(maps(&w).await, ["a"], "{action:?}");
        w.clear_faults();
        w.wait(60).await;
        w.settle().await;
        assert_eq!(maps(&w).await, [""; 0], "{action:?}");
        let secret = w.get("secrets", "s").await;
        assert!(owner_names(&secret).is_empty(), "{action:?}: {secret:#}");
    }
}

/// GC-59.
#[tokio::test(start_paused = true)]
async fn an_owner_waits_for_dependents_of_a_kind_that_was_just_added() {
    let w = with_collector().await;
    let a = create_map(&w, "a", &[]).await;
    fail(&w, &Action::Unavailable, "widgets");
    w.create(definition("Namespaced")).await;
    w.create(widget("b", &[reference(&a, false)])).await;
    w.wait(10).await;
    delete_map(&w, "a", "Orphan").await;
    w.wait(20).await;
    assert_eq!(maps(&w).await, ["a"]);
    w.clear_faults();
    w.wait(60).await;
    w.settle().await;
    assert_eq!(maps(&w).await, [""; 0]);
    let widget = w.get("widgets.example.com", "b").await;
    assert!(owner_names(&widget).is_empty(), "{widget:#}");
}

/// GC-53, GC-60.
#[tokio::test(start_paused = true)]
async fn a_resource_that_stays_broken_does_not_delay_owners_for_ever() {
    let mut w = without_collector().await;
    let (a, b) = (create_map(&w, "a", &[]).await, create_map(&w, "b", &[]).await);
    create_map(&w, "c", &[&a]).await;
    create_blocking_map(&w, "d", &[&b]).await;
    fail(&w, &Action::InternalError, "secrets");
    delete_map(&w, "a", "Orphan").await;
    delete_map(&w, "b", "Foreground").await;
    w.start();
    w.wait(60).await;
    assert_eq!(maps(&w).await, ["a", "b", "c"]);
    w.wait(90).await;
    assert_eq!(maps(&w).await, ["c"]);
}

//! Deletion with the policy `Orphan`: dependents are released.

use sandbox::{Action, Rule};
use serde_json::json;

use crate::{
    custom::{definition, widget},
    world::{CONTROLLER_IDENTITY, NAMESPACE, World, map, owners, reference},
};

/// GC-55.
#[tokio::test(start_paused = true)]
async fn dependents_are_released_before_the_owner_goes() {
    let w = World::new().await;
    let (a, p) = (w.map("a", &[]).await, w.map("p", &[]).await);
    w.map("b", &[&a]).await;
    w.map("c", &[&a, &p]).await;
    w.settle().await;
    w.reset_counters();
    w.delete_map("a", "Orphan").await;
    w.settle().await;
    assert_eq!(w.maps().await, ["b", "c", "p"]);
    assert!(owners(&w.get("b").await).is_empty());
    assert_eq!(owners(&w.get("c").await), ["p"]);
    assert_eq!((w.removed_objects(), w.delete_requests()), (vec!["a".to_owned()], Vec::new()));
}

/// GC-56.
#[tokio::test(start_paused = true)]
async fn every_dependent_is_released_despite_failed_requests() {
    let w = World::new().await;
    let a = w.map("a", &[]).await;
    for n in 0..5 {
        w.map(&format!("b{n}"), &[&a]).await;
    }
    w.settle().await;
    w.sandbox.faults().add(
        Rule::new(Action::InternalError)
            .identity(CONTROLLER_IDENTITY)
            .verb("patch")
            .resource("configmaps")
            .skip(2)
            .times(4),
    );
    w.delete_map("a", "Orphan").await;
    w.settle().await;
    assert_eq!(w.maps().await, ["b0", "b1", "b2", "b3", "b4"]);
    for name in w.maps().await {
        assert!(owners(&w.get(&name).await).is_empty(), "{name}");
    }
    assert_eq!(w.delete_requests(), [""; 0]);
}

/// Makes all lists and watches of a resource fail.
fn fail(w: &World, action: &Action, resource: &str) {
    for verb in ["list", "watch"] {
        w.sandbox.faults().add(Rule::new(action.clone()).identity(CONTROLLER_IDENTITY).verb(verb).resource(resource));
    }
}

/// GC-59, GC-80.
#[tokio::test(start_paused = true)]
async fn an_owner_waits_for_dependents_whose_first_list_fails() {
    for action in [Action::Unavailable, Action::TooManyRequests(1), Action::CutBefore, Action::InternalError] {
        let mut w = World::without_collector().await;
        let a = w.map("a", &[]).await;
        let mut secret = map("s", &[reference(&a, false)]);
        secret["kind"] = json!("Secret");
        w.create(secret).await;
        w.delete_map("a", "Orphan").await;
        fail(&w, &action, "secrets");
        w.start();
        // Work begins after 30 seconds, even if an initial list is missing.
        w.wait(45).await;
        assert_eq!(w.maps().await, ["a"], "{action:?}");
        w.sandbox.faults().clear();
        w.wait(60).await;
        w.settle().await;
        assert_eq!(w.maps().await, [""; 0], "{action:?}");
        let secret = w.sandbox.get("secrets", Some(NAMESPACE), "s").await.unwrap();
        assert!(owners(&secret).is_empty(), "{action:?}: {secret:#}");
    }
}

/// GC-59.
#[tokio::test(start_paused = true)]
async fn an_owner_waits_for_dependents_of_a_kind_that_was_just_added() {
    let w = World::new().await;
    let a = w.map("a", &[]).await;
    fail(&w, &Action::Unavailable, "widgets");
    w.create(definition("Namespaced")).await;
    w.create(widget("b", &[reference(&a, false)])).await;
    w.wait(10).await;
    w.delete_map("a", "Orphan").await;
    w.wait(20).await;
    assert_eq!(w.maps().await, ["a"]);
    w.sandbox.faults().clear();
    w.wait(60).await;
    w.settle().await;
    assert_eq!(w.maps().await, [""; 0]);
    let widget = w.sandbox.get("widgets.example.com", Some(NAMESPACE), "b").await.unwrap();
    assert!(owners(&widget).is_empty(), "{widget:#}");
}

/// GC-53, GC-60.
#[tokio::test(start_paused = true)]
async fn a_resource_that_stays_broken_does_not_delay_owners_for_ever() {
    let mut w = World::without_collector().await;
    let (a, b) = (w.map("a", &[]).await, w.map("b", &[]).await);
    w.map("c", &[&a]).await;
    w.blocking_map("d", &[&b]).await;
    fail(&w, &Action::InternalError, "secrets");
    w.delete_map("a", "Orphan").await;
    w.delete_map("b", "Foreground").await;
    w.start();
    w.wait(60).await;
    assert_eq!(w.maps().await, ["a", "b", "c"]);
    w.wait(90).await;
    assert_eq!(w.maps().await, ["c"]);
}

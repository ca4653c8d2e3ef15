//! The three ways to delete an owner: after it, before it, or without its dependents.

use crate::{
    custom::{create_definition, widget},
    world::*,
};

/// When the collector begins to collect.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Start {
    /// It runs before the first object exists.
    Early,
    /// It starts after the deletions.
    Late,
    /// It starts after the deletions, and its watch delivers no ConfigMap for a minute.
    LateWithHeldWatch,
    /// It stands by and takes over after the deletions.
    Standby,
}

/// Columns: what the row holds; the ConfigMaps; deletions with their policies, and ConfigMaps that are created afterwards; the
/// ConfigMaps that are left; and the names of the removed ones in their order, or none if the order does not matter. Terminating
/// objects that are left go once their finalizers are removed.
const ROWS: &[(&str, &str, &[&str], &str, &str)] = &[
    ("dependents go after their owner", "a; b: a; c: b", &["delete a Background"], "", "a b c"),
    // GC-20, GC-21.
    ("a dead owner is removed", "a; b; c: a b", &["delete a Background"], "b; c: b", "a"),
    ("the last dead owner ends its dependent", "a; b; c: a b", &["delete a Background", "delete b Background"], "", ""),
    // GC-35.
    ("a cycle stays", "a: b; b: a", &[], "a: b; b: a", ""),
    ("a cycle goes with one of its objects", "a: b; b: a", &["delete a Background"], "", "a b"),
    // GC-26, GC-34.
    ("a recreated owner is another one", "a; b: a", &["delete a Background", "create a; c: a"], "a; c: a", "a b"),
    // GC-47.
    ("leaves go first", "a; b: a!; c: b!", &["delete a Foreground"], "", "c b a"),
    // GC-48.
    ("what does not block causes no delay", "a; b: a held", &["delete a Foreground"], "b: a held terminating", "a"),
    // GC-49.
    ("a finalizer delays", "a; b: a! held", &["delete a Foreground"], "a: terminating; b: a! held terminating", ""),
    // GC-50.
    ("another owner ends the blocking", "a; d: a! p!; p", &["delete a Foreground"], "d: p!; p", "a"),
    // GC-51.
    ("a cycle that blocks is broken", "a: b!; b: a!", &["delete a Foreground"], "", ""),
    // GC-55.
    ("dependents are released", "a; b: a; c: a p; p", &["delete a Orphan"], "b; c: p; p", "a"),
    // GC-41.
    ("a forged reference does not count", "a; bad: Secret/a; good: a", &[], "a; good: a", "bad"),
    ("a forged reference may come last", "a; good: a; z: Secret/a", &[], "a; good: a", "z"),
    // GC-43, GC-83.
    ("a right reference with the UID of a wrong one stays", "a; c: a z=a x", &[], "a; c: a z", ""),
];

async fn check_all(start: Start) {
    // GC-8.
    for (row, kind) in ROWS.iter().flat_map(|row| ["ConfigMap", "configmap"].map(|kind| (row, kind))) {
        let (name, objects, steps, left, removed) = row;
        let row = format!("{name}, {start:?}, {kind}");
        let mut w = without_collector().await;
        // GC-67.
        let standby = (start == Start::Standby).then(|| w.stand_by(CONTROLLER));
        if start == Start::Early {
            w.start();
        }
        w.wait(60).await;
        w.clear_log();
        create_graph(&w, objects, kind).await;
        w.settle().await;
        if !steps.is_empty() {
            assert_eq!(graph(&w).await, **objects, "{row}");
            w.clear_log();
        }
        for step in *steps {
            let deletion = step.strip_prefix("delete ").and_then(|deletion| deletion.split_once(' '));
            match deletion {
                Some((name, propagation)) => delete_map(&w, name, propagation).await,
                None => create_graph(&w, step.strip_prefix("create ").unwrap(), kind).await,
            }
        }
        if let Some(standby) = &standby {
            w.wait(10).await;
            w.assert_wrote_nothing();
            let queues = standby.queues();
            for queue in [&queues[0]["queue"], &queues[0]["orphans"]] {
                assert_eq!(pick(queue, "waiting delayed"), json!([[], []]), "{row}: {queues:#}");
            }
            standby.lead();
        } else if start != Start::Early {
            // GC-34, GC-62.
            if start == Start::LateWithHeldWatch {
                w.hold(MAPS);
            }
            w.start();
            w.wait(60).await;
            w.release(MAPS);
        }
        w.settle().await;
        assert_eq!(graph(&w).await, **left, "{row}");
        if !removed.is_empty() {
            assert_eq!(removed_objects(&w).join(" "), **removed, "{row}");
        }
        let stays = |object: &&str| !object.is_empty() && !object.ends_with("terminating");
        let stay: Vec<&str> = left.split("; ").filter(stays).collect();
        for object in left.split("; ").filter(|object| object.contains("held")) {
            w.patch(MAPS, object.split(':').next().unwrap(), json!({"metadata": {"finalizers": null}})).await;
        }
        w.settle().await;
        assert_eq!(graph(&w).await, stay.join("; "), "{row}");
        let is_kept = |name: &String| stay.iter().any(|object| object.split(':').next() == Some(name));
        assert!(start == Start::Early || !delete_requests(&w).iter().any(is_kept), "{row}");
        assert!(!steps.contains(&"delete a Orphan") || delete_requests(&w).is_empty(), "{row}");
        assert_eq!(metric(standby.as_ref().unwrap_or_else(|| w.loops()), PARKED), "0", "{row}");
    }
}

#[tokio::test(start_paused = true)]
async fn deletions_are_finished_by_a_collector_that_runs() {
    check_all(Start::Early).await;
}

#[tokio::test(start_paused = true)]
async fn deletions_are_finished_by_a_collector_that_starts_later() {
    check_all(Start::Late).await;
}

#[tokio::test(start_paused = true)]
async fn deletions_are_finished_by_a_collector_whose_first_list_is_late() {
    check_all(Start::LateWithHeldWatch).await;
}

#[tokio::test(start_paused = true)]
async fn deletions_are_finished_by_a_new_leader() {
    check_all(Start::Standby).await;
}

/// GC-23, GC-77.
#[tokio::test(start_paused = true)]
async fn dependents_follow_their_owner_in_one_request_each() {
    let many: Vec<String> = (0..50).map(|n| format!("c{n}: b")).collect();
    let w = collector_with(&format!("a; b: a; {}", many.join("; "))).await;
    delete_map_and_settle(&w, "a", "Background").await;
    assert_eq!(graph(&w).await, "");
    assert_eq!((w.count("delete", MAPS), w.count("get", MAPS)), (51, 0));
}

/// GC-24, GC-78.
#[tokio::test(start_paused = true)]
async fn an_object_that_gets_an_owner_at_the_last_moment_stays() {
    let w = collector_with("a; b; c: a").await;
    let [a, b, c] = [w.get(MAPS, "a").await, w.get(MAPS, "b").await, w.get(MAPS, "c").await];
    // While the watch is held, the collector's cache of ConfigMaps is stale.
    w.hold(MAPS);
    w.patch(MAPS, "c", json!({"metadata": {"ownerReferences": [reference(&a, false), reference(&b, false)]}})).await;
    delete_map(&w, "a", "Background").await;
    w.release(MAPS);
    w.settle().await;
    assert_eq!(maps(&w).await, ["b", "c"]);
    assert_eq!(w.get(MAPS, "c").await["metadata"]["uid"], c["metadata"]["uid"]);
}

/// GC-26.
#[tokio::test(start_paused = true)]
async fn a_delayed_watch_of_owners_deletes_no_dependent_of_an_existing_owner() {
    let w = with_collector().await;
    w.hold("secrets");
    let secret = w.create(secret(&[])).await;
    w.create_and_settle(map("c", &[reference(&secret, false)])).await;
    assert_eq!(maps(&w).await, ["c"]);
    w.delete_and_settle("secrets", "s").await;
    w.release("secrets");
    w.wait(120).await;
    w.settle().await;
    assert_eq!(graph(&w).await, "");
}

/// GC-72.
#[tokio::test(start_paused = true)]
async fn a_collector_that_is_switched_off_sends_no_requests() {
    let mut w = cluster().tunable(gc_controller::ENABLE_GARBAGE_COLLECTOR.name, false).stopped().await;
    create_graph(&w, "a; b: a", "ConfigMap").await;
    delete_map(&w, "a", "Background").await;
    w.clear_log();
    w.start();
    w.settle().await;
    assert_eq!((maps(&w).await, w.count_all()), (vec!["b".to_owned()], 0));
    assert!(w.loops().explain(None)[0]["off"].is_string());
}

/// GC-52.
#[tokio::test(start_paused = true)]
async fn an_owner_of_many_dependents_is_read_once_after_the_last_is_deleted() {
    const MANY: u64 = 1000;
    let many: Vec<String> = (0..MANY).map(|n| format!("b{n}: a!")).collect();
    let w = collector_with(&format!("a; {}", many.join("; "))).await;
    delete_map_and_settle(&w, "a", "Foreground").await;
    assert_eq!(graph(&w).await, "");
    assert_eq!(removed_objects(&w).last().map(String::as_str), Some("a"));
    assert_eq!((w.count("delete", MAPS), w.count("patch", MAPS)), (MANY, 1));
    // One read for each dependent shows that its owner waits, and one read precedes the removal of the finalizer.
    w.assert_count("get", MAPS, ..=MANY + 1);
}

/// GC-56.
#[tokio::test(start_paused = true)]
async fn every_dependent_is_released_despite_failed_requests() {
    let w = collector_with("a; b0: a; b1: a; b2: a; b3: a; b4: a").await;
    w.fault(rule(Action::InternalError, "patch", MAPS).skip(2).times(4));
    delete_map_and_settle(&w, "a", "Orphan").await;
    assert_eq!((graph(&w).await.as_str(), delete_requests(&w)), ("b0; b1; b2; b3; b4", Vec::new()));
}

/// Asserts that the ConfigMap `a` is orphaned once the faults are removed, and releases the object of this resource and name.
async fn assert_releases_after_faults(w: &World, resource: &str, name: &str, when: &str) {
    assert_eq!(maps(w).await, ["a"], "{when}");
    w.clear_faults();
    w.wait(60).await;
    w.settle().await;
    assert_eq!(graph(w).await, "", "{when}");
    assert_eq!(owner_names(&w.get(resource, name).await), [""; 0], "{when}");
}

/// GC-59, GC-80.
#[tokio::test(start_paused = true)]
async fn an_owner_waits_for_dependents_whose_first_list_fails() {
    for action in [Action::Unavailable, Action::TooManyRequests(1), Action::CutBefore, Action::InternalError] {
        let mut w = without_collector().await;
        let a = create_map(&w, "a").await;
        w.create(secret(&[reference(&a, false)])).await;
        delete_map(&w, "a", "Orphan").await;
        fail(&w, &action, "secrets");
        w.start();
        // Work begins after 30 seconds, even if an initial list is missing.
        w.wait(45).await;
        assert_releases_after_faults(&w, "secrets", "s", &format!("{action:?}")).await;
    }
}

/// GC-59.
#[tokio::test(start_paused = true)]
async fn an_owner_waits_for_dependents_of_a_kind_that_was_just_added() {
    let w = with_collector().await;
    let a = create_map(&w, "a").await;
    fail(&w, &Action::Unavailable, "widgets");
    create_definition(&w, "Namespaced").await;
    w.create(widget("b", &[reference(&a, false)])).await;
    w.wait(10).await;
    delete_map(&w, "a", "Orphan").await;
    w.wait(20).await;
    assert_releases_after_faults(&w, "widgets.example.com", "b", "a new kind").await;
}

/// GC-53, GC-60.
#[tokio::test(start_paused = true)]
async fn a_resource_that_stays_broken_does_not_delay_owners_for_ever() {
    let mut w = without_collector().await;
    create_graph(&w, "a; b; c: a; d: b!", "ConfigMap").await;
    fail(&w, &Action::InternalError, "secrets");
    delete_map(&w, "a", "Orphan").await;
    delete_map(&w, "b", "Foreground").await;
    w.start();
    w.wait(60).await;
    assert_eq!(maps(&w).await, ["a", "b", "c"]);
    w.wait(90).await;
    assert_eq!(maps(&w).await, ["c"]);
}

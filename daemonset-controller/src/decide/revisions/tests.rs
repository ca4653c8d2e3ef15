use serde_json::json;

use super::*;
use crate::world::{SnapshotBuilder, pod, set_with_pods, set_without_pods, template};

/// Describes the write of the current revision: `create 1`, `agent-a becomes 3`, or `agent-a is 3` if no write is needed.
fn describe_current_revision(world: &SnapshotBuilder) -> String {
    match world.snapshot().revisions.current_revision {
        CurrentRevision::Stored(revision) => format!("{} is {}", revision.meta.name, revision.revision),
        CurrentRevision::Renumber(revision, number) => format!("{} becomes {number}", revision.meta.name),
        CurrentRevision::Create { number, .. } => format!("create {number}"),
    }
}

fn history(revisions: &[(&str, i64)], current: &str) -> SnapshotBuilder {
    let mut world = set_without_pods(1).spec("template", template(current));
    world.revisions.clear();
    revisions.iter().fold(world, |world, (version, number)| world.revision(version, *number))
}

/// DAEMONSET-38.
#[test]
fn the_current_revision_gets_the_highest_number() {
    for (revisions, current, outcome) in [
        (&[][..], "a", "create 1"),
        (&[("a", 1)], "b", "create 2"),
        (&[("a", 1), ("b", 2)], "a", "agent-a becomes 3"),
        (&[("a", 3), ("b", 2)], "a", "agent-a is 3"),
        (&[("a", 1), ("b", 2), ("c", 3)], "b", "agent-b becomes 4"),
        (&[("a", 5)], "a", "agent-a is 5"),
        (&[("a", -7)], "b", "create 1"),
        (&[("a", i64::MAX)], "b", "create 9223372036854775807"),
    ] {
        assert_eq!(describe_current_revision(&history(revisions, current)), outcome, "{revisions:?}");
    }
}

/// DAEMONSET-39.
#[test]
fn a_hash_is_read_and_computed_only_for_a_new_revision() {
    let world = history(&[("anything", 1)], "anything");
    assert_eq!(world.snapshot().revisions.current_hash, "anything");
    let new = history(&[], "a");
    let hash = new.snapshot().revisions.current_hash;
    let collided =
        |count: i32| new.clone().with_status(json!({"collisionCount": count})).snapshot().revisions.current_hash;
    assert_ne!(hash, collided(0), "a count of 0 differs from no count");
    assert_ne!(collided(0), collided(1));
}

/// DAEMONSET-79.
#[test]
fn a_null_in_the_data_makes_no_new_revision() {
    let mut old = template("a");
    old["metadata"]["creationTimestamp"] = json!(null);
    let world = history(&[], "a").revision_with_template("from-1-33", 1, &old);
    assert_eq!(describe_current_revision(&world), "agent-from-1-33 is 1");
    let mut changed = template("a");
    changed["spec"]["containers"][0]["image"] = json!("img:other");
    assert_eq!(describe_current_revision(&history(&[], "a").revision_with_template("other", 1, &changed)), "create 2");
}

/// DAEMONSET-40, DAEMONSET-74.
#[test]
fn of_equal_revisions_the_newest_stays_and_only_pods_of_the_others_are_relabelled() {
    let world = set_with_pods(3)
        .revision_with_template("twin", 4, &template("a"))
        .revision("b", 2)
        .pod(0, pod().revision_hash("a"))
        .pod(1, pod().revision_hash("twin"))
        .pod(2, pod().revision_hash("b"));
    let snapshot = world.snapshot();
    let names =
        |revisions: &[SharedRevision]| revisions.iter().map(|one| one.meta.name.to_string()).collect::<Vec<_>>();
    assert_eq!(
        (names(&snapshot.revisions.duplicate_revisions), &*snapshot.revisions.current_hash),
        (vec!["agent-a".to_owned()], "twin")
    );
    let relabelled: Vec<_> =
        snapshot.pods_to_change.pods_to_relabel.iter().map(|pod| pod.meta().name.to_string()).collect();
    assert_eq!(relabelled, ["p0"]);
    assert!(world.pod_actions().is_empty(), "until the cache shows the labels");
}

/// DAEMONSET-39.
#[test]
fn a_revision_without_a_hash_gets_its_name_as_hash() {
    let mut world = set_without_pods(1);
    world.revisions[0]["metadata"]["labels"] = json!({"app": "agent"});
    let revisions = world.snapshot().revisions;
    assert_eq!((revisions.revisions_without_hash_label.len(), &*revisions.current_hash), (1, "agent-a"));
}

/// DAEMONSET-41.
#[test]
fn the_oldest_unused_revisions_are_deleted() {
    for (old, live, limit, deleted) in [
        (&[1, 2, 3][..], &[][..], 10, &[][..]),
        (&[1, 2, 3, 4], &[2], 2, &[1, 3]),
        (&[1, 2], &[1, 2], 0, &[]),
        (&[1, 2, 3], &[], 0, &[1, 2, 3]),
    ] {
        let mut world = set_without_pods(live.len()).spec("revisionHistoryLimit", json!(limit)).revision("z", 9);
        world.revisions.remove(0);
        world = world.spec("template", template("z"));
        world = old.iter().fold(world, |world, n| world.revision(&format!("r{n}"), *n));
        for (at, n) in live.iter().enumerate() {
            world = world.pod(at, pod().revision_hash(&format!("r{n}")));
        }
        let plan = world.plan();
        let names: Vec<String> =
            plan.revisions_to_delete.iter().map(|revision| revision.meta.name.to_string()).collect();
        let wanted: Vec<String> = deleted.iter().map(|n| format!("agent-r{n}")).collect();
        assert_eq!(names, wanted, "{old:?} {live:?} {limit}");
    }
}

/// DAEMONSET-41.
#[test]
fn a_terminating_revision_is_not_deleted_again() {
    let mut world = set_without_pods(0).spec("revisionHistoryLimit", json!(1)).revision("z", 9);
    world.revisions.remove(0);
    world = world.spec("template", template("z"));
    world = [1, 2, 3].iter().fold(world, |world, number| world.revision(&format!("r{number}"), *number));
    for revision in world.revisions.iter_mut().filter(|revision| revision["metadata"]["name"] == "agent-r1") {
        revision["metadata"]["deletionTimestamp"] = json!("2026-11-21T09:00:00Z");
    }
    let plan = world.plan();
    assert_eq!(plan.revisions_to_delete.iter().map(|revision| &*revision.meta.name).collect::<Vec<_>>(), ["agent-r2"]);
}

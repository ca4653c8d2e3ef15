use serde_json::json;

use crate::world::{SnapshotBuilder, pod, set_with_pods, set_without_pods};

/// DAEMONSET-48, DAEMONSET-56.
#[test]
fn examples_of_the_counts_of_a_status() {
    let tainted = |world: SnapshotBuilder| world.taint(2, "NoSchedule");
    // The counts are: desired, current, ready, available, updated, misscheduled, unavailable.
    for (world, counts) in [
        (tainted(set_with_pods(3).without_pod(1)), [2, 1, 1, 1, 1, 1, 1]),
        (
            set_with_pods(2)
                .pod(0, pod().revision_hash("old").created_seconds_ago(9000))
                .second_pod(0, pod().pending())
                .rolling_limits(json!(0), json!(1)),
            [2, 2, 2, 2, 1, 0, 0],
        ),
        (
            set_with_pods(2).pod(0, pod().revision_hash("old").terminating()).pod(1, pod().pending()),
            [2, 2, 1, 1, 1, 0, 1],
        ),
        (set_with_pods(2).pod(0, pod().phase("Failed").terminating()), [2, 1, 1, 1, 1, 0, 1]),
        (set_with_pods(2).without_node("n0"), [1, 1, 1, 1, 1, 0, 0]),
        (set_without_pods(0), [0, 0, 0, 0, 0, 0, 0]),
        (set_with_pods(2).pod(0, pod().ready(5)).spec("minReadySeconds", json!(6)), [2, 2, 2, 1, 2, 0, 1]),
        (set_with_pods(2).pod(0, pod().ready(6)).spec("minReadySeconds", json!(6)), [2, 2, 2, 2, 2, 0, 0]),
    ] {
        assert_eq!(world.decided_status_counts(), counts, "{world:#?}");
    }
}

/// DAEMONSET-56.
#[test]
fn a_bound_pod_ranks_before_an_older_unbound_pod() {
    let pods =
        set_with_pods(1).pod(0, pod().pending().created_seconds_ago(9000)).second_pod(0, pod().created_seconds_ago(10));
    let [_, _, ready, available, ..] = pods.decided_status_counts();
    assert_eq!((ready, available), (1, 1), "the bound Pod counts for the node, and not the older one");
    let plan = pods.plan();
    let [deletion] = &plan.pod_deletions[..] else { panic!("{:?}", plan.pod_deletions) };
    assert!(!deletion.pod.is_bound(), "the older Pod is deleted, because it is not bound");
}

/// DAEMONSET-57, DAEMONSET-58.
#[test]
fn the_status_is_written_for_its_counts_and_for_a_newer_generation() {
    let settled = json!({"desiredNumberScheduled": 2, "currentNumberScheduled": 2, "numberReady": 2, "numberAvailable": 2,
        "updatedNumberScheduled": 2, "numberMisscheduled": 0, "observedGeneration": 3, "collisionCount": 4});
    let with = |field: &str, value: i32| {
        let mut status = settled.clone();
        status[field] = json!(value);
        set_with_pods(2).with_status(status).plan()
    };
    assert!(!with("observedGeneration", 3).writes_status());
    assert!(with("numberReady", 1).writes_status());
    let older = with("observedGeneration", 2);
    assert!(older.writes_status());
    assert_eq!((older.status.observed_generation, older.status.collision_count), (3, Some(4)));
    assert_eq!(with("observedGeneration", 9).status.observed_generation, 9, "the observed generation is never lowered");
}

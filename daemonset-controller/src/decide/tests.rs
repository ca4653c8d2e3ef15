use std::time::Duration;

use common::prelude::*;
use serde_json::json;

use crate::{
    plan::{SelectorProblem, SyncScope},
    snapshot::nodes::NodeCursor,
    world::{SnapshotBuilder, pod, set_with_pods, set_without_pods, template},
};

/// DAEMONSET-5.
#[test]
fn a_set_that_selects_everything_is_only_reported() {
    let everything = set_with_pods(2).roll_out_to("b").spec("selector", json!({}));
    assert_eq!(everything.plan().selector_problem, Some(SelectorProblem::EmptySelector));
    assert!(everything.actions().is_empty());
    let message = "This daemon set is selecting all pods. A non-empty selector is required.";
    assert_eq!(everything.plan().wait_reasons(), [message]);
    let expression = json!({"key": "app", "operator": "Near"});
    let broken = set_with_pods(2).spec("selector", json!({"matchExpressions": [expression]}));
    assert!(
        matches!(broken.plan().selector_problem, Some(SelectorProblem::InvalidSelector(_)))
            && broken.actions().is_empty()
    );
}

/// DAEMONSET-6.
#[test]
fn a_terminating_set_does_nothing() {
    let world = set_without_pods(2)
        .roll_out_to("b")
        .pod(0, pod().orphan())
        .pod(1, pod().label("app", "other"))
        .with_terminating_set();
    assert_eq!(world.plan().sync_scope, SyncScope::Nothing);
    assert!(world.actions().is_empty(), "{:?}", world.actions());
}

/// DAEMONSET-11, DAEMONSET-57.
#[test]
fn until_the_cache_shows_own_writes_only_the_status_is_written_without_the_generation() {
    let mut world = set_with_pods(2).roll_out_to("b").without_pod(1).with_status(json!({"observedGeneration": 2}));
    world.pending_writes = Some(PendingWrites {
        description: "1 deleted pods are not terminating yet".to_owned(),
        max_wait: Duration::from_secs(2),
        stale_resource: None,
    });
    let plan = world.plan();
    assert_eq!((plan.sync_scope, plan.status.observed_generation), (SyncScope::StatusOnly, 2));
    assert_eq!(world.actions(), ["write the status"]);
    assert_eq!(plan.wait_reasons(), ["only the status is written: 1 deleted pods are not terminating yet"]);
    assert_eq!(plan.requeue_after(), Some(Duration::from_secs(2)));
}

/// DAEMONSET-18, DAEMONSET-69.
#[test]
fn pods_are_claimed_before_any_is_created() {
    let orphan = set_without_pods(2).pod(0, pod().orphan());
    assert_eq!(orphan.actions(), ["adopt Pod p0: the selector matches it and it has no controller"]);
    assert_eq!(orphan.plan().sync_scope, SyncScope::ClaimsOnly);
    let released = set_with_pods(2).pod(0, pod().label("app", "other"));
    assert_eq!(
        released.actions(),
        [
            "release Pod p0: the selector no longer matches it",
            "create 1 Pod: node n0: it has no Pod",
            "write the status"
        ]
    );
}

#[test]
fn an_explanation_shows_the_state_of_a_set() {
    let plan = set_with_pods(3)
        .roll_out_to("b")
        .pod(1, pod().revision_hash("b").ready(4))
        .spec("minReadySeconds", json!(10))
        .plan();
    assert_eq!(
        plan.situation(),
        "3 nodes should run a Pod: 3 have one, 3 ready, 2 available, 1 of revision b; 0 other nodes have one"
    );
    assert_eq!(
        plan.wait_reasons(),
        [
            "2 outdated Pods wait: maxUnavailable is 1, and 1 nodes have no available Pod",
            "node n1: Pod p1 is not available yet, or the node has several Pods",
            "a Pod becomes available, or a failed Pod may be deleted, in 6s"
        ]
    );
    assert_eq!(plan.requeue_after(), Some(Duration::from_secs(6)));
}

/// DAEMONSET-28.
#[test]
fn pods_without_a_node_are_ignored_and_reported() {
    let mut world = set_with_pods(1);
    world.pods.push(pod().pending().build_named("stray", ""));
    world.pods[1]["spec"] = json!({});
    let plan = world.plan();
    assert!(plan.pod_deletions.is_empty() && plan.pod_creations.is_empty());
    assert_eq!(plan.wait_reasons(), ["1 Pods are ignored: they are neither bound nor pinned to a node"]);
}

/// DAEMONSET-58.
#[test]
fn a_settled_set_needs_no_request() {
    let settled = json!({"desiredNumberScheduled": 2, "currentNumberScheduled": 2, "numberReady": 2, "numberAvailable": 2,
        "updatedNumberScheduled": 2, "observedGeneration": 3});
    let world = set_with_pods(2).with_status(settled);
    assert!(world.actions().is_empty(), "{:?}", world.actions());
    let plan = world.plan();
    assert!(plan.wait_reasons().is_empty() && plan.requeue_after.is_none());
}

/// DAEMONSET-70.
#[test]
fn work_begins_after_the_refused_node_and_wraps_around() {
    let refused = |node: &str| NodeCursor(Some(Text::new(node)));
    let mut missing = set_without_pods(4);
    assert_eq!(missing.pod_actions(), ["+n0", "+n1", "+n2", "+n3"]);
    missing.refused_node_cursors.creation_cursor = refused("n1");
    assert_eq!(missing.pod_actions(), ["+n2", "+n3", "+n0", "+n1"]);
    missing.refused_node_cursors.creation_cursor = refused("n3");
    assert_eq!(missing.pod_actions(), ["+n0", "+n1", "+n2", "+n3"]);
    // Each sync deletes one Pod, on the node after the last refused deletion. In this way, the Pods of all nodes are reached.
    let mut outdated = set_with_pods(3).roll_out_to("b");
    for (after, deleted) in [("n0", "-p1"), ("n1", "-p2"), ("n2", "-p0")] {
        outdated.refused_node_cursors.deletion_cursor = refused(after);
        assert_eq!(outdated.pod_actions(), [deleted]);
    }
    // With surge, nodes without an available Pod get Pods first, but a node with a refused creation gets one last.
    let mut surge = set_with_pods(3).roll_out_to("b").pod(2, pod().unready()).rolling_limits(json!(0), json!(2));
    assert_eq!(surge.pod_actions(), ["+n2", "+n0", "+n1"]);
    surge.refused_node_cursors.creation_cursor = refused("n2");
    assert_eq!(surge.pod_actions(), ["+n0", "+n1", "+n2"]);
}

/// DAEMONSET-68.
#[test]
fn nodes_that_wait_for_an_answer_or_an_adoption_do_not_delay_other_nodes() {
    let lost = set_with_pods(3).roll_out_to("b").without_pod(0).unanswered_creation(0);
    let orphan = set_with_pods(3).roll_out_to("b").pod(0, pod().orphan()).manages_pods_next();
    for world in [lost, orphan] {
        // With `maxSurge` 0, a node without a Pod counts against `maxUnavailable`.
        assert!(world.clone().rolling_limits(json!(1), json!(0)).pod_actions().is_empty());
        assert_eq!(world.clone().rolling_limits(json!(2), json!(0)).pod_actions(), ["-p1"]);
        assert_eq!(world.rolling_limits(json!(0), json!(1)).pod_actions(), ["+n1"]);
    }
    let mut nowhere = template("a");
    nowhere["spec"]["nodeSelector"] = json!({"on": "none"});
    let moved = set_without_pods(3).pod(0, pod()).unanswered_creation(1).unanswered_creation(2);
    let moved = moved.spec("template", nowhere);
    assert_eq!(moved.pod_actions(), ["-p0"], "its node is not eligible");
    // A node gets no second Pod while it has an orphan to adopt.
    let world = set_with_pods(2)
        .roll_out_to("b")
        .second_pod(0, pod().orphan())
        .manages_pods_next()
        .rolling_limits(json!(0), json!(2));
    assert_eq!(world.pod_actions(), ["+n1"]);
}

/// DAEMONSET-70.
#[test]
fn nodes_that_are_held_back_take_no_place_of_other_nodes() {
    // The limit is two creations. The first three nodes get no Pod now, and do not count against the limit.
    let mut missing =
        set_without_pods(5).pod(0, pod().orphan()).pod(1, pod().orphan()).unanswered_creation(2).manages_pods_next();
    missing.decision_settings.burst_replicas = 2;
    assert_eq!(missing.pod_actions(), ["+n3", "+n4"]);
    let orphans =
        |world: SnapshotBuilder| world.second_pod(0, pod().orphan()).second_pod(1, pod().orphan()).manages_pods_next();
    assert_eq!(orphans(set_with_pods(4).roll_out_to("b").rolling_limits(json!(0), json!(1))).pod_actions(), ["+n2"]);
    let unready = (0..4).fold(set_without_pods(4).roll_out_to("b"), |world, n| world.pod(n, pod().unready()));
    let mut unready = orphans(unready.rolling_limits(json!(0), json!(1)));
    unready.decision_settings.burst_replicas = 2;
    assert_eq!(unready.pod_actions(), ["+n2", "+n3"]);
    // The only remaining nodes wait for the adoption of an orphan, so no work is left to later syncs.
    assert_eq!(unready.plan().deferred_node_counts.total(), 0);
}

/// DAEMONSET-75.
#[test]
fn pods_with_the_hash_of_another_revision_of_the_same_template_are_not_outdated() {
    let twins = |world: SnapshotBuilder| {
        world
            .revision_with_template("twin", 7, &template("a"))
            .pod(1, pod().revision_hash("twin"))
            .pod(2, pod().revision_hash("z"))
    };
    let snapshot = twins(set_with_pods(3)).snapshot();
    assert_eq!((snapshot.revisions.current_hash.as_str(), snapshot.actionable_nodes.node_counts.updated), ("twin", 2));
    assert_eq!(snapshot.pods_to_change.pods_to_relabel.len(), 1);
    // An empty `pods_to_relabel` stands for a denied relabelling. The Pod keeps its hash, and is not outdated.
    let unchanged = |world: SnapshotBuilder| {
        let mut snapshot = world.snapshot();
        snapshot.pods_to_change.pods_to_relabel.clear();
        let plan = super::decide(&snapshot);
        plan.pod_deletions.iter().map(|deletion| deletion.pod.meta().name.to_string()).collect::<Vec<_>>()
    };
    assert_eq!(unchanged(twins(set_with_pods(3))), ["p2"]);
    let surge = twins(set_with_pods(3)).rolling_limits(json!(0), json!(1)).second_pod(0, pod().revision_hash("twin"));
    assert_eq!(unchanged(surge).len(), 1, "both Pods on the node count as new");
}

/// DAEMONSET-68.
#[test]
fn a_pod_that_may_have_been_created_counts_against_the_surge_of_the_others() {
    let surge =
        |max: i32| set_with_pods(4).roll_out_to("b").unanswered_creation(0).rolling_limits(json!(0), json!(max));
    assert!(surge(1).pod_actions().is_empty());
    assert_eq!(surge(2).pod_actions(), ["+n1"]);
    assert_eq!(surge(4).pod_actions(), ["+n1", "+n2", "+n3"]);
    // An outdated Pod that is not available is replaced regardless of `maxSurge`, even if its node is the last in order.
    let mut unavailable = surge(1).pod(2, pod().unready());
    unavailable.refused_node_cursors.creation_cursor = NodeCursor(Some(Text::new("n0")));
    assert_eq!(unavailable.pod_actions(), ["+n2"]);
}

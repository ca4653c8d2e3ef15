use std::time::Duration;

use common::{controller::Explain as _, intern::Text};
use serde_json::json;

use crate::{
    plan::{Problem, Scope},
    snapshot::{Blocked, nodes::Cursor},
    world::{World, empty, pod, template, world},
};

/// DAEMONSET-5.
#[test]
fn a_set_that_selects_everything_is_only_reported() {
    let everything = world(2).rollout_to("b").spec("selector", json!({}));
    assert_eq!(everything.plan().problem, Some(Problem::SelectsEverything));
    assert!(everything.actions().is_empty());
    let message = "This daemon set is selecting all pods. A non-empty selector is required.";
    assert_eq!(everything.plan().waiting(), [message]);
    let expression = json!({"key": "app", "operator": "Near"});
    let broken = world(2).spec("selector", json!({"matchExpressions": [expression]}));
    assert!(matches!(broken.plan().problem, Some(Problem::Selector(_))) && broken.actions().is_empty());
}

/// DAEMONSET-6.
#[test]
fn a_terminating_set_does_nothing() {
    let world = empty(2).rollout_to("b").pod(0, pod().orphan()).pod(1, pod().label("app", "other")).deleting();
    assert_eq!(world.plan().scope, Scope::Nothing);
    assert!(world.actions().is_empty(), "{:?}", world.actions());
}

/// DAEMONSET-11, DAEMONSET-57.
#[test]
fn until_the_cache_shows_own_writes_only_the_status_is_written_without_the_generation() {
    let mut world = world(2).rollout_to("b").without_pod(1).status_of(json!({"observedGeneration": 2}));
    world.blocked =
        Some(Blocked { why: "1 deleted pods are not terminating yet".to_owned(), at_most: Duration::from_secs(2) });
    let plan = world.plan();
    assert_eq!((plan.scope, plan.status.observed_generation), (Scope::Status, 2));
    assert_eq!(world.actions(), ["write the status"]);
    assert_eq!(plan.waiting(), ["only the status is written: 1 deleted pods are not terminating yet"]);
    assert_eq!(plan.requeue_after(), Some(Duration::from_secs(2)));
}

/// DAEMONSET-18, DAEMONSET-69.
#[test]
fn pods_are_claimed_before_any_is_created() {
    let orphan = empty(2).pod(0, pod().orphan());
    assert_eq!(orphan.actions(), ["adopt Pod p0: the selector matches it and it has no controller"]);
    assert_eq!(orphan.plan().scope, Scope::Claims);
    let released = world(2).pod(0, pod().label("app", "other"));
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
    let plan = world(3).rollout_to("b").pod(1, pod().of("b").ready(4)).spec("minReadySeconds", json!(10)).plan();
    assert_eq!(
        plan.situation(),
        "3 nodes should run a Pod: 3 have one, 3 ready, 2 available, 1 of revision b; 0 other nodes have one"
    );
    assert_eq!(
        plan.waiting(),
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
    let mut world = world(1);
    world.pods.push(pod().pending().named("stray", ""));
    world.pods[1]["spec"] = json!({});
    let plan = world.plan();
    assert!(plan.deletes.is_empty() && plan.creates.is_empty());
    assert_eq!(plan.waiting(), ["1 Pods are ignored: they are neither bound nor pinned to a node"]);
}

/// DAEMONSET-58.
#[test]
fn a_settled_set_needs_no_request() {
    let settled = json!({"desiredNumberScheduled": 2, "currentNumberScheduled": 2, "numberReady": 2, "numberAvailable": 2,
        "updatedNumberScheduled": 2, "observedGeneration": 3});
    let world = world(2).status_of(settled);
    assert!(world.actions().is_empty(), "{:?}", world.actions());
    let plan = world.plan();
    assert!(plan.waiting().is_empty() && plan.due.is_none());
}

/// DAEMONSET-70.
#[test]
fn work_begins_after_the_refused_node_and_wraps_around() {
    let refused = |node: &str| Cursor(Some(Text::new(node)));
    let mut missing = empty(4);
    assert_eq!(missing.work(), ["+n0", "+n1", "+n2", "+n3"]);
    missing.cursors.create = refused("n1");
    assert_eq!(missing.work(), ["+n2", "+n3", "+n0", "+n1"]);
    missing.cursors.create = refused("n3");
    assert_eq!(missing.work(), ["+n0", "+n1", "+n2", "+n3"]);
    // With a limit of one Pod, each node gets its turn.
    let mut outdated = world(3).rollout_to("b");
    for (after, deleted) in [("n0", "-p1"), ("n1", "-p2"), ("n2", "-p0")] {
        outdated.cursors.delete = refused(after);
        assert_eq!(outdated.work(), [deleted]);
    }
    // With surge, nodes without an available Pod come first, except for nodes on which the last creation was refused.
    let mut surge = world(3).rollout_to("b").pod(2, pod().unready()).limits(json!(0), json!(2));
    assert_eq!(surge.work(), ["+n2", "+n0", "+n1"]);
    surge.cursors.create = refused("n2");
    assert_eq!(surge.work(), ["+n0", "+n1", "+n2"]);
}

/// DAEMONSET-68.
#[test]
fn nodes_that_wait_for_an_answer_or_an_adoption_do_not_delay_other_nodes() {
    let lost = world(3).rollout_to("b").without_pod(0).lost_create(0);
    let orphan = world(3).rollout_to("b").pod(0, pod().orphan()).manages();
    for world in [lost, orphan] {
        // With `maxSurge` 0, a node without a Pod counts against `maxUnavailable`.
        assert!(world.clone().limits(json!(1), json!(0)).work().is_empty());
        assert_eq!(world.clone().limits(json!(2), json!(0)).work(), ["-p1"]);
        assert_eq!(world.limits(json!(0), json!(1)).work(), ["+n1"]);
    }
    // A node gets no second Pod while it has an orphan to adopt.
    let world = world(2).rollout_to("b").second(0, pod().orphan()).manages().limits(json!(0), json!(2));
    assert_eq!(world.work(), ["+n1"]);
}

/// DAEMONSET-70.
#[test]
fn nodes_that_are_held_back_take_no_place_of_other_nodes() {
    // More nodes are held back than the limit of creations allows, and their names come first.
    let mut missing = empty(5).pod(0, pod().orphan()).pod(1, pod().orphan()).lost_create(2).manages();
    missing.limits.burst = 2;
    assert_eq!(missing.work(), ["+n3", "+n4"]);
    let orphans = |world: World| world.second(0, pod().orphan()).second(1, pod().orphan()).manages();
    assert_eq!(orphans(world(4).rollout_to("b").limits(json!(0), json!(1))).work(), ["+n2"]);
    let unready = (0..4).fold(empty(4).rollout_to("b"), |world, n| world.pod(n, pod().unready()));
    let mut unready = orphans(unready.limits(json!(0), json!(1)));
    unready.limits.burst = 2;
    assert_eq!(unready.work(), ["+n2", "+n3"]);
    // The only remaining nodes are held back, so no work is left to later syncs.
    assert_eq!(unready.plan().deferred.total(), 0);
}

/// DAEMONSET-75.
#[test]
fn pods_with_the_hash_of_another_revision_of_the_same_template_are_not_outdated() {
    let twins =
        |world: World| world.revision_of("twin", 7, &template("a")).pod(1, pod().of("twin")).pod(2, pod().of("z"));
    let snapshot = twins(world(3)).snapshot();
    assert_eq!((snapshot.revisions.hash.as_str(), snapshot.nodes.tally.updated), ("twin", 2));
    assert_eq!(snapshot.relabel.len(), 1);
    // An empty `relabel` means that the server has refused to relabel the Pod. Such a Pod is not outdated.
    let unchanged = |world: World| {
        let mut snapshot = world.snapshot();
        snapshot.relabel.clear();
        let plan = super::decide(&snapshot);
        plan.deletes.iter().map(|deletion| deletion.pod.meta().name.to_string()).collect::<Vec<_>>()
    };
    assert_eq!(unchanged(twins(world(3))), ["p2"]);
    let surge = twins(world(3)).limits(json!(0), json!(1)).second(0, pod().of("twin"));
    assert_eq!(unchanged(surge).len(), 1, "both Pods on the node count as new");
}

/// DAEMONSET-68.
#[test]
fn a_pod_that_may_have_been_created_counts_against_the_surge_of_the_others() {
    let surge = |max: i32| world(4).rollout_to("b").lost_create(0).limits(json!(0), json!(max));
    assert!(surge(1).work().is_empty());
    assert_eq!(surge(2).work(), ["+n1"]);
    assert_eq!(surge(4).work(), ["+n1", "+n2", "+n3"]);
    // An outdated Pod that is not available is replaced regardless of `maxSurge`, even if its node comes last.
    let mut unavailable = surge(1).pod(2, pod().unready());
    unavailable.cursors.create = Cursor(Some(Text::new("n0")));
    assert_eq!(unavailable.work(), ["+n2"]);
}

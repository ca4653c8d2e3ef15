use common::controller::Decision;
use serde_json::json;

use crate::{
    DaemonSetController,
    plan::Why,
    world::{PodBuilder, World, empty, pod, world},
};

fn reasons(world: &World) -> Vec<Why> {
    world.plan().deletes.iter().map(|deletion| deletion.why).collect()
}

/// One node with these Pods: the first Pod is `p0`, every further Pod is `p0x`.
fn on_node(pods: Vec<PodBuilder>) -> World {
    let mut pods = pods.into_iter();
    let first = pods.next().map_or(empty(1), |first| empty(1).pod(0, first));
    pods.fold(first, |world, pod| world.second(0, pod))
}

fn surge(world: World) -> World {
    world.limits(json!(0), json!(1))
}

/// DAEMONSET-21.
#[test]
fn an_eligible_node_gets_a_pod_unless_it_has_one() {
    assert_eq!(empty(2).work(), ["+n0", "+n1"]);
    assert!(world(2).work().is_empty());
    assert!(on_node(vec![pod().terminating()]).work().is_empty());
    assert!(on_node(vec![pod().pending()]).work().is_empty());
    assert_eq!(
        on_node(vec![pod().phase("Failed").terminating()]).work(),
        ["+n0"],
        "a finished terminating Pod is ignored"
    );
    assert!(empty(1).taint(0, "NoSchedule").work().is_empty());
    assert!(empty(1).taint(0, "NoExecute").work().is_empty());
    assert_eq!(empty(1).taint(0, "PreferNoSchedule").work(), ["+n0"]);
}

/// DAEMONSET-14, DAEMONSET-22.
#[test]
fn a_node_that_is_not_eligible_loses_its_pods() {
    assert_eq!(world(2).taint(0, "NoExecute").work(), ["-p0"]);
    assert!(world(2).taint(0, "NoSchedule").work().is_empty(), "existing Pods stay");
    assert!(on_node(vec![pod().terminating()]).taint(0, "NoExecute").work().is_empty());
    let mut placed = template();
    placed["spec"]["nodeSelector"] = json!({"disk": "ssd"});
    assert_eq!(world(2).spec("template", placed).work(), ["-p0", "-p1"]);
}

fn template() -> serde_json::Value {
    crate::world::template("a")
}

/// DAEMONSET-23.
#[test]
fn of_several_pods_the_oldest_bound_pod_stays() {
    for (pods, deleted) in [
        (vec![pod().created(10), pod().created(20)], "-p0"),
        (vec![pod().created(20), pod().created(10)], "-p0x"),
        (vec![pod(), pod()], "-p0x"),
        (vec![pod().pending().created(99), pod().created(1)], "-p0"),
        (vec![pod().of("old").created(20), pod().created(10)], "-p0x"),
    ] {
        let world = on_node(pods.clone());
        assert_eq!(world.work(), [deleted], "{pods:#?}");
        assert_eq!(reasons(&world), [Why::Duplicate]);
    }
    assert!(on_node(vec![pod(), pod().terminating()]).work().is_empty());
}

/// DAEMONSET-24.
#[test]
fn the_first_failed_pod_is_deleted_without_delay_and_the_next_after_the_back_off() {
    let failed = || on_node(vec![pod().phase("Failed")]);
    assert_eq!((failed().work(), reasons(&failed())), (vec!["-p0".to_owned()], vec![Why::Failed]));
    let waiting = failed().failed_until(0, 8);
    assert!(waiting.work().is_empty());
    assert_eq!(waiting.plan().due.unwrap().as_secs(), 8);
    // After the deletion of one failed Pod, the second failed Pod waits for the back-off.
    assert_eq!(on_node(vec![pod().phase("Failed"), pod().phase("Failed")]).work(), ["-p0"]);
    // A back-off has no effect on a node with a running Pod.
    assert_eq!(world(1).failed_until(0, 8).plan().due, None);
}

/// DAEMONSET-26.
#[test]
fn a_pod_that_succeeded_is_deleted_without_a_back_off() {
    let succeeded = on_node(vec![pod().phase("Succeeded")]).failed_until(0, 8);
    assert_eq!((succeeded.work(), reasons(&succeeded)), (vec!["-p0".to_owned()], vec![Why::Succeeded]));
}

/// DAEMONSET-53, DAEMONSET-72.
#[test]
fn with_surge_a_new_pod_is_created_while_no_pod_is_running() {
    assert_eq!(surge(on_node(vec![pod().terminating()])).work(), ["+n0"]);
    assert_eq!(surge(on_node(vec![pod().phase("Failed")])).work(), ["+n0", "-p0"]);
    assert!(
        surge(on_node(vec![pod().phase("Failed")]).failed_until(0, 8)).work().is_empty(),
        "the back-off also delays creations"
    );
    assert!(surge(on_node(vec![pod().terminating()])).taint(0, "NoSchedule").work().is_empty());
}

/// DAEMONSET-52.
#[test]
fn with_surge_one_old_and_one_new_pod_stay_until_the_new_one_is_available() {
    let (new, old) = (pod, || pod().of("old"));
    for (pods, deleted) in [
        (vec![old(), new().unready()], vec![]),
        (vec![old(), new()], vec!["-p0"]),
        (vec![old().unready(), new().unready()], vec!["-p0"]),
        (vec![new().created(9), new().created(8)], vec!["-p0x"]),
        (vec![old().created(9), old().created(8)], vec!["-p0x"]),
    ] {
        assert_eq!(surge(on_node(pods.clone())).work(), deleted, "{pods:#?}");
    }
    let soon = || on_node(vec![old(), new().ready(10)]).spec("minReadySeconds", json!(15));
    assert!(surge(soon()).work().is_empty());
    assert_eq!(surge(soon()).plan().due.unwrap().as_secs(), 5);
    // The hash decides which of two Pods is surplus, even if both Pods have the current template generation.
    let same = on_node(vec![old().generation("7"), new()]).template_generation("7");
    assert_eq!(surge(same).work(), ["-p0"]);
}

/// DAEMONSET-27.
#[test]
fn a_pod_of_a_deleted_node_is_deleted_only_if_it_is_not_bound() {
    let on_deleted_node = |pod: PodBuilder| on_node(vec![pod]).without_node("n0");
    assert_eq!(on_deleted_node(pod().pending()).work(), ["-p0"]);
    assert!(on_deleted_node(pod()).work().is_empty(), "the garbage collector of Pods deletes it");
    assert!(on_deleted_node(pod().pending().terminating()).work().is_empty());
}

/// DAEMONSET-31.
#[test]
fn outdated_pods_wait_while_pods_are_missing() {
    let world = world(3).rollout_to("b").without_pod(2).limits(json!(2), json!(0));
    assert_eq!(world.work(), ["+n2"]);
}

/// DAEMONSET-29.
#[test]
fn a_sync_has_a_limit_of_creations_and_deletions_and_counts_the_rest() {
    let mut many = empty(7);
    many.limits.burst = 3;
    let plan = many.plan();
    assert_eq!((plan.creates.len(), plan.deferred.total()), (3, 4));
    let mut many = world(7).limits(json!(5), json!(0)).rollout_to("b");
    many.limits.burst = 3;
    let plan = many.plan();
    assert_eq!((plan.deletes.len(), plan.deferred.total()), (3, 2));
}

/// DAEMONSET-76.
#[test]
fn creations_in_a_terminating_namespace_are_not_left_to_later_syncs() {
    let mut many = empty(7);
    many.limits.burst = 3;
    let mut snapshot = many.snapshot();
    snapshot.terminating_namespace = true;
    let waiting = Decision::<DaemonSetController>::with_forecast(&snapshot, snapshot.now).explain().waiting;
    assert_eq!(waiting, ["no Pods are created: the namespace is terminating"]);
    // In a terminating namespace, deletions beyond the limit are still left to later syncs.
    let mut many = world(7).taint(0, "NoExecute").taint(1, "NoExecute").taint(2, "NoExecute").taint(3, "NoExecute");
    many.limits.burst = 3;
    let mut snapshot = many.snapshot();
    snapshot.terminating_namespace = true;
    let waiting = Decision::<DaemonSetController>::with_forecast(&snapshot, snapshot.now).explain().waiting;
    assert_eq!(waiting, ["1 more nodes are left to the next syncs"]);
}

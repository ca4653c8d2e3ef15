use std::time::Duration;

use common::{
    controller::Decision,
    pod_creation_pauses::{PauseReason, PodCreationPause},
};
use serde_json::json;

use crate::{
    DaemonSetController,
    decide::decide,
    plan::DeletionReason,
    world::{PodBuilder, SnapshotBuilder, pod, set_with_pods, set_without_pods},
};

fn reasons(world: &SnapshotBuilder) -> Vec<DeletionReason> {
    world.plan().pod_deletions.iter().map(|deletion| deletion.deletion_reason).collect()
}

/// One node with these Pods: the first Pod is `p0`, every further Pod is `p0x`.
fn on_node(pods: Vec<PodBuilder>) -> SnapshotBuilder {
    let mut pods = pods.into_iter();
    let first = pods.next().map_or(set_without_pods(1), |first| set_without_pods(1).pod(0, first));
    pods.fold(first, |world, pod| world.second_pod(0, pod))
}

fn surge(world: SnapshotBuilder) -> SnapshotBuilder {
    world.rolling_limits(json!(0), json!(1))
}

/// DAEMONSET-21.
#[test]
fn an_eligible_node_gets_a_pod_unless_it_has_one() {
    assert_eq!(set_without_pods(2).pod_actions(), ["+n0", "+n1"]);
    assert!(set_with_pods(2).pod_actions().is_empty());
    assert!(on_node(vec![pod().terminating()]).pod_actions().is_empty());
    assert!(on_node(vec![pod().pending()]).pod_actions().is_empty());
    assert_eq!(
        on_node(vec![pod().phase("Failed").terminating()]).pod_actions(),
        ["+n0"],
        "a finished terminating Pod is ignored"
    );
    assert!(set_without_pods(1).taint(0, "NoSchedule").pod_actions().is_empty());
    assert!(set_without_pods(1).taint(0, "NoExecute").pod_actions().is_empty());
    assert_eq!(set_without_pods(1).taint(0, "PreferNoSchedule").pod_actions(), ["+n0"]);
}

/// DAEMONSET-14, DAEMONSET-22.
#[test]
fn a_node_that_is_not_eligible_loses_its_pods() {
    assert_eq!(set_with_pods(2).taint(0, "NoExecute").pod_actions(), ["-p0"]);
    assert!(set_with_pods(2).taint(0, "NoSchedule").pod_actions().is_empty(), "existing Pods stay");
    assert!(on_node(vec![pod().terminating()]).taint(0, "NoExecute").pod_actions().is_empty());
    let mut placed = template();
    placed["spec"]["nodeSelector"] = json!({"disk": "ssd"});
    assert_eq!(set_with_pods(2).spec("template", placed).pod_actions(), ["-p0", "-p1"]);
}

fn template() -> serde_json::Value {
    crate::world::template("a")
}

/// DAEMONSET-23.
#[test]
fn of_several_pods_the_oldest_bound_pod_stays() {
    for (pods, deleted) in [
        (vec![pod().created_seconds_ago(10), pod().created_seconds_ago(20)], "-p0"),
        (vec![pod().created_seconds_ago(20), pod().created_seconds_ago(10)], "-p0x"),
        (vec![pod(), pod()], "-p0x"),
        (vec![pod().pending().created_seconds_ago(99), pod().created_seconds_ago(1)], "-p0"),
        (vec![pod().revision_hash("old").created_seconds_ago(20), pod().created_seconds_ago(10)], "-p0x"),
    ] {
        let world = on_node(pods.clone());
        assert_eq!(world.pod_actions(), [deleted], "{pods:#?}");
        assert_eq!(reasons(&world), [DeletionReason::SurplusPod]);
    }
    assert!(on_node(vec![pod(), pod().terminating()]).pod_actions().is_empty());
}

/// DAEMONSET-24.
#[test]
fn the_first_failed_pod_is_deleted_without_delay_and_the_next_after_the_back_off() {
    let failed = || on_node(vec![pod().phase("Failed")]);
    assert_eq!((failed().pod_actions(), reasons(&failed())), (vec!["-p0".to_owned()], vec![DeletionReason::PodFailed]));
    let waiting = failed().delay_failed_pods_until(0, 8);
    assert!(waiting.pod_actions().is_empty());
    assert_eq!(waiting.plan().requeue_after.unwrap().as_secs(), 8);
    // After the deletion of one failed Pod, the second failed Pod is deleted only after the back-off.
    assert_eq!(on_node(vec![pod().phase("Failed"), pod().phase("Failed")]).pod_actions(), ["-p0"]);
    // A back-off has no effect on a node with a running Pod.
    assert_eq!(set_with_pods(1).delay_failed_pods_until(0, 8).plan().requeue_after, None);
}

/// DAEMONSET-26.
#[test]
fn a_pod_that_succeeded_is_deleted_without_a_back_off() {
    let succeeded = on_node(vec![pod().phase("Succeeded")]).delay_failed_pods_until(0, 8);
    assert_eq!(
        (succeeded.pod_actions(), reasons(&succeeded)),
        (vec!["-p0".to_owned()], vec![DeletionReason::PodSucceeded])
    );
}

/// DAEMONSET-53, DAEMONSET-72.
#[test]
fn with_surge_a_new_pod_is_created_while_no_pod_is_running() {
    assert_eq!(surge(on_node(vec![pod().terminating()])).pod_actions(), ["+n0"]);
    assert_eq!(surge(on_node(vec![pod().phase("Failed")])).pod_actions(), ["+n0", "-p0"]);
    assert!(
        surge(on_node(vec![pod().phase("Failed")]).delay_failed_pods_until(0, 8)).pod_actions().is_empty(),
        "the back-off also delays creations"
    );
    assert!(surge(on_node(vec![pod().terminating()])).taint(0, "NoSchedule").pod_actions().is_empty());
}

/// DAEMONSET-52.
#[test]
fn with_surge_one_old_and_one_new_pod_stay_until_the_new_one_is_available() {
    let (new, old) = (pod, || pod().revision_hash("old"));
    for (pods, deleted) in [
        (vec![old(), new().unready()], vec![]),
        (vec![old(), new()], vec!["-p0"]),
        (vec![old().unready(), new().unready()], vec!["-p0"]),
        (vec![new().created_seconds_ago(9), new().created_seconds_ago(8)], vec!["-p0x"]),
        (vec![old().created_seconds_ago(9), old().created_seconds_ago(8)], vec!["-p0x"]),
    ] {
        assert_eq!(surge(on_node(pods.clone())).pod_actions(), deleted, "{pods:#?}");
    }
    let soon = || on_node(vec![old(), new().ready(10)]).spec("minReadySeconds", json!(15));
    assert!(surge(soon()).pod_actions().is_empty());
    assert_eq!(surge(soon()).plan().requeue_after.unwrap().as_secs(), 5);
    // The hash decides which of two Pods is surplus, even if both Pods have the current template generation.
    let same = on_node(vec![old().template_generation_label("7"), new()]).template_generation("7");
    assert_eq!(surge(same).pod_actions(), ["-p0"]);
}

/// DAEMONSET-27.
#[test]
fn a_pod_of_a_deleted_node_is_deleted_only_if_it_is_not_bound() {
    let on_deleted_node = |pod: PodBuilder| on_node(vec![pod]).without_node("n0");
    assert_eq!(on_deleted_node(pod().pending()).pod_actions(), ["-p0"]);
    assert!(on_deleted_node(pod()).pod_actions().is_empty(), "the garbage collector of Pods deletes it");
    assert!(on_deleted_node(pod().pending().terminating()).pod_actions().is_empty());
}

/// DAEMONSET-31.
#[test]
fn outdated_pods_wait_while_pods_are_missing() {
    let world = set_with_pods(3).roll_out_to("b").without_pod(2).rolling_limits(json!(2), json!(0));
    assert_eq!(world.pod_actions(), ["+n2"]);
}

/// DAEMONSET-29.
#[test]
fn a_sync_has_a_limit_of_creations_and_deletions_and_counts_the_rest() {
    let mut many = set_without_pods(7);
    many.decision_settings.burst_replicas = 3;
    let plan = many.plan();
    assert_eq!((plan.pod_creations.len(), plan.deferred_node_counts.total()), (3, 4));
    let mut many = set_with_pods(7).rolling_limits(json!(5), json!(0)).roll_out_to("b");
    many.decision_settings.burst_replicas = 3;
    let plan = many.plan();
    assert_eq!((plan.pod_deletions.len(), plan.deferred_node_counts.total()), (3, 2));
}

fn pause(reason: PauseReason) -> PodCreationPause {
    PodCreationPause { reason, remaining: Duration::from_millis(7500) }
}

/// DAEMONSET-88.
#[test]
fn a_pause_because_of_changed_pods_holds_back_creations_and_ends_with_a_sync() {
    let explain = |world: &SnapshotBuilder| {
        let mut snapshot = world.snapshot();
        snapshot.pod_creation_pause = Some(pause(PauseReason::PodsChangedByAdmission));
        let requeue_after = decide(&snapshot).requeue_after;
        (Decision::<DaemonSetController>::with_forecast(&snapshot, snapshot.now).explain(), requeue_after)
    };
    let (missing, requeue_after) = explain(&set_without_pods(3));
    let why = "no Pods are created: admission changes them so that they do not belong to their owner";
    assert_eq!(missing.waiting, [format!("{why}, the next attempt is in 8s")]);
    assert!(missing.actions.iter().all(|action| !action.contains("Pod")), "{:?}", missing.actions);
    assert_eq!(requeue_after, Some(Duration::from_millis(7500)));
    // Outdated Pods wait while a node has no Pod, and nothing else is held back.
    let (outdated, _) = explain(&set_with_pods(3).roll_out_to("b").without_pod(2).rolling_limits(json!(2), json!(0)));
    assert!(outdated.actions.iter().all(|action| !action.contains("Pod")), "{:?}", outdated.actions);
    let (surplus, requeue_after) = explain(&set_with_pods(2).taint(0, "NoExecute"));
    assert!(surplus.actions.iter().any(|action| action.starts_with("delete Pod p0")), "{:?}", surplus.actions);
    assert_eq!(requeue_after, None);
}

/// DAEMONSET-76.
#[test]
fn creations_in_a_terminating_namespace_are_not_left_to_later_syncs() {
    let mut many = set_without_pods(7);
    many.decision_settings.burst_replicas = 3;
    let mut snapshot = many.snapshot();
    snapshot.pod_creation_pause = Some(pause(PauseReason::NamespaceTerminating));
    let waiting = Decision::<DaemonSetController>::with_forecast(&snapshot, snapshot.now).explain().waiting;
    assert_eq!(waiting, ["no Pods are created: the namespace is terminating"]);
    // In a terminating namespace, the deletions that exceed `burst-replicas` are left to later syncs, as in other namespaces.
    let mut many =
        set_with_pods(7).taint(0, "NoExecute").taint(1, "NoExecute").taint(2, "NoExecute").taint(3, "NoExecute");
    many.decision_settings.burst_replicas = 3;
    let mut snapshot = many.snapshot();
    snapshot.pod_creation_pause = Some(pause(PauseReason::NamespaceTerminating));
    let waiting = Decision::<DaemonSetController>::with_forecast(&snapshot, snapshot.now).explain().waiting;
    assert_eq!(waiting, ["1 more nodes are left to the next syncs"]);
}

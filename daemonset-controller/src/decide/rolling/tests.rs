use serde_json::json;

use super::*;
use crate::world::{PodBuilder, SnapshotBuilder, pod, set_without_pods};

fn limits(max_unavailable: serde_json::Value, max_surge: serde_json::Value, desired: i32) -> (i32, i32) {
    let snapshot = set_without_pods(0).rolling_limits(max_unavailable, max_surge).snapshot();
    let limits = RollingUpdateLimits::new(&snapshot.set, desired).unwrap();
    (limits.max_unavailable, limits.max_surge)
}

/// DAEMONSET-46.
#[test]
fn limits_are_rounded_up_and_never_both_zero() {
    for (value, desired, result) in [
        (json!(1), 100, 1),
        (json!("10%"), 1, 1),
        (json!("30%"), 10, 3),
        (json!("33%"), 10, 4),
        (json!("1%"), 250, 3),
        (json!("100%"), 7, 7),
        (json!("25%"), 0, 0),
        (json!(20), 5, 20),
        (json!("400%"), 5, 20),
        (json!(-3), 0, 0),
    ] {
        assert_eq!(limits(value.clone(), json!(0), desired).0, result, "{value} of {desired}");
        assert_eq!(limits(json!(0), value.clone(), desired).1, result, "{value} of {desired}");
    }
    assert_eq!(limits(json!(0), json!(0), 5), (1, 0));
    assert_eq!(limits(json!(0), json!(0), 0), (0, 0));
    assert_eq!(limits(json!(null), json!(null), 5), (1, 0));
    assert_eq!(limits(json!("-5%"), json!("0%"), 5), (1, 0));
}

fn old(ready: bool) -> PodBuilder {
    if ready { pod() } else { pod().unready() }
}

fn new(ready: bool) -> PodBuilder {
    if ready { pod().revision_hash("b") } else { pod().revision_hash("b").unready() }
}

/// Nodes `n0`, `n1`, ... with these Pods. Template `b` is current, and `a` is outdated.
fn rollout(pods: Vec<PodBuilder>) -> SnapshotBuilder {
    let world = set_without_pods(pods.len()).roll_out_to("b");
    pods.into_iter().enumerate().fold(world, |world, (n, pod)| world.pod(n, pod))
}

/// DAEMONSET-49, DAEMONSET-50.
#[test]
fn available_pods_are_deleted_up_to_the_limit() {
    let five = || vec![old(true), old(true), old(true), old(true), old(true)];
    let with = |n: usize, pod: PodBuilder| {
        let mut pods = five();
        pods[n] = pod;
        pods
    };
    for (pods, limit, deleted) in [
        (five(), json!(2), vec!["-p0", "-p1"]),
        (with(0, new(false)), json!(2), vec!["-p1"]),
        (with(0, new(true)), json!(2), vec!["-p1", "-p2"]),
        (with(0, old(true).terminating()), json!(1), vec![]),
        (vec![old(false), old(false), old(false), old(true), old(true)], json!(1), vec!["-p0", "-p1", "-p2"]),
        (vec![new(true), old(true), old(true)], json!("50%"), vec!["-p1", "-p2"]),
        (five(), json!(20), vec!["-p0", "-p1", "-p2", "-p3", "-p4"]),
        (five(), json!("400%"), vec!["-p0", "-p1", "-p2", "-p3", "-p4"]),
        (with(0, pod().phase("Failed")), json!(1), vec!["-p0"]),
    ] {
        let world = rollout(pods.clone()).rolling_limits(limit.clone(), json!(0));
        assert_eq!(world.pod_actions(), deleted, "{limit} of {pods:#?}");
    }
}

/// DAEMONSET-51.
#[test]
fn ineligible_nodes_count_against_the_limit_and_are_replaced() {
    // The taint `NoSchedule` keeps Pods and prevents new ones: the update deletes the outdated Pod and creates no new one.
    let world = rollout(vec![old(false), new(true)]).taint(0, "NoSchedule");
    assert_eq!(world.pod_actions(), ["-p0"]);
    let world = rollout(vec![old(true), old(true)]).taint(0, "NoSchedule").pod(0, new(false));
    assert!(world.pod_actions().is_empty(), "the new Pod that is not available takes up the limit");
    // A Pod that is not available counts against `maxUnavailable` even if its node was deleted.
    let world = rollout(vec![new(false), old(true)]).without_node("n0");
    assert!(world.pod_actions().is_empty());
    assert_eq!(rollout(vec![new(true), old(true)]).without_node("n0").pod_actions(), ["-p1"]);
}

/// DAEMONSET-45.
#[test]
fn pods_of_the_same_template_generation_are_updated_regardless_of_their_hash() {
    let world = rollout(vec![old(true).template_generation_label("7"), old(true).template_generation_label("6")])
        .template_generation("7");
    assert_eq!(world.pod_actions(), ["-p1"]);
    let unknown = rollout(vec![old(true).template_generation_label("7")]).template_generation("x");
    assert_eq!(unknown.pod_actions(), ["-p0"]);
}

/// DAEMONSET-50, DAEMONSET-52.
#[test]
fn with_surge_new_pods_are_created_before_old_pods_are_deleted() {
    let four = || rollout(vec![old(true), old(true), old(true), old(true)]);
    let surge = |world: SnapshotBuilder, surge: serde_json::Value| world.rolling_limits(json!(0), surge);
    assert_eq!(surge(four(), json!("25%")).pod_actions(), ["+n0"]);
    assert_eq!(surge(four(), json!(3)).pod_actions(), ["+n0", "+n1", "+n2"]);
    assert!(surge(four().second_pod(0, new(false)), json!(1)).pod_actions().is_empty());
    // This sync only deletes the outdated Pod. The next sync creates a new Pod on another node.
    assert_eq!(surge(four().second_pod(0, new(true)), json!(1)).pod_actions(), ["-p0"]);
    let two_unavailable = rollout(vec![old(false), old(true), old(false), old(true)]);
    assert_eq!(surge(two_unavailable, json!(1)).pod_actions(), ["+n0", "+n2", "+n1"]);
}

/// DAEMONSET-54.
#[test]
fn with_surge_an_ineligible_node_keeps_its_pod_until_enough_other_nodes_serve() {
    let two = |pods: Vec<PodBuilder>| rollout(pods).rolling_limits(json!(0), json!(1)).taint(0, "NoSchedule");
    // Two nodes have an available Pod, and one node is desired: the Pod on the ineligible node is deleted.
    assert_eq!(two(vec![old(true), new(true)]).pod_actions(), ["-p0"]);
    assert!(two(vec![old(true), new(false)]).pod_actions().is_empty());
    // A Pod that is not available is deleted without waiting.
    assert_eq!(two(vec![old(false), new(true)]).pod_actions(), ["-p0"]);
    let waiting = two(vec![old(true), new(false)]).plan().waiting_reasons.into_vec().join("\n");
    assert!(waiting.contains("1 Pods stay on nodes where no Pod should run"), "{waiting}");
}

/// DAEMONSET-71.
#[test]
fn with_surge_a_deleted_node_does_not_hold_up_the_update() {
    let world = rollout(vec![old(true), old(true)]).rolling_limits(json!(0), json!(1)).without_node("n0");
    assert_eq!(world.pod_actions(), ["+n1"]);
}

/// DAEMONSET-46.
#[test]
fn a_percentage_of_no_desired_nodes_is_no_surge() {
    let world = rollout(vec![old(false)]).rolling_limits(json!(0), json!("50%")).taint(0, "NoSchedule");
    assert_eq!(world.pod_actions(), ["-p0"], "as without surge");
}

/// DAEMONSET-55.
#[test]
fn on_delete_replaces_nothing() {
    let world = rollout(vec![old(true), old(false)]).spec("updateStrategy", json!({"type": "OnDelete"}));
    assert!(world.pod_actions().is_empty());
    let waiting = world.plan().waiting_reasons.into_vec();
    assert_eq!(waiting, ["2 outdated Pods are replaced when users delete them (OnDelete)"]);
}

/// DAEMONSET-47.
#[test]
fn invalid_limits_replace_nothing_and_are_reported() {
    let world = rollout(vec![old(true)]).rolling_limits(json!("ten"), json!(0));
    assert!(world.pod_actions().is_empty());
    let waiting = world.plan().waiting_reasons.into_vec().join("\n");
    assert!(waiting.contains("maxUnavailable: invalid value for IntOrString"), "{waiting}");
}

#[test]
fn an_explanation_names_the_nodes_that_block_a_rollout() {
    let world = rollout(vec![new(false), old(true), old(true)]);
    let waiting = world.plan().waiting_reasons.into_vec();
    assert_eq!(
        waiting,
        [
            "2 outdated Pods wait: maxUnavailable is 1, and 1 nodes have no available Pod",
            "node n0: Pod p0 is not ready"
        ]
    );
    for (pod, line) in [
        (new(true).pending(), "node n0: Pod p0 is not scheduled"),
        (old(true).terminating(), "node n0: Pod p0 is terminating"),
    ] {
        let waiting = rollout(vec![pod, old(true)]).plan().waiting_reasons.into_vec();
        assert!(waiting.contains(&line.to_owned()), "{waiting:?}");
    }
}

/// DAEMONSET-71.
#[test]
fn with_surge_an_available_pod_on_a_deleted_node_does_not_count_as_serving() {
    let world = rollout(vec![old(true), old(true), new(false)]).rolling_limits(json!(0), json!(1));
    let world = world.taint(1, "NoSchedule").without_node("n0");
    assert!(world.pod_actions().is_empty(), "only the Pod on n1 serves");
}

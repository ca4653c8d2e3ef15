//! Tests of the options that operators can turn on, with both values.

use std::collections::BTreeSet;

use super::*;

fn failing(pods: usize, seconds: u64) -> FailedPodBackoff {
    FailedPodBackoff { failed_pod_count: pods, remaining_delay: Duration::from_secs(seconds) }
}

/// REPLICASET-67.
#[test]
fn a_set_whose_pods_fail_delays_creations() {
    for (active, wanted, at_once, then) in [
        (0, 3, "create 3 of 3", "later: 8"),
        (2, 3, "create 1 of 1", "later: 8"),
        // A back-off delays only creations.
        (3, 3, "nothing", "nothing"),
        (3, 1, "delete 2 of 2", "delete 2 of 2"),
    ] {
        let mut world = set_with_pods(wanted, ready_pods(active));
        assert_eq!(deed(&world), at_once, "{active} of {wanted}");
        world.failed_pod_backoff = Some(failing(4, 8));
        assert_eq!(deed(&world), then, "{active} of {wanted}");
        assert_eq!(deed(&world.clone().with_pending_writes()), "not allowed");
        assert_eq!(deed(&world.with_terminating_set()), "not allowed");
    }
}

/// REPLICASET-67.
#[test]
fn a_delayed_creation_is_explained_and_keeps_the_failure_condition() {
    let stored = json!({"replicas": 2, "fullyLabeledReplicas": 2, "readyReplicas": 2, "availableReplicas": 2,
        "terminatingReplicas": 0, "observedGeneration": 1,
        "conditions": [{"type": "ReplicaFailure", "status": "True", "reason": "FailedCreate", "message": "no"}]});
    let mut world = set_with_pods(3, ready_pods(2)).with_stored_status(stored);
    world.failed_pod_backoff =
        Some(FailedPodBackoff { failed_pod_count: 4, remaining_delay: Duration::from_millis(7001) });
    let told = explained(&world);
    assert!(told.actions.is_empty());
    assert_eq!(told.waiting, ["4 Pods failed without ever being ready: next creation in 8s", "FailedCreate: no"]);
}

/// Returns the chosen Pods with their reasons. `nodes` has one letter for each Pod; `counts` has the count of Pods of the same
/// owner for each node; `left` is the count of Pods to keep.
fn chosen(reranks: bool, nodes: &str, counts: &[(&str, usize)], left: usize) -> Vec<String> {
    let found = nodes.chars().enumerate().map(|(at, node)| {
        let pod = pod_builder(&format!("{node}{at}")).node(&node.to_string());
        pod.created_seconds_ago(30).ready_for_seconds(30)
    });
    let mut world = set_with_pods(left, found);
    world.decision_settings.reranks_remaining_pods = reranks;
    world.colocated_pod_counts_by_node = counts.iter().map(|(node, count)| (Text::new(node), *count)).collect();
    whys(&world)
        .iter()
        .map(|why| why.replace(" Pods of the same owner", "").replace("it is ranked first by ", ""))
        .collect()
}

/// REPLICASET-69.
#[test]
fn the_fullest_node_is_emptied_or_nodes_are_balanced() {
    let (nodes, counts) = ("AAABB", [("A", 3), ("B", 2)]);
    assert_eq!(chosen(false, nodes, &counts, 2), ["A0: its node has 3", "A1: its node has 3", "A2: its node has 3"]);
    assert_eq!(chosen(true, nodes, &counts, 2), ["A0: its node has 3", "A1: its node has 2", "B3: its node has 2"]);
    assert_eq!(chosen(true, nodes, &counts, 4), ["A0: its node has 3"]);
    assert_eq!(chosen(true, nodes, &counts, 3), ["A0: its node has 3", "A1: age, restarts and uid"]);
    // The counts include Pods of siblings (sets with the same owner), which this set does not delete.
    let counts = [("A", 3), ("B", 6)];
    assert_eq!(chosen(true, nodes, &counts, 3), ["B3: its node has 6", "B4: its node has 5"]);
    // Without counts, age, restarts and UID decide.
    for reranks in [false, true] {
        assert_eq!(chosen(reranks, nodes, &[], 3), ["A0: age, restarts and uid", "A1: age, restarts and uid"]);
    }
}

/// REPLICASET-23.
#[test]
fn earlier_rules_rank_before_the_nodes_in_both_orders() {
    let found = || {
        [
            pod_builder("a").node("A").ready_for_seconds(30).created_seconds_ago(30),
            pod_builder("b").node("A").ready_for_seconds(30).created_seconds_ago(30),
            pod_builder("c").node("B").unready(),
            pod_builder("d").node("B").deletion_cost("-1"),
            pod_builder("e").node("B").ready_for_seconds(30).created_seconds_ago(30),
        ]
    };
    for (reranks, then) in [(false, "e"), (true, "a")] {
        let mut world = set_with_pods(2, found());
        world.decision_settings.reranks_remaining_pods = reranks;
        world.colocated_pod_counts_by_node = BTreeMap::from([("A".into(), 2), ("B".into(), 3)]);
        assert_eq!(victims(&world), ["c", "d", then]);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(500))]

    /// Among Pods that are equal by rules 1 to 4, each chosen Pod is on a node with the highest remaining count.
    /// REPLICASET-69.
    #[test]
    fn each_chosen_pod_is_on_the_fullest_node(mut world in any_world()) {
        world.decision_settings.reranks_remaining_pods = true;
        let snapshot = world.build_snapshot();
        let PodChanges::Delete { pod_deletions: victims, .. } = decide(&snapshot).pod_changes else { return Ok(()) };
        let claimed: Vec<&SharedPod> = snapshot.claims.to_keep.iter().chain(&snapshot.claims.to_adopt).collect();
        if victims.len() == claimed.len() {
            return Ok(());
        }
        let cost = |pod: &SharedPod| if snapshot.decision_settings.uses_deletion_cost { pod.deletion_cost() } else { 0 };
        let class = |pod: &SharedPod| (class(pod), cost(pod));
        let (mut counts, mut gone) = (snapshot.colocated_pod_counts_by_node.clone(), BTreeSet::new());
        for victim in &victims {
            let count = |pod: &SharedPod| counts.get(&pod.node_name).copied().unwrap_or(0);
            gone.insert(victim.pod.meta().name.clone());
            for rival in claimed.iter().filter(|pod| !gone.contains(&pod.meta().name)) {
                prop_assert!(class(&victim.pod) <= class(rival));
                if class(&victim.pod) == class(rival) {
                    prop_assert!(count(&victim.pod) >= count(rival), "{} before {}", victim.pod.meta().name, rival.meta().name);
                }
            }
            let lower = count(&victim.pod).saturating_sub(1);
            counts.insert(victim.pod.node_name.clone(), lower);
        }
    }
}

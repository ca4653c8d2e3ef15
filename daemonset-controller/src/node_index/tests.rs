use common::{intern::Text, meta::NamespacedName};
use jiff::SignedDuration;
use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;
use crate::{
    node_indexes::NodeIndexes,
    world::{SnapshotBuilder, decode_trimmed, pod, set_with_pods, set_without_pods},
};

fn actionable_nodes(node_index: &NodeIndex, set: &DaemonSet, burst: usize, world: &SnapshotBuilder) -> ActionableNodes {
    let SnapshotBuilder { refused_node_cursors: cursors, failed_pod_backoff, now, .. } = world;
    node_index.actionable_nodes(set, burst, cursors, DelayedPodCreations::default(), *now, failed_pod_backoff)
}

/// Formats everything in a node index that syncs depend on, so that two node indexes can be compared.
fn format_node_index(node_index: &NodeIndex, world: &SnapshotBuilder) -> String {
    let set: Arc<DaemonSet> = decode_trimmed(&world.set);
    let nodes = actionable_nodes(node_index, &set, 100, world);
    format!("{nodes:#?}\n{:#?}\n{:#?}", node_index.unselected_pods(), node_index.pod_revision_hashes)
}

#[derive(Clone, Debug)]
enum Step {
    Pod { node: usize, second: bool, state: usize },
    Node { node: usize, state: usize },
    Template(usize),
    Limits(usize),
    Failed { node: usize, seconds: i64 },
    Time(i64),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        4 => (0..4usize, any::<bool>(), 0..10usize).prop_map(|(node, second, state)| Step::Pod { node, second, state }),
        2 => (0..4usize, 0..4usize).prop_map(|(node, state)| Step::Node { node, state }),
        1 => (0..2usize).prop_map(Step::Template),
        1 => (0..4usize).prop_map(Step::Limits),
        1 => (0..4usize, 0..30i64).prop_map(|(node, seconds)| Step::Failed { node, seconds }),
        1 => (0..40i64).prop_map(Step::Time),
    ]
}

/// Returns a Pod in one of nine states by number; `None` for every other number.
fn pod_in_state(n: usize) -> Option<crate::world::PodBuilder> {
    Some(match n {
        0 => pod(),
        1 => pod().revision_hash("b"),
        2 => pod().ready(5),
        3 => pod().unready(),
        4 => pod().phase("Failed"),
        5 => pod().terminating(),
        6 => pod().pending(),
        7 => pod().label("app", "other"),
        // The owner reference has the uid of the DaemonSet and another name, so the Pod does not belong to the DaemonSet.
        8 => pod().owner_name("other"),
        _ => return None,
    })
}

proptest! {
    /// After any events, an updated node index equals a node index that is built from the caches.
    /// DAEMONSET-63.
    #[test]
    fn an_updated_node_index_equals_a_new_one(steps in prop::collection::vec(step(), 1..25)) {
        let mut world = set_with_pods(3).spec("minReadySeconds", json!(20));
        let mut hash = "a";
        let uid = &decode_trimmed::<DaemonSet>(&world.set).metadata.uid.clone();
        let key = NamespacedName::new("shop", "agent");
        let node_indexes = NodeIndexes::default();
        let with = |work: &mut dyn FnMut(&mut NodeIndex)| node_indexes.with_record(&key, uid, |record| record.node_index.as_mut().map(work));
        node_indexes.with_record(&key, uid, |record| record.node_index = Some(world.node_index(hash)));
        for step in steps {
            match step {
                Step::Pod { node, second, state: n } => {
                    let name = format!("p{node}{}", if second { "x" } else { "" });
                    let old = world.pods.iter().position(|pod| pod["metadata"]["name"] == *name).map(|at| world.pods.remove(at));
                    let new = pod_in_state(n).map(|pod| pod.build_named(&name, &format!("n{node}")));
                    let cached = |pod: &Option<Value>| pod.as_ref().map(decode_trimmed);
                    node_indexes.record_pod_change(cached(&old).as_ref(), cached(&new).as_ref());
                    world.pods.extend(new);
                }
                Step::Node { node, state } => {
                    let name = format!("n{node}");
                    world = match state {
                        0 => world.without_node(&name),
                        1 => world.taint(node, "NoSchedule"),
                        2 => world.taint(node, "NoExecute"),
                        _ => world.node(json!({"metadata": {"name": name}})),
                    };
                    node_indexes.record_node_change(&Text::new(&name));
                }
                Step::Template(n) => hash = ["a", "b"][n],
                Step::Limits(n) => {
                    let [unavailable, surge] = [[json!(1), json!(0)], [json!(0), json!("50%")], [json!(0), json!(2)], [json!("x"), json!(0)]][n].clone();
                    world = world.rolling_limits(unavailable, surge);
                }
                Step::Failed { node, seconds } => {
                    world = world.delay_failed_pods_until(node, seconds);
                    with(&mut |node_index| node_index.mark_contribution_undecided(&Text::new(&format!("n{node}"))));
                }
                Step::Time(seconds) => world.now += SignedDuration::from_secs(seconds),
            }
            let set: Arc<DaemonSet> = decode_trimmed(&world.set);
            let mut kept = String::new();
            with(&mut |node_index| {
                world.node_index_inputs().update(node_index, &set, hash, world.now);
                kept = format_node_index(node_index, &world);
            });
            prop_assert_eq!(kept, format_node_index(&world.node_index(hash), &world));
        }
    }
}

/// DAEMONSET-63.
#[test]
fn a_sync_decides_only_the_changed_nodes() {
    let mut world = set_with_pods(5000).spec("minReadySeconds", json!(60));
    let set: Arc<DaemonSet> = decode_trimmed(&world.set);
    let mut node_index = world.node_index("a");
    assert_eq!(node_index.take_node_decision_count(), 5000);
    let inputs = world.node_index_inputs();
    // Without an event, no contribution is decided again.
    inputs.update(&mut node_index, &set, "a", world.now);
    assert_eq!(node_index.take_node_decision_count(), 0);
    // After an event of one Pod, the contribution of one node is decided.
    let (old, new) = (pod().build_named("p7", "n7"), pod().ready(10).build_named("p7", "n7"));
    node_index.remove_pod(&decode_trimmed(&old));
    node_index.insert_pod(&decode_trimmed(&new));
    inputs.update(&mut node_index, &set, "a", world.now);
    assert_eq!(node_index.take_node_decision_count(), 1);
    // After a change of one node, the contribution of one node is decided.
    node_index.mark_eligibility_undecided(&Text::new("n9"));
    inputs.update(&mut node_index, &set, "a", world.now);
    assert_eq!(node_index.take_node_decision_count(), 1);
    // After one Pod has become available, the contribution of one node is decided.
    inputs.update(&mut node_index, &set, "a", world.now + SignedDuration::from_secs(50));
    assert_eq!(node_index.take_node_decision_count(), 1);
    // With a new revision, the contributions of all nodes are decided.
    inputs.update(&mut node_index, &set, "b", world.now + SignedDuration::from_secs(50));
    assert_eq!(node_index.take_node_decision_count(), 5000);
    // The snapshot lists only one of the 5000 outdated nodes, because `maxUnavailable` is 1. No node blocks the rollout.
    let nodes = actionable_nodes(&node_index, &set, 250, &world);
    assert_eq!(
        (nodes.nodes_with_available_outdated_pod.nodes.len(), nodes.nodes_with_available_outdated_pod.total_count),
        (1, 5000)
    );
    assert_eq!(nodes.blocking_nodes.nodes.len(), 0);
    drop(inputs);
    world = world.rolling_limits(json!("100%"), json!(0));
    let set: Arc<DaemonSet> = decode_trimmed(&world.set);
    assert_eq!(actionable_nodes(&node_index, &set, 250, &world).nodes_with_available_outdated_pod.nodes.len(), 250);
}

#[test]
fn nodes_without_pods_on_which_none_should_run_are_not_kept() {
    let mut placed = crate::world::template("a");
    placed["spec"]["nodeSelector"] = json!({"disk": "ssd"});
    let world = set_without_pods(100)
        .spec("template", placed)
        .node(json!({"metadata": {"name": "n5", "labels": {"disk": "ssd"}}}))
        .pod(8, pod());
    let mut node_index = world.node_index("a");
    assert_eq!(node_index.nodes.keys().map(Text::as_str).collect::<Vec<_>>(), ["n5", "n8"]);
    let removed: Value = world.pods[0].clone();
    node_index.remove_pod(&decode_trimmed(&removed));
    world.node_index_inputs().update(&mut node_index, &decode_trimmed::<DaemonSet>(&world.set), "a", world.now);
    assert_eq!(node_index.nodes.keys().map(Text::as_str).collect::<Vec<_>>(), ["n5"]);
}

//! The deletion order with `--tune rerank-as-pods-are-chosen=true`: each chosen Pod lowers the Pod count of its node.

use std::{
    cmp::Reverse,
    collections::{BTreeMap, BinaryHeap, VecDeque},
};

use common::pods::{DeletionCandidate, Phase, rank_for_deletion};
use jiff::Timestamp;

/// The inputs of deletion rules 1 to 4: assigned to a node, phase, ready, cost. The Pod with the lowest value is deleted first.
type DeletionClass = (bool, u8, bool, i32);

fn deletion_class(candidate: &DeletionCandidate<'_>) -> DeletionClass {
    let pod = candidate.pod;
    let phase = match pod.phase {
        Phase::Running => 2,
        Phase::Unknown => 1,
        Phase::Pending | Phase::Succeeded | Phase::Failed | Phase::Other => 0,
    };
    (!pod.node_name.is_empty(), phase, pod.is_ready(), candidate.deletion_cost)
}

/// Returns the deletion order as indexes of `candidates`. Sets `colocated_pod_count` of each candidate to the count of its node
/// when the candidate is chosen.
///
/// Among Pods that are equal by rules 1 to 4, the next Pod is taken from the node with the highest remaining count; on that
/// node, age, restarts and UID decide. A scale-down therefore balances nodes. With the initial counts, a scale-down
/// would empty the fullest node (kubernetes/kubernetes#102948).
pub(super) fn rank_with_decreasing_pod_counts(candidates: &mut [DeletionCandidate<'_>], now: Timestamp) -> Vec<usize> {
    let level: Vec<DeletionCandidate<'_>> =
        candidates.iter().map(|c| DeletionCandidate { colocated_pod_count: 0, ..*c }).collect();
    let by_age = rank_for_deletion(&level, now);
    let mut counts: BTreeMap<&str, usize> =
        candidates.iter().map(|c| (c.pod.node_name.as_str(), c.colocated_pod_count)).collect();
    let mut order = Vec::with_capacity(by_age.len());
    for equals in by_age.chunk_by(|a, b| deletion_class(&level[*a]) == deletion_class(&level[*b])) {
        let mut nodes: BTreeMap<&str, VecDeque<(usize, usize)>> = BTreeMap::new();
        for (place, at) in equals.iter().enumerate() {
            nodes.entry(level[*at].pod.node_name.as_str()).or_default().push_back((place, *at));
        }
        let turn = |counts: &BTreeMap<&str, usize>, node, pods: &VecDeque<(usize, usize)>| {
            let (place, _) = pods.front()?;
            Some((counts.get(node).copied().unwrap_or(0), Reverse(*place), node))
        };
        let mut turns: BinaryHeap<(usize, Reverse<usize>, &str)> =
            nodes.iter().filter_map(|(node, pods)| turn(&counts, *node, pods)).collect();
        while let Some((count, _, node)) = turns.pop() {
            let Some(pods) = nodes.get_mut(node) else { continue };
            let Some((_, at)) = pods.pop_front() else { continue };
            order.push(at);
            candidates[at].colocated_pod_count = count;
            counts.insert(node, count.saturating_sub(1));
            turns.extend(turn(&counts, node, pods));
        }
    }
    order
}

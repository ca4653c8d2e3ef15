//! Takes the snapshot of a pass: the Pods that the pass may remove, and the missing nodes.

use std::{collections::BTreeMap, sync::Arc};

use common::{clock::Instant, intern::Text};

use super::{
    decide::excess_finished_pod_count,
    ended::FinishedPods,
    quarantine::NodeQuarantine,
    snapshot::{MAX_FINISHED_PODS_PER_CHUNK, MAX_NODES_PER_PASS, PodGcSettings, Snapshot},
};
use crate::{caches::CacheView, objects::CachedPod};

/// Takes the snapshot of a pass. Changes nothing, so that `/debug/explain` can call this function.
///
/// The cost grows with the number of nodes and the number of Pods to remove, not with the number of all Pods.
pub(super) fn observe(
    caches: CacheView<'_>,
    ended: &FinishedPods,
    quarantine: NodeQuarantine,
    now: Instant,
    limits: PodGcSettings,
) -> Snapshot {
    let ended_count = ended.len();
    let ended = ended.pods_after(
        excess_finished_pod_count(ended_count, limits.finished_pod_threshold).min(MAX_FINISHED_PODS_PER_CHUNK),
        None,
    );
    let missing = caches.names_of_missing_nodes();
    let pods_of_due: BTreeMap<Text, Vec<Arc<CachedPod>>> = quarantine
        .node_names_after_quarantine(&missing, now, limits.quarantine_period)
        .take(MAX_NODES_PER_PASS)
        .map(|node| (node.clone(), caches.pods_on_node(node)))
        .collect();
    let out_of_service = |name: Text| {
        let node = caches.node(&name).filter(|node| node.is_out_of_service())?;
        Some((node, caches.terminating_pods_on_node(&name)))
    };
    let terminating = caches.node_names_of_terminating_pods().into_iter().filter_map(out_of_service).collect();
    let unscheduled = caches.terminating_pods_on_node("");
    Snapshot {
        finished_pods_to_remove: ended,
        finished_pod_count: ended_count,
        terminating_pods_of_out_of_service_nodes: terminating,
        terminating_pods_without_node: unscheduled,
        names_of_missing_nodes: missing,
        pods_of_nodes_after_quarantine: pods_of_due,
        quarantine,
        settings: limits,
        now,
    }
}

#[cfg(test)]
mod tests;

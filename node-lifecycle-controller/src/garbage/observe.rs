//! Takes the snapshot of a pass: the Pods that the pass may remove, and the missing nodes.

use std::{collections::BTreeMap, sync::Arc};

use common::{clock::Instant, intern::Text};

use super::{
    decide::excess,
    ended::EndedPods,
    quarantine::Quarantine,
    snapshot::{CHUNK, Limits, NODES_PER_PASS, Snapshot},
};
use crate::{caches::CacheView, objects::CachedPod};

/// Takes the snapshot of a pass. Changes nothing, so `/debug/explain` can call this function as well.
///
/// The cost grows with the number of nodes and the number of Pods to remove, not with the number of all Pods.
pub(super) fn observe(
    caches: CacheView<'_>,
    ended: &EndedPods,
    quarantine: Quarantine,
    now: Instant,
    limits: Limits,
) -> Snapshot {
    let ended_count = ended.len();
    let ended = ended.first(excess(ended_count, limits.threshold).min(CHUNK), None);
    let missing = caches.missing_nodes();
    let pods_of_due: BTreeMap<Text, Vec<Arc<CachedPod>>> = quarantine
        .due(&missing, now, limits.quarantine_period)
        .take(NODES_PER_PASS)
        .map(|node| (node.clone(), caches.pods_of(node)))
        .collect();
    let out_of_service = |name: Text| {
        let node = caches.node(&name).filter(|node| node.is_out_of_service())?;
        Some((node, caches.terminating_pods_of(&name)))
    };
    let terminating = caches.nodes_of_terminating_pods().into_iter().filter_map(out_of_service).collect();
    let unscheduled = caches.terminating_pods_of("");
    Snapshot { ended, ended_count, terminating, unscheduled, missing, pods_of_due, quarantine, limits, now }
}

#[cfg(test)]
mod tests;

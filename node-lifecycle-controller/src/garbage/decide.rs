//! Decides which Pods a pass of the Pod garbage collector removes.

use std::{
    cmp::{Ordering, Reverse},
    collections::BTreeSet,
    sync::Arc,
};

use common::{intern::Text, pods::Phase};

use super::{
    plan::{OfNode, Plan, Reason, Victim},
    snapshot::Snapshot,
};
use crate::objects::CachedPod;

/// Returns the number of ended Pods above the threshold; 0 if the threshold is 0 or less.
pub(crate) fn excess(ended_count: usize, threshold: i64) -> usize {
    match usize::try_from(threshold) {
        Ok(0) | Err(_) => 0,
        Ok(threshold) => ended_count.saturating_sub(threshold),
    }
}

/// Decides which Pods a pass removes. Upstream: `pkg/controller/podgc`, `gc`.
pub(crate) fn decide(snapshot: &Snapshot) -> Plan {
    let Snapshot { missing, quarantine, limits, now, ended_count, .. } = snapshot;
    let out_of_service = snapshot.terminating.iter().filter(|(node, _)| node.is_out_of_service());
    let out_of_service = out_of_service
        .map(|(node, pods)| OfNode { node: Text::new(&node.metadata.name), pods: victims(pods, Reason::OutOfService) });
    let orphaned =
        |(node, pods): (&Text, &Vec<_>)| OfNode { node: node.clone(), pods: victims(pods, Reason::Orphaned) };
    let due: BTreeSet<&Text> = quarantine.due(missing, *now, limits.quarantine_period).collect();
    Plan {
        terminated: victims(&snapshot.ended, Reason::Terminated),
        excess: excess(*ended_count, limits.threshold),
        out_of_service: out_of_service.collect(),
        orphaned: snapshot.pods_of_due.iter().map(orphaned).collect(),
        unscheduled: victims(&snapshot.unscheduled, Reason::Unscheduled),
        quarantine: quarantine.next(missing, snapshot.pods_of_due.keys(), *now),
        quarantined: missing.iter().filter(|node| !due.contains(node)).cloned().collect(),
        is_partial: due.len() > snapshot.pods_of_due.len(),
        ended_count: *ended_count,
        limits: *limits,
    }
}

fn victims(pods: &[Arc<CachedPod>], reason: Reason) -> Vec<Victim> {
    pods.iter().map(|pod| Victim { pod: Arc::clone(pod), reason }).collect()
}

/// Compares ended Pods by the order of removal: evicted Pods first, then older Pods, then by name and namespace.
pub(crate) fn removal_order(a: &Arc<CachedPod>, b: &Arc<CachedPod>) -> Ordering {
    let is_evicted = |pod: &CachedPod| pod.phase == Phase::Failed && pod.evicted;
    let order = Reverse(is_evicted(a)).cmp(&Reverse(is_evicted(b)));
    let order = order.then_with(|| a.meta.created.cmp(&b.meta.created));
    order.then_with(|| a.meta.name.cmp(&b.meta.name)).then_with(|| a.meta.namespace.as_str().cmp(&b.meta.namespace))
}

#[cfg(test)]
mod tests;

//! When the newest change happened that a sync is about.

use std::sync::Arc;

use jiff::Timestamp;

use crate::{memory::Seen, snapshot::Snapshot};

/// The earliest change since the last sync, as slices tell it, and what has been seen now.
///
/// Upstream: `staging/src/k8s.io/endpointslice/util`, `ComputeEndpointLastChangeTriggerTime`.
pub fn newest_change(snapshot: &Snapshot) -> (Option<String>, Seen) {
    let pods = snapshot.members.iter().map(|member| &member.pod);
    let pods = pods.filter_map(|pod| Some((Arc::clone(&pod.metadata.name), pod.ready_changed?)));
    let now = Seen { service: snapshot.service.metadata.created.unwrap_or_default(), pods: pods.collect() };
    let earliest = since(snapshot.memory.seen.as_deref(), &now);
    (earliest.map(|time| time.to_string()), now)
}

/// The earliest of the changes that were not seen before. Of a Service that was never seen, that it was created.
pub fn since(before: Option<&Seen>, now: &Seen) -> Option<Timestamp> {
    let Some(before) = before else { return Some(now.service) };
    let known = |name: &Arc<str>| {
        let at = before.pods.binary_search_by(|(other, _)| other.cmp(name)).ok()?;
        Some(before.pods[at].1)
    };
    let pods =
        now.pods.iter().filter(|(name, time)| known(name).is_none_or(|seen| *time > seen)).map(|(_, time)| *time);
    let service = (now.service > before.service).then_some(now.service);
    pods.chain(service).min()
}

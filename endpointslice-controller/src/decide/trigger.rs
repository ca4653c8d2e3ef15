//! The trigger time of a sync: the time of the change that caused the sync.

use std::sync::Arc;

use jiff::Timestamp;

use crate::{by_name::Pods, memory::Seen, objects::Service};

/// Returns the time of the earliest change since the last sync, as the annotation shows it, and the state in this sync.
///
/// Upstream: `staging/src/k8s.io/endpointslice/util`, `ComputeEndpointLastChangeTriggerTime`.
pub fn trigger_time(before: Option<&Seen>, service: &Service, pods: &Pods) -> (Option<String>, Seen) {
    let now = Seen { service: service.metadata.created.unwrap_or_default(), pods: pods.clone() };
    (earliest_change(before, &now).map(|time| time.to_string()), now)
}

/// Returns the time of the earliest change between two syncs; without a state `before`, the creation time of the Service.
pub fn earliest_change(before: Option<&Seen>, now: &Seen) -> Option<Timestamp> {
    let Some(before) = before else { return Some(now.service) };
    let mut earliest = (now.service > before.service).then_some(now.service);
    for (old, new) in Pods::differences(&before.pods, &now.pods, Arc::ptr_eq) {
        let Some(time) = new.and_then(|new| new.ready_changed) else { continue };
        if old.and_then(|old| old.ready_changed).is_none_or(|seen| time > seen) {
            earliest = Some(earliest.map_or(time, |earliest| earliest.min(time)));
        }
    }
    earliest
}

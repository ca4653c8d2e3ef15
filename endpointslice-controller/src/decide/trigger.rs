//! The time of the change that a sync reacts to.

use std::{cmp::Ordering, sync::Arc};

use jiff::Timestamp;

use crate::{
    memory::Seen,
    objects::{Pod, Service},
};

/// The earliest change since the last sync, as slices show it, and what this sync has seen.
///
/// Upstream: `staging/src/k8s.io/endpointslice/util`, `ComputeEndpointLastChangeTriggerTime`.
pub fn trigger_time(before: Option<&Seen>, service: &Service, pods: &Arc<[Arc<Pod>]>) -> (Option<String>, Seen) {
    let now = Seen { service: service.metadata.created.unwrap_or_default(), pods: Arc::clone(pods) };
    (earliest_change(before, &now).map(|time| time.to_string()), now)
}

/// The earliest change that was not seen before; for a Service that was never seen, the time of its creation.
pub fn earliest_change(before: Option<&Seen>, now: &Seen) -> Option<Timestamp> {
    let Some(before) = before else { return Some(now.service) };
    let mut earliest = (now.service > before.service).then_some(now.service);
    if Arc::ptr_eq(&before.pods, &now.pods) {
        return earliest;
    }
    // Both lists are sorted by name.
    let mut old = before.pods.iter().peekable();
    for new in now.pods.iter() {
        let mut known = None;
        while let Some(candidate) = old.peek() {
            if Arc::ptr_eq(candidate, new) {
                known = old.next();
                break;
            }
            match candidate.metadata.name.cmp(&new.metadata.name) {
                Ordering::Less => drop(old.next()),
                Ordering::Equal => {
                    known = old.next();
                    break;
                }
                Ordering::Greater => break,
            }
        }
        let Some(time) = new.ready_changed else { continue };
        if known.and_then(|known| known.ready_changed).is_none_or(|seen| time > seen) {
            earliest = Some(earliest.map_or(time, |earliest| earliest.min(time)));
        }
    }
    earliest
}

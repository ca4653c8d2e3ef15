//! The trigger time: the time of the first change that caused a sync, as consumers read it in an annotation.

use std::sync::Arc;

use jiff::Timestamp;

use crate::{
    memory::SyncedServiceState,
    objects::{NameSortedPods, Service},
};

/// Returns the time of the earliest change since the last sync, as a text for the annotation, and the state for the next sync.
///
/// Upstream: `staging/src/k8s.io/endpointslice/util`, `ComputeEndpointLastChangeTriggerTime`.
pub fn trigger_time_and_synced_state(
    last_state: Option<&SyncedServiceState>,
    service: &Service,
    pods: &NameSortedPods,
) -> (Option<String>, SyncedServiceState) {
    let state = SyncedServiceState {
        service_creation_time: service.metadata.creation_timestamp.unwrap_or_default(),
        pods: pods.clone(),
    };
    (earliest_change_time(last_state, &state).map(|time| time.to_string()), state)
}

/// Returns the time of the earliest change between two syncs. In the first sync, this is the creation time of the Service.
pub fn earliest_change_time(last_state: Option<&SyncedServiceState>, state: &SyncedServiceState) -> Option<Timestamp> {
    let Some(last_state) = last_state else { return Some(state.service_creation_time) };
    let mut earliest =
        (state.service_creation_time > last_state.service_creation_time).then_some(state.service_creation_time);
    for (old, new) in NameSortedPods::entry_differences(&last_state.pods, &state.pods, Arc::ptr_eq) {
        let Some(time) = new.and_then(|new| new.readiness_changed_at) else { continue };
        if old.and_then(|old| old.readiness_changed_at).is_none_or(|seen| time > seen) {
            earliest = Some(earliest.map_or(time, |earliest| earliest.min(time)));
        }
    }
    earliest
}

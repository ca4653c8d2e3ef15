//! Decides the slices of a Service.
//!
//! [`scope`] finds the Pods and slices that have changed, [`desired`] turns Pods into candidates, [`pack`] assigns them to
//! slices, and [`distribution`] sets hints.

pub mod desired;
pub mod distribution;
pub mod pack;
pub mod scope;
pub mod slice_metadata;
pub mod zones;

use std::{collections::BTreeMap, sync::Arc};

use super::{
    plan::{HintMetricLabels, Plan},
    snapshot::Snapshot,
};
use crate::{
    address,
    decide::{
        trigger,
        write_order::{SliceCreationPermission, order_writes},
    },
    objects::{AddressType, Service, Slice},
    plan::{DeferredWriteCounts, SliceDraft, SliceWrites, SyncCounts},
    pods_in_slices::{AddressTypePodsInSlices, PodsInSlices, PortGroupSize},
};
use distribution::HintPolicy;
use pack::{SliceLimits, SlicesByNeededWrite};
use scope::PodsAndSlicesToCompare;

/// Decides the writes for the slices of a Service.
///
/// Upstream: `pkg/controller/endpointslice`, `syncService`, and `staging/src/k8s.io/endpointslice`, `Reconcile`.
pub fn decide(snapshot: &Snapshot) -> Plan {
    let Snapshot { service, memory, .. } = snapshot;
    let mut plan = Plan { memory: memory.clone(), ..Plan::default() };
    plan.memory.pods_in_slices = None;
    if !service.has_applicable_selector() {
        plan.memory.hint_counts.clear();
        plan.memory.has_emitted_hints_enabled_event = false;
        return plan;
    }
    plan.is_managed_service = true;
    let (trigger_time, seen) =
        trigger::trigger_time_and_synced_state(memory.synced_state.as_deref(), service, &snapshot.pods);
    plan.memory.synced_state = Some(Arc::new(seen));
    plan.slice_metadata = slice_metadata::slice_metadata(service, trigger_time);
    let distribution = HintPolicy::from_service(service);
    plan.hint_metric_labels = HintMetricLabels {
        is_hinted_by_capacity: matches!(distribution, HintPolicy::ByCapacity),
        traffic_distribution: distribution.effective_traffic_distribution(service),
    };
    let kinds = address_types(service);
    let mut max_new_ports = snapshot.max_new_slice_ports;
    let mut of_types = BTreeMap::new();
    for kind in &kinds {
        let slices: Vec<Arc<Slice>> =
            snapshot.slices.iter().filter(|slice| slice.has_address_type(*kind)).cloned().collect();
        let (writes, packing) =
            decide_address_type(snapshot, *kind, &slices, distribution, &mut max_new_ports, &mut plan);
        plan.slice_writes.push(writes);
        of_types.extend(packing.map(|packing| (*kind, packing)));
    }
    if !of_types.is_empty() {
        plan.memory.pods_in_slices = Some(Arc::new(PodsInSlices {
            service: Arc::clone(service),
            zones_by_node: Arc::clone(&snapshot.zones_by_node),
            max_endpoints_per_slice: snapshot.max_endpoints_per_slice,
            pods: snapshot.pods.clone(),
            by_address_type: of_types,
        }));
    }
    let unsupported = |slice: &&Arc<Slice>| kinds.iter().all(|kind| !slice.has_address_type(*kind));
    plan.slices_of_unused_address_types = snapshot.slices.iter().filter(unsupported).cloned().collect();
    plan.memory.hint_counts.retain(|kind, _| kinds.contains(kind));
    plan
}

/// Returns the address types that a Service needs: its IP families, or else the family of its cluster IP, or else both.
pub fn address_types(service: &Service) -> Vec<AddressType> {
    let spec = &service.spec;
    let named = |name: &str| match name {
        "IPv4" => Some(AddressType::Ipv4),
        "IPv6" => Some(AddressType::Ipv6),
        _ => None,
    };
    let mut kinds: Vec<AddressType> = spec.ip_families.iter().filter_map(|name| named(name)).collect();
    if spec.ip_families.is_empty() {
        kinds = match address::parse_ip(&spec.cluster_ip) {
            Some(address) => vec![address::address_type_of(address)],
            None => vec![AddressType::Ipv4, AddressType::Ipv6],
        };
    }
    kinds.dedup();
    kinds
}

fn decide_address_type(
    snapshot: &Snapshot,
    kind: AddressType,
    slices: &[Arc<Slice>],
    distribution: HintPolicy,
    max_new_ports: &mut usize,
    plan: &mut Plan,
) -> (SliceWrites, Option<AddressTypePodsInSlices>) {
    let service = &snapshot.service;
    let max_endpoints = snapshot.max_endpoints_per_slice;
    let limits = SliceLimits { max_endpoints_per_slice: max_endpoints, remaining_new_slice_ports: max_new_ports };
    let whole = || PodsAndSlicesToCompare::with_all_pods_and_slices(snapshot, slices);
    let mut scope = PodsAndSlicesToCompare::with_changes_since_last_sync(snapshot, kind, slices).unwrap_or_else(whole);
    let mut desired = scope.wanted_endpoints(snapshot, kind);
    if scope.last_pods_in_slices.is_some() && pack::may_exceed_port_limit(&desired, &limits) {
        scope = whole();
        desired = scope.wanted_endpoints(snapshot, kind);
    }
    let (left_out, eligible) = (
        std::mem::take(&mut desired.omitted_pod_messages),
        std::mem::take(&mut desired.eligible_pods_with_port_numbers),
    );
    let sizes = desired.port_group_sizes();
    let size = |size: &PortGroupSize| size.candidate_pod_count;
    let mut counts = SyncCounts {
        wanted_endpoint_count: sizes.values().map(size).sum(),
        min_slice_count: sizes.values().map(|group| size(group).div_ceil(max_endpoints)).sum::<usize>().max(1),
        ..SyncCounts::default()
    };
    let mut sorted = pack::pack_endpoints_into_slices(
        service,
        &plan.slice_metadata,
        std::mem::take(&mut scope.existing_slices),
        desired,
        limits,
    );
    (counts.added_endpoint_count, counts.removed_endpoint_count) =
        (sorted.added_endpoint_count, sorted.removed_endpoint_count);
    ensure_placeholder(&mut sorted, plan, service, slices.len());
    let events = distribution::set_hints(&mut sorted, plan, snapshot, kind, distribution);
    sorted.drop_needless_slice_updates(&plan.slice_metadata);
    counts.wanted_slice_count = sorted.wanted_slice_count();
    // The next sync can use the record only if hints do not depend on all endpoints and no endpoint is omitted or deferred.
    let is_known = distribution != HintPolicy::ByCapacity
        && left_out.is_empty()
        && sorted.deferred_write_counts == DeferredWriteCounts::default();
    let is_large = snapshot.pods.len() >= snapshot.min_pods_to_record_slices;
    let packing = (is_known && is_large).then(|| scope.pods_in_slices_for_next_sync(&eligible, sizes, &sorted));
    let SlicesByNeededWrite {
        slices_to_create: create,
        slices_to_update: update,
        slices_to_delete: delete,
        deferred_write_counts: put_off,
        ..
    } = sorted;
    let creation = if service.metadata.is_deleting() {
        SliceCreationPermission::Forbidden
    } else {
        SliceCreationPermission::Allowed
    };
    let ordered = order_writes(create, update, delete, creation, |slice| slice.is_owned_by(service));
    (
        SliceWrites {
            address_type: kind,
            omitted_pod_messages: left_out,
            deferred_write_counts: put_off,
            events,
            sync_counts: counts,
            ..ordered
        },
        packing,
    )
}

/// Keeps or creates an empty slice if the Service would otherwise have no slice after the sync.
fn ensure_placeholder(sorted: &mut SlicesByNeededWrite, plan: &Plan, service: &Service, there: usize) {
    if sorted.slices_to_delete.len() < there
        || !sorted.slices_to_create.is_empty()
        || sorted.deferred_write_counts != DeferredWriteCounts::default()
    {
        return;
    }
    let stands = |slice: &Slice| {
        slice.endpoints.is_empty()
            && slice.ports.is_empty()
            && slice.is_owned_by(service)
            && slice_metadata::is_equal_ignoring_empty_labels(&slice.metadata.labels, &plan.slice_metadata.labels)
    };
    match sorted.slices_to_delete.as_slice() {
        [only] if stands(only) => sorted.unchanged_slices.append(&mut sorted.slices_to_delete),
        _ => sorted.slices_to_create.push(SliceDraft::new(Arc::default())),
    }
}

#[cfg(test)]
mod tests;

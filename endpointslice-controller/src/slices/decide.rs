//! Decides the slices of a Service. Pure code: no requests, no clock, no randomness.
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

use common::prelude::SyncPlan;

use self::{
    distribution::HintPolicy,
    pack::{SliceLimits, SlicesByNeededWrite},
    scope::PodsAndSlicesToCompare,
};
use crate::{
    address,
    decide::{
        trigger,
        write_order::{SliceCreationPermission, order_writes},
    },
    memory::ServiceMemory,
    objects::{AddressType, NameSortedPods, Service, Slice},
    plan::{DeferredWriteCounts, SliceDraft, SliceMetadata, SliceWrites, SyncCounts, describe_wanted_counts},
    pods_in_slices::{AddressTypePodsInSlices, PodsInSlices},
    zones::{ZoneCpuShares, ZonesByNode},
};

/// The value of [`Snapshot::max_new_slice_ports`]. A Service with 100 ports reaches this limit with 5,000 new slices in one sync.
pub const MAX_NEW_SLICE_PORTS: usize = 500_000;

/// Everything that a sync reads: a Service, its Pods, its slices and the topology.
#[derive(Clone, Debug)]
pub struct Snapshot {
    /// The Service in the cache, with or without a selector.
    pub service: Arc<Service>,
    /// Selected Pods, sorted by name; empty without a selector.
    pub pods: NameSortedPods,
    /// The zone of each Node.
    pub zones_by_node: Arc<ZonesByNode>,
    /// Slices that this loop manages for the Service, sorted by name, without terminating slices.
    pub slices: Vec<Arc<Slice>>,
    /// The controller's memory of the Service; empty before the first sync.
    pub memory: ServiceMemory,
    /// The share of each zone in the CPU of all zones; `None` if unknown, or if the Service has no hints by capacity.
    pub zone_cpu_shares: Option<Arc<ZoneCpuShares>>,
    /// The number of endpoints at which a slice is full, from `--max-endpoints-per-slice`.
    pub max_endpoints_per_slice: usize,
    /// The total number of ports in new slices at which a sync stops creating slices.
    pub max_new_slice_ports: usize,
    /// The minimum number of Pods for which a sync remembers the slice of each Pod.
    pub min_pods_to_record_slices: usize,
}

/// The wanted writes of one sync, and the memory for the next sync.
#[derive(Clone, Debug, Default)]
pub struct Plan {
    /// Whether this loop manages the slices: the Service has a selector and is not an `ExternalName`.
    pub is_managed_service: bool,
    /// The metadata of every written slice.
    pub slice_metadata: SliceMetadata,
    /// Writes for each address type of the Service.
    pub slice_writes: Vec<SliceWrites>,
    /// Slices with an address type that the Service does not use. They are deleted last.
    pub slices_of_unused_address_types: Vec<Arc<Slice>>,
    /// The memory of the Service for the next sync.
    pub memory: ServiceMemory,
    /// The kind of hints, for metrics.
    pub hint_policy: HintPolicy,
    /// The value of `spec.trafficDistribution`, for metrics; `None` if it has no effect.
    pub traffic_distribution: Option<&'static str>,
}

impl SyncPlan for Plan {
    fn situation(&self) -> String {
        if !self.is_managed_service {
            return "the Service has no selector or is an ExternalName: its slices are not managed".to_owned();
        }
        describe_wanted_counts(&self.slice_writes)
    }

    fn wait_reasons(&self) -> Vec<String> {
        let mut out = Vec::new();
        for writes in &self.slice_writes {
            out.extend(writes.omitted_pod_messages.iter().cloned());
            let SliceWrites { address_type, deferred_write_counts, .. } = writes;
            if *deferred_write_counts != DeferredWriteCounts::default() {
                let DeferredWriteCounts { endpoint_count, slice_count } = deferred_write_counts;
                out.push(format!(
                    "the number of ports in the new slices of one sync is limited: {endpoint_count} {address_type} endpoints \
                     and {slice_count} slices are deferred to the next sync"
                ));
            }
        }
        out
    }
}

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
    let (trigger_time, synced_state) =
        trigger::trigger_time_and_synced_state(memory.synced_state.as_deref(), service, &snapshot.pods);
    plan.memory.synced_state = Some(Arc::new(synced_state));
    plan.slice_metadata = slice_metadata::slice_metadata(service, trigger_time);
    plan.hint_policy = HintPolicy::from_service(service);
    plan.traffic_distribution = plan.hint_policy.effective_traffic_distribution(service);
    let address_types = address_types(service);
    let mut remaining_ports = snapshot.max_new_slice_ports;
    let mut by_address_type = BTreeMap::new();
    for address_type in &address_types {
        let slices: Vec<Arc<Slice>> =
            snapshot.slices.iter().filter(|slice| slice.has_address_type(*address_type)).cloned().collect();
        let (writes, pods_in_slices) =
            decide_address_type(snapshot, *address_type, &slices, &mut remaining_ports, &mut plan);
        plan.slice_writes.push(writes);
        by_address_type.extend(pods_in_slices.map(|pods_in_slices| (*address_type, pods_in_slices)));
    }
    if !by_address_type.is_empty() {
        plan.memory.pods_in_slices = Some(Arc::new(PodsInSlices {
            service: Arc::clone(service),
            zones_by_node: Arc::clone(&snapshot.zones_by_node),
            max_endpoints_per_slice: snapshot.max_endpoints_per_slice,
            pods: snapshot.pods.clone(),
            by_address_type,
        }));
    }
    let is_unused = |slice: &&Arc<Slice>| !address_types.iter().any(|used| slice.has_address_type(*used));
    plan.slices_of_unused_address_types = snapshot.slices.iter().filter(is_unused).cloned().collect();
    plan.memory.hint_counts.retain(|address_type, _| address_types.contains(address_type));
    plan
}

/// Returns the address types that a Service needs: its IP families, or else the family of its cluster IP, or else both.
pub fn address_types(service: &Service) -> Vec<AddressType> {
    let spec = &service.spec;
    if spec.ip_families.is_empty() {
        let of_cluster_ip = address::parse_ip(&spec.cluster_ip).map(|ip| vec![address::address_type_of(ip)]);
        return of_cluster_ip.unwrap_or_else(|| vec![AddressType::Ipv4, AddressType::Ipv6]);
    }
    let mut address_types: Vec<AddressType> =
        spec.ip_families.iter().filter_map(|family| AddressType::of_ip_family(family)).collect();
    address_types.dedup();
    address_types
}

fn decide_address_type(
    snapshot: &Snapshot,
    address_type: AddressType,
    slices: &[Arc<Slice>],
    remaining_new_slice_ports: &mut usize,
    plan: &mut Plan,
) -> (SliceWrites, Option<AddressTypePodsInSlices>) {
    let Snapshot { service, max_endpoints_per_slice, .. } = snapshot;
    let limits = SliceLimits { max_endpoints_per_slice: *max_endpoints_per_slice, remaining_new_slice_ports };
    let all = || PodsAndSlicesToCompare::with_all_pods_and_slices(snapshot, slices);
    let mut scope =
        PodsAndSlicesToCompare::with_changes_since_last_sync(snapshot, address_type, slices).unwrap_or_else(all);
    let mut wanted = desired::wanted_endpoints_of_pods(snapshot, &scope.pods, scope.sizes.clone(), address_type);
    if scope.last_pods_in_slices.is_some() && pack::may_exceed_port_limit(&wanted, &limits) {
        scope = all();
        wanted = desired::wanted_endpoints_of_pods(snapshot, &scope.pods, scope.sizes.clone(), address_type);
    }
    let omitted_pod_messages = std::mem::take(&mut wanted.omitted_pod_messages);
    let eligible_pods = std::mem::take(&mut wanted.eligible_pods_with_port_numbers);
    let sizes = wanted.port_group_sizes();
    let candidate_counts = sizes.values().map(|size| size.candidate_pod_count);
    let wanted_endpoint_count = candidate_counts.clone().sum();
    let min_slice_count = candidate_counts.map(|count| count.div_ceil(*max_endpoints_per_slice)).sum::<usize>().max(1);
    let existing_slices = std::mem::take(&mut scope.existing_slices);
    let mut sorted = pack::pack_endpoints_into_slices(service, &plan.slice_metadata, existing_slices, wanted, limits);
    ensure_placeholder(&mut sorted, plan, service, slices.len());
    let events = distribution::set_hints(&mut sorted, plan, snapshot, address_type);
    sorted.drop_needless_slice_updates(&plan.slice_metadata);
    let sync_counts = SyncCounts {
        added_endpoint_count: sorted.added_endpoint_count,
        removed_endpoint_count: sorted.removed_endpoint_count,
        wanted_endpoint_count,
        wanted_slice_count: sorted.wanted_slice_count(),
        min_slice_count,
    };
    // The next sync can use the record only if hints do not depend on all endpoints and no endpoint is omitted or deferred.
    let is_known = plan.hint_policy != HintPolicy::ByCapacity
        && omitted_pod_messages.is_empty()
        && sorted.deferred_write_counts == DeferredWriteCounts::default();
    let is_large = snapshot.pods.len() >= snapshot.min_pods_to_record_slices;
    let pods_in_slices =
        (is_known && is_large).then(|| scope.pods_in_slices_for_next_sync(&eligible_pods, sizes, &sorted));
    let SlicesByNeededWrite { slices_to_create, slices_to_update, slices_to_delete, deferred_write_counts, .. } =
        sorted;
    let permission = SliceCreationPermission::for_owner(&service.metadata);
    let may_reuse = |slice: &Slice| slice.is_owned_by(service);
    let ordered = order_writes(slices_to_create, slices_to_update, slices_to_delete, permission, may_reuse);
    let writes =
        SliceWrites { address_type, omitted_pod_messages, deferred_write_counts, events, sync_counts, ..ordered };
    (writes, pods_in_slices)
}

/// Keeps or creates an empty slice if the Service would otherwise have no slice after the sync.
fn ensure_placeholder(slices: &mut SlicesByNeededWrite, plan: &Plan, service: &Service, slice_count: usize) {
    if slices.slices_to_delete.len() < slice_count
        || !slices.slices_to_create.is_empty()
        || slices.deferred_write_counts != DeferredWriteCounts::default()
    {
        return;
    }
    let is_placeholder = |slice: &Slice| {
        slice.endpoints.is_empty()
            && slice.ports.is_empty()
            && slice.is_owned_by(service)
            && slice_metadata::is_equal_ignoring_empty_labels(&slice.metadata.labels, &plan.slice_metadata.labels)
    };
    match slices.slices_to_delete.as_slice() {
        [only] if is_placeholder(only) => slices.unchanged_slices.append(&mut slices.slices_to_delete),
        _ => slices.slices_to_create.push(SliceDraft::new(Arc::default())),
    }
}

#[cfg(test)]
mod tests;

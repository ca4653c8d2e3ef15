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
    plan::{Plan, Spread},
    snapshot::Snapshot,
};
use crate::{
    address,
    decide::{
        trigger,
        write_order::{Creation, order_writes},
    },
    objects::{AddressType, Service, Slice},
    packing::{GroupSize, Packing, TypePacking},
    plan::{Counts, Draft, PutOff, Writes},
};
use distribution::Distribution;
use pack::{Limits, Sorted};
use scope::Scope;

/// Decides the writes for the slices of a Service.
///
/// Upstream: `pkg/controller/endpointslice`, `syncService`, and `staging/src/k8s.io/endpointslice`, `Reconcile`.
pub fn decide(snapshot: &Snapshot) -> Plan {
    let Snapshot { service, memory, .. } = snapshot;
    let mut plan = Plan { memory: memory.clone(), ..Plan::default() };
    plan.memory.packing = None;
    if !service.selects() {
        plan.memory.hints.clear();
        plan.memory.hints_announced = false;
        return plan;
    }
    plan.is_ours = true;
    let (trigger_time, seen) = trigger::trigger_time(memory.seen.as_deref(), service, &snapshot.pods);
    plan.memory.seen = Some(Arc::new(seen));
    plan.slice_metadata = slice_metadata::slice_metadata(service, trigger_time);
    let distribution = Distribution::of(service);
    plan.spread = Spread {
        by_capacity: matches!(distribution, Distribution::ByCapacity),
        distribution: distribution.name(service),
    };
    let kinds = address_types(service);
    let mut max_new_ports = snapshot.max_new_ports;
    let mut of_types = BTreeMap::new();
    for kind in &kinds {
        let slices: Vec<Arc<Slice>> = snapshot.slices.iter().filter(|slice| slice.is_of(*kind)).cloned().collect();
        let (writes, packing) = decide_one(snapshot, *kind, &slices, distribution, &mut max_new_ports, &mut plan);
        plan.writes.push(writes);
        of_types.extend(packing.map(|packing| (*kind, packing)));
    }
    if !of_types.is_empty() {
        plan.memory.packing = Some(Arc::new(Packing {
            service: Arc::clone(service),
            zones: Arc::clone(&snapshot.zones),
            max_endpoints: snapshot.max_endpoints_per_slice,
            pods: snapshot.pods.clone(),
            of_types,
        }));
    }
    let unsupported = |slice: &&Arc<Slice>| kinds.iter().all(|kind| !slice.is_of(*kind));
    plan.unsupported = snapshot.slices.iter().filter(unsupported).cloned().collect();
    plan.memory.hints.retain(|kind, _| kinds.contains(kind));
    plan
}

/// Returns the address types for which a Service has slices.
pub fn address_types(service: &Service) -> Vec<AddressType> {
    let spec = &service.spec;
    let named = |name: &str| match name {
        "IPv4" => Some(AddressType::Ipv4),
        "IPv6" => Some(AddressType::Ipv6),
        _ => None,
    };
    let mut kinds: Vec<AddressType> = spec.ip_families.iter().filter_map(|name| named(name)).collect();
    if spec.ip_families.is_empty() {
        kinds = match address::parse(&spec.cluster_ip) {
            Some(address) => vec![address::family(address)],
            None => vec![AddressType::Ipv4, AddressType::Ipv6],
        };
    }
    kinds.dedup();
    kinds
}

fn decide_one(
    snapshot: &Snapshot,
    kind: AddressType,
    slices: &[Arc<Slice>],
    distribution: Distribution,
    max_new_ports: &mut usize,
    plan: &mut Plan,
) -> (Writes, Option<TypePacking>) {
    let service = &snapshot.service;
    let max_endpoints = snapshot.max_endpoints_per_slice;
    let limits = Limits { max_endpoints, max_new_ports };
    let whole = || Scope::whole(snapshot, slices);
    let mut scope = Scope::changed(snapshot, kind, slices).unwrap_or_else(whole);
    let mut desired = scope.desired(snapshot, kind);
    if scope.base.is_some() && pack::may_put_off(&desired, &limits) {
        scope = whole();
        desired = scope.desired(snapshot, kind);
    }
    let (left_out, eligible) = (std::mem::take(&mut desired.left_out), std::mem::take(&mut desired.eligible));
    let sizes = desired.sizes();
    let size = |size: &GroupSize| size.candidates;
    let mut counts = Counts {
        endpoints: sizes.values().map(size).sum(),
        enough: sizes.values().map(|group| size(group).div_ceil(max_endpoints)).sum::<usize>().max(1),
        ..Counts::default()
    };
    let mut sorted = pack::pack(service, &plan.slice_metadata, std::mem::take(&mut scope.slices), desired, limits);
    (counts.added, counts.removed) = (sorted.added, sorted.removed);
    place_holder(&mut sorted, plan, service, slices.len());
    let events = distribution::spread(&mut sorted, plan, snapshot, kind, distribution);
    sorted.leave_what_is_as_wanted(&plan.slice_metadata);
    counts.slices = sorted.slices();
    // The next sync must consider all Pods if hints depend on all endpoints, or if omitted or deferred endpoints are in no
    // slice.
    let is_known =
        distribution != Distribution::ByCapacity && left_out.is_empty() && sorted.put_off == PutOff::default();
    let is_large = snapshot.pods.len() >= snapshot.min_pods_of_packing;
    let packing = (is_known && is_large).then(|| scope.packing_after(&eligible, sizes, &sorted));
    let Sorted { create, update, delete, put_off, .. } = sorted;
    let creation = if service.metadata.is_deleting() { Creation::Forbidden } else { Creation::Allowed };
    let ordered = order_writes(create, update, delete, creation, |slice| slice.is_owned_by(service));
    (Writes { kind, left_out, put_off, events, counts, ..ordered }, packing)
}

/// Keeps or creates an empty slice if the Service would be without a slice otherwise.
fn place_holder(sorted: &mut Sorted, plan: &Plan, service: &Service, there: usize) {
    if sorted.delete.len() < there || !sorted.create.is_empty() || sorted.put_off != PutOff::default() {
        return;
    }
    let stands = |slice: &Slice| {
        slice.endpoints.is_empty()
            && slice.ports.is_empty()
            && slice.is_owned_by(service)
            && slice_metadata::same_but_empty(&slice.metadata.labels, &plan.slice_metadata.labels)
    };
    match sorted.delete.as_slice() {
        [only] if stands(only) => sorted.keep.append(&mut sorted.delete),
        _ => sorted.create.push(Draft::new(Arc::default())),
    }
}

#[cfg(test)]
mod tests;

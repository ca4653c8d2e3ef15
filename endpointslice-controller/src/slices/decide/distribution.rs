//! Hints, which name the zones and nodes of the clients that should use an endpoint.

use common::prelude::*;

use super::{pack::SlicesByNeededWrite, zones};
use crate::{
    objects::{AddressType, Endpoint, Hints, Service, Slice},
    plan::PlannedEvent,
    slices::decide::{Plan, Snapshot},
};

/// The kind of hints for the endpoints of a Service.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HintPolicy {
    /// Endpoints have no hints, so clients use the endpoints in all zones.
    NoHints,
    /// Each zone gets a share of the endpoints proportional to its share of CPU.
    ByCapacity,
    /// The hint of each endpoint is the endpoint's own zone.
    SameZone,
    /// The hints of each endpoint are the endpoint's own node and zone.
    SameNode,
}

impl HintPolicy {
    /// Returns the policy that a Service requests by its annotations, or else by `spec.trafficDistribution`.
    pub fn from_service(service: &Service) -> Self {
        if service.has_topology_hints_enabled() {
            return Self::ByCapacity;
        }
        match service.spec.traffic_distribution.as_deref() {
            Some("PreferClose" | "PreferSameZone") => Self::SameZone,
            Some("PreferSameNode") => Self::SameNode,
            _ => Self::NoHints,
        }
    }

    /// Returns the value of `spec.trafficDistribution`; `None` if it is missing, unknown, or overridden by hints by capacity.
    pub fn effective_traffic_distribution(self, service: &Service) -> Option<&'static str> {
        let names = ["PreferClose", "PreferSameZone", "PreferSameNode"];
        let given = service.spec.traffic_distribution.as_deref();
        names.into_iter().find(|name| self != Self::ByCapacity && given == Some(*name))
    }
}

/// Sets hints on the endpoints of slices to write, and updates unchanged slices if their hints are wrong. Returns an Event if
/// the sync enables or disables hints by capacity.
///
/// Upstream: `staging/src/k8s.io/endpointslice`, `topologycache` and `trafficdist`.
pub fn set_hints(
    slices: &mut SlicesByNeededWrite,
    plan: &mut Plan,
    snapshot: &Snapshot,
    address_type: AddressType,
    hint_policy: HintPolicy,
) -> Vec<PlannedEvent> {
    let memory = &mut plan.memory;
    if hint_policy != HintPolicy::ByCapacity {
        memory.hint_counts.remove(&address_type);
        let was_announced = std::mem::take(&mut memory.has_emitted_hints_enabled_event);
        match hint_policy {
            HintPolicy::NoHints | HintPolicy::ByCapacity => remove_hints(slices),
            HintPolicy::SameZone => hint_to_own_place(slices, false),
            HintPolicy::SameNode => hint_to_own_place(slices, true),
        }
        let event = was_announced.then(|| hints_disabled_event("Topology Aware Hints has been disabled", address_type));
        return event.into_iter().collect();
    }
    match zones::set_hints_by_zone_capacity(slices, snapshot.zone_cpu_shares.as_deref()) {
        Ok(counts) => {
            memory.hint_counts.insert(address_type, counts);
            if std::mem::replace(&mut memory.has_emitted_hints_enabled_event, true) {
                return Vec::new();
            }
            let message = format!("Topology Aware Hints has been enabled, addressType: {address_type}");
            vec![PlannedEvent { kind: EventType::Normal, reason: "TopologyAwareHintsEnabled", message }]
        }
        Err(refused) => {
            memory.hint_counts.remove(&address_type);
            memory.has_emitted_hints_enabled_event = false;
            remove_hints(slices);
            vec![hints_disabled_event(&refused.to_string(), address_type)]
        }
    }
}

fn hints_disabled_event(why: &str, address_type: AddressType) -> PlannedEvent {
    let message = format!("{why}, addressType: {address_type}");
    PlannedEvent { kind: EventType::Warning, reason: "TopologyAwareHintsDisabled", message }
}

/// Removes the hints from slices to write, and updates unchanged slices that have hints.
fn remove_hints(slices: &mut SlicesByNeededWrite) {
    slices.rewrite_unchanged_slices_where(|slice| {
        slice.endpoints.iter().any(|endpoint| !endpoint.is_hinted_only_to(None, None))
    });
    for endpoint in slices.endpoints_to_write() {
        endpoint.hints = None;
    }
}

/// Sets the hint of every ready endpoint to its zone and, if `hints_node` is true, also to its node.
fn hint_to_own_place(slices: &mut SlicesByNeededWrite, hints_node: bool) {
    fn place(endpoint: &Endpoint, hints_node: bool) -> (Option<&Text>, Option<&Text>) {
        (endpoint.zone.as_ref(), endpoint.node_name.as_ref().filter(|_| hints_node))
    }
    let is_right = |endpoint: &Endpoint| {
        let (zone, node) = place(endpoint, hints_node);
        !endpoint.is_ready() || endpoint.is_hinted_only_to(zone, node)
    };
    slices.rewrite_unchanged_slices_where(|slice: &Slice| !slice.endpoints.iter().all(is_right));
    for endpoint in slices.endpoints_to_write().filter(|endpoint| endpoint.is_ready()) {
        let (zone, node) = place(endpoint, hints_node);
        endpoint.hints = Hints::new(zone, node);
    }
}

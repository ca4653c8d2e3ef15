//! Hints, which name the zones and nodes of the clients that should use an endpoint.

use common::prelude::*;

use super::{pack::SlicesByNeededWrite, zones};
use crate::{
    objects::{AddressType, Endpoint, Hints, Service},
    plan::PlannedEvent,
    slices::decide::{Plan, Snapshot},
};

/// The kind of hints for the endpoints of a Service.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum HintPolicy {
    /// Endpoints have no hints, so clients use the endpoints in all zones.
    #[default]
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
) -> Vec<PlannedEvent> {
    let Plan { memory, hint_policy, .. } = plan;
    if *hint_policy != HintPolicy::ByCapacity {
        memory.hint_counts.remove(&address_type);
        let was_announced = std::mem::take(&mut memory.has_emitted_hints_enabled_event);
        set_hints_by_place(slices, *hint_policy);
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
            set_hints_by_place(slices, HintPolicy::NoHints);
            vec![hints_disabled_event(&refused.to_string(), address_type)]
        }
    }
}

fn hints_disabled_event(why: &str, address_type: AddressType) -> PlannedEvent {
    let message = format!("{why}, addressType: {address_type}");
    PlannedEvent { kind: EventType::Warning, reason: "TopologyAwareHintsDisabled", message }
}

/// Sets the hints that depend only on the place of each endpoint, and updates unchanged slices that have other hints.
fn set_hints_by_place(slices: &mut SlicesByNeededWrite, hint_policy: HintPolicy) {
    /// Returns the hinted zone and node; `None` if the endpoint keeps its hints, because it is not ready.
    fn place(endpoint: &Endpoint, hint_policy: HintPolicy) -> Option<(Option<&Text>, Option<&Text>)> {
        match hint_policy {
            HintPolicy::NoHints | HintPolicy::ByCapacity => Some((None, None)),
            HintPolicy::SameZone | HintPolicy::SameNode if !endpoint.is_ready() => None,
            HintPolicy::SameZone => Some((endpoint.zone.as_ref(), None)),
            HintPolicy::SameNode => Some((endpoint.zone.as_ref(), endpoint.node_name.as_ref())),
        }
    }
    let is_wrong = |endpoint: &Endpoint| {
        place(endpoint, hint_policy).is_some_and(|(zone, node)| !endpoint.is_hinted_only_to(zone, node))
    };
    slices.rewrite_unchanged_slices_where(|slice| slice.endpoints.iter().any(is_wrong));
    for endpoint in slices.endpoints_to_write() {
        if let Some((zone, node)) = place(endpoint, hint_policy) {
            endpoint.hints = Hints::new(zone, node);
        }
    }
}

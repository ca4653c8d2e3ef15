//! Hints, which name the zones and nodes of the clients that should use an endpoint.

use common::{events::EventType, intern::Text};

use super::{pack::Sorted, zones};
use crate::{
    objects::{AddressType, Endpoint, Hints, Service, Slice},
    plan::Event,
    slices::{plan::Plan, snapshot::Snapshot},
};

/// The kind of hints for the endpoints of a Service.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Distribution {
    /// No hints.
    Free,
    /// Each zone gets a share of the endpoints proportional to its share of CPU.
    ByCapacity,
    /// Each endpoint is hinted to its own zone.
    SameZone,
    /// Each endpoint is hinted to its own node and zone.
    SameNode,
}

impl Distribution {
    /// Returns the distribution that a Service requests.
    pub fn of(service: &Service) -> Self {
        if service.wants_topology_hints() {
            return Self::ByCapacity;
        }
        match service.spec.traffic_distribution.as_deref() {
            Some("PreferClose" | "PreferSameZone") => Self::SameZone,
            Some("PreferSameNode") => Self::SameNode,
            _ => Self::Free,
        }
    }

    /// Returns the value of `spec.trafficDistribution`, if it has an effect.
    pub fn name(self, service: &Service) -> Option<&'static str> {
        let names = ["PreferClose", "PreferSameZone", "PreferSameNode"];
        let given = service.spec.traffic_distribution.as_deref();
        names.into_iter().find(|name| self != Self::ByCapacity && given == Some(*name))
    }
}

/// Sets hints on the endpoints of written slices, and rewrites kept slices with wrong hints. Returns Events if hints by
/// capacity are enabled or disabled.
///
/// Upstream: `staging/src/k8s.io/endpointslice`, `topologycache` and `trafficdist`.
pub fn spread(
    sorted: &mut Sorted,
    plan: &mut Plan,
    snapshot: &Snapshot,
    kind: AddressType,
    distribution: Distribution,
) -> Vec<Event> {
    let memory = &mut plan.memory;
    if distribution != Distribution::ByCapacity {
        memory.hints.remove(&kind);
        let was_announced = std::mem::take(&mut memory.hints_announced);
        match distribution {
            Distribution::Free | Distribution::ByCapacity => no_hints(sorted),
            Distribution::SameZone => same_place(sorted, false),
            Distribution::SameNode => same_place(sorted, true),
        }
        let event = was_announced.then(|| disabled("Topology Aware Hints has been disabled", kind));
        return event.into_iter().collect();
    }
    match zones::by_capacity(sorted, snapshot.ratios.as_deref()) {
        Ok(counts) => {
            memory.hints.insert(kind, counts);
            if std::mem::replace(&mut memory.hints_announced, true) {
                return Vec::new();
            }
            let message = format!("Topology Aware Hints has been enabled, addressType: {kind}");
            vec![Event { kind: EventType::Normal, reason: "TopologyAwareHintsEnabled", message }]
        }
        Err(refused) => {
            memory.hints.remove(&kind);
            memory.hints_announced = false;
            no_hints(sorted);
            vec![disabled(&refused.to_string(), kind)]
        }
    }
}

fn disabled(why: &str, kind: AddressType) -> Event {
    let message = format!("{why}, addressType: {kind}");
    Event { kind: EventType::Warning, reason: "TopologyAwareHintsDisabled", message }
}

/// Removes all hints.
fn no_hints(sorted: &mut Sorted) {
    sorted.rewrite(|slice| slice.endpoints.iter().any(|endpoint| !endpoint.is_hinted_to(None, None)));
    for endpoint in sorted.written() {
        endpoint.hints = None;
    }
}

/// Hints every ready endpoint to its zone and, with `nodes`, to its node.
fn same_place(sorted: &mut Sorted, nodes: bool) {
    fn place(endpoint: &Endpoint, nodes: bool) -> (Option<&Text>, Option<&Text>) {
        (endpoint.zone.as_ref(), endpoint.node_name.as_ref().filter(|_| nodes))
    }
    let is_right = |endpoint: &Endpoint| {
        let (zone, node) = place(endpoint, nodes);
        !endpoint.is_ready() || endpoint.is_hinted_to(zone, node)
    };
    sorted.rewrite(|slice: &Slice| !slice.endpoints.iter().all(is_right));
    for endpoint in sorted.written().filter(|endpoint| endpoint.is_ready()) {
        let (zone, node) = place(endpoint, nodes);
        endpoint.hints = Hints::new(zone, node);
    }
}

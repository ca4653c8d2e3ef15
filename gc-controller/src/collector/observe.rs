//! Snapshots for the collector, read from the graph and the states of the monitors.

use common::meta::OwnerRef;
use jiff::Timestamp;

use super::{
    Collector,
    act::ReobservedOwners,
    snapshot::{KindState, OwnerWithState, Snapshot},
};
use crate::graph::{GraphNodeView, Identity, Kind, OwnerState};

impl Collector {
    pub(super) fn take_snapshot(&self, mut view: GraphNodeView, now: Timestamp) -> Snapshot {
        let owners = self.owners(std::mem::take(&mut view.owner_references), &view.owner_states);
        let (known, resource) = self.monitors.kind_state_and_resource(&view.kind);
        let unsynced = if view.is_deleting_dependents { self.monitors.awaited_resources() } else { Vec::new() };
        Snapshot {
            now,
            graph_node: view,
            resource,
            is_kind_unsynced: known == KindState::Unsynced,
            owners,
            unsynced_resources: unsynced,
        }
    }

    /// Reads the current states of the owners in `references`, and whether the object may be part of a cycle.
    pub(super) fn observe_again(&self, snapshot: &Snapshot, references: Vec<OwnerRef>) -> ReobservedOwners {
        let Identity { namespace, uid, .. } = &snapshot.graph_node.identity;
        let mut graph = self.collector_state.graph.lock();
        let in_cycle = graph.may_be_in_cycle(uid);
        let states: Vec<OwnerState> =
            references.iter().map(|reference| graph.owner_state(reference, namespace)).collect();
        drop(graph);
        ReobservedOwners { owners: self.owners(references, &states), may_be_in_cycle: in_cycle }
    }

    /// Combines each owner reference with the owner's state in the graph and the state of the monitor for the owner's kind.
    fn owners(&self, references: Vec<OwnerRef>, states: &[OwnerState]) -> Vec<OwnerWithState> {
        let owner = |(reference, state): (OwnerRef, &OwnerState)| {
            let kind = Kind { api_version: reference.api_version.clone(), kind: reference.kind.clone() };
            let (kind, resource) = self.monitors.kind_state_and_resource(&kind);
            OwnerWithState { reference, kind_state: kind, resource, state_in_graph: *state }
        };
        references.into_iter().zip(states).map(owner).collect()
    }
}

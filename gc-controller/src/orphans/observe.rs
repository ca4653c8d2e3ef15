//! Snapshots for the orphan loop, read from the graph and the states of the monitors.

use common::meta::Uid;

use super::{
    Orphaner,
    decide::decide,
    plan::Plan,
    snapshot::{DependentWithResource, Snapshot},
};
use crate::graph::{Dependent, GraphNodeView};

impl Orphaner {
    pub(super) fn take_snapshot(&self, view: GraphNodeView) -> Snapshot {
        let (resource, unsynced) = (self.monitors.resource_of_kind(&view.kind), self.monitors.awaited_resources());
        let mut snapshot =
            Snapshot { graph_node: view, resource, dependents: Vec::new(), unsynced_resources: unsynced };
        if let Plan::Release(_) = decide(&snapshot) {
            snapshot.dependents = self.dependents(&snapshot.graph_node.identity.uid);
        }
        snapshot
    }

    /// Returns the objects with a reference to an owner, and the resource of each.
    pub(super) fn dependents(&self, owner: &Uid) -> Vec<DependentWithResource> {
        let dependents = self.collector_state.graph.lock().dependents(owner);
        let with_resource = |dependent: Dependent| {
            let resource = self.monitors.resource_of_kind(&dependent.kind);
            (dependent, resource)
        };
        dependents.into_iter().map(with_resource).collect()
    }
}

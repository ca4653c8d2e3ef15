//! Snapshots for the orphan loop, read from the graph and the states of the monitors.

use common::meta::Uid;

use super::{
    Orphaner,
    decide::decide,
    plan::Plan,
    snapshot::{Orphan, Snapshot},
};
use crate::graph::{Dependent, View};

impl Orphaner {
    pub(super) fn snapshot(&self, view: View) -> Snapshot {
        let (resource, unsynced) = (self.monitors.resource(&view.kind), self.monitors.coming());
        let mut snapshot = Snapshot { view, resource, dependents: Vec::new(), unsynced };
        if let Plan::Release(_) = decide(&snapshot) {
            snapshot.dependents = self.dependents(&snapshot.view.identity.uid);
        }
        snapshot
    }

    /// Returns the objects with a reference to an owner, and the resource of each.
    pub(super) fn dependents(&self, owner: &Uid) -> Vec<Orphan> {
        let dependents = self.collection.graph.lock().dependents(owner);
        let with_resource = |dependent: Dependent| {
            let resource = self.monitors.resource(&dependent.kind);
            (dependent, resource)
        };
        dependents.into_iter().map(with_resource).collect()
    }
}

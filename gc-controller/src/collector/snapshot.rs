//! Everything that one sync of the collector reads.

use common::{meta::OwnerRef, object::Resource};
use jiff::Timestamp;

use crate::graph::{GraphNodeView, Kind, OwnerState};

/// An object, and the states of its owners.
#[derive(Clone, Debug)]
pub struct Snapshot {
    /// Time of the sync.
    pub now: Timestamp,
    /// The node of the object in the graph. Its references are moved to `owners`.
    pub graph_node: GraphNodeView,
    /// Resource that serves the kind of the object; `None` if the kind is not served.
    pub resource: Option<Resource>,
    /// Whether the resource is watched and its initial list is not complete.
    pub is_kind_unsynced: bool,
    /// Owner references of the object, in their order, with the states of the owners.
    pub owners: Vec<OwnerWithState>,
    /// Resources without a complete initial list, except broken ones. Empty if the object is not in foreground deletion.
    pub unsynced_resources: Vec<String>,
}

/// State of the monitor for the kind of an owner.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KindState {
    /// No resource of this kind is served.
    Unknown,
    /// The kind is served, but cannot be watched.
    Unwatched,
    /// The initial list of the monitor is not complete.
    Unsynced,
    /// The monitor has seen all objects of the kind.
    Synced,
}

/// An owner reference of the object, and the state of the owner.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OwnerWithState {
    /// The reference as the object has it.
    pub reference: OwnerRef,
    /// State of the monitor for the kind of the owner.
    pub kind_state: KindState,
    /// Resource that serves the kind; `None` if the kind is not served.
    pub resource: Option<Resource>,
    /// State of the owner in the graph.
    pub state_in_graph: OwnerState,
}

impl OwnerWithState {
    /// Returns the owner in the form `apps/v1/Deployment web`.
    pub fn describe(&self) -> String {
        let OwnerRef { api_version, kind, name, .. } = &self.reference;
        format!("{api_version}/{kind} {name}")
    }

    /// Returns the kind of the owner, as written in the reference.
    pub fn kind_in_reference(&self) -> Kind {
        Kind { api_version: self.reference.api_version.clone(), kind: self.reference.kind.clone() }
    }

    /// Returns whether the kind of the owner is namespaced; false if the kind is not served.
    pub fn is_namespaced(&self) -> bool {
        self.resource.as_ref().is_some_and(Resource::is_namespaced)
    }

    /// Returns whether the reference blocks the foreground deletion of the owner.
    pub fn blocks_owner_deletion(&self) -> bool {
        self.reference.block_owner_deletion == Some(true)
    }
}

//! Everything that one sync of the orphan loop reads.

use common::object::Resource;

use crate::graph::{Dependent, GraphNodeView};

/// An object with the finalizer `orphan`, and its dependents.
#[derive(Clone, Debug)]
pub struct Snapshot {
    /// The object as it is in the graph.
    pub graph_node: GraphNodeView,
    /// Resource that serves the kind of the object; `None` if the kind is not served.
    pub resource: Option<Resource>,
    /// Dependents of the object; empty if the plan does not release them.
    pub dependents: Vec<DependentWithResource>,
    /// Resources without a complete initial list, except broken ones.
    pub unsynced_resources: Vec<String>,
}

/// A dependent, and the resource that serves its kind; `None` if the kind is not served.
pub(super) type DependentWithResource = (Dependent, Option<Resource>);

//! Decides whether the dependents of an object are released. Pure code: no requests, no clock, no randomness.

use common::prelude::*;

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

/// Work on the dependents of a terminating object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Plan {
    /// There is no work: the object is not terminating, or does not have the finalizer.
    Nothing,
    /// The release waits, because the initial list of this resource is not complete.
    Wait(String),
    /// This number of dependents is released. Then the finalizer is removed.
    Release(usize),
}

impl SyncPlan for Plan {
    fn situation(&self) -> String {
        match self {
            Self::Nothing => "nothing is to be released".to_owned(),
            Self::Wait(_) => String::new(),
            Self::Release(count) => format!("it is deleted without its {count} dependents"),
        }
    }

    fn wait_reasons(&self) -> Vec<String> {
        let Self::Wait(resource) = self else { return Vec::new() };
        vec![format!("not all {resource} are known; one may have to be released")]
    }
}

/// Decides whether the dependents of an object are released now, after all initial lists are complete, or not at all.
pub(super) fn decide(snapshot: &Snapshot) -> Plan {
    let node = &snapshot.graph_node;
    if !has_dependents_to_release(node) {
        return Plan::Nothing;
    }
    match snapshot.unsynced_resources.first() {
        Some(resource) => Plan::Wait(resource.clone()),
        None => Plan::Release(node.dependent_count),
    }
}

/// Whether the dependents of a node have to be released: the object is terminating and has the finalizer `orphan`.
pub(super) fn has_dependents_to_release(node: &GraphNodeView) -> bool {
    node.is_being_deleted && node.has_orphan_finalizer && !node.is_virtual
}

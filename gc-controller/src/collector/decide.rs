//! Decides about an object. Pure code: no requests, no clock, no randomness.
//!
//! [`decide`] determines, from the graph alone, whether the object needs work, and whether lookups or lists must come first.
//! [`decide_by_owners()`] decides the action after every owner has been looked up.
//!
//! # Why deleting without reading the object first is safe
//!
//! [`Plan::Delete`] is based on the metadata that monitors have seen, which may be stale. Two facts make it safe:
//! - Every reference of the seen version names an object that is *known* not to exist: the server answered so, or a monitor saw
//!   the deletion. UIDs are never reused, so this fact remains true, however stale the metadata is.
//! - The DELETE carries the UID and the resourceVersion of the seen version. The server executes it only if the object still
//!   has exactly this version, and therefore exactly these references. After any change, above all a new owner, the server
//!   answers 409, the object is read, and the decision is made again.
//!
//! An owner that is merely missing from the graph is never assumed to be deleted: it is looked up.

mod verdict;

pub use verdict::{CollectionDecision, OwnerLookupResult, decide_by_owners};

use common::prelude::*;

use crate::{
    graph::{GraphNodeView, Kind, OwnerState},
    parked::WaitCondition,
};

/// An object, and the states of its owners.
#[derive(Clone, Debug)]
pub struct Snapshot {
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

    /// Whether the reference blocks the foreground deletion of the owner.
    pub fn blocks_owner_deletion(&self) -> bool {
        self.reference.block_owner_deletion == Some(true)
    }
}

/// The next step for an object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Plan {
    /// The object needs no work, for this reason.
    Nothing(&'static str),
    /// The object waits, without retries, until this wait condition is true. The text is the reason.
    Wait(WaitCondition, String),
    /// This number of dependents blocks the foreground deletion. Each dependent has been enqueued, or is enqueued when it
    /// appears. The removal of the last of these dependents enqueues the object again.
    BlockedByDependents(usize),
    /// No dependent blocks the foreground deletion: the finalizer is removed.
    RemoveForegroundFinalizer,
    /// The object is deleted. The version in the graph is the precondition.
    Delete {
        /// Propagation policy for the dependents of the object.
        propagation: PropagationPolicy,
        /// Number of owner references, all of them to objects that do not exist.
        owner_count: usize,
    },
    /// The owners are looked up, because the graph does not show whether all of them are missing.
    LookUpOwners {
        /// Number of owners that are not known to be missing.
        uncertain_owner_count: usize,
    },
    /// A lookup determines whether the object exists, because only owner references name it.
    LookUpObject,
}

/// `propagationPolicy` of a DELETE.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PropagationPolicy {
    /// The object is deleted first, and its dependents are deleted later.
    Background,
    /// The dependents are deleted before the object.
    Foreground,
    /// The dependents are not deleted. Their references to the object are removed.
    Orphan,
}

impl PropagationPolicy {
    /// Returns the value of `propagationPolicy` in the API.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Background => "Background",
            Self::Foreground => "Foreground",
            Self::Orphan => "Orphan",
        }
    }

    /// Returns the policy that the finalizers of an object request; `Background` without finalizers. `orphan` has precedence.
    pub fn from_finalizers(has_orphan: bool, has_foreground: bool) -> Self {
        match (has_orphan, has_foreground) {
            (true, _) => Self::Orphan,
            (false, true) => Self::Foreground,
            (false, false) => Self::Background,
        }
    }
}

fn many(count: usize, noun: &str) -> String {
    format!("{count} {noun}{}", if count == 1 { "" } else { "s" })
}

impl SyncPlan for Plan {
    fn situation(&self) -> String {
        match self {
            Self::Nothing(why) => (*why).to_owned(),
            Self::Wait(..) => String::new(),
            Self::BlockedByDependents(_) => "it is deleted after its dependents".to_owned(),
            Self::RemoveForegroundFinalizer => "no dependent blocks its deletion".to_owned(),
            Self::Delete { owner_count, .. } => format!("{} and none exists", many(*owner_count, "owner")),
            Self::LookUpOwners { uncertain_owner_count } => {
                let owners = many(*uncertain_owner_count, "owner");
                format!("{owners} may still exist; it is deleted unless a lookup finds one")
            }
            Self::LookUpObject => "only owner references name it, so it is looked up".to_owned(),
        }
    }

    fn wait_reasons(&self) -> Vec<String> {
        match self {
            Self::Wait(_, why) => vec![why.clone()],
            Self::BlockedByDependents(dependents) => {
                vec![format!("{} that block its deletion", many(*dependents, "dependent"))]
            }
            _ => Vec::new(),
        }
    }
}

/// Decides which work an object needs.
pub fn decide(snapshot: &Snapshot) -> Plan {
    let node = &snapshot.graph_node;
    if node.is_being_deleted && !node.is_deleting_dependents {
        return Plan::Nothing("it is being deleted already");
    }
    let Some(resource) = &snapshot.resource else {
        let condition = WaitCondition::KindServed(node.kind.clone());
        let why = condition.to_string();
        return Plan::Wait(condition, why);
    };
    // A virtual node has no namespace if only a cluster-scoped object names it. Without a namespace, a namespaced object
    // cannot be located.
    if resource.is_namespaced() && node.identity.namespace.is_empty() {
        return Plan::Nothing("a cluster-scoped object cannot have a namespaced owner");
    }
    if node.is_virtual {
        // When the list of the kind is complete, its monitor reports whether the object exists. Dependents of the object wait
        // until then.
        if snapshot.is_kind_unsynced {
            let why = format!("not all objects of kind {} are known", node.kind.kind);
            return Plan::Wait(WaitCondition::KindListed(node.kind.clone()), why);
        }
        return Plan::LookUpObject;
    }
    if node.is_deleting_dependents {
        return finish(snapshot);
    }
    if snapshot.owners.is_empty() {
        return Plan::Nothing("it has no owner");
    }
    let uncertain: Vec<&OwnerWithState> =
        snapshot.owners.iter().filter(|owner| owner.state_in_graph != OwnerState::Absent).collect();
    for owner in &uncertain {
        match owner.kind_state {
            KindState::Unknown => {
                let why = format!("the kind of owner {} is not served", owner.describe());
                return Plan::Wait(WaitCondition::KindServed(Kind::of_owner(&owner.reference)), why);
            }
            _ if owner.resource.as_ref().is_some_and(Resource::is_namespaced) && node.identity.namespace.is_empty() => {
                return Plan::Nothing("a cluster-scoped object cannot have a namespaced owner");
            }
            KindState::Unsynced => {
                let why = format!("not all objects of the kind of owner {} are known", owner.describe());
                return Plan::Wait(WaitCondition::KindListed(Kind::of_owner(&owner.reference)), why);
            }
            KindState::Unwatched | KindState::Synced => {}
        }
    }
    if uncertain.is_empty() && node.version.is_known() {
        let propagation = PropagationPolicy::from_finalizers(node.has_orphan_finalizer, node.has_foreground_finalizer);
        return Plan::Delete { propagation, owner_count: snapshot.owners.len() };
    }
    Plan::LookUpOwners { uncertain_owner_count: uncertain.len() }
}

/// Decides the work for an object in foreground deletion.
fn finish(snapshot: &Snapshot) -> Plan {
    let node = &snapshot.graph_node;
    if node.blocking_dependent_count > 0 {
        return Plan::BlockedByDependents(node.blocking_dependent_count);
    }
    // The lists of all resources must be complete, because a dependent that no monitor has seen yet may block the deletion.
    match snapshot.unsynced_resources.first() {
        Some(resource) => Plan::Wait(
            WaitCondition::EverythingListed,
            format!("not all {resource} are known; one may block the deletion"),
        ),
        None => Plan::RemoveForegroundFinalizer,
    }
}

#[cfg(test)]
mod tests;

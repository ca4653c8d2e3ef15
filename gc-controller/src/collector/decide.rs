//! The decision about an object, without requests and without a clock.
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

use super::{
    plan::{Plan, PropagationPolicy},
    snapshot::{KindState, OwnerWithState, Snapshot},
};
use crate::{graph::OwnerState, parked::WaitCondition};

/// Decides which work an object needs.
pub fn decide(snapshot: &Snapshot) -> Plan {
    let view = &snapshot.graph_node;
    if view.is_being_deleted && !view.is_deleting_dependents {
        return Plan::Nothing("it is being deleted already");
    }
    let Some(resource) = &snapshot.resource else {
        let awaited = WaitCondition::KindServed(view.kind.clone());
        let why = awaited.to_string();
        return Plan::Wait(awaited, why);
    };
    // A virtual node has no namespace if only a cluster-scoped object names it. Without a namespace, a namespaced object
    // cannot be located.
    if resource.is_namespaced() && view.identity.namespace.is_empty() {
        return Plan::Nothing("a cluster-scoped object cannot have a namespaced owner");
    }
    if view.is_virtual {
        // When the list of the kind is complete, its monitor reports whether the object exists. Dependents of the object wait
        // until then.
        if snapshot.is_kind_unsynced {
            let why = format!("not all objects of kind {} are known", view.kind.kind);
            return Plan::Wait(WaitCondition::KindListed(view.kind.clone()), why);
        }
        return Plan::LookUpObject;
    }
    if view.is_deleting_dependents {
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
                return Plan::Wait(WaitCondition::KindServed(owner.kind_in_reference()), why);
            }
            _ if owner.is_namespaced() && view.identity.namespace.is_empty() => {
                return Plan::Nothing("a cluster-scoped object cannot have a namespaced owner");
            }
            KindState::Unsynced => {
                let why = format!("not all objects of the kind of owner {} are known", owner.describe());
                return Plan::Wait(WaitCondition::KindListed(owner.kind_in_reference()), why);
            }
            KindState::Unwatched | KindState::Synced => {}
        }
    }
    if uncertain.is_empty() && view.version.is_known() {
        let propagation = PropagationPolicy::from_finalizers(view.has_orphan_finalizer, view.has_foreground_finalizer);
        return Plan::Delete { propagation, owner_count: snapshot.owners.len() };
    }
    Plan::LookUpOwners { uncertain_owner_count: uncertain.len() }
}

/// Decides the work for an object in foreground deletion.
fn finish(snapshot: &Snapshot) -> Plan {
    let view = &snapshot.graph_node;
    if view.blocking_dependent_count > 0 {
        return Plan::BlockedByDependents(view.blocking_dependent_count);
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

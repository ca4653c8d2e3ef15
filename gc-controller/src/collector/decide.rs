//! The decision about an object, without requests and without a clock.
//!
//! [`decide`] determines, from the graph alone, whether the object needs work and whether enough is known to do it. [`verdict()`]
//! determines the action once every owner has been looked up.
//!
//! # Why deleting without reading the object first is safe
//!
//! [`Plan::Delete`] is based on the metadata that monitors have seen, which may be stale. Two facts make it safe:
//! - Every reference of the seen version names an object that is *known* not to exist: the server answered so, or a monitor saw
//!   the deletion. UIDs are never reused, so this fact stays true, however stale the metadata is.
//! - The DELETE carries the UID and the resourceVersion of the seen version. The server executes it only if the object still has
//!   exactly this version, and therefore exactly these references. After any change, above all a new owner, the server answers
//!   409, and the object is read and judged again.
//!
//! An owner that is merely missing from the graph is never assumed to be deleted: it is looked up.

mod verdict;

pub use verdict::{Standing, Verdict, verdict};

use super::{
    plan::{Plan, Propagation},
    snapshot::{Owner, OwnerKind, Snapshot},
};
use crate::{graph::OwnerState, parked::Awaited};

/// Decides which work an object needs.
pub fn decide(snapshot: &Snapshot) -> Plan {
    let view = &snapshot.view;
    if view.being_deleted && !view.deleting_dependents {
        return Plan::Nothing("it is being deleted already");
    }
    let Some(resource) = snapshot.resource else {
        let awaited = Awaited::Served(view.kind.clone());
        let why = awaited.to_string();
        return Plan::Wait(awaited, why);
    };
    // A virtual node has no namespace if only a cluster-scoped object names it. A namespaced object cannot be located without
    // one.
    if resource.namespaced && view.identity.namespace.is_empty() {
        return Plan::Nothing("a cluster-scoped object cannot have a namespaced owner");
    }
    if view.is_virtual {
        // When the list of the kind is complete, its monitor reports whether the object exists. Dependents of the object wait
        // until then.
        if snapshot.unseen {
            let why = format!("not all objects of kind {} are known", view.kind.kind);
            return Plan::Wait(Awaited::Known(view.kind.clone()), why);
        }
        return Plan::Exists;
    }
    if view.deleting_dependents {
        return finish(snapshot);
    }
    if snapshot.owners.is_empty() {
        return Plan::Nothing("it has no owner");
    }
    let uncertain: Vec<&Owner> = snapshot.owners.iter().filter(|owner| owner.state != OwnerState::Absent).collect();
    for owner in &uncertain {
        match owner.kind {
            OwnerKind::Unknown => {
                let why = format!("the kind of owner {} is not served", owner.name());
                return Plan::Wait(Awaited::Served(owner.of()), why);
            }
            _ if owner.is_namespaced() && view.identity.namespace.is_empty() => {
                return Plan::Nothing("a cluster-scoped object cannot have a namespaced owner");
            }
            OwnerKind::Unsynced => {
                let why = format!("not all objects of the kind of owner {} are known", owner.name());
                return Plan::Wait(Awaited::Known(owner.of()), why);
            }
            OwnerKind::Unwatched | OwnerKind::Synced => {}
        }
    }
    if uncertain.is_empty() && view.version.is_known() {
        let propagation = Propagation::of_finalizers(view.orphans, view.foreground);
        return Plan::Delete { propagation, owners: snapshot.owners.len() };
    }
    Plan::Verify { uncertain: uncertain.len() }
}

/// Decides the work for an object in foreground deletion.
fn finish(snapshot: &Snapshot) -> Plan {
    let view = &snapshot.view;
    if view.blocking > 0 {
        return Plan::Blocked(view.blocking);
    }
    // The lists of all resources must be complete, because a dependent that no monitor has seen yet may block the deletion.
    match snapshot.unsynced.first() {
        Some(resource) => {
            Plan::Wait(Awaited::Everything, format!("not all {resource} are known; one may block the deletion"))
        }
        None => Plan::Finish,
    }
}

#[cfg(test)]
mod tests;

//! What becomes of an object: pure.
//!
//! [`decide`] says, from the graph alone, whether anything is to be done and whether enough is known to do it;
//! [`verdict()`] says what is done once every owner has been looked up.
//!
//! # Why deleting without reading the object first is safe
//!
//! [`Plan::Delete`] is decided on what monitors have seen, which may be old. Two facts make it safe:
//! - Every reference of the version that was seen names an object of which it is *known* that it does not exist: the server
//!   said so, or its deletion was seen. A uid never comes back, so this cannot have become wrong, however old it is.
//! - The DELETE carries uid and resourceVersion of what was seen. The server carries it out only if the object is still
//!   exactly that one, with exactly those references. If anything was changed, an owner added above all, it answers 409,
//!   and the object is read and judged anew.
//!
//! An owner that is merely not in the graph is never taken to be gone: it is looked up.

mod verdict;

pub use verdict::{Standing, Verdict, verdict};

use super::{
    plan::{Plan, Propagation},
    snapshot::{Owner, OwnerKind, Snapshot},
};
use crate::{graph::OwnerState, parked::Awaited};

/// Decides what is done about an object.
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
    // The place of a namespaced object that only a cluster-scoped one refers to is not known.
    if resource.namespaced && view.identity.namespace.is_empty() {
        return Plan::Nothing("a cluster-scoped object cannot have a namespaced owner");
    }
    if view.is_virtual {
        // Whether it exists is told by its monitor; nobody is judged by an owner of a kind that is not known.
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

/// An object that is deleted in the foreground.
fn finish(snapshot: &Snapshot) -> Plan {
    let view = &snapshot.view;
    if view.blocking > 0 {
        return Plan::Blocked(view.blocking);
    }
    // One that nobody has seen yet may block it.
    match snapshot.unsynced.first() {
        Some(resource) => {
            Plan::Wait(Awaited::Everything, format!("not all {resource} are known; one may block the deletion"))
        }
        None => Plan::Finish,
    }
}

#[cfg(test)]
mod tests;

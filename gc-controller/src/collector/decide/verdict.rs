//! The verdict on an object whose owners have been looked up.

use std::collections::BTreeSet;

use common::meta::Uid;

use crate::collector::plan::PropagationPolicy;

/// Result of the lookup of an owner.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OwnerStanding {
    /// The owner exists.
    Solid,
    /// The owner does not exist, or another object has its name.
    Dangling,
    /// The owner exists and waits for the deletion of its dependents.
    WaitingForDependents,
}

/// Decision about an object after its owners have been looked up.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// The object stays unchanged.
    Keep,
    /// The object stays, and loses its references to these UIDs.
    Release(Vec<Uid>),
    /// The object is deleted.
    Delete {
        /// Propagation policy for the dependents of the object.
        propagation: PropagationPolicy,
        /// Whether the object must first stop blocking its owners, because the object and its owners may wait for each other.
        unblock: bool,
    },
}

/// Returns the decision about an object with these `owners`, in the order of its references. `finalizers` is the propagation
/// policy that the finalizers of the object request.
///
/// An object with a solid (existing) owner is never deleted. It never loses a reference to a solid owner; a dangling reference
/// with the same UID stays, too. An object without references stays. `in_cycle` is called only if the verdict depends on it.
pub fn verdict(
    owners: &[(Uid, OwnerStanding)],
    dependents: usize,
    in_cycle: impl FnOnce() -> bool,
    finalizers: PropagationPolicy,
) -> Verdict {
    if owners.is_empty() {
        return Verdict::Keep;
    }
    let of = |standing| owners.iter().filter(move |(_, s)| *s == standing).map(|(uid, _)| uid);
    let solid: BTreeSet<&Uid> = of(OwnerStanding::Solid).collect();
    if !solid.is_empty() {
        let mut seen = BTreeSet::new();
        let lost = owners.iter().map(|(uid, _)| uid).filter(|uid| !solid.contains(uid) && seen.insert(*uid));
        let lost: Vec<Uid> = lost.cloned().collect();
        return if lost.is_empty() { Verdict::Keep } else { Verdict::Release(lost) };
    }
    if dependents > 0 && of(OwnerStanding::WaitingForDependents).next().is_some() {
        return Verdict::Delete { propagation: PropagationPolicy::Foreground, unblock: in_cycle() };
    }
    Verdict::Delete { propagation: finalizers, unblock: false }
}

//! The decision about an object after all owners have been looked up.

use std::collections::BTreeSet;

use common::prelude::Uid;

use super::PropagationPolicy;

/// State of an owner that an object names, as found in the graph or at the API server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OwnerLookupResult {
    /// The owner exists.
    Solid,
    /// The owner does not exist, or another object has its name.
    Dangling,
    /// The owner exists and waits for the deletion of its dependents.
    WaitingForDependents,
}

/// Decision about an object after its owners have been looked up.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CollectionDecision {
    /// The object is neither deleted nor changed.
    Keep,
    /// The object is not deleted. Its references to these UIDs are removed.
    Release(Vec<Uid>),
    /// The object is deleted, because no owner exists, or because an owner in foreground deletion waits for the object.
    Delete {
        /// Propagation policy for the dependents of the object.
        propagation: PropagationPolicy,
        /// Whether `blockOwnerDeletion` must first be set to false, because the object and an owner may wait for each other.
        unblock: bool,
    },
}

/// Returns the decision about an object with these `owners`, in the order of its references. `finalizer_policy` is the propagation
/// policy that the finalizers of the object request.
///
/// An object with a solid (existing) owner is never deleted. Its references to a solid owner are kept, and so are dangling
/// references with the same UID. An object without references is not deleted. `in_cycle` is called only if the decision depends
/// on it.
pub fn decide_by_owners(
    owners: &[(Uid, OwnerLookupResult)],
    dependents: usize,
    in_cycle: impl FnOnce() -> bool,
    finalizer_policy: PropagationPolicy,
) -> CollectionDecision {
    if owners.is_empty() {
        return CollectionDecision::Keep;
    }
    let of = |result| owners.iter().filter(move |(_, known)| *known == result).map(|(uid, _)| uid);
    let solid: BTreeSet<&Uid> = of(OwnerLookupResult::Solid).collect();
    if !solid.is_empty() {
        let mut seen = BTreeSet::new();
        let lost = owners.iter().map(|(uid, _)| uid).filter(|uid| !solid.contains(uid) && seen.insert(*uid));
        let lost: Vec<Uid> = lost.cloned().collect();
        return if lost.is_empty() { CollectionDecision::Keep } else { CollectionDecision::Release(lost) };
    }
    if dependents > 0 && of(OwnerLookupResult::WaitingForDependents).next().is_some() {
        return CollectionDecision::Delete { propagation: PropagationPolicy::Foreground, unblock: in_cycle() };
    }
    CollectionDecision::Delete { propagation: finalizer_policy, unblock: false }
}

//! What is done with an object whose owners have been looked up.

use std::collections::BTreeSet;

use common::meta::Uid;

use crate::collector::plan::Propagation;

/// How an owner stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Standing {
    /// It exists.
    Solid,
    /// It does not exist, or not under that uid.
    Dangling,
    /// It exists and waits for its dependents to go.
    Waiting,
}

/// What is done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Nothing.
    Keep,
    /// It stays, and loses the references to these uids.
    Release(Vec<Uid>),
    /// It goes.
    Delete {
        /// How its own dependents are treated.
        propagation: Propagation,
        /// Whether it must first stop blocking its owners, because they may wait for each other.
        unblock: bool,
    },
}

/// Decides. `owners` are the references in their order, `finalizers` is what those of the object ask for.
///
/// An object with a solid owner is never deleted, and never loses its reference to one: a dangling reference that shares
/// its uid with a solid one stays, too. An object without references stays. Whether there may be a cycle is asked only where
/// it matters.
pub fn verdict(
    owners: &[(Uid, Standing)],
    dependents: usize,
    in_cycle: impl FnOnce() -> bool,
    finalizers: Propagation,
) -> Verdict {
    if owners.is_empty() {
        return Verdict::Keep;
    }
    let of = |standing| owners.iter().filter(move |(_, s)| *s == standing).map(|(uid, _)| uid);
    let solid: BTreeSet<&Uid> = of(Standing::Solid).collect();
    if !solid.is_empty() {
        let mut seen = BTreeSet::new();
        let lost = owners.iter().map(|(uid, _)| uid).filter(|uid| !solid.contains(uid) && seen.insert(*uid));
        let lost: Vec<Uid> = lost.cloned().collect();
        return if lost.is_empty() { Verdict::Keep } else { Verdict::Release(lost) };
    }
    if dependents > 0 && of(Standing::Waiting).next().is_some() {
        return Verdict::Delete { propagation: Propagation::Foreground, unblock: in_cycle() };
    }
    Verdict::Delete { propagation: finalizers, unblock: false }
}

//! What becomes of an object: pure.
//!
//! [`decide`] says, from the graph alone, whether anything is to be done and whether enough is known to do it;
//! [`verdict`] says what is done once every owner has been looked up.
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

mod plan;
mod verdict;

#[cfg(test)]
mod tests;

pub use plan::{Awaited, Owner, OwnerKind, Plan, Situation, decide};
pub use verdict::{Standing, Verdict, policy, verdict};

/// How dependents of a deleted object are treated, as a DELETE says it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Propagation {
    /// They are collected later.
    Background,
    /// They go first.
    Foreground,
    /// They are released.
    Orphan,
}

impl Propagation {
    /// As it is written.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Background => "Background",
            Self::Foreground => "Foreground",
            Self::Orphan => "Orphan",
        }
    }
}

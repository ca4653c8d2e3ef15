//! Everything one judgement of an object may read.

use common::{meta::OwnerRef, object::Resource};
use jiff::Timestamp;

use crate::graph::{Kind, OwnerState, View};

/// An object, and what is known of its owners.
#[derive(Clone, Debug)]
pub struct Snapshot {
    /// The time of the snapshot.
    pub now: Timestamp,
    /// The object. Its references are in `owners`.
    pub view: View,
    /// The resource of its kind, if that is served.
    pub resource: Option<Resource>,
    /// Whether that resource is watched, and not all of its objects are known.
    pub unseen: bool,
    /// Its references.
    pub owners: Vec<Owner>,
    /// Resources whose objects are not known yet, unless they are known to be broken.
    pub unsynced: Vec<String>,
}

/// What is known of the kind of an owner.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OwnerKind {
    /// No resource of that kind is served.
    Unknown,
    /// It is served and not watched, because it cannot be.
    Unwatched,
    /// Its monitor has not seen a first full set.
    Unsynced,
    /// All of its objects are known.
    Synced,
}

/// One reference of the object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Owner {
    /// The reference.
    pub reference: OwnerRef,
    /// What is known of the owner's kind.
    pub kind: OwnerKind,
    /// The resource of that kind, if it is served.
    pub resource: Option<Resource>,
    /// What the graph says of the owner.
    pub state: OwnerState,
}

impl Owner {
    /// The owner as people name it: `apps/v1/Deployment web`.
    pub fn name(&self) -> String {
        let OwnerRef { api_version, kind, name, .. } = &self.reference;
        format!("{api_version}/{kind} {name}")
    }

    /// Its kind, as the reference names it.
    pub fn of(&self) -> Kind {
        Kind { api_version: self.reference.api_version.clone(), kind: self.reference.kind.clone() }
    }

    /// Whether it lives in a namespace.
    pub fn is_namespaced(&self) -> bool {
        self.resource.is_some_and(|resource| resource.namespaced)
    }

    /// Whether the reference blocks its foreground deletion.
    pub fn is_blocked(&self) -> bool {
        self.reference.block_owner_deletion == Some(true)
    }
}

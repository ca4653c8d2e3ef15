//! Owner references as the graph keeps them: small, and one list for all dependents of an owner.

use std::{ops::Deref, sync::Arc};

use common::{
    intern::Text,
    meta::{OwnerRef, Owners, Uid},
};

use super::{Identity, Kind, KindId, kinds::Kinds};

/// A reference to an owner.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Reference {
    pub(super) uid: Uid,
    /// One text with the name of the owner's node, where that is the same.
    pub(super) name: Arc<str>,
    pub(super) kind: KindId,
    controller: Option<bool>,
    block_owner_deletion: Option<bool>,
}

// Nearly half of what there is in a cluster has an owner of its own.
const _: () = assert!(size_of::<Reference>() <= 48);

impl Reference {
    /// What a server writes; `name` is a text of that name.
    pub(super) fn new(written: &OwnerRef, kind: KindId, name: Arc<str>) -> Self {
        Self {
            uid: written.uid.clone(),
            name,
            kind,
            controller: written.controller,
            block_owner_deletion: written.block_owner_deletion,
        }
    }

    /// The object that a reference of an object in `namespace` names.
    pub(super) fn identity(&self, namespace: Text) -> Identity {
        Identity { kind: self.kind, namespace, name: Arc::clone(&self.name), uid: self.uid.clone() }
    }

    /// As a server writes it.
    pub(super) fn written(&self, kind: &Kind) -> OwnerRef {
        OwnerRef {
            api_version: kind.api_version.clone(),
            kind: kind.kind.clone(),
            name: (&*self.name).into(),
            uid: self.uid.clone(),
            controller: self.controller,
            block_owner_deletion: self.block_owner_deletion,
        }
    }

    /// Whether it is what a server writes like that.
    fn is(&self, written: &OwnerRef, kind: &Kind) -> bool {
        self.uid == written.uid
            && *self.name == *written.name
            && kind.kind == written.kind
            && kind.api_version == written.api_version
            && self.controller == written.controller
            && self.block_owner_deletion == written.block_owner_deletion
    }

    /// Whether it blocks the foreground deletion of what it names.
    pub(super) fn blocks(&self) -> bool {
        self.block_owner_deletion == Some(true)
    }

    /// Whether both name the same place for the same uid.
    pub(super) fn has_coordinates_of(&self, other: &Self) -> bool {
        self.uid == other.uid && self.kind == other.kind && self.name == other.name
    }

    /// Whether it names the place of `identity`, namespaces aside.
    pub(super) fn names(&self, identity: &Identity) -> bool {
        self.uid == identity.uid && self.kind == identity.kind && self.name == identity.name
    }
}

/// All references of an object, in their order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct References(Option<Arc<[Reference]>>);

impl References {
    pub(super) fn new(all: Vec<Reference>) -> Self {
        Self((!all.is_empty()).then(|| all.into()))
    }

    /// Whether they are what a server writes like that.
    pub(super) fn are(&self, written: &Owners, kinds: &Kinds) -> bool {
        self.len() == written.len()
            && self.iter().zip(written.iter()).all(|(known, written)| known.is(written, kinds.get(known.kind)))
    }
}

impl Deref for References {
    type Target = [Reference];
    fn deref(&self) -> &[Reference] {
        self.0.as_deref().unwrap_or_default()
    }
}

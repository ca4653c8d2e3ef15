//! Owner references in a compact form. Dependents of one owner share a list.

use std::{ops::Deref, sync::Arc};

use common::{meta::OwnerRefs, prelude::*};

use super::{Identity, Kind, KindId, kinds::KindTable};

/// An owner reference with an id for its kind and a shared name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct CompactOwnerRef {
    pub(super) uid: Uid,
    /// The same allocation as in the node of the owner if the names are equal.
    pub(super) name: Arc<str>,
    pub(super) kind: KindId,
    controller: Option<bool>,
    block_owner_deletion: Option<bool>,
}

// The size matters: nearly half of the objects of a cluster share their list of references with no other object.
const _: () = assert!(size_of::<CompactOwnerRef>() <= 48);

impl CompactOwnerRef {
    /// Converts an owner reference from the API. `name` has the same text as the name in `owner_ref`.
    pub(super) fn new(owner_ref: &OwnerRef, kind: KindId, name: Arc<str>) -> Self {
        Self {
            uid: owner_ref.uid.clone(),
            name,
            kind,
            controller: owner_ref.controller,
            block_owner_deletion: owner_ref.block_owner_deletion,
        }
    }

    /// Returns the identity of the owner, for a dependent in this namespace.
    pub(super) fn owner_identity(&self, namespace: Text) -> Identity {
        Identity { kind: self.kind, namespace, name: Arc::clone(&self.name), uid: self.uid.clone() }
    }

    /// Converts the reference to an owner reference of the API. `kind` is the kind with the id of this reference.
    pub(super) fn to_owner_ref(&self, kind: &Kind) -> OwnerRef {
        OwnerRef {
            api_version: kind.api_version.clone(),
            kind: kind.kind.clone(),
            name: (&*self.name).into(),
            uid: self.uid.clone(),
            controller: self.controller,
            block_owner_deletion: self.block_owner_deletion,
        }
    }

    /// Whether the reference equals an owner reference of the API.
    fn is(&self, owner_ref: &OwnerRef, kind: &Kind) -> bool {
        self.uid == owner_ref.uid
            && *self.name == *owner_ref.name
            && kind.kind == owner_ref.kind
            && kind.api_version == owner_ref.api_version
            && self.controller == owner_ref.controller
            && self.block_owner_deletion == owner_ref.block_owner_deletion
    }

    pub(super) fn blocks_owner_deletion(&self) -> bool {
        self.block_owner_deletion == Some(true)
    }

    /// Whether two references have the same UID, kind and name.
    pub(super) fn has_same_target_as(&self, other: &Self) -> bool {
        self.uid == other.uid && self.kind == other.kind && self.name == other.name
    }

    /// Whether the reference has the UID, kind and name of `identity`. Namespaces are not compared.
    pub(super) fn refers_to(&self, identity: &Identity) -> bool {
        self.uid == identity.uid && self.kind == identity.kind && self.name == identity.name
    }
}

/// The owner references of an object, in the order of `metadata.ownerReferences`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct CompactOwnerRefs(Option<Arc<[CompactOwnerRef]>>);

impl CompactOwnerRefs {
    pub(super) fn new(owner_refs: Vec<CompactOwnerRef>) -> Self {
        Self((!owner_refs.is_empty()).then(|| owner_refs.into()))
    }

    pub(super) fn equal_owner_refs(&self, owner_refs: &OwnerRefs, kinds: &KindTable) -> bool {
        self.len() == owner_refs.len()
            && self.iter().zip(owner_refs.iter()).all(|(known, owner_ref)| known.is(owner_ref, kinds.get(known.kind)))
    }
}

impl Deref for CompactOwnerRefs {
    type Target = [CompactOwnerRef];
    fn deref(&self) -> &[CompactOwnerRef] {
        self.0.as_deref().unwrap_or_default()
    }
}

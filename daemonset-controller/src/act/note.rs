//! The changes that a sync makes in the controller's memory.

use common::{intern::Text, io, meta::Meta};

use crate::objects::{CachedPod, PodRef};

/// A change of the controller's memory that a sync asks for.
#[derive(Debug)]
pub enum Note {
    /// The selector is invalid, so the set is not managed.
    BrokenSelector(String),
    /// The set was deleted or replaced during an adoption, so the next sync adopts first and manages no Pods.
    LostOwner,
    /// The server denies a change or the deletion of this revision.
    RefusedRevision(Box<Meta>),
    /// The server stored a new Pod without the label by which Pods are watched.
    UnlabelledPod(Box<CachedPod>),
    /// The server denies a change of this Pod.
    RefusedPod(Box<Meta>),
    /// The name of the new revision, and the hash of the equal revision that has this name; `None` if the name is free.
    TakenName(Option<(String, Text)>),
    /// The server refuses Pods because the namespace is terminating.
    NamespaceTerminates,
    /// The answer to the creation of a Pod for this node was lost.
    LostCreate(Text),
    /// The server has refused to create a Pod for this node, so the next sync begins with the nodes after it.
    RefusedCreate(Text),
    /// The server has refused to delete a Pod of this node, so the next sync begins with the nodes after it.
    RefusedDelete(Text),
    /// This Pod was deleted by a request whose answer was lost.
    Deleted(PodRef),
}

impl io::Note for Note {
    type Question = ();
    type Fresh = ();
}

pub(super) type Io<'r> = io::Io<'r, Note>;

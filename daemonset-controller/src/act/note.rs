//! What a sync changes besides its requests.

use common::{intern::Text, io, meta::Meta};

use crate::objects::{CachedPod, PodRef};

/// A change of the controller's memory.
#[derive(Debug)]
pub enum Note {
    /// The selector breaks the rules, so that nothing is done.
    BrokenSelector(String),
    /// The set turned out to be deleted, or another one: its next sync manages no Pods either.
    LostOwner,
    /// The server denies a change or the deletion of this revision.
    RefusedRevision(Box<Meta>),
    /// The server stored a new Pod without the label by which Pods are watched.
    UnlabelledPod(Box<CachedPod>),
    /// The server denies a change of this Pod.
    RefusedPod(Box<Meta>),
    /// The name of the new revision is taken by one of the same template with that hash, or by none.
    TakenName(Option<(String, Text)>),
    /// The server refuses Pods because the namespace terminates.
    NamespaceTerminates,
    /// The answer to the creation of a Pod for that node was lost.
    LostCreate(Text),
    /// The server has refused to create a Pod for that node: the next sync begins with the nodes after it.
    RefusedCreate(Text),
    /// The same of a deletion.
    RefusedDelete(Text),
    /// The Pod was deleted by a request whose answer was lost.
    Deleted(PodRef),
}

impl io::Note for Note {
    type Question = ();
    type Fresh = ();
}

pub(super) type Io<'r> = io::Io<'r, Note>;

use common::{intern::Text, io, meta::Meta};

use crate::objects::{CachedPod, PodRef};

/// A change of the controller's memory that a sync requests.
#[derive(Debug)]
pub enum Note {
    /// The selector of the DaemonSet is invalid; the value is the error.
    InvalidSelector(String),
    /// The DaemonSet was deleted or replaced during an adoption, so the next sync adopts Pods again before it creates or
    /// deletes any.
    OwnerDeletedOrReplaced,
    /// The server denies to change or delete this revision, so the next syncs omit the change until a retry is due.
    RevisionChangeDenied(Box<Meta>),
    /// The server stored this new Pod without the label that the watch of Pods selects, so the Pod must be tracked by reads.
    PodStoredWithoutLabel(Box<CachedPod>),
    /// The server denies to change this Pod, so the next syncs omit the change until a retry is due.
    PodChangeDenied(Box<Meta>),
    /// The name of the new revision and the hash of the equal revision that has this name; `None` if the name is free.
    RevisionNameTaken(Option<(String, Text)>),
    /// The server refuses new Pods because the namespace of the DaemonSet is terminating.
    NamespaceTerminates,
    /// The creation of a Pod for the node with this name may have taken effect, because its answer was lost.
    CreationAnswerLost(Text),
    /// The server has refused to create a Pod for the node with this name, so the next sync begins with the nodes after it.
    PodCreationRefused(Text),
    /// The server has refused to delete a Pod on the node with this name, so the next sync begins with the nodes after it.
    PodDeletionRefused(Text),
    /// This Pod was probably deleted by a request with a lost answer. The next sync waits until the cache shows the deletion.
    DeletionAnswerLost(PodRef),
}

impl io::Note for Note {
    type Query = ();
    type NewState = ();
}

pub(super) type Io<'r> = io::Io<'r, Note>;

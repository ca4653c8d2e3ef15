use common::{intern::Text, io, meta::Meta, pod_creation_pauses::PodCreationOutcome};

use crate::objects::{CachedPod, SharedPod};

/// A change of the controller's memory that a sync requests.
#[derive(Debug)]
pub enum Note {
    /// The selector of the DaemonSet is invalid; the value is the error.
    InvalidSelector(String),
    /// The DaemonSet was deleted or replaced during an adoption, so the next sync adopts Pods again before it creates or
    /// deletes any.
    OwnerDeletedOrReplaced,
    /// The server has denied a change or the deletion of this revision. The next syncs omit the change until a retry is due.
    RevisionChangeDenied(Box<Meta>),
    /// The server stored this new Pod without the label that the watch of Pods selects, so the Pod must be tracked by reads.
    PodStoredWithoutLabel(Box<CachedPod>),
    /// The server has denied a change of this Pod. The next syncs omit the change until a retry is due.
    PodChangeDenied(Box<Meta>),
    /// The name of the new revision, and the hash of the existing revision with this name and equal data. `None` if no revision
    /// has this name and equal data.
    RevisionNameTaken(Option<(String, Text)>),
    /// The requests to create Pods have been answered.
    PodCreationEnded(PodCreationOutcome),
    /// The answer to the creation of a Pod for the node with this name was lost, so the Pod may exist.
    PodCreationAnswerLost(Text),
    /// The server has refused to create a Pod for the node with this name. The next sync begins with the nodes after this node.
    PodCreationRefused(Text),
    /// The server has refused to delete a Pod on the node with this name. The next sync begins with the nodes after this node.
    PodDeletionRefused(Text),
    /// The answer to the deletion of this Pod was lost, and the Pod is deleted. The next sync waits until the cache shows this.
    PodDeletionAnswerLost(SharedPod),
}

impl io::MemoryNote for Note {
    type Query = ();
    type NewState = ();
}

pub(super) type Io<'r> = io::Io<'r, Note>;

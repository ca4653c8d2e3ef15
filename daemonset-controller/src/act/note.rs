use common::{intern::Text, io, meta::Meta};

use crate::objects::{CachedPod, PodRef};

/// A change of the controller's memory that a sync requests.
#[derive(Debug)]
pub enum Note {
    /// The selector of the DaemonSet is invalid; the value is the error.
    BrokenSelector(String),
    /// The DaemonSet was deleted or replaced during an adoption, so the next sync adopts Pods again before it creates or
    /// deletes any.
    LostOwner,
    /// The server denies to change or delete this revision, so the next syncs omit the change until a retry is due.
    RefusedRevision(Box<Meta>),
    /// The server stored this new Pod without the label that the watch of Pods selects, so the Pod must be tracked by reads.
    UnlabelledPod(Box<CachedPod>),
    /// The server denies to change this Pod, so the next syncs omit the change until a retry is due.
    RefusedPod(Box<Meta>),
    /// The name of the new revision and the hash of the equal revision that has this name; `None` if the name is free.
    TakenName(Option<(String, Text)>),
    /// The server refuses new Pods because the namespace of the DaemonSet is terminating.
    NamespaceTerminates,
    /// The creation of a Pod for the node with this name may have taken effect, because its answer was lost.
    LostCreate(Text),
    /// The server has refused to create a Pod for the node with this name, so the next sync begins with the nodes after it.
    RefusedCreate(Text),
    /// The server has refused to delete a Pod on the node with this name, so the next sync begins with the nodes after it.
    RefusedDelete(Text),
    /// This Pod was probably deleted by a request with a lost answer. The next sync waits until the cache shows the deletion.
    Deleted(PodRef),
}

impl io::Note for Note {
    type Question = ();
    type Fresh = ();
}

pub(super) type Io<'r> = io::Io<'r, Note>;

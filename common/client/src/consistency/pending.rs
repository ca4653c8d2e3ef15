//! What a sync waits for: the writes of this process that the caches do not show yet.

use std::{fmt, time::Duration};

use super::STALE_CACHE_RECHECK_INTERVAL;
use crate::{
    meta::{NamespacedName, ResourceVersion, Uid},
    object::{CachedObjectError, Resource},
};

/// A write of this process that the caches do not show yet, so that the sync of the owner has to wait.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum UnseenWrite {
    /// The cache has not reached the version of a write.
    #[error("read version: {read} is not as new as written version: {written} for group resource {resource}")]
    VersionNotReached {
        /// Resource of the written object.
        resource: Resource,
        /// `resourceVersion` that the write produced.
        written: ResourceVersion,
        /// `resourceVersion` that the cache has reached.
        read: ResourceVersion,
    },
    /// The server refused writes to stale children, or no longer has the owner itself.
    #[error("{count} {resource} have changed or are gone since the version in the cache")]
    Conflicts {
        /// Resource of the stale objects.
        resource: Resource,
        /// Number of objects with a stale state in the cache.
        count: usize,
    },
    /// The cache shows deleted children as not terminating.
    #[error("{count} deleted {resource} are not terminating in the cache yet")]
    DeletionsNotShown {
        /// Resource of the deleted children.
        resource: Resource,
        /// Number of deleted children that the cache shows as not terminating.
        count: usize,
    },
    /// Children may still appear, because the answers to create requests were lost.
    #[error("{count} {resource} may have been created by requests that were not answered")]
    UnansweredCreations {
        /// Resource of the children that may still appear.
        resource: Resource,
        /// Number of children that may still appear.
        count: usize,
    },
}

/// The object or the key on whose behalf writes are recorded.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum LedgerOwner {
    /// An object, by its UID. Another object with the same name has another record.
    Object(Uid),
    /// A key of the work queue, for written objects that can outlive the object of the key.
    Key(NamespacedName),
}

impl From<&Uid> for LedgerOwner {
    fn from(uid: &Uid) -> Self {
        Self::Object(uid.clone())
    }
}

impl From<&NamespacedName> for LedgerOwner {
    fn from(key: &NamespacedName) -> Self {
        Self::Key(key.clone())
    }
}

impl From<&Self> for LedgerOwner {
    fn from(owner: &Self) -> Self {
        owner.clone()
    }
}

impl fmt::Display for LedgerOwner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Object(uid) => uid.fmt(f),
            Self::Key(key) => key.fmt(f),
        }
    }
}

/// The unseen writes for which a sync waits. A sync always waits for the newer version of an object after a conflict.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WaitPolicy {
    /// A sync waits for all writes, so its snapshot never has pending writes.
    AllWrites,
    /// A sync waits for written versions. Its snapshot has the creations and deletions that the caches may not show.
    WrittenVersions,
    /// A sync waits for no further writes. Its snapshot has them.
    ConflictsOnly,
}

impl WaitPolicy {
    pub(super) fn waits_for(self, unseen: &UnseenWrite) -> bool {
        match unseen {
            UnseenWrite::Conflicts { .. } => true,
            UnseenWrite::VersionNotReached { .. } => self != Self::ConflictsOnly,
            UnseenWrite::DeletionsNotShown { .. } | UnseenWrite::UnansweredCreations { .. } => self == Self::AllWrites,
        }
    }
}

/// Writes of this process that the caches do not show yet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PendingWrites {
    /// The first kind of these writes, in words for diagnostics.
    pub description: String,
    /// The longest time until the caches are to be checked again.
    pub max_wait: Duration,
    /// The resource of a cache that has not reached a written version; `None` for creations, deletions and conflicts.
    pub stale_resource: Option<Resource>,
}

impl PendingWrites {
    pub(super) fn new(unseen: &UnseenWrite, left: Duration) -> Self {
        let stale_resource = match unseen {
            UnseenWrite::VersionNotReached { resource, .. } => Some(resource.clone()),
            _ => None,
        };
        let max_wait = if stale_resource.is_some() { left.min(STALE_CACHE_RECHECK_INTERVAL) } else { left };
        Self { description: unseen.to_string(), max_wait, stale_resource }
    }
}

/// The reason why [`Ledger::read`](super::Ledger::read) returns no object.
#[derive(Clone, Debug)]
pub enum ReadError {
    /// The cache has no object with this key.
    Gone,
    /// The sync waits for writes that the caches do not show yet, for at most two seconds.
    Pending(PendingWrites),
    /// The cached object cannot be decoded.
    Unreadable(CachedObjectError),
}

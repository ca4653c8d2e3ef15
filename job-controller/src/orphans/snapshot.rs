//! The Pods of one sync.

use crate::jobs::snapshot::PodRef;

/// Pods that carry the tracking finalizer and have no Job that counts them.
#[derive(Clone, Debug)]
pub(crate) struct Snapshot {
    /// The Pods.
    pub(crate) pods: Vec<PodRef>,
}

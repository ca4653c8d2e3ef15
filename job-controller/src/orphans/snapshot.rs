//! The input of one sync.

use common::meta::Uid;

use crate::jobs::snapshot::PodRef;

/// Pods that may carry the tracking finalizer unnecessarily.
#[derive(Clone, Debug)]
pub(crate) struct Snapshot {
    /// Candidates to check.
    pub(crate) pods: Vec<Candidate>,
    /// The UID of the key's Job, if no Job counts these Pods any more.
    pub(crate) ended_job: Option<Uid>,
}

/// A Pod that may be an orphan.
#[derive(Clone, Debug)]
pub(crate) struct Candidate {
    /// The cached Pod.
    pub(crate) pod: PodRef,
    /// Whether the Job in the owner reference counts the Pod.
    pub(crate) is_counted: bool,
}

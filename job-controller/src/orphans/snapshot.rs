//! Everything one sync may look at.

use common::meta::Uid;

use crate::jobs::snapshot::PodRef;

/// Pods that may carry the tracking finalizer in vain.
#[derive(Clone, Debug)]
pub(crate) struct Snapshot {
    /// The Pods.
    pub(crate) pods: Vec<Candidate>,
    /// The Job whose Pods these are, if there is none any more that counts them.
    pub(crate) ended_job: Option<Uid>,
}

/// A Pod that may be an orphan.
#[derive(Clone, Debug)]
pub(crate) struct Candidate {
    /// The Pod.
    pub(crate) pod: PodRef,
    /// Whether the Job that its owner reference names counts it.
    pub(crate) is_counted: bool,
}

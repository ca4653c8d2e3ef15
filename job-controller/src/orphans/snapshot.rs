//! The input of one sync of the orphan loop.

use common::meta::Uid;

use crate::jobs::snapshot::SharedPod;

#[derive(Clone, Debug)]
pub(crate) struct Snapshot {
    pub(crate) possible_orphans: Vec<PossibleOrphan>,
    /// The UID of the Job in the key, if this Job has finished or was deleted; `None` if it counts Pods, or the key is a Pod.
    pub(crate) finished_or_deleted_job_uid: Option<Uid>,
}

/// A Pod that may carry a leftover finalizer.
#[derive(Clone, Debug)]
pub(crate) struct PossibleOrphan {
    pub(crate) pod: SharedPod,
    /// Whether the Job in the owner reference counts the Pod.
    pub(crate) is_counted_by_job: bool,
}

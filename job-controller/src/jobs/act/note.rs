//! Notes: changes of the controller's memory or metrics that a sync of a Job asks for.

use std::collections::BTreeMap;

use common::{io, meta::Uid};
use jiff::SignedDuration;

use crate::{
    jobs::{
        plan::JobEnd,
        snapshot::{FailureRecord, SchedulingObjects},
    },
    metrics::PodCreationReason,
    objects::{FailurePolicyAction, JobStatus},
};

/// A change of the controller's memory or metrics that a sync asks for.
#[derive(Debug)]
pub enum Note {
    /// The Job is not synced, because its selector is invalid for this reason.
    InvalidSelector(String),
    /// The server has answered all requests to create Pods.
    PodsCreated {
        reason: PodCreationReason,
        created: usize,
        /// Refusals because the namespace is terminating are not included.
        refused: usize,
    },
    /// The server refuses Pods because the namespace is terminating.
    PodRefusedByNamespace,
    /// A status was written: the stored status before this write, and after it.
    StatusWritten(Box<[JobStatus; 2]>),
    /// Failures since the last success, after the write of a status that lists or counts all of them.
    FailureRecordChanged(FailureRecord),
    /// The number of failed Pods for each action of the failure policy.
    PolicyActionsTaken(BTreeMap<FailurePolicyAction, u64>),
    /// The finalizers of these Pods are about to be removed.
    RemovingFinalizers(Vec<Uid>),
    /// The finalizers of these Pods may still be there.
    FinalizersKept(Vec<Uid>),
    /// The status with the end of the Job has been written.
    JobFinished(Box<JobEnd>),
    /// The sync has ended.
    SyncFinished {
        is_ok: bool,
        /// The value of the metric label `action`.
        action: &'static str,
        elapsed: SignedDuration,
    },
}

impl io::Note for Note {
    type Query = ();
    type NewState = SchedulingObjects;
}

pub(super) type Io<'r> = io::Io<'r, Note>;

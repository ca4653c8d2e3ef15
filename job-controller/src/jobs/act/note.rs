//! Notes: changes of the controller's memory or metrics that a sync of a Job asks for.

use std::collections::BTreeMap;

use common::{io, meta::Uid, pod_creation_pauses::PodCreationOutcome};
use jiff::SignedDuration;

use crate::{
    jobs::{
        plan::JobEnd,
        snapshot::{FailureRecord, SchedulingObjects},
    },
    metrics::PodCreationReason,
    objects::{FailurePolicyAction, JobStatus},
};

/// A change of the controller's memory or metrics that the sync of a Job asks for with `Io::apply_memory_note`.
#[derive(Debug)]
pub enum Note {
    /// The Job is not synced because its selector is invalid, for this reason.
    InvalidSelector(String),
    /// The server has answered all requests to create Pods.
    PodsCreated {
        reason: PodCreationReason,
        created: usize,
        /// The number of refused requests, except refusals because the namespace is terminating.
        refused: usize,
        outcome: PodCreationOutcome,
    },
    /// A status was written: the status before the write, and the status after it.
    StatusWritten(Box<[JobStatus; 2]>),
    /// The failures since the last success, to be remembered after the first status of the sync has been written.
    FailureRecordChanged(FailureRecord),
    /// The failure policy has chosen actions: the number of failed Pods for each action.
    PolicyActionsTaken(BTreeMap<FailurePolicyAction, u64>),
    /// The finalizers of these Pods are about to be removed.
    RemovingFinalizers(Vec<Uid>),
    /// These Pods may still carry their finalizers, because the server did not confirm the removal.
    FinalizersNotRemoved(Vec<Uid>),
    /// The status with the end of the Job has been written.
    JobFinished(Box<JobEnd>),
    /// The sync has finished, so the metrics must count it.
    SyncFinished {
        is_ok: bool,
        /// The value of the metric label `action`.
        action: &'static str,
        elapsed: SignedDuration,
    },
}

impl io::MemoryNote for Note {
    type Query = ();
    type NewState = SchedulingObjects;
}

pub(super) type Io<'r> = io::Io<'r, Note>;

//! Notes: changes of the controller's memory or metrics that a sync of a Job asks for.

use std::collections::BTreeMap;

use common::{io, meta::Uid};
use jiff::SignedDuration;

use crate::{
    jobs::{
        plan::End,
        snapshot::{Record, Scheduling},
    },
    metrics::CreationReason,
    objects::{Action, Status},
};

/// A change of the controller's memory or metrics that a sync asks for.
#[derive(Debug)]
pub enum Note {
    /// The Job is not synced, because its selector is invalid for this reason.
    BrokenSelector(String),
    /// The server has answered all requests to create Pods.
    Created {
        reason: CreationReason,
        created: usize,
        /// Refusals because the namespace is terminating are not included.
        refused: usize,
    },
    /// The server refuses Pods because the namespace is terminating.
    NamespaceTerminates,
    /// A status was written: the stored status before this write, and after it.
    Counted(Box<[Status; 2]>),
    /// Failures since the last success, after the write of a status that lists or counts all of them.
    Backoff(Record),
    /// The number of failed Pods for each action of the failure policy.
    Policy(BTreeMap<Action, u64>),
    /// The finalizers of these Pods are about to be removed.
    Untracking(Vec<Uid>),
    /// The finalizers of these Pods may still be there.
    StillTracked(Vec<Uid>),
    /// The status with the end of the Job has been written.
    Finished(Box<End>),
    /// The sync has ended.
    Synced {
        is_ok: bool,
        /// The value of the metric label `action`.
        action: &'static str,
        took: SignedDuration,
    },
}

impl io::Note for Note {
    type Question = ();
    type Fresh = Scheduling;
}

pub(super) type Io<'r> = io::Io<'r, Note>;

//! The notes that a sync of a Job sends to the controller.

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

/// A change of the controller's memory or metrics.
#[derive(Debug)]
pub enum Note {
    /// The selector is invalid, so that nothing is done.
    BrokenSelector(String),
    /// The server has answered all requests to create Pods.
    Created {
        /// The reason as a metric label.
        reason: CreationReason,
        /// The number of created Pods.
        created: usize,
        /// The number of refused requests.
        refused: usize,
    },
    /// The server refuses Pods because the namespace is terminating.
    NamespaceTerminates,
    /// The status was written: the status before the write, and the status that is stored now.
    Counted(Box<[Status; 2]>),
    /// Failures since the last success, all of which the stored status lists or counts.
    Backoff(Record),
    /// The number of Pods by the action of the failure policy.
    Policy(BTreeMap<Action, u64>),
    /// The finalizers of these Pods are about to be removed.
    Untracking(Vec<Uid>),
    /// The finalizers of these Pods may still be there.
    StillTracked(Vec<Uid>),
    /// The status with the end of the Job has been written.
    Finished(Box<End>),
    /// The sync has ended.
    Synced {
        /// Whether the sync succeeded.
        is_ok: bool,
        /// The value of the metric label `action`.
        action: &'static str,
        /// The duration of the sync.
        took: SignedDuration,
    },
}

impl io::Note for Note {
    type Question = ();
    type Fresh = Scheduling;
}

pub(super) type Io<'r> = io::Io<'r, Note>;

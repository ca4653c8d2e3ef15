//! What a sync asks the controller's memory for.

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
    /// The selector breaks the rules, so that nothing is done.
    BrokenSelector(String),
    /// Pods were to be created.
    Created {
        /// Why.
        reason: CreationReason,
        /// How many requests were granted.
        created: usize,
        /// How many requests were refused.
        refused: usize,
    },
    /// The server refuses Pods because the namespace terminates.
    NamespaceTerminates,
    /// The status was written: the status before, and the one that is stored now.
    Counted(Box<[Status; 2]>),
    /// Failures since the last success, all of which the status names or counts.
    Backoff(Record),
    /// The failure policy has decided about Pods: their number by action.
    Policy(BTreeMap<Action, u64>),
    /// The finalizers of these Pods are about to be removed.
    Untracking(Vec<Uid>),
    /// The finalizers of these Pods may still be there.
    StillTracked(Vec<Uid>),
    /// The Job has ended.
    Finished(Box<End>),
    /// The sync has ended.
    Synced {
        /// Whether it succeeded.
        is_ok: bool,
        /// The label of what it did.
        action: &'static str,
        /// How long it took.
        took: SignedDuration,
    },
}

impl io::Note for Note {
    type Question = ();
    type Fresh = Scheduling;
}

pub(super) type Io<'r> = io::Io<'r, Note>;

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
    /// Pods were created, and so many refused.
    Created(CreationReason, usize, usize),
    /// The server refuses Pods because the namespace terminates.
    NamespaceTerminates,
    /// The status was written; from this one to that one.
    Counted(Box<[Status; 2]>),
    /// The failures that the status knows of now.
    Backoff(Record),
    /// A failure policy has decided about Pods.
    Policy(BTreeMap<Action, u64>),
    /// The finalizers of these Pods are about to be removed.
    Process(Vec<Uid>),
    /// The finalizers of these Pods may still be there.
    Unprocess(Vec<Uid>),
    /// The Job has ended.
    Finished(Box<End>),
    /// The sync has ended, well or not; it was about that.
    Synced(bool, &'static str, SignedDuration),
}

impl io::Note for Note {
    type Question = ();
    type Fresh = Scheduling;
}

pub(super) type Io<'r> = io::Io<'r, Note>;

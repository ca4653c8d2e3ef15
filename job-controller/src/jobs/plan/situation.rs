//! What a Job's Pods mean: the numbers of one sync.

use std::collections::BTreeMap;

use jiff::Timestamp;

use super::end::End;
use crate::{
    indexes::IndexSet,
    jobs::snapshot::{PodRef, Record},
};

/// A Pod that is the Job's own.
#[derive(Clone, Debug)]
pub struct Claimed {
    /// The Pod.
    pub pod: PodRef,
    /// Whether it carries the tracking finalizer, whatever the cache says of one that was adopted just now.
    pub tracked: bool,
    /// Whether its finalizer was removed though the cache does not show it yet.
    pub processed: bool,
    /// When it ended; never in the future. Means nothing for a Pod that still runs.
    pub finished: Timestamp,
}

impl Claimed {
    /// Whether its end is yet to be counted.
    pub fn is_uncounted(&self) -> bool {
        self.tracked && !self.processed
    }
}

/// The numbers of one sync.
#[derive(Clone, Debug)]
pub struct Situation {
    /// The Pods.
    pub pods: Vec<Claimed>,
    /// The Pods that are neither finished nor terminating, as positions in `pods`.
    pub active: Vec<usize>,
    /// How many of them are ready.
    pub ready: usize,
    /// How many are terminating and not finished.
    pub terminating: usize,
    /// How many Pods have succeeded, counted or not; for an Indexed Job, how many indexes.
    pub succeeded: usize,
    /// How many Pods have failed, counted or not.
    pub failed: usize,
    /// The indexes that had succeeded before.
    pub before: IndexSet,
    /// The indexes that have succeeded.
    pub completed: IndexSet,
    /// The indexes that have failed for good, where that is limited per index.
    pub given_up: Option<IndexSet>,
    /// For each index that waits for its next Pod: the failed Pod whose counters the next one inherits, as a position in `pods`.
    pub kept: BTreeMap<u32, usize>,
    /// Failures since the last success.
    pub backoff: Record,
    /// When the Job started.
    pub start_time: Option<Timestamp>,
    /// How the Job ends, if that is decided by what has ended so far.
    pub end: Option<End>,
}

impl Situation {
    /// The active Pods.
    pub fn active_pods(&self) -> impl Iterator<Item = &Claimed> {
        self.active.iter().map(|at| &self.pods[*at])
    }

    /// Whether that Pod waits for the one that inherits its counters.
    pub fn is_kept(&self, at: usize) -> bool {
        let index = self.pods[at].pod.index;
        index.is_some_and(|index| self.kept.get(&index) == Some(&at))
    }
}

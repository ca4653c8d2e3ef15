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
pub struct OwnPod {
    /// The Pod.
    pub pod: PodRef,
    /// Whether it carries the tracking finalizer, whatever the cache says of one that was adopted just now.
    pub tracked: bool,
    /// Whether this process removed the finalizer although the cache still shows it.
    pub untracked_here: bool,
    /// As [`CachedPod::finished`](crate::objects::CachedPod::finished), but never in the future.
    pub finished: Timestamp,
}

impl OwnPod {
    /// Whether it still carries the finalizer, so that its end is yet to be counted.
    pub fn has_finalizer(&self) -> bool {
        self.tracked && !self.untracked_here
    }
}

/// The numbers of one sync.
#[derive(Clone, Debug)]
pub struct Situation {
    /// The Pods.
    pub pods: Vec<OwnPod>,
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
    /// The indexes that have succeeded.
    pub completed: IndexSet,
    /// Those of them that the stored status does not name.
    pub newly_completed: IndexSet,
    /// The indexes that have failed for good, where that is limited per index.
    pub failed_indexes: Option<IndexSet>,
    /// For each index that waits for its next Pod: the failed Pod whose counters the next one inherits, as a position in `pods`.
    pub predecessors: BTreeMap<u32, usize>,
    /// Failures since the last success.
    pub backoff: Record,
    /// When the Job started.
    pub start_time: Option<Timestamp>,
    /// How the Job ends, if the Pods that have ended so far decide it.
    pub decided_end: Option<End>,
}

impl Situation {
    /// Whether that Pod waits for the next one of its index, which inherits its counters.
    pub fn is_predecessor(&self, position: usize) -> bool {
        let index = self.pods[position].pod.index;
        index.is_some_and(|index| self.predecessors.get(&index) == Some(&position))
    }
}

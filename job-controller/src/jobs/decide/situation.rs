//! Counts a Job's Pods by their states and indexes.

use std::{collections::BTreeMap, sync::Arc};

use common::{map::HashSet, meta::Uid, pods::Phase};

use super::{
    end,
    failure::{fails_index, is_counted, is_failed},
};
use crate::{
    indexes::IndexSet,
    jobs::{
        plan::{OwnPod, Situation},
        snapshot::{PodRef, Snapshot},
    },
    objects::{CachedPod, Job},
};

/// Returns the Pods that the Job keeps, and the Pods `adopted` in this sync.
pub fn own_pods(snapshot: &Snapshot, adopted: &[PodRef]) -> Vec<OwnPod> {
    let own = |pod: &PodRef, adopted: bool| OwnPod {
        pod: Arc::clone(pod),
        tracked: adopted || pod.tracked,
        untracked_here: snapshot.untracked_here.contains(&pod.meta().uid),
        finished: snapshot.seen_ended.get(&pod.meta().uid).map_or(pod.finished, |seen| pod.finished.min(*seen)),
    };
    let kept = snapshot.claims.keep.iter().map(|pod| own(pod, false));
    kept.chain(adopted.iter().map(|pod| own(pod, true))).collect()
}

impl Situation {
    /// Counts these Pods by their states and indexes, and decides whether they end the Job.
    pub fn new(snapshot: &Snapshot, pods: Vec<OwnPod>) -> Self {
        let job = &*snapshot.job;
        let active: Vec<usize> = (0..pods.len()).filter(|position| pods[*position].pod.is_active()).collect();
        let mut this = Self {
            ready: active.iter().filter(|position| pods[**position].pod.is_ready()).count(),
            terminating: pods.iter().filter(|c| c.pod.is_terminating()).count(),
            succeeded: 0,
            failed: 0,
            newly_completed: IndexSet::default(),
            completed: IndexSet::default(),
            failed_indexes: None,
            predecessors: BTreeMap::new(),
            backoff: snapshot.backoff,
            start_time: job.status.start_time.or((!job.suspend).then_some(snapshot.now)),
            decided_end: None,
            active,
            pods,
        };
        if job.is_indexed() {
            this.take_stock_of_indexes(job);
        }
        this.count(snapshot);
        this.decided_end = end::decided_end(snapshot, &this);
        this
    }

    /// Counts finished Pods: the Pods that the stored status counts, the Pods that it lists, and newly finished Pods.
    fn count(&mut self, snapshot: &Snapshot) {
        let job = &*snapshot.job;
        let named = &job.status.named;
        let named_uids: HashSet<&Uid> = named.succeeded.iter().chain(&named.failed).collect();
        let is_new =
            |c: &&OwnPod| c.has_finalizer() && job.has_index_of(&c.pod) && !named_uids.contains(&c.pod.meta().uid);
        let (mut succeeded, mut failed, mut ignored) = (Vec::new(), Vec::new(), 0);
        for own in self.pods.iter().filter(is_new) {
            let pod = &*own.pod;
            if pod.phase == Phase::Succeeded {
                succeeded.push(own.finished);
            } else if is_failed(job, pod) {
                failed.push(own.finished);
                ignored += usize::from(!is_counted(job, pod));
            }
        }
        let number = |count: i32| usize::try_from(count).unwrap_or(0);
        self.succeeded = if job.is_indexed() {
            self.completed.len()
        } else {
            number(job.status.succeeded) + succeeded.len() + named.succeeded.len()
        };
        self.failed = number(job.status.failed) + failed.len() - ignored + named.failed.len();
        self.backoff = snapshot.backoff.after(&succeeded, &failed);
    }

    /// Finds the completed and the failed indexes. An index is never both: the stored status takes precedence, and among new
    /// results a success wins.
    fn take_stock_of_indexes(&mut self, job: &Job) {
        let completions = job.indexes();
        let stored_completed = IndexSet::parse(&job.status.completed_indexes, completions);
        let stored_failed = job.status.failed_indexes.as_deref().filter(|_| job.backoff_limit_per_index.is_some());
        let stored_failed = IndexSet::parse(stored_failed.unwrap_or_default(), completions).without(&stored_completed);
        let named_failed: HashSet<&Uid> = job.status.named.failed.iter().collect();
        let new = self.pods.iter().filter(|c| c.has_finalizer());
        let indexes = new.filter_map(|c| Some((c, c.pod.index.filter(|index| *index < completions)?)));
        let newly_completed = indexes.clone().filter(|(c, index)| {
            let is_named_failed = named_failed.contains(&c.pod.meta().uid);
            let is_stored = stored_completed.contains(*index) || stored_failed.contains(*index);
            c.pod.phase == Phase::Succeeded && !is_named_failed && !is_stored
        });
        let newly_completed: Vec<u32> = newly_completed.map(|(_, index)| index).collect();
        self.completed = stored_completed.with(newly_completed.iter().copied());
        self.newly_completed = IndexSet::default().with(newly_completed);
        if let Some(limit) = job.backoff_limit_per_index {
            let fails = |pod: &CachedPod| is_failed(job, pod) && fails_index(job, pod, limit);
            let newly_failed = indexes.filter(|(c, index)| fails(&c.pod) && !self.completed.contains(*index));
            self.failed_indexes = Some(stored_failed.with(newly_failed.map(|(_, index)| index)));
            self.predecessors = self.find_predecessors(job);
        }
    }

    /// Returns, for each index that needs a new Pod, the failed Pod that passes its failure counters to the new Pod.
    ///
    /// Upstream: `pkg/controller/job`, `getPodsWithDelayedDeletionPerIndex`.
    fn find_predecessors(&self, job: &Job) -> BTreeMap<u32, usize> {
        let active: HashSet<u32> = self.active.iter().filter_map(|position| self.pods[*position].pod.index).collect();
        let is_finished = |index: u32| {
            self.completed.contains(index) || self.failed_indexes.as_ref().is_some_and(|set| set.contains(index))
        };
        let mut predecessors: BTreeMap<u32, usize> = BTreeMap::new();
        for (position, own) in self.pods.iter().enumerate() {
            let pod = &*own.pod;
            let Some(index) = pod.index.filter(|index| *index < job.indexes()) else { continue };
            if !own.has_finalizer() || !is_failed(job, pod) || is_finished(index) || active.contains(&index) {
                continue;
            }
            let replaces = |other: &usize| {
                let other = &self.pods[*other];
                other.pod.failures_before() <= pod.failures_before() && other.finished <= own.finished
            };
            if predecessors.get(&index).is_none_or(replaces) {
                predecessors.insert(index, position);
            }
        }
        predecessors
    }
}

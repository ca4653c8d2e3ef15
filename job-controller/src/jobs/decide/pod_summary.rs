//! Counts a Job's Pods by their states and indexes.

use std::{collections::BTreeMap, sync::Arc};

use common::{pods::Phase, prelude::*};
use jiff::Timestamp;

use super::{
    end,
    failure::{is_pod_failed, is_pod_failure_counted, pod_fails_index},
};
use crate::{
    indexes::CompletionIndexSet,
    jobs::{
        plan::{ControlledPod, JobEnd, JobResult, PodSummary},
        snapshot::{SharedPod, Snapshot},
    },
    objects::{CachedPod, Job},
};

/// Returns the Pods that the Job keeps, and the `adopted_pods` of this sync.
pub fn controlled_pods(snapshot: &Snapshot, adopted_pods: &[SharedPod]) -> Vec<ControlledPod> {
    let controlled = |pod: &SharedPod, is_adopted: bool| ControlledPod {
        pod: Arc::clone(pod),
        has_tracking_finalizer: is_adopted || pod.has_tracking_finalizer,
        is_finalizer_removed_by_process: snapshot.pod_uids_with_removed_finalizer.contains(&pod.meta().uid),
        finished_at: snapshot
            .pod_finish_first_seen_at
            .get(&pod.meta().uid)
            .map_or(pod.finished_at, |seen| pod.finished_at.min(*seen)),
    };
    let kept = snapshot.pod_claims.to_keep.iter().map(|pod| controlled(pod, false));
    kept.chain(adopted_pods.iter().map(|pod| controlled(pod, true))).collect()
}

/// The index sets in the stored status of an Indexed Job. They are parsed once a sync, because their texts can be long.
#[derive(Default)]
struct StoredIndexSets {
    completed: CompletionIndexSet,
    /// Failed indexes without the completed indexes; empty without `spec.backoffLimitPerIndex`.
    failed: CompletionIndexSet,
}

impl StoredIndexSets {
    fn parse(job: &Job) -> Self {
        if !job.is_indexed() {
            return Self::default();
        }
        let completed = CompletionIndexSet::parse(&job.status.completed_indexes, job.index_count());
        let failed = job.status.failed_indexes.as_deref().filter(|_| job.backoff_limit_per_index.is_some());
        let failed = CompletionIndexSet::parse(failed.unwrap_or_default(), job.index_count());
        Self { failed: failed.without_indexes(&completed), completed }
    }
}

impl PodSummary {
    /// Counts these Pods by their states and indexes, and decides whether they end the Job.
    pub fn new(snapshot: &Snapshot, pods: Vec<ControlledPod>) -> Self {
        let stored_index_sets = StoredIndexSets::parse(&snapshot.job);
        let mut this = Self::count_all(snapshot, &stored_index_sets, pods);
        // The end of a successful Job removes the finalizer of a Pod before it deletes the Pod.
        let failure = this.decided_job_end.as_ref().filter(|end| end.job_result == JobResult::Failure);
        if this.failed_index_set.is_some()
            && let Some(end) = failure
        {
            this.failed_index_set = this.failed_indexes_at_end(snapshot, &stored_index_sets, end);
        }
        this
    }

    /// Counts these Pods as if the end of the Job had deleted none of them.
    fn count_all(snapshot: &Snapshot, stored_index_sets: &StoredIndexSets, pods: Vec<ControlledPod>) -> Self {
        let job = &*snapshot.job;
        let active: Vec<usize> = (0..pods.len()).filter(|position| pods[*position].pod.is_active()).collect();
        let mut this = Self {
            ready_pod_count: active.iter().filter(|position| pods[**position].pod.is_ready()).count(),
            terminating_pod_count: pods.iter().filter(|c| c.pod.is_terminating()).count(),
            success_count: 0,
            failed_pod_count: 0,
            newly_completed_index_set: CompletionIndexSet::default(),
            completed_index_set: CompletionIndexSet::default(),
            failed_index_set: None,
            predecessor_position_by_index: BTreeMap::new(),
            failure_record: snapshot.failure_record,
            start_time: job.status.start_time.or((!job.suspend).then_some(snapshot.now)),
            decided_job_end: None,
            active_pod_positions: active,
            pods,
        };
        if job.is_indexed() {
            this.find_completed_and_failed_indexes(job, stored_index_sets);
        }
        this.count_finished_pods(snapshot);
        this.decided_job_end = end::decide_end(snapshot, &this);
        this
    }

    /// Returns the failed indexes of a Job that fails, without the indexes of Pods that this end has deleted.
    ///
    /// A sync deletes the Pods of a failed Job before the status announces the end, and it may stop in between, or fail to
    /// remove a finalizer. Later syncs then find these Pods terminating or failed. Once the end is announced, the stored indexes
    /// are final. Before that, the Pods count in the order of their deletion, and only until they end the Job: later deletions
    /// are consequences of the end.
    fn failed_indexes_at_end(
        &self,
        snapshot: &Snapshot,
        stored_index_sets: &StoredIndexSets,
        end: &JobEnd,
    ) -> Option<CompletionIndexSet> {
        if !end.is_newly_decided {
            return Some(stored_index_sets.failed.without_indexes(&self.completed_index_set));
        }
        let deleted_at = |controlled_pod: &ControlledPod| {
            controlled_pod.pod.meta().deletion_timestamp.filter(|_| controlled_pod.pod.phase != Phase::Succeeded)
        };
        let mut deletion_times: Vec<Timestamp> = self.pods.iter().filter_map(deleted_at).collect();
        deletion_times.sort_unstable();
        deletion_times.dedup();
        let deleted_before = |time: Timestamp| {
            let pods = self.pods.iter().filter(|controlled_pod| deleted_at(controlled_pod).is_none_or(|at| at < time));
            Self::count_all(snapshot, stored_index_sets, pods.cloned().collect())
        };
        let first = deletion_times.partition_point(|time| deleted_before(*time).decided_job_end.is_none());
        match deletion_times.get(first) {
            Some(time) => deleted_before(*time).failed_index_set,
            None => self.failed_index_set.clone(),
        }
    }

    /// Counts finished Pods: the Pods that the stored status counts, the Pods that it lists, and newly finished Pods.
    fn count_finished_pods(&mut self, snapshot: &Snapshot) {
        let job = &*snapshot.job;
        let named = &job.status.uncounted_terminated_pods;
        let named_uids: HashSet<&Uid> = named.succeeded.iter().chain(&named.failed).collect();
        let is_new = |c: &&ControlledPod| {
            c.still_has_finalizer() && job.accepts_index_of(&c.pod) && !named_uids.contains(&c.pod.meta().uid)
        };
        let (mut succeeded, mut failed, mut ignored) = (Vec::new(), Vec::new(), 0);
        for controlled_pod in self.pods.iter().filter(is_new) {
            let pod = &*controlled_pod.pod;
            if pod.phase == Phase::Succeeded {
                succeeded.push(controlled_pod.finished_at);
            } else if is_pod_failed(job, pod) {
                failed.push(controlled_pod.finished_at);
                ignored += usize::from(!is_pod_failure_counted(job, pod));
            }
        }
        let number = |count: i32| usize::try_from(count).unwrap_or(0);
        self.success_count = if job.is_indexed() {
            self.completed_index_set.len()
        } else {
            number(job.status.succeeded) + succeeded.len() + named.succeeded.len()
        };
        self.failed_pod_count = number(job.status.failed) + failed.len() - ignored + named.failed.len();
        self.failure_record = snapshot.failure_record.with_finished_pods(&succeeded, &failed);
    }

    /// Sets the index sets. No index is both completed and failed, because the stored status takes precedence over new results,
    /// and a new success takes precedence over a new failure.
    fn find_completed_and_failed_indexes(&mut self, job: &Job, stored_index_sets: &StoredIndexSets) {
        let completions = job.index_count();
        let StoredIndexSets { completed: stored_completed, failed: stored_failed } = stored_index_sets;
        let named_failed: HashSet<&Uid> = job.status.uncounted_terminated_pods.failed.iter().collect();
        let new = self.pods.iter().filter(|c| c.still_has_finalizer());
        let indexes = new.filter_map(|c| Some((c, c.pod.completion_index.filter(|index| *index < completions)?)));
        let newly_completed = indexes.clone().filter(|(c, index)| {
            let is_named_failed = named_failed.contains(&c.pod.meta().uid);
            let is_stored = stored_completed.contains(*index) || stored_failed.contains(*index);
            c.pod.phase == Phase::Succeeded && !is_named_failed && !is_stored
        });
        let newly_completed: Vec<u32> = newly_completed.map(|(_, index)| index).collect();
        self.completed_index_set = stored_completed.clone().with_indexes(newly_completed.iter().copied());
        self.newly_completed_index_set = CompletionIndexSet::default().with_indexes(newly_completed);
        if let Some(limit) = job.backoff_limit_per_index {
            let fails = |pod: &CachedPod| is_pod_failed(job, pod) && pod_fails_index(job, pod, limit);
            let newly_failed = indexes.filter(|(c, index)| fails(&c.pod) && !self.completed_index_set.contains(*index));
            self.failed_index_set = Some(stored_failed.clone().with_indexes(newly_failed.map(|(_, index)| index)));
            self.predecessor_position_by_index = self.find_predecessors(job);
        }
    }

    /// Returns, for each index that needs a new Pod, the position of the failed Pod that passes on its failure counters.
    ///
    /// Upstream: `pkg/controller/job`, `getPodsWithDelayedDeletionPerIndex`.
    fn find_predecessors(&self, job: &Job) -> BTreeMap<u32, usize> {
        let active: HashSet<u32> =
            self.active_pod_positions.iter().filter_map(|position| self.pods[*position].pod.completion_index).collect();
        let is_finished = |index: u32| {
            self.completed_index_set.contains(index)
                || self.failed_index_set.as_ref().is_some_and(|set| set.contains(index))
        };
        let mut predecessors: BTreeMap<u32, usize> = BTreeMap::new();
        for (position, controlled_pod) in self.pods.iter().enumerate() {
            let pod = &*controlled_pod.pod;
            let Some(index) = pod.completion_index.filter(|index| *index < job.index_count()) else { continue };
            if !controlled_pod.still_has_finalizer()
                || !is_pod_failed(job, pod)
                || is_finished(index)
                || active.contains(&index)
            {
                continue;
            }
            let replaces = |other: &usize| {
                let other = &self.pods[*other];
                other.pod.total_index_failure_count() <= pod.total_index_failure_count()
                    && other.finished_at <= controlled_pod.finished_at
            };
            if predecessors.get(&index).is_none_or(replaces) {
                predecessors.insert(index, position);
            }
        }
        predecessors
    }
}

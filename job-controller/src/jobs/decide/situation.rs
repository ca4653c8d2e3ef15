//! Taking stock of a Job's Pods.

use std::{collections::BTreeMap, sync::Arc};

use common::{map::HashSet, meta::Uid, pods::Phase};

use super::{
    end,
    failure::{fails_index, is_counted, is_failed},
};
use crate::{
    indexes::IndexSet,
    jobs::{
        plan::{Claimed, Situation},
        snapshot::{PodRef, Snapshot},
    },
    objects::{CachedPod, Job},
};

/// The Pods that are the Job's own once those of `adopted` were adopted.
pub fn claimed(snapshot: &Snapshot, adopted: &[PodRef]) -> Vec<Claimed> {
    let claim = |pod: &PodRef, adopted: bool| Claimed {
        pod: Arc::clone(pod),
        tracked: adopted || pod.tracked,
        processed: snapshot.processed.contains(&pod.meta().uid),
        finished: snapshot.ends.get(&pod.meta().uid).map_or(pod.finished, |seen| pod.finished.min(*seen)),
    };
    let kept = snapshot.claims.keep.iter().map(|pod| claim(pod, false));
    kept.chain(adopted.iter().map(|pod| claim(pod, true))).collect()
}

impl Situation {
    /// Takes stock of these Pods.
    pub fn new(snapshot: &Snapshot, pods: Vec<Claimed>) -> Self {
        let job = &*snapshot.job;
        let active: Vec<usize> = (0..pods.len()).filter(|at| pods[*at].pod.is_active()).collect();
        let mut this = Self {
            ready: active.iter().filter(|at| pods[**at].pod.is_ready()).count(),
            terminating: pods.iter().filter(|c| c.pod.is_terminating()).count(),
            succeeded: 0,
            failed: 0,
            before: IndexSet::default(),
            completed: IndexSet::default(),
            given_up: None,
            kept: BTreeMap::new(),
            backoff: snapshot.backoff,
            start_time: job.status.start_time.or((!job.suspend).then_some(snapshot.now)),
            end: None,
            active,
            pods,
        };
        if job.is_indexed() {
            this.take_stock_of_indexes(job);
        }
        this.count(snapshot);
        this.end = end::end(snapshot, &this);
        this
    }

    /// Counts what has ended: what was counted, what is named, and what is new.
    fn count(&mut self, snapshot: &Snapshot) {
        let job = &*snapshot.job;
        let ledger = &job.status.uncounted;
        let named: HashSet<&Uid> = ledger.succeeded.iter().chain(&ledger.failed).collect();
        let is_new = |c: &&Claimed| c.is_uncounted() && job.has_index_of(&c.pod) && !named.contains(&c.pod.meta().uid);
        let (mut succeeded, mut failed, mut ignored) = (Vec::new(), Vec::new(), 0);
        for claimed in self.pods.iter().filter(is_new) {
            let pod = &*claimed.pod;
            if pod.phase == Phase::Succeeded {
                succeeded.push(claimed.finished);
            } else if is_failed(job, pod) {
                failed.push(claimed.finished);
                ignored += usize::from(!is_counted(job, pod));
            }
        }
        let number = |count: i32| usize::try_from(count).unwrap_or(0);
        self.succeeded = if job.is_indexed() {
            self.completed.len()
        } else {
            number(job.status.succeeded) + succeeded.len() + ledger.succeeded.len()
        };
        self.failed = number(job.status.failed) + failed.len() - ignored + ledger.failed.len();
        self.backoff = snapshot.backoff.after(&succeeded, &failed);
    }

    /// No index is ever both: what the stored status says stays, and among what is new success wins.
    fn take_stock_of_indexes(&mut self, job: &Job) {
        let completions = job.indexes();
        self.before = IndexSet::parse(&job.status.completed_indexes, completions);
        let gone = job.status.failed_indexes.as_deref().filter(|_| job.backoff_limit_per_index.is_some());
        let gone = IndexSet::parse(gone.unwrap_or_default(), completions).without(&self.before);
        let failed: HashSet<&Uid> = job.status.uncounted.failed.iter().collect();
        let new = self.pods.iter().filter(|c| c.is_uncounted());
        let indexes = new.filter_map(|c| Some((c, c.pod.index.filter(|index| *index < completions)?)));
        let done = indexes.clone().filter(|(c, index)| {
            c.pod.phase == Phase::Succeeded && !failed.contains(&c.pod.meta().uid) && !gone.contains(*index)
        });
        self.completed = self.before.with(done.map(|(_, index)| index));
        if let Some(limit) = job.backoff_limit_per_index {
            let fails = |pod: &CachedPod| is_failed(job, pod) && fails_index(job, pod, limit);
            let lost = indexes.filter(|(c, index)| fails(&c.pod) && !self.completed.contains(*index));
            self.given_up = Some(gone.with(lost.map(|(_, index)| index)));
            self.keep_failed(job);
        }
    }

    /// Finds for each index that waits for a Pod the failed one whose counters the next one inherits.
    ///
    /// Upstream: `pkg/controller/job`, `getPodsWithDelayedDeletionPerIndex`.
    fn keep_failed(&mut self, job: &Job) {
        let active: HashSet<u32> = self.active.iter().filter_map(|at| self.pods[*at].pod.index).collect();
        let over = |index: u32| {
            self.completed.contains(index) || self.given_up.as_ref().is_some_and(|set| set.contains(index))
        };
        let mut kept: BTreeMap<u32, usize> = BTreeMap::new();
        for (at, claimed) in self.pods.iter().enumerate() {
            let pod = &*claimed.pod;
            let Some(index) = pod.index.filter(|index| *index < job.indexes()) else { continue };
            if !claimed.is_uncounted() || !is_failed(job, pod) || over(index) || active.contains(&index) {
                continue;
            }
            let replaces = |known: &usize| {
                let known = &self.pods[*known];
                known.pod.failures_before() <= pod.failures_before() && known.finished <= claimed.finished
            };
            if kept.get(&index).is_none_or(replaces) {
                kept.insert(index, at);
            }
        }
        self.kept = kept;
    }
}

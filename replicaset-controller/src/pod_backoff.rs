//! The back-off of sets with Pods that fail without becoming ready: `--tune failed-pod-backoff=true`.
//!
//! A node may reject a Pod for good (`OutOfcpu`, `NodeAffinity`, `UnexpectedAdmissionError`, ...). Its replacement is created
//! at once and may be rejected at once, thousands of times an hour (kubernetes/kubernetes#72593). This back-off groups failures
//! into rounds. The first failure starts the first round, in which all failed Pods are replaced at once. A replacement that
//! fails soon starts the next round. Before the Pods of each further round are replaced, there is a delay: one second, then
//! twice as long each time, up to a minute. A Pod of the set that becomes ready ends the series of rounds.
//!
//! Finished Pods are not cached. A Pod therefore counts as failed if it disappears while it is assigned to a node, not ready
//! and not terminating. A deleted Pod terminates first, unless it is on no node yet or its deletion is forced. Pods are created
//! only after the cache shows all Pods created before, so every Pod that appears after the next creation is a replacement. Only
//! the clock of this process is used. The state is kept in memory only, so a new leader starts without it.

use std::{sync::Arc, time::Duration};

use common::prelude::*;
use parking_lot::Mutex;

use crate::snapshot::FailedPodBackoff;

/// The delays between two rounds: `base_delay` after the second round, and twice as long after each further one.
const BACKOFF: BackoffSettings = BackoffSettings {
    base_delay: Duration::from_secs(1),
    max_delay: Duration::from_mins(1),
    retry_rate_and_burst: None,
};
/// A replacement that fails before it has this age starts another round. This age equals the longest delay.
const MAX_AGE_OF_QUICK_FAILURE: Duration = BACKOFF.max_delay;
/// A failure starts a new series if the last round began at least this long ago.
const SERIES_EXPIRY: Duration = Duration::from_mins(5);

/// The sets with failing Pods, by UID. Clones share the state.
#[derive(Clone, Debug)]
pub(crate) struct FailedPodBackoffs {
    sets: Arc<Mutex<HashMap<Uid, FailureSeries>>>,
    clock: Clock,
}

/// The failures of one set's Pods since a Pod of the set was last ready.
#[derive(Debug)]
struct FailureSeries {
    /// Count of Pods that have failed in this series.
    failed_pods: usize,
    /// Count of rounds so far; at least 1.
    rounds: u32,
    /// The time at which the last round started.
    round_began: Instant,
    /// Whether the set has created Pods in this round.
    has_created_pods: bool,
    /// The Pods created in this round, with the time at which each was first seen.
    replacements: HashMap<Uid, Instant>,
}

impl FailureSeries {
    fn first_round(now: Instant) -> Self {
        Self { failed_pods: 0, rounds: 1, round_began: now, has_created_pods: false, replacements: HashMap::default() }
    }

    fn add_failure(&mut self, pod: &Uid, now: Instant) {
        if now.saturating_duration_since(self.round_began) >= SERIES_EXPIRY {
            *self = Self::first_round(now);
        }
        self.failed_pods += 1;
        let seen = self.replacements.remove(pod);
        if seen.is_some_and(|seen| now.saturating_duration_since(seen) < MAX_AGE_OF_QUICK_FAILURE) {
            self.rounds = self.rounds.saturating_add(1);
            self.round_began = now;
            self.has_created_pods = false;
            self.replacements = HashMap::default();
        }
    }

    /// Returns the time from `now` until the next Pod may be created.
    fn remaining_delay(&self, now: Instant) -> Duration {
        let wait = self.rounds.checked_sub(2).map_or(Duration::ZERO, |failures| BACKOFF.delay_after_failures(failures));
        wait.saturating_sub(now.saturating_duration_since(self.round_began))
    }
}

impl FailedPodBackoffs {
    pub(crate) fn new(clock: Clock) -> Self {
        Self { sets: Arc::default(), clock }
    }

    /// Records that a Pod of a set seems to have failed before it was ready.
    pub(crate) fn record_failed_pod(&self, set: &Uid, pod: &Uid) {
        let now = self.clock.monotonic_now();
        self.sets.lock().entry(set.clone()).or_insert_with(|| FailureSeries::first_round(now)).add_failure(pod, now);
    }

    /// Records that an unready Pod of a set has appeared.
    pub(crate) fn record_new_pod(&self, set: &Uid, pod: &Uid) {
        if let Some(series) = self.sets.lock().get_mut(set)
            && series.has_created_pods
        {
            series.replacements.insert(pod.clone(), self.clock.monotonic_now());
        }
    }

    /// Records that a Pod of a set was deleted, or is about to be deleted, without a failure.
    pub(crate) fn record_deleted_pod(&self, set: &Uid, pod: &Uid) {
        if let Some(series) = self.sets.lock().get_mut(set) {
            series.replacements.remove(pod);
        }
    }

    /// Records that Pods are about to be created for a set. The cache must show all Pods that were created for the set before.
    pub(crate) fn record_pod_creation(&self, set: &Uid) {
        if let Some(series) = self.sets.lock().get_mut(set) {
            series.has_created_pods = true;
        }
    }

    /// Removes the failures of a set, because one of its Pods became ready or the set was deleted.
    pub(crate) fn end_failure_series(&self, set: &Uid) {
        self.sets.lock().remove(set);
    }

    /// Returns the back-off of a set; `None` if Pods may be created now.
    pub(crate) fn backoff_of_set(&self, set: &Uid) -> Option<FailedPodBackoff> {
        let now = self.clock.monotonic_now();
        let sets = self.sets.lock();
        let series = sets.get(set)?;
        let remaining_delay = series.remaining_delay(now);
        let failed_pod_count = series.failed_pods;
        (!remaining_delay.is_zero()).then_some(FailedPodBackoff { failed_pod_count, remaining_delay })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct World {
        backoff: FailedPodBackoffs,
        set: Uid,
    }

    fn world() -> World {
        let clock = Clock::simulated(crate::world::now(), 0);
        World { backoff: FailedPodBackoffs::new(clock), set: Uid::new("set") }
    }

    impl World {
        /// Records one sync that creates these Pods, and the events of all of these Pods.
        fn create(&self, pods: &[&str]) {
            self.backoff.record_pod_creation(&self.set);
            for pod in pods {
                self.backoff.record_new_pod(&self.set, &Uid::new(pod));
            }
        }

        fn fail(&self, pods: &[&str]) {
            for pod in pods {
                self.backoff.record_failed_pod(&self.set, &Uid::new(pod));
            }
        }

        /// Returns the count of failed Pods, and the remaining delay of the next Pod in milliseconds.
        fn wait(&self) -> Option<(usize, u64)> {
            self.backoff
                .backoff_of_set(&self.set)
                .map(|failing| (failing.failed_pod_count, u64::try_from(failing.remaining_delay.as_millis()).unwrap()))
        }

        async fn pass(&self, seconds: u64) {
            self.backoff.clock.sleep(Duration::from_secs(seconds)).await;
        }
    }

    /// REPLICASET-66.
    #[tokio::test(start_paused = true)]
    async fn the_first_replacement_is_immediate_and_later_waits_double() {
        let w = world();
        w.create(&["0"]);
        w.fail(&["0"]);
        assert_eq!(w.wait(), None);
        for (failed, wait) in [(2, 1), (3, 2), (4, 4), (5, 8), (6, 16), (7, 32), (8, 60), (9, 60)] {
            w.create(&["next"]);
            w.fail(&["next"]);
            assert_eq!(w.wait(), Some((failed, wait * 1000)));
            w.pass(wait).await;
            assert_eq!(w.wait(), None);
        }
    }

    /// REPLICASET-67.
    #[tokio::test(start_paused = true)]
    async fn failures_at_the_same_time_are_one_round() {
        let w = world();
        w.create(&["a", "b", "c"]);
        w.fail(&["a", "b"]);
        w.create(&["d", "e"]);
        w.fail(&["c"]);
        assert_eq!(w.wait(), None, "the third Pod was not a replacement");
        w.fail(&["d", "e"]);
        assert_eq!(w.wait(), Some((5, 1000)));
    }

    /// REPLICASET-67.
    #[tokio::test(start_paused = true)]
    async fn a_pod_that_appears_before_the_next_creation_is_not_a_replacement() {
        let w = world();
        w.create(&["a"]);
        w.fail(&["a"]);
        // Pod `b` was created by the same sync as Pod `a`, but its event arrives later.
        w.backoff.record_new_pod(&w.set, &Uid::new("b"));
        w.fail(&["b"]);
        assert_eq!(w.wait(), None);
    }

    /// REPLICASET-66.
    #[tokio::test(start_paused = true)]
    async fn a_replacement_that_fails_late_starts_no_round() {
        for (seconds, wait) in [(59, Some((2, 1000))), (60, None)] {
            let w = world();
            w.fail(&["a"]);
            w.create(&["b"]);
            w.pass(seconds).await;
            w.fail(&["b"]);
            assert_eq!(w.wait(), wait, "{seconds} s");
        }
    }

    /// REPLICASET-66.
    #[tokio::test(start_paused = true)]
    async fn a_series_ends_with_a_ready_pod_or_after_five_minutes() {
        let w = world();
        let twice = || {
            w.fail(&["a"]);
            w.create(&["b"]);
            w.fail(&["b"]);
        };
        twice();
        assert_eq!(w.wait(), Some((2, 1000)));
        w.backoff.end_failure_series(&w.set);
        assert_eq!(w.wait(), None);
        twice();
        assert_eq!(w.wait(), Some((2, 1000)));
        w.pass(290).await;
        w.create(&["c"]);
        w.pass(9).await;
        w.fail(&["c"]);
        assert_eq!(w.wait(), Some((3, 2000)));
        w.create(&["d"]);
        w.pass(300).await;
        w.fail(&["d"]);
        assert_eq!(w.wait(), None);
    }

    /// REPLICASET-67.
    #[tokio::test(start_paused = true)]
    async fn a_pod_that_is_deleted_has_not_failed() {
        let w = world();
        w.fail(&["a"]);
        w.create(&["b"]);
        w.backoff.record_deleted_pod(&w.set, &Uid::new("b"));
        w.fail(&["b"]);
        assert_eq!(w.wait(), None);
    }
}

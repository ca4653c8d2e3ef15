//! How long sets wait whose Pods fail without ever being ready: `--tune failed-pod-backoff=true`.
//!
//! A node may turn a Pod away for good (`OutOfcpu`, `NodeAffinity`, `UnexpectedAdmissionError`, ...). Its replacement is made
//! at once and may be turned away at once, thousands of times an hour (kubernetes/kubernetes#72593). Here failures come in
//! rounds. The first failure begins the first round, and all of its Pods are replaced at once. A replacement that fails
//! soon, too, begins the next round, and after each the set waits: a second, then twice as long each time, up to a minute.
//! A Pod of the set that becomes ready ends the series.
//!
//! A Pod that is over is not cached: what is seen is that a Pod is gone which was on a node, neither ready nor going away.
//! Whoever deletes a Pod has it going away first, unless it is on no node yet, or force is used. Which Pods are replacements
//! is known because a set makes Pods only once all it has made are seen: those that appear after it began to are its new
//! ones. No clock but this process's own is looked at, and nothing is kept anywhere else: a successor begins anew.

use std::{sync::Arc, time::Duration};

use common::{
    clock::{Clock, Instant},
    map::HashMap,
    meta::Uid,
    queue::Backoff,
};
use parking_lot::Mutex;

use crate::snapshot::Failing;

/// How long a set waits after the second round, the third, ...: without a failure before, and with more of them.
const BACKOFF: Backoff = Backoff { base: Duration::from_secs(1), max: Duration::from_mins(1), bucket: None };
/// What a replacement fails within to begin another round. One that lasted longer than the longest wait has been a wait.
const SOON: Duration = BACKOFF.max;
/// After how long without another round a failure is the first one again.
const FORGOTTEN: Duration = Duration::from_mins(5);

/// The sets whose Pods fail, by their uids. Clones share them.
#[derive(Clone, Debug)]
pub(crate) struct PodBackoff {
    sets: Arc<Mutex<HashMap<Uid, Series>>>,
    clock: Clock,
}

/// The failures of one set.
#[derive(Debug)]
struct Series {
    /// How many Pods failed.
    pods: usize,
    /// Its rounds so far.
    rounds: u32,
    /// When the last of them began.
    since: Instant,
    /// Whether Pods have been made in this round.
    replacing: bool,
    /// Those Pods, and when each was first seen.
    replacements: HashMap<Uid, Instant>,
}

impl Series {
    fn first(now: Instant) -> Self {
        Self { pods: 0, rounds: 1, since: now, replacing: false, replacements: HashMap::default() }
    }

    fn failed(&mut self, pod: &Uid, now: Instant) {
        if now.saturating_duration_since(self.since) >= FORGOTTEN {
            *self = Self::first(now);
        }
        self.pods += 1;
        let seen = self.replacements.remove(pod);
        if seen.is_some_and(|seen| now.saturating_duration_since(seen) < SOON) {
            self.rounds = self.rounds.saturating_add(1);
            self.since = now;
            self.replacing = false;
            self.replacements = HashMap::default();
        }
    }

    /// How long no Pod is made from `now` on.
    fn left(&self, now: Instant) -> Duration {
        let wait = self.rounds.checked_sub(2).map_or(Duration::ZERO, |failures| BACKOFF.delay(failures));
        wait.saturating_sub(now.saturating_duration_since(self.since))
    }
}

impl PodBackoff {
    /// Nothing failed yet.
    pub(crate) fn new(clock: Clock) -> Self {
        Self { sets: Arc::default(), clock }
    }

    /// A Pod of that set failed, as far as can be seen, and was not ready.
    pub(crate) fn failed(&self, set: &Uid, pod: &Uid) {
        let now = self.clock.instant();
        self.sets.lock().entry(set.clone()).or_insert_with(|| Series::first(now)).failed(pod, now);
    }

    /// A Pod of that set came that is not ready.
    pub(crate) fn appeared(&self, set: &Uid, pod: &Uid) {
        if let Some(series) = self.sets.lock().get_mut(set)
            && series.replacing
        {
            series.replacements.insert(pod.clone(), self.clock.instant());
        }
    }

    /// A Pod of that set is gone, or is about to be, and has not failed.
    pub(crate) fn gone(&self, set: &Uid, pod: &Uid) {
        if let Some(series) = self.sets.lock().get_mut(set) {
            series.replacements.remove(pod);
        }
    }

    /// The same of several Pods.
    pub(crate) fn all_gone(&self, set: &Uid, pods: &[Uid]) {
        for pod in pods {
            self.gone(set, pod);
        }
    }

    /// Pods of that set are about to be created: those that were before have all been seen.
    pub(crate) fn replacing(&self, set: &Uid) {
        if let Some(series) = self.sets.lock().get_mut(set) {
            series.replacing = true;
        }
    }

    /// A Pod of that set became ready, or the set is gone: whatever failed before counts no more.
    pub(crate) fn forget(&self, set: &Uid) {
        self.sets.lock().remove(set);
    }

    /// Why no Pod of that set is created now, and for how long; none if it may be.
    pub(crate) fn failing(&self, set: &Uid) -> Option<Failing> {
        let now = self.clock.instant();
        let sets = self.sets.lock();
        let series = sets.get(set)?;
        let left = series.left(now);
        (!left.is_zero()).then_some(Failing { pods: series.pods, left })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct World {
        backoff: PodBackoff,
        set: Uid,
    }

    fn world() -> World {
        let clock = Clock::simulated(crate::world::now(), 0);
        World { backoff: PodBackoff::new(clock), set: Uid::new("set") }
    }

    impl World {
        /// One sync creates these Pods, and all of them are seen.
        fn create(&self, pods: &[&str]) {
            self.backoff.replacing(&self.set);
            for pod in pods {
                self.backoff.appeared(&self.set, &Uid::new(pod));
            }
        }

        fn fail(&self, pods: &[&str]) {
            for pod in pods {
                self.backoff.failed(&self.set, &Uid::new(pod));
            }
        }

        /// The Pods that failed, and the wait in milliseconds.
        fn wait(&self) -> Option<(usize, u64)> {
            self.backoff
                .failing(&self.set)
                .map(|failing| (failing.pods, u64::try_from(failing.left.as_millis()).unwrap()))
        }

        async fn pass(&self, seconds: u64) {
            self.backoff.clock.sleep(Duration::from_secs(seconds)).await;
        }
    }

    #[tokio::test(start_paused = true)]
    async fn the_first_replacement_is_at_once_and_later_ones_wait_twice_as_long_each_time() {
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

    #[tokio::test(start_paused = true)]
    async fn many_that_fail_together_are_one_round() {
        let w = world();
        w.create(&["a", "b", "c"]);
        w.fail(&["a", "b"]);
        w.create(&["d", "e"]);
        w.fail(&["c"]);
        assert_eq!(w.wait(), None, "the third was no replacement");
        w.fail(&["d", "e"]);
        assert_eq!(w.wait(), Some((5, 1000)));
    }

    #[tokio::test(start_paused = true)]
    async fn what_appears_before_replacements_are_made_is_none() {
        let w = world();
        w.create(&["a"]);
        w.fail(&["a"]);
        // Of the same sync as the first, and seen late.
        w.backoff.appeared(&w.set, &Uid::new("b"));
        w.fail(&["b"]);
        assert_eq!(w.wait(), None);
    }

    #[tokio::test(start_paused = true)]
    async fn a_replacement_that_lasts_begins_no_round() {
        for (seconds, wait) in [(59, Some((2, 1000))), (60, None)] {
            let w = world();
            w.fail(&["a"]);
            w.create(&["b"]);
            w.pass(seconds).await;
            w.fail(&["b"]);
            assert_eq!(w.wait(), wait, "{seconds} s");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_series_ends_with_a_pod_that_is_ready_and_with_time() {
        let w = world();
        let twice = || {
            w.fail(&["a"]);
            w.create(&["b"]);
            w.fail(&["b"]);
        };
        twice();
        assert_eq!(w.wait(), Some((2, 1000)));
        w.backoff.forget(&w.set);
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

    #[tokio::test(start_paused = true)]
    async fn a_pod_that_is_deleted_has_not_failed() {
        let w = world();
        w.fail(&["a"]);
        w.create(&["b"]);
        w.backoff.gone(&w.set, &Uid::new("b"));
        w.fail(&["b"]);
        assert_eq!(w.wait(), None);
    }
}

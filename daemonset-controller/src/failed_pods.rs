//! The growing delays between deletions of failed Pods on a node.

use std::{collections::BTreeMap, time::Duration};

use common::intern::Text;
use jiff::{SignedDuration, Timestamp};

/// Minimum time between two removals of expired delays. Each removal visits all nodes.
const PURGE_PERIOD: SignedDuration = SignedDuration::from_mins(1);

/// The bounds of a delay that doubles with each failed Pod on a node.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct BackoffBounds {
    /// Delay between the deletions of the first and the second failed Pod on a node.
    pub(crate) initial_delay: Duration,
    /// Longest delay. The back-off of a node expires when no Pod has failed there for twice this time.
    pub(crate) max_delay: Duration,
}

/// The back-off of each node of one DaemonSet. All delays end when `status.observedGeneration` changes.
///
/// The back-off is kept in memory only: after a restart of the process, the first failure has no delay. Upstream: client-go
/// `util/flowcontrol`, `BackoffSettings`.
#[derive(Clone, Debug, Default)]
pub(crate) struct FailedPodBackoff {
    bounds: BackoffBounds,
    generation: i64,
    nodes: BTreeMap<Text, Entry>,
    purged: Timestamp,
    /// The time of the last sync. An earlier time in the next sync shows that the clock was set back.
    observed: Timestamp,
}

#[derive(Clone, Copy, Debug)]
struct Entry {
    delay: Duration,
    since: Timestamp,
}

impl Entry {
    fn delayed_until(&self) -> Timestamp {
        self.since
            .saturating_add(SignedDuration::try_from(self.delay).unwrap_or(SignedDuration::MAX))
            .unwrap_or(self.since)
    }

    /// Whether the back-off has not expired: the last failure is at most twice the longest delay ago, and is not in the future.
    fn is_valid(&self, bounds: BackoffBounds, now: Timestamp) -> bool {
        let idle = now.duration_since(self.since);
        let longest = SignedDuration::try_from(bounds.max_delay.saturating_mul(2)).unwrap_or(SignedDuration::MAX);
        !idle.is_negative() && idle <= longest
    }
}

impl FailedPodBackoff {
    pub(crate) fn new(bounds: BackoffBounds) -> Self {
        Self { bounds, ..Self::default() }
    }

    /// Removes expired delays, and all delays if `generation` is new. Returns the nodes on which a delay ends before its time,
    /// because the generation is new or because the clock was set back.
    pub(crate) fn remove_expired_delays(&mut self, generation: i64, now: Timestamp) -> Vec<Text> {
        let is_new = self.generation != generation;
        let was_set_back = now < self.observed;
        self.generation = generation;
        self.observed = now;
        if !is_new && !was_set_back && now.duration_since(self.purged).abs() < PURGE_PERIOD {
            return Vec::new();
        }
        self.purged = now;
        let mut ended = Vec::new();
        self.nodes.retain(|node, entry| {
            let stays = !is_new && entry.is_valid(self.bounds, now);
            if !stays && entry.delayed_until() > now {
                ended.push(node.clone());
            }
            stays
        });
        ended
    }

    /// Returns the end of the delay on the node; `None` if failed Pods on the node may be deleted now.
    pub(crate) fn deletion_delayed_until(&self, node: &Text, now: Timestamp) -> Option<Timestamp> {
        let entry = self.nodes.get(node).filter(|entry| entry.is_valid(self.bounds, now))?;
        Some(entry.delayed_until()).filter(|until| *until > now)
    }

    /// Returns the delay that would follow if a failed Pod on the node were deleted at `now`.
    pub(crate) fn next_delay(&self, node: &Text, now: Timestamp) -> Duration {
        let known = self.nodes.get(node).filter(|entry| entry.is_valid(self.bounds, now));
        known.map_or(self.bounds.initial_delay, |entry| entry.delay.saturating_mul(2).min(self.bounds.max_delay))
    }

    /// Removes the back-off of a deleted node.
    pub(crate) fn remove_node(&mut self, node: &Text) {
        self.nodes.remove(node);
    }

    pub(crate) fn set_delay(&mut self, node: &Text, delay: Duration, since: Timestamp) {
        self.nodes.insert(node.clone(), Entry { delay, since });
    }

    #[cfg(test)]
    pub(crate) fn len(&self) -> usize {
        self.nodes.len()
    }

    /// Records the deletion of a failed Pod on the node, which begins the next delay.
    pub(crate) fn record_failed_pod_deletion(&mut self, node: &Text, now: Timestamp) {
        let delay = self.next_delay(node, now);
        self.set_delay(node, delay, now);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::world::now;

    const BOUNDS: BackoffBounds =
        BackoffBounds { initial_delay: Duration::from_secs(1), max_delay: Duration::from_mins(15) };

    fn seconds(n: i64) -> SignedDuration {
        SignedDuration::from_secs(n)
    }

    /// DAEMONSET-24.
    #[test]
    fn the_delay_doubles_up_to_its_limit() {
        let (mut failed, node, mut time) = (FailedPodBackoff::new(BOUNDS), Text::new("n"), now());
        assert_eq!(failed.deletion_delayed_until(&node, time), None);
        for delay in [1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 900, 900] {
            failed.record_failed_pod_deletion(&node, time);
            let until = time + seconds(delay);
            assert_eq!(failed.deletion_delayed_until(&node, until - seconds(1)), (delay > 0).then_some(until));
            assert_eq!(failed.deletion_delayed_until(&node, until), None);
            assert_eq!(failed.deletion_delayed_until(&Text::new("other"), time), None);
            time = until;
        }
    }

    /// DAEMONSET-25.
    #[test]
    fn the_back_off_restarts_after_half_an_hour_without_failures_and_with_a_new_generation() {
        let (mut failed, node) = (FailedPodBackoff::new(BOUNDS), Text::new("n"));
        let twice = |failed: &mut FailedPodBackoff| {
            failed.record_failed_pod_deletion(&node, now());
            failed.record_failed_pod_deletion(&node, now());
        };
        twice(&mut failed);
        assert_eq!(failed.deletion_delayed_until(&node, now()), Some(now() + seconds(2)));
        let later = now() + seconds(1801);
        assert!(failed.remove_expired_delays(0, later).is_empty(), "the delay has already ended");
        assert!(failed.nodes.is_empty());
        twice(&mut failed);
        failed.record_failed_pod_deletion(&node, later);
        assert_eq!(failed.deletion_delayed_until(&node, later), Some(later + seconds(1)));
        assert!(failed.remove_expired_delays(0, later).is_empty());
        assert_eq!(*failed.remove_expired_delays(7, later), *std::slice::from_ref(&node));
        assert_eq!(failed.deletion_delayed_until(&node, later), None);
    }

    /// DAEMONSET-25.
    #[test]
    fn a_clock_that_is_set_back_ends_the_delay() {
        let (mut failed, node) = (FailedPodBackoff::new(BOUNDS), Text::new("n"));
        failed.remove_expired_delays(0, now());
        failed.record_failed_pod_deletion(&node, now());
        assert_eq!(failed.deletion_delayed_until(&node, now() - seconds(7200)), None);
        assert_eq!(failed.remove_expired_delays(0, now() - seconds(7200)), [node]);
    }
}

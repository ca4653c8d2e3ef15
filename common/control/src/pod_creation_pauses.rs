//! Remembers the owners for which no Pods are created for a while, because the last request for a Pod was in vain.

use std::{fmt, sync::Arc, time::Duration};

use parking_lot::Mutex;

use crate::{
    clock::{Clock, Instant},
    io::{Refusal, RefusalClass},
    map::HashMap,
    meta::Uid,
    queue::BackoffSettings,
};

/// The pause after a Pod that admission has changed: one second, then twice as long after each further one, up to five minutes.
const BACKOFF: BackoffSettings = BackoffSettings {
    base_delay: Duration::from_secs(1),
    max_delay: Duration::from_mins(5),
    retry_rate_and_burst: None,
};
/// A changed Pod starts a new series of pauses if the last pause ended at least this long ago.
const SERIES_EXPIRY: Duration = Duration::from_mins(10);

/// The reason why no Pods are created for an owner.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PauseReason {
    /// The server refuses every new Pod, because the namespace is terminating.
    NamespaceTerminating,
    /// Admission changes new Pods, so that they do not belong to the owner.
    PodsChangedByAdmission,
}

/// A pause in which no Pods are created for an owner.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PodCreationPause {
    /// The reason for the pause.
    pub reason: PauseReason,
    /// Time until the next Pod may be created.
    pub remaining: Duration,
}

impl PodCreationPause {
    /// Returns the time until the next sync of an owner that needs a Pod. `None` if the namespace is terminating, because the
    /// owner is about to be deleted.
    pub fn requeue_after(&self) -> Option<Duration> {
        (self.reason == PauseReason::PodsChangedByAdmission).then_some(self.remaining)
    }
}

impl fmt::Display for PodCreationPause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.reason {
            PauseReason::NamespaceTerminating => f.write_str("the namespace is terminating"),
            PauseReason::PodsChangedByAdmission => {
                let seconds = self.remaining.as_secs() + u64::from(self.remaining.subsec_nanos() > 0);
                write!(
                    f,
                    "admission changes them so that they do not belong to their owner, the next attempt is in {seconds}s"
                )
            }
        }
    }
}

/// The meaning of a group of requests for Pods of one owner for its next requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PodCreationOutcome {
    /// Pods were created, and all of them belong to the owner.
    Created,
    /// Further requests would be in vain, for this reason.
    Pause(PauseReason),
    /// No Pod was created, for a reason that calls for no pause.
    Failed,
}

impl PodCreationOutcome {
    /// Determines the meaning of the results of all requests of a group.
    pub fn from_results<T>(results: &[Result<T, Refusal>]) -> Self {
        let has_class =
            |class| results.iter().any(|result| result.as_ref().is_err_and(|refusal| refusal.class == class));
        if has_class(RefusalClass::NamespaceTerminating) {
            Self::Pause(PauseReason::NamespaceTerminating)
        } else if has_class(RefusalClass::ChangedByAdmission) {
            Self::Pause(PauseReason::PodsChangedByAdmission)
        } else if results.iter().any(Result::is_ok) {
            Self::Created
        } else {
            Self::Failed
        }
    }
}

/// The pauses of all owners, by UID. Clones share the pauses.
///
/// The back-off of a failed key is not sufficient, because watch events end it, and each Pod in vain causes such events. The
/// termination of a namespace cannot be undone; after the time-out, one Pod is tried again, as upstream does.
#[derive(Clone)]
pub struct PodCreationPauses {
    owners: Arc<Mutex<HashMap<Uid, PauseRecord>>>,
    clock: Clock,
    namespace_timeout: Duration,
}

struct PauseRecord {
    reason: PauseReason,
    until: Instant,
    /// `metadata.generation` of the owner for which the Pods were requested.
    generation: i64,
    /// Count of pauses in a series because of changed Pods.
    changed_count: u32,
}

impl PodCreationPauses {
    /// Creates an empty set. A pause because of a terminating namespace lasts for `namespace_timeout`.
    pub fn new(clock: Clock, namespace_timeout: Duration) -> Self {
        Self { owners: Arc::default(), clock, namespace_timeout }
    }

    /// Records the outcome of requests for Pods of `owner`, which had this `metadata.generation`.
    pub fn record(&self, owner: &Uid, generation: i64, outcome: PodCreationOutcome) {
        let now = self.clock.monotonic_now();
        let mut owners = self.owners.lock();
        let (reason, duration, changed_count) = match outcome {
            PodCreationOutcome::Failed => return,
            PodCreationOutcome::Created => {
                owners.remove(owner);
                return;
            }
            PodCreationOutcome::Pause(reason @ PauseReason::NamespaceTerminating) => {
                (reason, self.namespace_timeout, 0)
            }
            PodCreationOutcome::Pause(reason @ PauseReason::PodsChangedByAdmission) => {
                let is_recent = |record: &&PauseRecord| now.saturating_duration_since(record.until) < SERIES_EXPIRY;
                let earlier = owners.get(owner).filter(is_recent).map_or(0, |record| record.changed_count);
                (reason, BACKOFF.delay_after_failures(earlier), earlier.saturating_add(1))
            }
        };
        tracing::debug!(owner = %owner, ?reason, seconds = duration.as_secs(), "Creating no Pods for a while");
        owners.insert(owner.clone(), PauseRecord { reason, until: now + duration, generation, changed_count });
    }

    /// Returns the pause of an owner with this `metadata.generation`; `None` if its Pods may be created now.
    ///
    /// A new generation ends a pause because of changed Pods, since the change of the owner may have removed the cause.
    pub fn current_pause(&self, owner: &Uid, generation: i64) -> Option<PodCreationPause> {
        let owners = self.owners.lock();
        let PauseRecord { reason, until, generation: recorded_generation, .. } = owners.get(owner)?;
        let remaining = until.saturating_duration_since(self.clock.monotonic_now());
        let has_changed = *reason == PauseReason::PodsChangedByAdmission && *recorded_generation != generation;
        (!remaining.is_zero() && !has_changed).then_some(PodCreationPause { reason: *reason, remaining })
    }

    /// Returns the count of owners, including owners with a pause that has ended.
    pub fn len(&self) -> usize {
        self.owners.lock().len()
    }

    /// Whether no owner has a pause, not even one that has ended.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Removes an owner that no longer exists.
    pub fn forget(&self, owner: &Uid) {
        self.owners.lock().remove(owner);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::Error;

    const TERMINATING: PodCreationOutcome = PodCreationOutcome::Pause(PauseReason::NamespaceTerminating);
    const CHANGED: PodCreationOutcome = PodCreationOutcome::Pause(PauseReason::PodsChangedByAdmission);

    fn pauses() -> (PodCreationPauses, Uid) {
        let clock = Clock::simulated(jiff::Timestamp::UNIX_EPOCH, 0);
        (PodCreationPauses::new(clock, Duration::from_mins(5)), Uid::new("a"))
    }

    /// Returns the remaining pause of an owner of generation 1, in seconds.
    fn seconds(pauses: &PodCreationPauses, owner: &Uid) -> Option<u64> {
        pauses.current_pause(owner, 1).map(|pause| pause.remaining.as_secs())
    }

    #[tokio::test(start_paused = true)]
    async fn a_terminating_namespace_pauses_until_the_time_out_or_until_the_owner_is_forgotten() {
        let (pauses, a) = pauses();
        let b = Uid::new("b");
        pauses.record(&a, 1, TERMINATING);
        pauses.record(&b, 1, TERMINATING);
        pauses.forget(&b);
        let pause = pauses.current_pause(&a, 2).unwrap();
        assert_eq!((pause.to_string().as_str(), pause.requeue_after()), ("the namespace is terminating", None));
        assert_eq!(seconds(&pauses, &b), None);
        pauses.clock.sleep(Duration::from_secs(300)).await;
        assert_eq!((seconds(&pauses, &a), pauses.len()), (None, 1));
        pauses.forget(&a);
        assert!(pauses.is_empty());
    }

    #[tokio::test(start_paused = true)]
    async fn pauses_after_changed_pods_double_until_a_pod_is_usable_or_a_long_time_has_passed() {
        let (pauses, owner) = pauses();
        for expected in [1, 2, 4, 8, 16, 32, 64, 128, 256, 300, 300] {
            pauses.record(&owner, 1, CHANGED);
            assert_eq!(seconds(&pauses, &owner), Some(expected));
            pauses.record(&owner, 1, PodCreationOutcome::Failed);
            assert_eq!(seconds(&pauses, &owner), Some(expected), "an exceeded quota, for example, changes nothing");
            pauses.clock.sleep(Duration::from_secs(expected)).await;
            assert_eq!(seconds(&pauses, &owner), None);
        }
        pauses.record(&owner, 1, PodCreationOutcome::Created);
        assert!(pauses.is_empty());
        for passed in [601, 600] {
            pauses.record(&owner, 1, CHANGED);
            assert_eq!(seconds(&pauses, &owner), Some(1));
            pauses.clock.sleep(Duration::from_secs(passed)).await;
        }
        pauses.record(&owner, 1, CHANGED);
        assert_eq!(seconds(&pauses, &owner), Some(2), "the last pause ended less than ten minutes ago");
    }

    #[tokio::test(start_paused = true)]
    async fn a_new_generation_ends_the_pause_and_the_next_one_is_longer() {
        let (pauses, owner) = pauses();
        pauses.record(&owner, 1, CHANGED);
        let pause = pauses.current_pause(&owner, 1).unwrap();
        assert!(pause.to_string().ends_with("the next attempt is in 1s"), "{pause}");
        assert_eq!(pause.requeue_after(), Some(Duration::from_secs(1)));
        assert_eq!(pauses.current_pause(&owner, 2), None);
        pauses.record(&owner, 2, CHANGED);
        assert_eq!(pauses.current_pause(&owner, 2).unwrap().remaining, Duration::from_secs(2));
    }

    #[test]
    fn the_outcome_of_a_group_is_the_worst_of_its_results() {
        let refused = |class| Err(Refusal { class, error: Error::Unsent(String::new()).into() });
        for (results, expected) in [
            (vec![Ok(()), Ok(())], PodCreationOutcome::Created),
            (vec![Ok(()), refused(RefusalClass::NotWritten)], PodCreationOutcome::Created),
            (vec![Ok(()), refused(RefusalClass::ChangedByAdmission)], CHANGED),
            (vec![refused(RefusalClass::ChangedByAdmission), refused(RefusalClass::NamespaceTerminating)], TERMINATING),
            (vec![refused(RefusalClass::NotWritten)], PodCreationOutcome::Failed),
            (vec![], PodCreationOutcome::Failed),
        ] {
            assert_eq!(PodCreationOutcome::from_results(&results), expected, "{results:?}");
        }
    }
}

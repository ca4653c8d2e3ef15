//! The back-off before failed Pods are replaced.

use std::time::Duration;

use jiff::Timestamp;

use crate::jobs::snapshot::{DecisionSettings, FailureRecord};

impl FailureRecord {
    /// Returns the record with additional Pods that finished at these times. Failures before the last success are dropped.
    ///
    /// Upstream: `pkg/controller/job`, `newBackoffRecord`.
    #[must_use]
    pub fn with_finished_pods(self, succeeded: &[Timestamp], failed: &[Timestamp]) -> Self {
        let number = |count: usize| u32::try_from(count).unwrap_or(u32::MAX);
        let latest = |times: &[Timestamp]| times.iter().max().copied();
        let Some(success) = succeeded.iter().max() else {
            let failures = self.failure_count_since_success.saturating_add(number(failed.len()));
            return Self {
                failure_count_since_success: failures,
                last_failure_at: latest(failed).or(self.last_failure_at),
            };
        };
        let later: Vec<Timestamp> = failed.iter().filter(|at| *at > success).copied().collect();
        Self { failure_count_since_success: number(later.len()), last_failure_at: latest(&later) }
    }

    /// Returns the remaining back-off before the next Pod is created; zero if the back-off has ended or no Pod has failed.
    pub fn remaining_backoff(self, decision_settings: &DecisionSettings, now: Timestamp) -> Duration {
        let DecisionSettings { pod_failure_backoff, pod_failure_backoff_max, .. } = decision_settings;
        let failures = self.failure_count_since_success;
        let Some(last_failure_at) = self.last_failure_at.filter(|_| failures > 0) else { return Duration::ZERO };
        let factor = 1u32.checked_shl(failures - 1).filter(|_| failures <= 31).unwrap_or(u32::MAX);
        let delay = pod_failure_backoff.checked_mul(factor).unwrap_or(Duration::MAX).min(*pod_failure_backoff_max);
        let passed = now.duration_since(last_failure_at);
        match Duration::try_from(passed) {
            Ok(passed) => delay.saturating_sub(passed),
            Err(_) => delay.saturating_add(passed.unsigned_abs()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::world::{default_decision_settings, sync_time_plus_seconds as at};

    /// JOB-37.
    #[test]
    fn delays_double_up_to_ten_minutes() {
        let delay = |failures| {
            FailureRecord { failure_count_since_success: failures, last_failure_at: Some(at(0)) }
                .remaining_backoff(&default_decision_settings(), at(0))
                .as_secs()
        };
        let delays: Vec<u64> = (0..10).map(delay).collect();
        assert_eq!(delays, [0, 10, 20, 40, 80, 160, 320, 600, 600, 600]);
        assert_eq!(delay(u32::MAX), 600);
    }

    /// JOB-39.
    #[test]
    fn a_delay_counts_from_the_last_failure() {
        let record = FailureRecord { failure_count_since_success: 3, last_failure_at: Some(at(0)) };
        assert_eq!(record.remaining_backoff(&default_decision_settings(), at(25)).as_secs(), 15);
        assert_eq!(record.remaining_backoff(&default_decision_settings(), at(40)), Duration::ZERO);
        assert_eq!(record.remaining_backoff(&default_decision_settings(), at(4000)), Duration::ZERO);
        assert_eq!(record.remaining_backoff(&default_decision_settings(), at(-5)).as_secs(), 45);
        assert_eq!(FailureRecord::default().remaining_backoff(&default_decision_settings(), at(0)), Duration::ZERO);
    }

    /// JOB-38.
    #[test]
    fn failures_add_up_until_a_success() {
        let old = FailureRecord { failure_count_since_success: 2, last_failure_at: Some(at(10)) };
        let after = |succeeded: &[i64], failed: &[i64]| {
            let times = |list: &[i64]| list.iter().map(|s| at(*s)).collect::<Vec<_>>();
            let new = old.with_finished_pods(&times(succeeded), &times(failed));
            (new.failure_count_since_success, new.last_failure_at.map(|last| last.as_second() - 1_800_000_000))
        };
        assert_eq!(after(&[], &[]), (2, Some(10)));
        assert_eq!(after(&[], &[30, 20]), (4, Some(30)));
        assert_eq!(after(&[15], &[]), (0, None));
        assert_eq!(after(&[15, 25], &[20, 30, 40, 25]), (2, Some(40)));
        assert_eq!(after(&[50], &[20]), (0, None));
    }
}

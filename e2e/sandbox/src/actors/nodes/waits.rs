//! How long Pods wait for their simulated scheduler or kubelet before it sends a request for them.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

/// Buckets for each doubling of the duration.
const PER_DOUBLING: f64 = 4.0;
/// The bound of the last bucket is longer than an hour.
const BUCKETS: usize = 130;

/// A histogram of waits, from a microsecond on, in buckets each of which is 19 % wider than the one before it.
#[derive(Clone, Debug)]
pub struct Waits(Arc<[AtomicU64; BUCKETS]>);

impl Default for Waits {
    fn default() -> Self {
        Self(Arc::new(std::array::from_fn(|_| AtomicU64::new(0))))
    }
}

/// The counters of [`Waits`] at one time.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WaitCounts(Vec<u64>);

impl Waits {
    pub(super) fn record(&self, wait: Duration) {
        let microseconds = wait.as_micros().max(1) as f64;
        let bucket = (microseconds.log2() * PER_DOUBLING).ceil() as usize;
        if let Some(counter) = self.0.get(bucket.min(BUCKETS - 1)) {
            counter.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// The counters so far.
    pub fn counts(&self) -> WaitCounts {
        WaitCounts(self.0.iter().map(|counter| counter.load(Ordering::Relaxed)).collect())
    }
}

impl WaitCounts {
    /// The waits after an earlier state of the same counters.
    #[must_use]
    pub fn since(&self, before: &Self) -> Self {
        let earlier = before.0.iter().copied().chain(std::iter::repeat(0));
        Self(self.0.iter().zip(earlier).map(|(now, before)| now.saturating_sub(before)).collect())
    }

    /// The number of waits.
    pub fn total(&self) -> u64 {
        self.0.iter().sum()
    }

    /// The quantile of the waits, for a share from 0 to 1, as the upper bound of its bucket. `None` if nothing has waited.
    pub fn quantile(&self, share: f64) -> Option<Duration> {
        let wanted = (self.total() as f64 * share).ceil().max(1.0) as u64;
        let mut seen = 0;
        let bucket = self.0.iter().position(|count| {
            seen += count;
            seen >= wanted
        })?;
        Some(Duration::from_secs_f64((bucket as f64 / PER_DOUBLING).exp2() / 1e6))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_bounds_of_buckets() {
        let waits = Waits::default();
        assert_eq!(waits.counts().quantile(0.5), None);
        waits.record(Duration::ZERO);
        let before = waits.counts();
        for milliseconds in 1..=100 {
            waits.record(Duration::from_millis(milliseconds));
        }
        waits.record(Duration::from_hours(24 * 365));
        let counts = waits.counts().since(&before);
        assert_eq!(counts.total(), 101);
        for (share, milliseconds) in [(0.5, 51.0), (0.99, 100.0)] {
            let quantile = counts.quantile(share).unwrap().as_secs_f64() * 1e3;
            assert!(quantile >= milliseconds && quantile < milliseconds * 1.2, "{share}: {quantile}");
        }
    }
}

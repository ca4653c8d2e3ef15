//! The client-side rate limit: a token bucket.

use std::{sync::Arc, time::Duration};

use parking_lot::{Mutex, MutexGuard};

use crate::clock::Instant;

/// A token bucket that starts full. Clones share the bucket.
///
/// Upstream: client-go `flowcontrol.NewTokenBucketRateLimiter`.
#[derive(Clone, Debug)]
pub struct Throttle {
    qps: f64,
    burst: f64,
    state: Arc<Mutex<BucketState>>,
}

#[derive(Debug)]
struct BucketState {
    tokens: f64,
    at: Option<Instant>,
}

impl Throttle {
    /// Creates a bucket that holds at most `burst` tokens and gains `qps` tokens per second. Returns `None`, which means no
    /// rate limit, if `qps` or `burst` is not positive.
    pub fn new(qps: f64, burst: u32) -> Option<Self> {
        (qps > 0.0 && burst > 0).then(|| Self {
            qps,
            burst: f64::from(burst),
            state: Arc::new(Mutex::new(BucketState { tokens: f64::from(burst), at: None })),
        })
    }

    /// Takes a token, in advance if the bucket is empty. Returns the time that the caller must wait before it may send.
    pub fn reserve_token(&self, now: Instant) -> Duration {
        let mut state = self.refilled(now);
        state.tokens -= 1.0;
        if state.tokens >= 0.0 { Duration::ZERO } else { Duration::from_secs_f64(-state.tokens / self.qps) }
    }

    /// Takes a token if one is available. Returns whether a token was taken.
    pub fn try_take_token(&self, now: Instant) -> bool {
        let mut state = self.refilled(now);
        let has = state.tokens >= 1.0;
        if has {
            state.tokens -= 1.0;
        }
        has
    }

    /// Whether the bucket holds all its `burst` tokens, as a new bucket does.
    pub fn is_full(&self, now: Instant) -> bool {
        self.refilled(now).tokens >= self.burst
    }

    fn refilled(&self, now: Instant) -> MutexGuard<'_, BucketState> {
        let mut state = self.state.lock();
        if let Some(at) = state.at {
            state.tokens = (state.tokens + (now - at).as_secs_f64() * self.qps).min(self.burst);
        }
        state.at = Some(now);
        state
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::Clock;

    #[tokio::test(start_paused = true)]
    async fn a_burst_passes_and_the_rest_comes_at_the_rate() {
        let clock = Clock::simulated(jiff::Timestamp::UNIX_EPOCH, 0);
        let throttle = Throttle::new(10.0, 100).unwrap();
        let now = clock.monotonic_now();
        let waits: Vec<_> = (0..250).map(|_| throttle.reserve_token(now).as_millis()).collect();
        assert_eq!((waits[99], waits[100], waits[249]), (0, 100, 15_000));
    }

    #[tokio::test(start_paused = true)]
    async fn an_empty_bucket_gives_no_token_until_it_is_refilled() {
        let clock = Clock::simulated(jiff::Timestamp::UNIX_EPOCH, 0);
        let throttle = Throttle::new(2.0, 3).unwrap();
        let now = clock.monotonic_now();
        assert_eq!([0; 5].map(|_: i32| throttle.try_take_token(now)), [true, true, true, false, false]);
        let later = now + Duration::from_secs(1);
        assert!(!throttle.is_full(later));
        assert_eq!([0; 3].map(|_: i32| throttle.try_take_token(later)), [true, true, false]);
        assert!(throttle.is_full(later + Duration::from_secs(2)));
    }

    #[test]
    fn without_a_positive_rate_there_is_no_limit() {
        assert!(Throttle::new(0.0, 30).is_none());
        assert!(Throttle::new(-1.0, 30).is_none());
    }
}

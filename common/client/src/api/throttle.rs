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
    state: Arc<Mutex<State>>,
}

#[derive(Debug)]
struct State {
    tokens: f64,
    at: Option<Instant>,
}

impl Throttle {
    /// `qps` tokens a second, at most `burst` saved up. None unless both are positive: no limit.
    pub fn new(qps: f64, burst: u32) -> Option<Self> {
        (qps > 0.0 && burst > 0).then(|| Self {
            qps,
            burst: f64::from(burst),
            state: Arc::new(Mutex::new(State { tokens: f64::from(burst), at: None })),
        })
    }

    /// Takes a token and says how long to wait for it to be there.
    pub fn reserve(&self, now: Instant) -> Duration {
        let mut state = self.refilled(now);
        state.tokens -= 1.0;
        if state.tokens >= 0.0 { Duration::ZERO } else { Duration::from_secs_f64(-state.tokens / self.qps) }
    }

    /// Takes a token if there is one.
    pub fn try_take(&self, now: Instant) -> bool {
        let mut state = self.refilled(now);
        let has = state.tokens >= 1.0;
        if has {
            state.tokens -= 1.0;
        }
        has
    }

    /// Whether nothing has been taken that has not come back.
    pub fn is_full(&self, now: Instant) -> bool {
        self.refilled(now).tokens >= self.burst
    }

    fn refilled(&self, now: Instant) -> MutexGuard<'_, State> {
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
        let now = clock.instant();
        let waits: Vec<_> = (0..250).map(|_| throttle.reserve(now).as_millis()).collect();
        assert_eq!((waits[99], waits[100], waits[249]), (0, 100, 15_000));
    }

    #[tokio::test(start_paused = true)]
    async fn what_is_not_there_cannot_be_taken_until_it_comes_back() {
        let clock = Clock::simulated(jiff::Timestamp::UNIX_EPOCH, 0);
        let throttle = Throttle::new(2.0, 3).unwrap();
        let now = clock.instant();
        assert_eq!([0; 5].map(|_: i32| throttle.try_take(now)), [true, true, true, false, false]);
        let later = now + Duration::from_secs(1);
        assert!(!throttle.is_full(later));
        assert_eq!([0; 3].map(|_: i32| throttle.try_take(later)), [true, true, false]);
        assert!(throttle.is_full(later + Duration::from_secs(2)));
    }

    #[test]
    fn no_rate_is_no_limit() {
        assert!(Throttle::new(0.0, 30).is_none());
        assert!(Throttle::new(-1.0, 30).is_none());
    }
}

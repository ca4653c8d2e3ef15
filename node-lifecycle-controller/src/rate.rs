//! The rate at which the nodes of a zone are tainted.

use std::time::Duration;

use common::prelude::Instant;

/// A token bucket for one token, initially full.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct TaintRateLimiter {
    /// Tokens per second; 0 or less grants no token.
    pub(crate) rate: f32,
    /// Time at which the next token is available.
    next_token: Instant,
}

impl TaintRateLimiter {
    /// Creates a bucket that already holds its single token at `now`.
    pub(crate) fn new(rate: f32, now: Instant) -> Self {
        Self { rate, next_token: now }
    }

    /// Whether a token is available at `now`.
    pub(crate) fn has_token(&self, now: Instant) -> bool {
        self.rate > 0.0 && self.next_token <= now
    }

    /// Takes the token; the next one is available a full period after `now`.
    pub(crate) fn take_token(&mut self, now: Instant) {
        self.next_token = self.refilled_at(now);
    }

    /// Returns the time at which the next token is available; `None` if the rate is 0 or less.
    pub(crate) fn next_token_at(&self) -> Option<Instant> {
        (self.rate > 0.0).then_some(self.next_token)
    }

    /// Changes the rate. An empty bucket gets its next token a full period of the new rate after `now`.
    pub(crate) fn set_rate(&mut self, rate: f32, now: Instant) {
        if rate.to_bits() == self.rate.to_bits() {
            return;
        }
        let is_full = self.has_token(now);
        self.rate = rate;
        self.next_token = if is_full { now } else { self.refilled_at(now) };
    }

    /// Returns the time at which a bucket that is empty at `now` gets its token.
    fn refilled_at(&self, now: Instant) -> Instant {
        // Limits the period of a tiny rate to 100 years, which a clock can still represent.
        const LONGEST: Duration = Duration::from_secs(100 * 365 * 24 * 3600);
        // The division has 32 bits, so that a rate of 0.1 gives exactly 10 seconds.
        let period = if self.rate > 0.0 { f64::from(1.0 / self.rate).min(LONGEST.as_secs_f64()) } else { 0.0 };
        now + Duration::from_secs_f64(period)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::world::start_time;

    /// Returns the seconds at which a limiter grants `count` tokens to a caller that takes each token at once.
    fn grants(limiter: &mut TaintRateLimiter, start: Instant, count: usize) -> Vec<u64> {
        let mut seconds = Vec::new();
        while seconds.len() < count {
            let at = limiter.next_token_at().unwrap().max(start);
            assert!(limiter.has_token(at));
            limiter.take_token(at);
            seconds.push((at - start).as_secs_f64().round() as u64);
        }
        seconds
    }

    /// NODE-33, NODE-34.
    #[test]
    fn an_idle_limiter_grants_at_once_and_then_at_its_rate() {
        let start = start_time();
        assert_eq!(grants(&mut TaintRateLimiter::new(0.1, start), start, 4), [0, 10, 20, 30]);
        let mut idle = TaintRateLimiter::new(0.1, start);
        let later = start + Duration::from_secs(1000);
        assert_eq!(grants(&mut idle, later, 3), [0, 10, 20], "at most one token is stored");
    }

    /// NODE-34.
    #[test]
    fn a_limiter_that_was_stopped_begins_empty() {
        let start = start_time();
        let mut limiter = TaintRateLimiter::new(0.1, start);
        limiter.set_rate(0.0, start);
        assert!(!limiter.has_token(start + Duration::from_secs(1000)) && limiter.next_token_at().is_none());
        limiter.set_rate(0.1, start);
        assert_eq!(grants(&mut limiter, start, 4), [10, 20, 30, 40]);
    }

    /// NODE-34.
    #[test]
    fn a_change_of_the_rate_brings_no_token() {
        let start = start_time();
        let mut limiter = TaintRateLimiter::new(0.1, start);
        limiter.take_token(start);
        limiter.set_rate(0.01, start);
        assert_eq!(grants(&mut limiter, start, 3), [100, 200, 300]);
        let mut full = TaintRateLimiter::new(0.1, start);
        full.set_rate(0.01, start);
        assert_eq!(grants(&mut full, start, 2), [0, 100], "an available token stays");
        let mut same = TaintRateLimiter::new(0.1, start);
        same.take_token(start);
        same.set_rate(0.1, start + Duration::from_secs(5));
        assert_eq!(grants(&mut same, start, 1), [10], "the same rate changes nothing");
    }

    #[test]
    fn odd_rates_neither_grant_nor_overflow() {
        let start = start_time();
        for rate in [0.0, -1.0, f32::NAN] {
            let mut limiter = TaintRateLimiter::new(rate, start);
            limiter.take_token(start);
            assert!(!limiter.has_token(start + Duration::from_secs(1_000_000)), "{rate}");
        }
        let mut slow = TaintRateLimiter::new(f32::MIN_POSITIVE, start);
        slow.take_token(start);
        assert!(!slow.has_token(start + Duration::from_secs(1_000_000)));
        assert!(TaintRateLimiter::new(f32::INFINITY, start).has_token(start));
    }
}

//! What admission makes of the controllers' writes: it refuses, changes or delays them.
//!
//! # Refused for ever
//!
//! A write that is refused costs one attempt a back-off, and a user reads about it once a back-off. Each controller works for an
//! hour of virtual time in one namespace for each pair of a situation and a kind of refusal ([`situations`]).
//! The server refuses the write that the situation asks for. What is sent for each namespace is compared with what the back-off
//! of the loop allows ([`Pace`]). Then the refusal is lifted, and the write has to be made within the longest back-off.
//!
//! # Changed, delayed, refused for a while
//!
//! All controllers work in one [`cluster`] in which webhooks change what they create or are slow, a quota grows by a Pod a
//! minute, or the namespace terminates.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test that panics fails")]

mod cluster;
mod mutated;
mod quota;
mod server;
mod situations;
mod slow;
mod terminating;

use std::time::Duration;

/// In which time the write has to be made once it is granted: the longest back-off of any loop, and a sync.
const RECOVERED: Duration = Duration::from_secs(1030);

/// How often in an hour a key is synced because of an event, or because it is due, and not because of its back-off: its objects
/// are made, and its progress deadline of ten minutes is over.
const WAKES: u64 = 3;

/// When a loop comes back to a key that failed.
#[derive(Clone, Copy, Debug)]
enum Pace {
    /// After a delay that doubles from the first to the longest.
    Exponential(Duration, Duration),
    /// In every pass.
    Every(Duration),
}

/// Most loops: 5 ms, 10 ms, ..., 1000 s.
const USUAL: Pace = Pace::Exponential(Duration::from_millis(5), Duration::from_secs(1000));
/// The back-off of Jobs. Upstream: `pkg/controller/job`, `DefaultJobApiBackOff` and `MaxJobApiBackOff`.
const JOB: Pace = Pace::Exponential(Duration::from_secs(1), Duration::from_secs(60));

impl Pace {
    /// How often a key that always fails is tried in that time.
    fn attempts_in(self, time: Duration) -> u64 {
        let (mut delay, longest) = match self {
            Self::Exponential(first, longest) => (first, longest),
            Self::Every(period) => (period, period),
        };
        let (mut attempts, mut passed) = (1, delay);
        while passed <= time {
            attempts += 1;
            delay = (delay * 2).min(longest);
            passed += delay;
        }
        attempts
    }
}

#[test]
fn the_attempts_of_an_hour_follow_from_the_back_off() {
    // 5 ms doubled 18 times is 1310.72 s, whose sum is just above that; then every 1000 s.
    assert_eq!(USUAL.attempts_in(Duration::from_hours(1)), 1 + 18 + 2);
}

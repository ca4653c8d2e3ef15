//! The only source of time and randomness.
//!
//! Code that waits, writes a timestamp or needs randomness takes a [`Clock`]. In production the clock reads the machine's time
//! and the operating system's randomness. In simulation it follows tokio's paused clock and takes all randomness from one seed,
//! so that a run can be repeated exactly. Clippy's `disallowed-methods` keeps all other code from the standard clocks.

use std::{sync::Arc, time::Duration};

use jiff::{SignedDuration, Timestamp};
use parking_lot::Mutex;
use rand::{Rng, RngExt, SeedableRng, rngs::StdRng};
pub use tokio::time::Instant;

use crate::meta::Uid;

/// A source of wall-clock time, monotonic time and randomness. Cheap to clone; clones share their state.
#[derive(Clone, Debug)]
pub struct Clock {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    wall: Wall,
    rng: Mutex<StdRng>,
}

#[derive(Debug)]
enum Wall {
    /// The wall clock of the machine.
    System,
    /// `start`, plus the advance of tokio's (usually paused) clock since `origin`, plus `skew`, which tests change.
    Virtual { start: Timestamp, origin: Instant, skew: Mutex<SignedDuration>, suspended: Mutex<Duration> },
}

impl Clock {
    /// Creates a clock that reads the machine's time and the operating system's randomness.
    #[expect(clippy::disallowed_methods, reason = "this is the clock")]
    pub fn system() -> Self {
        Self { inner: Arc::new(Inner { wall: Wall::System, rng: Mutex::new(rand::make_rng()) }) }
    }

    /// Creates a clock that starts at `start`, follows tokio's clock, and takes all randomness from `seed`.
    ///
    /// Must be called inside a tokio runtime.
    #[expect(clippy::disallowed_methods, reason = "this is the clock")]
    pub fn simulated(start: Timestamp, seed: u64) -> Self {
        let (skew, suspended) = (Mutex::new(SignedDuration::ZERO), Mutex::default());
        let wall = Wall::Virtual { start, origin: Instant::now(), skew, suspended };
        Self { inner: Arc::new(Inner { wall, rng: Mutex::new(StdRng::seed_from_u64(seed)) }) }
    }

    /// Returns the wall-clock time, for timestamps in objects.
    #[expect(clippy::disallowed_methods, reason = "this is the clock")]
    pub fn now(&self) -> Timestamp {
        match &self.inner.wall {
            Wall::System => Timestamp::now(),
            Wall::Virtual { start, origin, skew, .. } => {
                let elapsed = Instant::now().saturating_duration_since(*origin);
                let elapsed = SignedDuration::try_from(elapsed).unwrap_or(SignedDuration::MAX);
                start.saturating_add(elapsed.saturating_add(*skew.lock())).unwrap_or(*start)
            }
        }
    }

    /// Returns monotonic time, for time-outs and back-off. Follows tokio's clock, even while that clock is paused.
    #[expect(clippy::disallowed_methods, reason = "this is the clock")]
    pub fn monotonic_now(&self) -> Instant {
        Instant::now()
    }

    /// Returns the total time for which the machine has been suspended since it started. Monotonic time excludes suspensions.
    ///
    /// If a hypervisor stops a virtual machine without notifying its kernel, that time is not included.
    pub fn total_suspended_time(&self) -> Duration {
        match &self.inner.wall {
            #[cfg(target_os = "linux")]
            Wall::System => {
                use rustix::time::{ClockId, clock_gettime};
                // The monotonic clock is read first, so that a delay between the readings can only lengthen the suspension.
                let [running, all] = [ClockId::Monotonic, ClockId::Boottime].map(|id| {
                    let time = clock_gettime(id);
                    Duration::new(u64::try_from(time.tv_sec).unwrap_or(0), u32::try_from(time.tv_nsec).unwrap_or(0))
                });
                all.saturating_sub(running)
            }
            #[cfg(not(target_os = "linux"))]
            Wall::System => Duration::ZERO,
            Wall::Virtual { suspended, .. } => *suspended.lock(),
        }
    }

    /// Suspends a simulated machine: the wall clock advances by `by`, and monotonic time does not change.
    ///
    /// Has no effect on [`Clock::system`].
    pub fn simulate_suspension(&self, by: Duration) {
        if let Wall::Virtual { suspended, .. } = &self.inner.wall {
            *suspended.lock() += by;
            self.shift_wall_clock(SignedDuration::try_from(by).unwrap_or(SignedDuration::MAX));
        }
    }

    /// Moves a simulated wall clock by `by`, forwards or backwards. Monotonic time does not change.
    ///
    /// Has no effect on [`Clock::system`].
    pub fn shift_wall_clock(&self, by: SignedDuration) {
        if let Wall::Virtual { skew, .. } = &self.inner.wall {
            let mut skew = skew.lock();
            *skew = skew.saturating_add(by);
        }
    }

    /// Waits for `duration` of monotonic time.
    pub async fn sleep(&self, duration: Duration) {
        tokio::time::sleep(duration).await;
    }

    /// Blocks the thread for `duration` of real time. Does nothing on a simulated clock, so that the simulation never blocks.
    pub fn block_thread(&self, duration: Duration) {
        if matches!(self.inner.wall, Wall::System) {
            std::thread::sleep(duration);
        }
    }

    /// Returns a uniformly distributed number in `[0, 1)`.
    pub fn random_fraction(&self) -> f64 {
        self.inner.rng.lock().random()
    }

    /// Returns a uniformly distributed 64-bit number.
    pub fn random_u64(&self) -> u64 {
        self.inner.rng.lock().next_u64()
    }

    /// Returns a uniformly distributed number in `0..bound`, or 0 if `bound` is 0.
    pub fn random_below(&self, bound: usize) -> usize {
        if bound == 0 { 0 } else { self.inner.rng.lock().random_range(0..bound) }
    }

    /// Returns `base` multiplied by a uniformly distributed factor in `[1, 1 + max_factor)`.
    pub fn jitter(&self, base: Duration, max_factor: f64) -> Duration {
        base.mul_f64(1.0 + max_factor * self.random_fraction())
    }

    /// Returns a random (version 4) UUID in its canonical text form.
    pub fn random_uuid(&self) -> String {
        let mut bytes = [0u8; 16];
        self.inner.rng.lock().fill_bytes(&mut bytes);
        bytes[6] = (bytes[6] & 0x0f) | 0x40;
        bytes[8] = (bytes[8] & 0x3f) | 0x80;
        Uid::from(bytes).to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn epoch() -> Timestamp {
        Timestamp::from_second(1_700_000_000).unwrap()
    }

    #[tokio::test(start_paused = true)]
    async fn a_simulated_clock_follows_paused_time_and_its_skew() {
        let clock = Clock::simulated(epoch(), 1);
        clock.sleep(Duration::from_secs(90)).await;
        assert_eq!(clock.now(), Timestamp::from_second(1_700_000_090).unwrap());
        clock.shift_wall_clock(SignedDuration::from_secs(-30));
        assert_eq!(clock.now(), Timestamp::from_second(1_700_000_060).unwrap());
    }

    #[tokio::test(start_paused = true)]
    async fn equal_seeds_give_equal_sequences() {
        let (a, b) = (Clock::simulated(epoch(), 7), Clock::simulated(epoch(), 7));
        assert_eq!(
            (0..4).map(|_| a.random_uuid()).collect::<Vec<_>>(),
            (0..4).map(|_| b.random_uuid()).collect::<Vec<_>>()
        );
        assert_eq!(a.random_uuid().len(), 36);
        assert_eq!(&a.random_uuid()[14..15], "4");
    }

    #[tokio::test(start_paused = true)]
    async fn a_suspension_advances_only_the_wall_clock() {
        let clock = Clock::simulated(epoch(), 7);
        let before = clock.monotonic_now();
        clock.simulate_suspension(Duration::from_secs(40));
        assert_eq!((clock.monotonic_now(), clock.total_suspended_time()), (before, Duration::from_secs(40)));
        assert_eq!(clock.now(), Timestamp::from_second(1_700_000_040).unwrap());
        // The test assumes that the machine itself is not suspended for 5 seconds while the test runs.
        let machine = Clock::system();
        let earlier = machine.total_suspended_time();
        assert!(machine.total_suspended_time().abs_diff(earlier) < Duration::from_secs(5));
    }
}

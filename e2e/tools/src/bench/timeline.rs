//! Processor time and memory over time, one sample per second: of the controllers, the API server and the bench itself.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use common::clock::{Clock, Instant};
use parking_lot::Mutex;
use serde::Serialize;
use tokio::task::JoinHandle;

use crate::process::{Received, Usage};

const EVERY: Duration = Duration::from_secs(1);

/// The name of the sum over all processes under test.
pub(super) const CONTROLLERS: &str = "controllers";

#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub(super) struct Point {
    /// Seconds since the start.
    pub(super) at: f64,
    /// Processor time per second since the previous sample.
    pub(super) cores: f64,
    /// Resident memory in bytes.
    pub(super) resident: u64,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub(super) struct Timeline {
    pub(super) series: BTreeMap<String, Vec<Point>>,
    /// The beginning of each phase, in seconds since the start.
    pub(super) phases: Vec<(&'static str, f64)>,
}

/// The data that the sampling task and its owner share.
#[derive(Debug, Default)]
struct Shared {
    /// The processes of each series. A process that is restarted has a new id.
    pids: BTreeMap<String, Vec<u32>>,
    /// Processor time by process at the previous sample.
    before: BTreeMap<u32, Duration>,
    timeline: Timeline,
    received: Received,
}

impl Shared {
    /// Adds a sample of each series, `at` seconds after the start and `passed` seconds after the previous sample.
    fn sample(&mut self, at: f64, passed: f64) {
        for (series, pids) in &self.pids {
            let mut point = Point { at, cores: 0.0, resident: 0 };
            for (pid, usage) in pids.iter().filter_map(|pid| Some((*pid, Usage::of(*pid)?))) {
                if let Some(before) = self.before.insert(pid, usage.cpu)
                    && passed > 0.0
                {
                    point.cores += usage.cpu.saturating_sub(before).as_secs_f64() / passed;
                }
                point.resident += usage.resident;
            }
            self.timeline.series.entry(series.clone()).or_default().push(point);
        }
        self.received.update(self.pids.get(CONTROLLERS).into_iter().flatten().copied());
    }
}

/// Samples until it is dropped.
pub(super) struct Sampler {
    shared: Arc<Mutex<Shared>>,
    task: JoinHandle<()>,
    started: Instant,
    clock: Clock,
}

impl Sampler {
    pub(super) fn start(clock: &Clock) -> Self {
        let shared = Arc::new(Mutex::new(Shared::default()));
        let (started, clock) = (clock.monotonic_now(), clock.clone());
        let task = tokio::spawn({
            let (shared, clock) = (Arc::clone(&shared), clock.clone());
            async move {
                let mut last = started;
                loop {
                    let now = clock.monotonic_now();
                    shared.lock().sample((now - started).as_secs_f64(), (now - last).as_secs_f64());
                    last = now;
                    clock.sleep(EVERY.saturating_sub(clock.monotonic_now() - now)).await;
                }
            }
        });
        Self { shared, task, started, clock }
    }

    pub(super) fn set(&self, series: &str, pids: Vec<u32>) {
        self.shared.lock().pids.insert(series.to_owned(), pids);
    }

    pub(super) fn phase(&self, name: &'static str) {
        let at = (self.clock.monotonic_now() - self.started).as_secs_f64();
        self.shared.lock().timeline.phases.push((name, at));
    }

    /// The bytes that a process has received over TCP so far.
    pub(super) fn received(&self, pid: u32) -> u64 {
        let mut shared = self.shared.lock();
        shared.received.update(std::iter::once(pid));
        shared.received.of(pid)
    }

    pub(super) fn timeline(&self) -> Timeline {
        self.shared.lock().timeline.clone()
    }
}

impl Drop for Sampler {
    fn drop(&mut self) {
        self.task.abort();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn there_is_a_sample_a_second_of_each_series() {
        let clock = Clock::system();
        let sampler = Sampler::start(&clock);
        sampler.set(CONTROLLERS, vec![std::process::id(), u32::MAX]);
        sampler.phase("fill");
        clock.sleep(Duration::from_millis(3500)).await;
        let timeline = sampler.timeline();
        let points = &timeline.series[CONTROLLERS];
        assert_eq!(points.iter().map(|point| point.at).collect::<Vec<_>>(), [0.0, 1.0, 2.0, 3.0]);
        assert!(points.iter().all(|point| point.resident > 0));
        assert_eq!(timeline.phases, [("fill", 0.0)]);
    }
}

//! Processor time and memory over time, one sample per second: of the controllers, the API server and the bench itself.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use common::clock::{Clock, Instant};
use parking_lot::Mutex;
use serde::Serialize;
use tokio::task::JoinHandle;

use crate::process::{Received, Usage};

/// The time between two samples.
const EVERY: Duration = Duration::from_secs(1);

/// The name of the sum over all processes under test.
pub(super) const CONTROLLERS: &str = "controllers";

/// The processes of a run: ids by name of the series. A process that is restarted has a new id.
#[derive(Clone, Debug, Default)]
pub(super) struct Pids(Arc<Mutex<BTreeMap<String, Vec<u32>>>>);

impl Pids {
    /// Sets the processes of a series.
    pub(super) fn set(&self, series: &str, pids: Vec<u32>) {
        self.0.lock().insert(series.to_owned(), pids);
    }

    fn all(&self) -> BTreeMap<String, Vec<u32>> {
        self.0.lock().clone()
    }
}

/// One sample of a series.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub(super) struct Point {
    /// Seconds since the start.
    pub(super) at: f64,
    /// Processor time per second since the previous sample.
    pub(super) cores: f64,
    /// Resident memory in bytes.
    pub(super) resident: u64,
}

/// The samples of a run.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub(super) struct Timeline {
    pub(super) series: BTreeMap<String, Vec<Point>>,
    /// The beginning of each phase, in seconds since the start.
    pub(super) phases: Vec<(&'static str, f64)>,
}

/// The data that the sampling task and its owner share.
#[derive(Debug, Default)]
struct Shared {
    timeline: Timeline,
    received: Received,
}

/// Samples until it is dropped.
pub(super) struct Sampler {
    shared: Arc<Mutex<Shared>>,
    task: JoinHandle<()>,
    started: Instant,
    clock: Clock,
}

impl Sampler {
    /// Starts to sample these processes.
    pub(super) fn start(pids: Pids, clock: &Clock) -> Self {
        let shared = Arc::new(Mutex::new(Shared::default()));
        let (started, clock) = (clock.monotonic_now(), clock.clone());
        let task = tokio::spawn(sample(Arc::clone(&shared), pids, started, clock.clone()));
        Self { shared, task, started, clock }
    }

    /// Records the beginning of a phase.
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

    /// The samples so far.
    pub(super) fn timeline(&self) -> Timeline {
        self.shared.lock().timeline.clone()
    }
}

impl Drop for Sampler {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn sample(shared: Arc<Mutex<Shared>>, pids: Pids, started: Instant, clock: Clock) {
    // Processor time by process at the previous sample.
    let mut before: BTreeMap<u32, Duration> = BTreeMap::new();
    let mut last = started;
    loop {
        let now = clock.monotonic_now();
        let passed = (now - last).as_secs_f64();
        let all = pids.all();
        let mut points = Vec::new();
        for (series, pids) in &all {
            let mut point = Point { at: (now - started).as_secs_f64(), cores: 0.0, resident: 0 };
            for pid in pids {
                let Some(usage) = Usage::of(*pid) else { continue };
                if let Some(before) = before.insert(*pid, usage.cpu)
                    && passed > 0.0
                {
                    point.cores += usage.cpu.saturating_sub(before).as_secs_f64() / passed;
                }
                point.resident += usage.resident;
            }
            points.push((series.clone(), point));
        }
        {
            let mut shared = shared.lock();
            for (series, point) in points {
                shared.timeline.series.entry(series).or_default().push(point);
            }
            shared.received.update(all.get(CONTROLLERS).into_iter().flatten().copied());
        }
        last = now;
        clock.sleep(EVERY.saturating_sub(clock.monotonic_now() - now)).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn there_is_a_sample_a_second_of_each_series() {
        let clock = Clock::system();
        let pids = Pids::default();
        pids.set(CONTROLLERS, vec![std::process::id(), u32::MAX]);
        let sampler = Sampler::start(pids, &clock);
        sampler.phase("fill");
        clock.sleep(Duration::from_millis(3500)).await;
        let timeline = sampler.timeline();
        let points = &timeline.series[CONTROLLERS];
        assert_eq!(points.iter().map(|point| point.at).collect::<Vec<_>>(), [0.0, 1.0, 2.0, 3.0]);
        assert!(points.iter().all(|point| point.resident > 0));
        assert_eq!(timeline.phases, [("fill", 0.0)]);
    }
}

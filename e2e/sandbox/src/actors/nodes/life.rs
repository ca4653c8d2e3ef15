//! The life of one Pod on its node: which stage it is in, and when the next one comes. Pure: time is an argument.

use std::time::Duration;

use common::clock::Instant;
use jiff::{SignedDuration, Timestamp};

use super::{
    objects::{Pod, RestartPolicy},
    script::Script,
};

/// Upstream: `pkg/kubelet`, `backOffPeriod`.
const RESTART_BACKOFF: Duration = Duration::from_secs(10);
/// Upstream: `pkg/kubelet`, `MaxCrashLoopBackOff`.
const RESTART_BACKOFF_MAX: Duration = Duration::from_secs(300);
/// What a container that does not catch SIGTERM is reported with.
const EXIT_SIGTERM: i32 = 143;
/// What a container that is killed is reported with.
const EXIT_SIGKILL: i32 = 137;
/// What a container that its node lost sight of is reported with.
const EXIT_LOST: i32 = 255;

/// One moment on both clocks.
#[derive(Clone, Copy, Debug)]
pub(super) struct Now {
    pub(super) instant: Instant,
    pub(super) wall: Timestamp,
}

impl Now {
    /// The wall-clock time of another moment.
    fn wall_at(&self, at: Instant) -> Timestamp {
        let ago = |d: Duration| SignedDuration::try_from(d).unwrap_or(SignedDuration::ZERO);
        let moved = if at >= self.instant {
            self.wall.checked_add(ago(at - self.instant))
        } else {
            self.wall.checked_sub(ago(self.instant - at))
        };
        moved.unwrap_or(self.wall)
    }

    /// The monotonic time of another moment; this one if the process cannot look back that far.
    fn instant_at(&self, at: Timestamp) -> Instant {
        let ago = self.wall.duration_since(at);
        Duration::try_from(ago).ok().and_then(|ago| self.instant.checked_sub(ago)).unwrap_or(self.instant)
    }
}

/// The way a run of the containers ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ending {
    /// By themselves.
    Exit,
    /// With this code, all of them.
    Code(i32),
    /// The node lost sight of them.
    Lost,
}

/// One finished run of the containers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Run {
    pub(super) started: Timestamp,
    pub(super) finished: Timestamp,
    pub(super) ending: Ending,
}

impl Run {
    /// The exit code of a container.
    pub(super) fn code(&self, container: &str, script: Option<&Script>) -> i32 {
        match self.ending {
            Ending::Exit => script.map_or(0, |s| s.exit_code(container)),
            Ending::Code(code) => code,
            Ending::Lost => EXIT_LOST,
        }
    }
}

/// How a Pod has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum End {
    /// All containers exited with 0.
    Succeeded,
    /// A container did not.
    Failed,
    /// The script says so, once it ran or before.
    Scripted,
    /// It ran for longer than its spec allows.
    DeadlineExceeded,
}

/// Where a Pod is in its life.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stage {
    Creating {
        until: Instant,
    },
    Running {
        since: Instant,
        /// Since when, as written into objects.
        started: Timestamp,
        /// How often readiness has changed in this run.
        probed: u8,
    },
    /// Its containers have exited and will be started again.
    BackOff {
        until: Instant,
        delay: Duration,
    },
    /// It has ended, after this run if it ever ran.
    Ended {
        run: Option<Run>,
        end: End,
    },
}

/// A condition and since when it is what it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Flip {
    pub(super) value: bool,
    pub(super) since: Timestamp,
}

impl Flip {
    fn set(&mut self, value: bool, at: Timestamp) {
        if self.value != value {
            *self = Self { value, since: at };
        }
    }
}

#[derive(Clone, Debug)]
pub(super) struct Life {
    /// When the node took it on.
    taken: Instant,
    /// The same, as written into objects.
    pub(super) start_time: Timestamp,
    pub(super) stage: Stage,
    /// How often its containers were started again.
    pub(super) restarts: u32,
    /// How often they exited by themselves.
    exits: u32,
    /// The run before this one.
    pub(super) last: Option<Run>,
    /// When its containers end because it is being deleted.
    stop: Option<(Instant, i32)>,
    /// Conditions `PodReadyToStartContainers` and `Initialized`, which go together here.
    pub(super) initialized: Flip,
    pub(super) containers_ready: Flip,
    pub(super) ready: Flip,
}

/// What happens next.
#[derive(Clone, Copy, Debug)]
enum Step {
    Start,
    Probe,
    Exit,
    Fail,
    Deadline,
    Stop(i32),
}

impl Life {
    /// A node takes on a Pod. What an earlier kubelet reported of it counts as lived.
    pub(super) fn begin(pod: &Pod, script: Option<&Script>, now: Now) -> Self {
        let status = &pod.status;
        let start_time = status.start_time.unwrap_or(now.wall);
        let taken = now.instant_at(start_time);
        let delay = script.map_or(Duration::ZERO, |s| s.start_after);
        let restarts = status.container_statuses.iter().map(|c| c.restart_count).max().unwrap_or(0);
        let running = status.container_statuses.iter().find_map(|c| c.state.running.as_ref());
        let stage = match (status.phase.as_str(), running) {
            ("Succeeded", _) => Stage::Ended { run: None, end: End::Succeeded },
            ("Failed", _) => Stage::Ended { run: None, end: End::Failed },
            (_, Some(running)) => {
                let started = running.started_at.unwrap_or(start_time);
                Stage::Running { since: now.instant_at(started), started, probed: 0 }
            }
            _ => Stage::Creating { until: taken + delay },
        };
        let never = Flip { value: false, since: start_time };
        let mut initialized = never;
        initialized.set(matches!(stage, Stage::Running { .. }), start_time);
        Self {
            taken,
            start_time,
            stage,
            restarts,
            exits: restarts,
            last: None,
            stop: None,
            initialized,
            containers_ready: never,
            ready: never,
        }
    }

    pub(super) fn has_ended(&self) -> bool {
        matches!(self.stage, Stage::Ended { .. })
    }

    /// Lives on until `now`, and says when the next thing happens.
    pub(super) fn advance(&mut self, pod: &Pod, script: Option<&Script>, now: Now) -> Option<Instant> {
        if pod.metadata.is_deleting() && self.stop.is_none() {
            let wait = script.map_or(Duration::ZERO, |s| s.terminate_after);
            let grace = pod
                .metadata
                .deletion_timestamp
                .map_or(Duration::ZERO, |at| Duration::try_from(at.duration_since(now.wall)).unwrap_or(Duration::ZERO));
            let code = match script.and_then(|s| s.exit_on_term) {
                _ if wait > grace => EXIT_SIGKILL,
                Some(code) => code,
                None => EXIT_SIGTERM,
            };
            self.stop = Some((now.instant + wait.min(grace), code));
        }
        let next = loop {
            match self.next(pod, script) {
                Some((at, step)) if at <= now.instant => self.take(step, at, now.wall_at(at), pod, script),
                next => break next.map(|(at, _)| at),
            }
        };
        let gates_open = pod.spec.readiness_gates.iter().all(|g| pod.has_condition(&g.condition_type));
        let ready = self.containers_ready.value && gates_open;
        let at = if pod.spec.readiness_gates.is_empty() { self.containers_ready.since } else { now.wall };
        self.ready.set(ready, at);
        next
    }

    /// The node lost what it ran, as in a power failure.
    pub(super) fn lose(&mut self, pod: &Pod, script: Option<&Script>, now: Now) {
        if let Stage::Running { started, .. } = self.stage {
            let run = Run { started, finished: now.wall, ending: Ending::Lost };
            self.containers_ready.set(false, now.wall);
            self.after(run, now.instant, now.wall, pod, script, Duration::ZERO);
        }
    }

    /// The first thing to come.
    fn next(&self, pod: &Pod, script: Option<&Script>) -> Option<(Instant, Step)> {
        if self.has_ended() {
            return None;
        }
        let stop = self.stop.map(|(at, code)| (at, Step::Stop(code)));
        let deadline = pod
            .spec
            .active_deadline_seconds
            .map(|seconds| (self.taken + Duration::from_secs(u64::from(seconds)), Step::Deadline));
        let own = match self.stage {
            Stage::Creating { until } => match script {
                Some(s) if s.fail_reason.is_some() && s.after.is_none() => Some((self.taken, Step::Fail)),
                // A Pod that is being deleted is not started any more.
                _ if self.stop.is_some() => None,
                _ => Some((until, Step::Start)),
            },
            Stage::BackOff { until, .. } => self.stop.is_none().then_some((until, Step::Start)),
            Stage::Running { since, probed, .. } => {
                let probe = probe_at(script, probed).map(|after| (since + after, Step::Probe));
                let end = script.and_then(|s| {
                    let at = since + s.after.unwrap_or(Duration::ZERO);
                    if s.fail_reason.is_some() {
                        Some((at, Step::Fail))
                    } else if s.exits_again(self.exits) {
                        Some((at, Step::Exit))
                    } else {
                        None
                    }
                });
                earlier(probe, end)
            }
            Stage::Ended { .. } => None,
        };
        earlier(earlier(stop, deadline), own)
    }

    fn take(&mut self, step: Step, at: Instant, wall: Timestamp, pod: &Pod, script: Option<&Script>) {
        let run = match self.stage {
            Stage::Running { started, .. } => Some(started),
            _ => None,
        }
        .map(|started| Run { started, finished: wall, ending: Ending::Exit });
        match step {
            Step::Start => {
                if matches!(self.stage, Stage::BackOff { .. }) {
                    self.restarts += 1;
                }
                self.initialized.set(true, wall);
                self.stage = Stage::Running { since: at, started: wall, probed: 0 };
            }
            Step::Probe => {
                if let Stage::Running { probed, .. } = &mut self.stage {
                    *probed += 1;
                    self.containers_ready.set(*probed % 2 == 1, wall);
                }
            }
            Step::Exit => {
                self.exits += 1;
                self.containers_ready.set(false, wall);
                if let Some(run) = run {
                    let delay = script.and_then(|s| s.restart_after).unwrap_or_else(|| backoff(self.restarts));
                    self.after(run, at, wall, pod, script, delay);
                }
            }
            Step::Fail => self.end(run, Ending::Code(EXIT_SIGKILL), End::Scripted, wall),
            Step::Deadline => self.end(run, Ending::Code(EXIT_SIGKILL), End::DeadlineExceeded, wall),
            Step::Stop(code) => {
                let end = if code == 0 && run.is_some() { End::Succeeded } else { End::Failed };
                self.end(run, Ending::Code(code), end, wall);
            }
        }
    }

    /// What follows a run, as the restart policy has it.
    fn after(&mut self, run: Run, at: Instant, wall: Timestamp, pod: &Pod, script: Option<&Script>, delay: Duration) {
        let failed = pod.spec.containers.iter().any(|c| run.code(&c.name, script) != 0);
        match pod.spec.restart_policy {
            RestartPolicy::Never | RestartPolicy::OnFailure if !failed => {
                self.end(Some(run), run.ending, End::Succeeded, wall);
            }
            RestartPolicy::Never => self.end(Some(run), run.ending, End::Failed, wall),
            RestartPolicy::Always | RestartPolicy::OnFailure => {
                self.last = Some(run);
                self.stage = Stage::BackOff { until: at + delay, delay };
            }
        }
    }

    fn end(&mut self, run: Option<Run>, ending: Ending, end: End, wall: Timestamp) {
        self.containers_ready.set(false, wall);
        self.stage = Stage::Ended { run: run.map(|run| Run { ending, ..run }), end };
    }
}

/// When readiness changes for the `probed`-th time, counted from the start of the containers.
fn probe_at(script: Option<&Script>, probed: u8) -> Option<Duration> {
    let Some(script) = script else { return (probed == 0).then_some(Duration::ZERO) };
    if script.never_ready {
        return None;
    }
    match probed {
        0 => Some(script.ready_after),
        1 => script.unready_after.map(|d| script.ready_after + d),
        2 => Some(script.ready_after + script.unready_after? + script.unready_for?),
        _ => None,
    }
}

/// How long a kubelet holds back the next start after so many.
fn backoff(restarts: u32) -> Duration {
    match restarts {
        0 => Duration::ZERO,
        n => RESTART_BACKOFF.saturating_mul(1 << (n - 1).min(10)).min(RESTART_BACKOFF_MAX),
    }
}

/// The earlier of two steps; the first if they come together.
fn earlier(a: Option<(Instant, Step)>, b: Option<(Instant, Step)>) -> Option<(Instant, Step)> {
    match (a, b) {
        (Some(a), Some(b)) => Some(if b.0 < a.0 { b } else { a }),
        (a, b) => a.or(b),
    }
}

#[cfg(test)]
mod tests;

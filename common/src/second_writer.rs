//! Notices a second writer at work on the objects of this process.
//!
//! Two writers of the same objects undo each other's work. They obey different Leases, and write under the same field manager on
//! purpose, so that a hand-over leaves no second owner of a field. The leader of each controller therefore looks for:
//!
//! | evidence | what is seen | cost |
//! | --- | --- | --- |
//! | `writes` | objects whose latest write is one of the loop's, under its field manager, and not by this process | a few watch events are read twice every 15 s |
//! | `events` | Events of the loop's component that this process has not sent | a watch of these Events for 30 s a period |
//! | `arguments` | Pods of kube-controller-manager that run the loop, as their `--controllers` says | one list of these Pods a period |
//! | `lease` | the Lease of kube-controller-manager is renewed, and no Pod shows with which loops | one read of the Lease a period |
//!
//! The last one alone proves nothing, since kube-controller-manager runs beside this project's controllers after every hand-over. The
//! others are stated by the gauge `nonet_second_writer`, by an Event of the Lease and in the log. An operator who expects another
//! manager for a time says so in an annotation of the Lease.

mod built_in;
mod evidence;
mod foreign_events;
mod metrics;
mod sampler;

use std::{sync::Arc, time::Duration};

use jiff::SignedDuration;

use crate::{
    api::Api,
    clock::{Clock, Instant},
    events::{EventType, Recorder, SentEvents},
    gate::Gate,
    leader::{self, SECOND_WRITER_EXPECTED_UNTIL},
    metrics::Metrics,
    runtime::LoopDefinition,
};

use built_in::BuiltIn;
pub use evidence::Evidence;
use evidence::Evidences;
use metrics::SecondWriterMetrics;
pub use sampler::{OwnedWrites, WriteSampler};

/// How often the evidence that needs no request is judged.
const TICK: Duration = Duration::from_secs(15);
/// How long after the start of its term a leader finds nothing: the last writes of its predecessor may still arrive.
const GRACE: Duration = Duration::from_secs(60);
/// How often the same evidence is announced.
const ANNOUNCE_EVERY: Duration = Duration::from_hours(1);

/// Looks for a second writer while this process leads.
pub(crate) struct SecondWriterWatch {
    /// Reads, with a user agent of its own.
    pub(crate) api: Api,
    /// Open while this process leads.
    pub(crate) gate: Gate,
    /// The election, if there is one.
    pub(crate) election: Option<leader::Status>,
    /// Records the Event of the Lease.
    pub(crate) recorder: Recorder,
    /// The Events that this process has sent.
    pub(crate) sent: SentEvents,
    /// What watches have brought.
    pub(crate) sampler: Arc<WriteSampler>,
    /// The loops of this process.
    pub(crate) loops: Vec<LoopDefinition>,
    /// How often the API server is asked.
    pub(crate) period: Duration,
}

impl SecondWriterWatch {
    /// Runs until it is dropped.
    pub(crate) async fn run(self, metrics: Metrics) {
        let names: Vec<&'static str> = self.loops.iter().map(|l| l.name).collect();
        let mut state = Findings {
            metrics: SecondWriterMetrics::new(&metrics, &names),
            evidences: Evidences::new(names.len()),
            announced: Vec::new(),
        };
        loop {
            self.gate.opened().await;
            let since = self.gate.open_since().unwrap_or_else(|| self.clock().instant());
            self.clock().sleep(GRACE).await;
            self.sampler.activate();
            tokio::select! {
                biased;
                () = self.gate.closed() => {}
                () = self.look_around(&mut state, since) => {}
            }
            state.metrics.clear();
        }
    }

    fn clock(&self) -> &Clock {
        self.api.clock()
    }

    /// Collects evidence and states it, forever.
    async fn look_around(&self, state: &mut Findings, since: Instant) {
        let mut built_in = BuiltIn::default();
        let mut next_look = self.clock().instant();
        loop {
            let now = self.clock().instant();
            for of in self.sampler.confirmed(now, since) {
                state.evidences.note(of, Evidence::Writes, now);
            }
            if now >= next_look {
                // The first look tells no live Lease from an old one: the second follows soon.
                next_look = now + if built_in.has_looked() { self.period } else { TICK };
                self.look_at_built_in(&mut built_in, state).await;
                self.look_at_events(&built_in, state).await;
            }
            self.state_findings(state, &built_in);
            self.clock().sleep(TICK).await;
        }
    }

    async fn look_at_built_in(&self, built_in: &mut BuiltIn, state: &mut Findings) {
        built_in.look(&self.api).await;
        let now = self.clock().instant();
        for (of, definition) in self.loops.iter().enumerate() {
            if let Some(evidence) = built_in.evidence(definition.name) {
                state.evidences.note(of, evidence, now);
            }
        }
    }

    async fn look_at_events(&self, built_in: &BuiltIn, state: &mut Findings) {
        // A version from which the server can begin, without all Events that exist.
        let lease = self.election.as_ref().and_then(leader::Status::lease);
        let Some(version) = lease.map(|lease| lease.version).filter(|version| version.is_known()) else { return };
        for (of, definition) in self.loops.iter().enumerate() {
            match foreign_events::any(&self.api, definition.component, version, &self.sent).await {
                Ok(true) => {
                    state.evidences.note(of, Evidence::Events, self.clock().instant());
                    // The other loops are looked at for half a minute each.
                    self.state_findings(state, built_in);
                }
                Ok(false) => {}
                Err(error) => tracing::debug!(err = %error, "Cannot watch Events of a second writer"),
            }
        }
    }

    /// Sets the gauges, and announces what is new.
    fn state_findings(&self, state: &mut Findings, built_in: &BuiltIn) {
        let now = self.clock().instant();
        let expected_until = self.election.as_ref().and_then(leader::Status::second_writer_expected_until);
        let is_expected = expected_until.is_some_and(|until| until > self.clock().now());
        state.metrics.set_expected(is_expected);
        state.metrics.set_built_in_leads(built_in.leads());
        for (of, definition) in self.loops.iter().enumerate() {
            let was_announced = state.is_announced(of);
            for evidence in Evidence::ALL {
                let is_present = state.evidences.is_present(of, evidence, now);
                state.metrics.set(definition.name, evidence, is_present);
                if is_present && evidence.is_proof() && !is_expected && state.is_to_be_announced(of, evidence, now) {
                    self.announce(definition.name, evidence);
                }
            }
            let is_found = Evidence::ALL
                .into_iter()
                .any(|evidence| evidence.is_proof() && state.evidences.is_present(of, evidence, now));
            if was_announced && !is_found {
                state.announced.retain(|(announced, _, _)| *announced != of);
                self.announce_end(definition.name);
            }
        }
    }

    fn announce_end(&self, name: &str) {
        tracing::info!(controller = name, "There are no signs of a second writer any more");
        if let Some(lease) = self.election.as_ref().and_then(leader::Status::lease) {
            let message = format!("no sign of a second writer of {name} in ten minutes");
            self.recorder.event(&lease, EventType::Normal, "SecondWriterGone", message);
        }
    }

    fn announce(&self, name: &str, evidence: Evidence) {
        let seen = evidence.description();
        tracing::error!(controller = name, evidence = evidence.label(), "A second writer is at work");
        let Some(election) = &self.election else { return };
        let Some(lease) = election.lease() else { return };
        let soon = self.clock().now().checked_add(SignedDuration::from_hours(1)).unwrap_or_else(|_| self.clock().now());
        let message = format!(
            "a second writer runs {name}: {seen}. Two writers undo each other's work. Switch the loop off there, on every control-plane \
             node: kube-controller-manager --controllers=*,-{name}. If that is planned for a time: kubectl annotate lease {} \
             {SECOND_WRITER_EXPECTED_UNTIL}={soon:.0}",
            election.lease_arguments()
        );
        self.recorder.event(&lease, EventType::Warning, "SecondWriterFound", message);
    }
}

/// What has been found so far.
struct Findings {
    metrics: SecondWriterMetrics,
    evidences: Evidences,
    /// What was announced, and when.
    announced: Vec<(usize, Evidence, Instant)>,
}

impl Findings {
    /// Whether the evidence was not announced within the last hour; notes that it is now.
    fn is_to_be_announced(&mut self, of: usize, evidence: Evidence, now: Instant) -> bool {
        let is_recent = |at: Instant| now.saturating_duration_since(at) < ANNOUNCE_EVERY;
        if self.announced.iter().any(|(known, kind, at)| *known == of && *kind == evidence && is_recent(*at)) {
            return false;
        }
        self.announced.retain(|(known, kind, _)| *known != of || *kind != evidence);
        self.announced.push((of, evidence, now));
        true
    }

    /// Whether a second writer of a loop was announced, and not its end.
    fn is_announced(&self, of: usize) -> bool {
        self.announced.iter().any(|(known, _, _)| *known == of)
    }
}

#[cfg(test)]
mod tests;

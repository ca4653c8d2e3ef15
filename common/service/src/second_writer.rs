//! Notices a second writer at work on the objects of this process.
//!
//! Two writers of the same objects undo each other's work. They obey different Leases, and write under the same field manager on
//! purpose, so that a hand-over leaves no second owner of a field. The leader of each controller therefore looks for:
//!
//! | evidence | what is seen | cost |
//! | --- | --- | --- |
//! | `writes` | objects whose latest write is one of the loop's, under its field manager, and not by this process | a few watch events are read twice every 15 s |
//! | `events` | Events of the loop's component, under its field manager, that this process has not sent | a watch of these Events for 30 s a period |
//! | `arguments` | Pods of kube-controller-manager that run the loop, as their `--controllers` says | one list of these Pods a period |
//! | `lease` | the Lease of kube-controller-manager is renewed, and no Pod shows with which loops | one read of the Lease a period |
//!
//! The last one alone proves nothing, since kube-controller-manager runs beside this project's controllers after every hand-over. The
//! others are reported by the gauge `nonet_second_writer`, by an Event of the Lease and in the log. An operator who expects a second
//! writer for a time says so in an annotation of the Lease.

mod built_in;
mod evidence;
mod foreign_events;
mod metrics;

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use jiff::SignedDuration;
use parking_lot::Mutex;

use crate::{
    api::Api,
    clock::{Clock, Instant},
    events::{EventType, Recorder, SentEvents},
    gate::Gate,
    leader::{self, SECOND_WRITER_EXPECTED_UNTIL},
    metrics::Metrics,
    runtime::LoopDefinition,
    sampler::GRACE,
};

pub use crate::sampler::{OwnedWrites, WriteSampler};
use built_in::BuiltIn;
pub use evidence::Evidence;
use evidence::Evidences;
use metrics::SecondWriterMetrics;

/// Reason of the Event of the Lease that reports a second writer.
pub const FOUND: &str = "SecondWriterFound";
/// Reason of the Event of the Lease that reports that there are no signs of a second writer any more.
pub const GONE: &str = "SecondWriterGone";

/// How often the evidence that needs no request is judged.
const TICK: Duration = Duration::from_secs(15);
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
        let findings = Mutex::new(Findings {
            metrics: SecondWriterMetrics::new(&metrics, self.loops.iter().map(|l| l.name).collect()),
            evidences: Evidences::new(self.period),
            announced: BTreeMap::new(),
            built_in_leads: false,
        });
        loop {
            self.gate.opened().await;
            let since = self.gate.open_since().unwrap_or_else(|| self.clock().instant());
            self.clock().sleep(GRACE).await;
            self.sampler.activate();
            tokio::select! {
                biased;
                () = self.gate.closed() => {}
                () = self.judge_samples(&findings, since) => {}
                () = self.ask_server(&findings) => {}
            }
            findings.lock().metrics.clear();
        }
    }

    fn clock(&self) -> &Clock {
        self.api.clock()
    }

    /// Judges what the sampler has found, and states everything that is known, forever.
    async fn judge_samples(&self, findings: &Mutex<Findings>, since: Instant) {
        loop {
            let now = self.clock().instant();
            for loop_index in self.sampler.confirmed(now, since) {
                findings.lock().evidences.note(loop_index, Evidence::Writes, now);
            }
            self.report(&mut findings.lock());
            self.clock().sleep(TICK).await;
        }
    }

    /// Reads what shows kube-controller-manager, and watches Events for a while, forever.
    async fn ask_server(&self, findings: &Mutex<Findings>) {
        let mut built_in = BuiltIn::default();
        loop {
            let is_first = !built_in.was_read();
            built_in.read(&self.api).await;
            {
                let (mut findings, now) = (findings.lock(), self.clock().instant());
                findings.built_in_leads = built_in.leads();
                for (loop_index, definition) in self.loops.iter().enumerate() {
                    if let Some(evidence) = built_in.evidence(definition.name) {
                        findings.evidences.note(loop_index, evidence, now);
                    }
                }
            }
            for (loop_index, definition) in self.loops.iter().enumerate() {
                match foreign_events::any(&self.api, definition.component, &self.sent).await {
                    Ok(true) => findings.lock().evidences.note(loop_index, Evidence::Events, self.clock().instant()),
                    Ok(false) => {}
                    Err(error) => tracing::debug!(err = %error, "Cannot watch Events for signs of a second writer"),
                }
            }
            // The first reading tells no live Lease from an old one: the second follows soon.
            self.clock().sleep(if is_first { TICK } else { self.period }).await;
        }
    }

    /// Sets the gauges, and announces what is new and what is over.
    fn report(&self, findings: &mut Findings) {
        let now = self.clock().instant();
        let expected_until = self.election.as_ref().and_then(leader::Status::second_writer_expected_until);
        let is_expected = expected_until.is_some_and(|until| until > self.clock().now());
        findings.metrics.set_expected(is_expected);
        findings.metrics.set_built_in_leads(findings.built_in_leads);
        let mut is_found = false;
        for (loop_index, definition) in self.loops.iter().enumerate() {
            for evidence in Evidence::ALL {
                let is_present = findings.evidences.is_present(loop_index, evidence, now);
                findings.metrics.set(definition.name, evidence, is_present);
                let is_proof = is_present && evidence.is_proof();
                is_found |= is_proof;
                if is_proof && !is_expected && findings.is_to_be_announced(loop_index, evidence, now) {
                    self.announce(definition.name, evidence);
                }
            }
        }
        if !is_found && !findings.announced.is_empty() {
            findings.announced.clear();
            tracing::info!("There are no signs of a second writer any more");
            if let Some(lease) = self.election.as_ref().and_then(leader::Status::lease) {
                let message = "there are no signs of a second writer any more".to_owned();
                self.recorder.event(&lease, EventType::Normal, GONE, message);
            }
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
        self.recorder.event(&lease, EventType::Warning, FOUND, message);
    }
}

/// What has been found so far.
struct Findings {
    metrics: SecondWriterMetrics,
    evidences: Evidences,
    /// What was announced, and when.
    announced: BTreeMap<(usize, Evidence), Instant>,
    /// Whether kube-controller-manager leads, as far as is known.
    built_in_leads: bool,
}

impl Findings {
    /// Whether the evidence was not announced within the last hour; notes that it is now.
    fn is_to_be_announced(&mut self, loop_index: usize, evidence: Evidence, now: Instant) -> bool {
        let last = self.announced.get(&(loop_index, evidence));
        let is_due = last.is_none_or(|at| now.saturating_duration_since(*at) >= ANNOUNCE_EVERY);
        if is_due {
            self.announced.insert((loop_index, evidence), now);
        }
        is_due
    }
}

#[cfg(test)]
mod tests;

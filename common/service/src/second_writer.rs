//! Detects a second writer: another process that runs the same control loops on the same objects.
//!
//! Two writers of the same objects undo each other's work. Nonet and kube-controller-manager use different Leases. They use the
//! same field manager on purpose, so that a hand-over leaves no second owner of a field. Each leader searches for this evidence:
//!
//! | evidence | meaning | cost |
//! | --- | --- | --- |
//! | `writes` | writes that only the loop makes, not sent by this process | some watch events are parsed again, every 15 s |
//! | `events` | Events with the component and field manager of a loop without such writes, not sent by this process | a 30 s watch in each period |
//! | `arguments` | Pods of kube-controller-manager with a `--controllers` that switches the loop on | one list in each period |
//! | `lease` | a renewed Lease of kube-controller-manager, while no Pod shows its loops | one read in each period |
//!
//! The evidence `lease` alone proves nothing, because kube-controller-manager still runs its other loops after a hand-over.
//! This evidence only sets the gauge `nonet_second_writer`. All other evidence is also reported by an Event on the Lease and in
//! the log. An annotation on the Lease states until when a second writer is expected.

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
    events::{EventRecorder, EventType, SentEventNames},
    gate::WriteGate,
    leader::{self, SECOND_WRITER_EXPECTED_UNTIL_ANNOTATION},
    metrics::Metrics,
    runtime::LoopDefinition,
    write_sampler::PREDECESSOR_WRITE_GRACE_PERIOD,
};

pub use crate::write_sampler::{OwnedWrites, WriteSampler};
use built_in::KubeControllerManagerState;
pub use evidence::Evidence;
use evidence::EvidenceRecord;
use metrics::SecondWriterMetrics;

/// Reason of the Event on the Lease that reports a second writer.
pub const SECOND_WRITER_FOUND: &str = "SecondWriterFound";
/// Reason of the Event on the Lease that reports that no sign of a second writer remains.
pub const SECOND_WRITER_GONE: &str = "SecondWriterGone";

/// How often the samples of watch events are evaluated and the gauges are set. Both are done without a request.
const JUDGE_PERIOD: Duration = Duration::from_secs(15);
/// Shortest time between two announcements of the same evidence, in an Event and in the log.
const ANNOUNCE_EVERY: Duration = Duration::from_hours(1);

/// Task that searches for a second writer while this process leads.
pub(crate) struct SecondWriterWatch {
    /// Client for the reads of this watch, with a user agent of its own.
    pub(crate) api: Api,
    /// Gate that is open while this process leads.
    pub(crate) gate: WriteGate,
    /// Status of the election; `None` without an election.
    pub(crate) election_status: Option<leader::ElectionStatus>,
    /// Recorder of the Events on the Lease.
    pub(crate) event_recorder: EventRecorder,
    /// Names of the Events that this process has sent.
    pub(crate) sent_events: SentEventNames,
    /// Sampler that picks a few watch events of the loops, to find writes that this process has not sent.
    pub(crate) write_sampler: Arc<WriteSampler>,
    /// Control loops of this process; evidence refers to them by their index.
    pub(crate) loops: Vec<LoopDefinition>,
    /// Pause between two searches for evidence on the API server.
    pub(crate) search_period: Duration,
}

impl SecondWriterWatch {
    /// Searches for a second writer from one minute after the start of each term. Runs until the future is dropped.
    pub(crate) async fn run(self, metrics: Metrics) {
        let findings = Mutex::new(Findings {
            metrics: SecondWriterMetrics::new(&metrics, self.loops.iter().map(|l| l.name).collect()),
            evidences: EvidenceRecord::new(self.search_period),
            announced: BTreeMap::new(),
            built_in_leads: false,
        });
        loop {
            self.gate.wait_until_leading().await;
            let since = self.gate.leading_since().unwrap_or_else(|| self.clock().monotonic_now());
            self.clock().sleep(PREDECESSOR_WRITE_GRACE_PERIOD).await;
            self.write_sampler.activate();
            tokio::select! {
                biased;
                () = self.gate.wait_until_leadership_ends() => {}
                () = self.judge_samples(&findings, since) => {}
                () = self.ask_server(&findings) => {}
            }
            findings.lock().metrics.clear();
        }
    }

    fn clock(&self) -> &Clock {
        self.api.clock()
    }

    /// Evaluates the samples and reports all findings, every [`JUDGE_PERIOD`]. Never returns.
    async fn judge_samples(&self, findings: &Mutex<Findings>, since: Instant) {
        loop {
            let now = self.clock().monotonic_now();
            for loop_index in self.write_sampler.take_second_writer_loop_indexes(now, since) {
                findings.lock().evidences.record_sighting(loop_index, Evidence::Writes, now);
            }
            self.report(&mut findings.lock());
            self.clock().sleep(JUDGE_PERIOD).await;
        }
    }

    /// Reads the Lease and the Pods of kube-controller-manager and watches Events, once in each period. Never returns.
    async fn ask_server(&self, findings: &Mutex<Findings>) {
        let mut built_in = KubeControllerManagerState::default();
        loop {
            let is_first = !built_in.has_read_lease();
            built_in.read_lease_and_pods(&self.api).await;
            {
                let (mut findings, now) = (findings.lock(), self.clock().monotonic_now());
                findings.built_in_leads = built_in.is_leading();
                for (loop_index, definition) in self.loops.iter().enumerate() {
                    if let Some(evidence) = built_in.evidence_for_loop(definition.name) {
                        findings.evidences.record_sighting(loop_index, evidence, now);
                    }
                }
            }
            let is_known_by_events = |(_, definition): &(usize, &LoopDefinition)| {
                definition.owned_writes.is_empty() && !definition.event_component.is_empty()
            };
            for (loop_index, definition) in self.loops.iter().enumerate().filter(is_known_by_events) {
                match foreign_events::watch_for_foreign_event(&self.api, definition.event_component, &self.sent_events)
                    .await
                {
                    Ok(true) => findings.lock().evidences.record_sighting(
                        loop_index,
                        Evidence::Events,
                        self.clock().monotonic_now(),
                    ),
                    Ok(false) => {}
                    Err(error) => tracing::debug!(err = %error, "Cannot watch Events for signs of a second writer"),
                }
            }
            let is_doubtful = is_first && built_in.needs_second_reading();
            self.clock().sleep(if is_doubtful { JUDGE_PERIOD } else { self.search_period }).await;
        }
    }

    /// Sets the gauges. Announces new evidence, or that no evidence remains.
    fn report(&self, findings: &mut Findings) {
        let now = self.clock().monotonic_now();
        let expected_until =
            self.election_status.as_ref().and_then(leader::ElectionStatus::second_writer_expected_until);
        let is_expected = expected_until.is_some_and(|until| until > self.clock().now());
        findings.metrics.set_second_writer_expected(is_expected);
        findings.metrics.set_kube_controller_manager_leads(findings.built_in_leads);
        let mut is_found = false;
        for (loop_index, definition) in self.loops.iter().enumerate() {
            for evidence in Evidence::ALL {
                let is_present = findings.evidences.is_present(loop_index, evidence, now);
                findings.metrics.set_evidence(definition.name, evidence, is_present);
                let is_proof = is_present && evidence.is_proof();
                is_found |= is_proof;
                if is_proof && !is_expected && findings.is_to_be_announced(loop_index, evidence, now) {
                    self.announce(definition.name, evidence);
                }
            }
        }
        if !is_found && !findings.announced.is_empty() {
            findings.announced.clear();
            tracing::info!("No signs of a second writer remain");
            if let Some(lease) = self.election_status.as_ref().and_then(leader::ElectionStatus::lease_reference) {
                let message = "no signs of a second writer remain".to_owned();
                self.event_recorder.record_event(&lease, EventType::Normal, SECOND_WRITER_GONE, message);
            }
        }
    }

    fn announce(&self, name: &str, evidence: Evidence) {
        let seen = evidence.event_clause();
        tracing::error!(controller = name, evidence = evidence.metric_label(), "Found a second writer");
        let Some(election) = &self.election_status else { return };
        let Some(lease) = election.lease_reference() else { return };
        let soon = self.clock().now().checked_add(SignedDuration::from_hours(1)).unwrap_or_else(|_| self.clock().now());
        let message = format!(
            "a second writer runs {name}: {seen}. Two writers undo each other's work. Switch the loop off in \
             kube-controller-manager on every control-plane node: --controllers=*,-{name}. If this is planned for a \
             limited time: kubectl annotate lease {} {SECOND_WRITER_EXPECTED_UNTIL_ANNOTATION}={soon:.0}",
            election.kubectl_lease_arguments()
        );
        self.event_recorder.record_event(&lease, EventType::Warning, SECOND_WRITER_FOUND, message);
    }
}

/// Evidence found so far, and the times of its announcements.
struct Findings {
    metrics: SecondWriterMetrics,
    evidences: EvidenceRecord,
    /// Time of the last announcement, by index of the loop and evidence.
    announced: BTreeMap<(usize, Evidence), Instant>,
    /// Whether the Lease of kube-controller-manager was renewed between the last two readings.
    built_in_leads: bool,
}

impl Findings {
    /// Whether the last announcement of the evidence was an hour ago or earlier, or never. If so, records a new announcement.
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

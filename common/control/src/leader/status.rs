//! The state of an election, for the other parts of the process.

use std::{sync::Arc, time::Duration};

use jiff::Timestamp;
use parking_lot::Mutex;
use serde_json::Value;

use super::{
    ElectionSettings, SECOND_WRITER_EXPECTED_UNTIL_ANNOTATION,
    lease::LeaseObject,
    probation::{self, LeaseAnnotations, ProbationSettings, VersionStanding},
};
use crate::{
    clock::{Clock, Instant},
    duration,
    events::InvolvedObject,
    intern::Text,
    meta::{ResourceVersion, Uid},
};

/// Grace after the Lease has expired before the health check fails.
const HEALTH_TOLERANCE: Duration = Duration::from_secs(20);

/// A view of an election's state. Clones share the state.
#[derive(Clone)]
pub struct ElectionStatus {
    /// The shared state, which the election updates after each attempt.
    pub(super) state: Arc<Mutex<ElectionState>>,
    pub(super) clock: Clock,
    pub(super) settings: ElectionSettings,
}

#[derive(Clone, Debug, Default)]
pub(super) struct ElectionState {
    pub(super) is_leading: bool,
    pub(super) renewed_at: Option<Instant>,
    /// When a leader sends its next renewal, unless it writes before.
    pub(super) renewal_due_at: Option<Instant>,
    pub(super) last_error: String,
    /// The start of this leader's probation; `None` if this process is not on probation.
    pub(super) probation_began: Option<Instant>,
    /// The Lease as last read or written.
    pub(super) lease: Option<LeaseObject>,
}

impl ElectionState {
    /// Returns the holder identity of the Lease; empty if there is no holder.
    fn holder(&self) -> &str {
        self.lease.as_ref().map_or("", |lease| &lease.record.holder_identity)
    }

    fn is_held(&self) -> bool {
        self.lease.as_ref().is_some_and(|lease| lease.record.is_held_for_hand_over())
    }

    fn is_held_after_leading(&self) -> bool {
        self.lease.as_ref().is_some_and(|lease| lease.record.is_held_after_leading())
    }
}

impl ElectionStatus {
    /// Whether this process leads: from the acquisition of the Lease until the end of its term.
    pub fn is_leading(&self) -> bool {
        self.state.lock().is_leading
    }

    /// Whether the Lease is held, so that no process leads until an operator releases it.
    pub fn is_held_for_hand_over(&self) -> bool {
        self.state.lock().is_held()
    }

    /// Returns a reference to the Lease for Events, with the version last read or written; `None` before the Lease was read.
    pub fn lease_reference(&self) -> Option<InvolvedObject> {
        let state = self.state.lock();
        let metadata = &state.lease.as_ref().filter(|lease| !lease.metadata.is_empty())?.metadata;
        let text = |key| metadata.get(key).and_then(Value::as_str).unwrap_or_default();
        Some(InvolvedObject {
            api_version: Text::new("coordination.k8s.io/v1"),
            kind: Text::new("Lease"),
            namespace: Text::new(&self.settings.namespace),
            name: Text::new(&self.settings.name),
            uid: Uid::new(text("uid")),
            version: ResourceVersion::parse(text("resourceVersion")),
        })
    }

    /// Returns the time until which an operator expects a second writer, from an annotation of the Lease.
    pub fn second_writer_expected_until(&self) -> Option<Timestamp> {
        let state = self.state.lock();
        let annotations = state.lease.as_ref()?.metadata.get("annotations")?;
        annotations.get(SECOND_WRITER_EXPECTED_UNTIL_ANNOTATION)?.as_str()?.parse().ok()
    }

    /// Returns namespace and name of the Lease as arguments of kubectl: `-n kube-system job-controller`.
    pub fn kubectl_lease_arguments(&self) -> String {
        format!("-n {} {}", self.settings.namespace, self.settings.name)
    }

    /// Returns the command that releases a held Lease.
    pub fn release_command(&self) -> String {
        format!("kubectl nonet release {}", self.kubectl_lease_arguments())
    }

    /// Returns the role of this process in the election, as a phrase for operators.
    pub fn role_summary(&self) -> String {
        let state = self.state.lock();
        if state.is_leading {
            "leads".to_owned()
        } else if state.is_held() {
            let history = if state.is_held_after_leading() { ", although a process has led before" } else { "" };
            format!(
                "stands by, as every replica does: the Lease is held{history}. Once kube-controller-manager no longer runs \
                 these loops: {}",
                self.release_command()
            )
        } else if state.holder().is_empty() {
            "stands by, and the Lease has no holder".to_owned()
        } else {
            let stated = state.lease.as_ref().map_or(Duration::ZERO, |lease| lease.record.stated_duration());
            let duration = Some(duration::format(stated)).filter(|_| stated > self.settings.lease_duration);
            let duration = duration.map_or_else(String::new, |text| {
                let lease = self.kubectl_lease_arguments();
                format!(
                    ", whose Lease lasts {text} without a renewal. If that process is gone: kubectl nonet hold {lease} && {}",
                    self.release_command()
                )
            });
            format!("stands by for {}{duration}", state.holder())
        }
    }

    /// Returns the holder identity as last read or written; empty if there was no holder.
    pub fn holder(&self) -> String {
        self.state.lock().holder().to_owned()
    }

    /// Returns the error of the last attempt, or the reason why the Lease was lost; empty after a success.
    pub fn last_error(&self) -> String {
        self.state.lock().last_error.clone()
    }

    /// Fails if this process leads and its next renewal is late by more than the lease duration plus 20 seconds, which means that
    /// the process hangs. A standby is always healthy.
    pub fn check_healthy(&self) -> Result<(), String> {
        let state = self.state.lock();
        let since = |time: Option<Instant>| {
            let time = time.filter(|_| state.is_leading);
            time.map_or(Duration::ZERO, |at| self.clock.monotonic_now().saturating_duration_since(at))
        };
        if since(state.renewal_due_at) > self.settings.lease_duration + HEALTH_TOLERANCE {
            let age = since(state.renewed_at).as_secs();
            return Err(format!("failed election to renew leadership on lease: last renewed {age}s ago"));
        }
        Ok(())
    }

    /// Fails while the version of this process is not proven: on a leader on probation, and on a standby of a version that has
    /// not led or has failed. A standby is ready if it has the leader's version, or the version of a predecessor, and this
    /// version is proven: such a standby can take over at once.
    pub fn check_ready(&self) -> Result<(), String> {
        let Some(ProbationSettings { version, probation_time: time }) = &self.settings.probation else { return Ok(()) };
        let state = self.state.lock();
        if state.is_leading {
            let Some(since) = state.probation_began else { return Ok(()) };
            let leads_for = Duration::from_secs(self.clock.monotonic_now().saturating_duration_since(since).as_secs());
            let (leads_for, time) = (duration::format(leads_for), duration::format(*time));
            return Err(format!("on probation: leads for {leads_for} of {time}"));
        }
        let Some(lease) = &state.lease else { return Err("the Lease has not been read yet".to_owned()) };
        match LeaseAnnotations::from_lease(lease).version_standing(version) {
            VersionStanding::VersionsIgnored | VersionStanding::Proven => Ok(()),
            VersionStanding::OnProbation => Err(format!("version {version} leads on probation in another replica")),
            VersionStanding::FailedProbation => Err(format!(
                "version {version} has failed its probation and stands by as the last resort; to let it try again: kubectl annotate lease {} {}-",
                self.kubectl_lease_arguments(),
                probation::FAILED_VERSIONS_ANNOTATION
            )),
            VersionStanding::NotLedYet { leader_version: leader, is_leader_on_probation: false } => Err(format!(
                "version {version} has not led yet, and asks version {leader} for the Lease once its caches are full"
            )),
            VersionStanding::NotLedYet { leader_version: leader, is_leader_on_probation: true } => Err(format!(
                "version {version} has not led yet, and waits until version {leader} has passed its probation"
            )),
        }
    }
}

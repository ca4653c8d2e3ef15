//! What the rest of the process may know of its election.

use std::{fmt, sync::Arc, time::Duration};

use jiff::Timestamp;
use parking_lot::{Mutex, MutexGuard};

use super::{
    Settings,
    probation::{self, Annotations, Probation, Standing},
};
use crate::{
    clock::{Clock, Instant},
    duration,
    events::ObjectRef,
};

/// By how much a leader's last success may lie behind the end of its Lease before it counts as ill.
const HEALTH_TOLERANCE: Duration = Duration::from_secs(20);

/// What the rest of the process may know of its election.
#[derive(Clone)]
pub struct Status {
    inner: Arc<Mutex<State>>,
    clock: Clock,
    tolerance: Duration,
    probation: Option<Probation>,
    /// Namespace and name of the Lease, as kubectl takes them.
    lease: Arc<str>,
}

#[derive(Clone, Debug, Default)]
pub(super) struct State {
    pub(super) leading: bool,
    pub(super) holder: String,
    pub(super) renewed: Option<Instant>,
    pub(super) last_error: String,
    /// Since when this process leads on probation, if it does.
    pub(super) on_probation_since: Option<Instant>,
    /// What the annotations of the Lease say, once it was read.
    pub(super) annotations: Option<Annotations>,
    /// Whether the Lease is held for a hand-over.
    pub(super) is_held: bool,
    /// The Lease as Events refer to it, once it was read.
    pub(super) lease: Option<ObjectRef>,
    /// Until when an operator expects a second writer beside this one.
    pub(super) second_writer_expected_until: Option<Timestamp>,
}

impl fmt::Debug for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.inner.lock().fmt(f)
    }
}

impl Status {
    pub(super) fn new(settings: &Settings, clock: Clock) -> Self {
        Self {
            inner: Arc::default(),
            clock,
            tolerance: settings.lease_duration + HEALTH_TOLERANCE,
            probation: settings.probation.clone(),
            lease: format!("-n {} {}", settings.namespace, settings.name).into(),
        }
    }

    /// What the election knows of itself, to be changed.
    pub(super) fn state(&self) -> MutexGuard<'_, State> {
        self.inner.lock()
    }

    /// Whether this process leads.
    pub fn is_leading(&self) -> bool {
        self.inner.lock().leading
    }

    /// Whether the Lease is held for a hand-over, so that nobody is to lead.
    pub fn is_held(&self) -> bool {
        self.inner.lock().is_held
    }

    /// The Lease as Events refer to it, at the version that was last seen; nothing before it was read.
    pub fn lease(&self) -> Option<ObjectRef> {
        self.inner.lock().lease.clone()
    }

    /// Until when an operator expects a second writer beside this one, as an annotation of the Lease says.
    pub fn second_writer_expected_until(&self) -> Option<Timestamp> {
        self.inner.lock().second_writer_expected_until
    }

    /// Namespace and name of the Lease, as kubectl takes them: `-n kube-system job-controller`.
    pub fn lease_arguments(&self) -> &str {
        &self.lease
    }

    /// The role of this process in the election, as a phrase for operators.
    pub fn summary(&self) -> String {
        let state = self.inner.lock();
        if state.leading {
            "leads".to_owned()
        } else if state.is_held {
            format!(
                "stands by, as every replica does: the Lease is held for a hand-over. To end the hold: kubectl delete lease {}",
                self.lease
            )
        } else if state.holder.is_empty() {
            "stands by, and nobody holds the Lease".to_owned()
        } else {
            format!("stands by for {}", state.holder)
        }
    }

    /// Who was last seen to hold the Lease; empty if nobody.
    pub fn holder(&self) -> String {
        self.inner.lock().holder.clone()
    }

    /// Why the last attempt failed, if it did; why the Lease was lost, once it is.
    pub fn last_error(&self) -> String {
        self.inner.lock().last_error.clone()
    }

    /// Fails if this process leads and has not renewed its Lease for much too long: it hangs. A standby is healthy.
    pub fn healthy(&self) -> Result<(), String> {
        let state = self.inner.lock();
        let late = state.renewed.map(|at| self.clock.instant().saturating_duration_since(at));
        match late {
            Some(late) if state.leading && late > self.tolerance => {
                Err(format!("failed election to renew leadership on lease: last renewed {}s ago", late.as_secs()))
            }
            _ => Ok(()),
        }
    }

    /// Fails while this process's version is not proven: a leader on probation, and a standby of a version that has not led, or
    /// has failed. Standbys of the version that leads, or has led before, can follow at once.
    pub fn ready(&self) -> Result<(), String> {
        let Some(Probation { version, time }) = &self.probation else { return Ok(()) };
        let state = self.inner.lock();
        if state.leading {
            let Some(since) = state.on_probation_since else { return Ok(()) };
            let leads_for = Duration::from_secs(self.clock.instant().saturating_duration_since(since).as_secs());
            return Err(format!(
                "on probation: leads for {} of {}",
                duration::format(leads_for),
                duration::format(*time)
            ));
        }
        let Some(annotations) = &state.annotations else { return Err("the Lease has not been read yet".to_owned()) };
        match annotations.standing_of(version) {
            Standing::Unrelated | Standing::Proven => Ok(()),
            Standing::OnProbation => Err(format!("version {version} leads on probation in another replica")),
            Standing::Failed => Err(format!(
                "version {version} has failed its probation and stands by as the last resort; to let it try again: kubectl annotate lease {} {}-",
                self.lease,
                probation::FAILED
            )),
            Standing::New { leader, leader_on_probation: false } => Err(format!(
                "version {version} has not led yet, and asks version {leader} for the Lease once its caches are full"
            )),
            Standing::New { leader, leader_on_probation: true } => Err(format!(
                "version {version} has not led yet, and waits until version {leader} has passed its probation"
            )),
        }
    }
}

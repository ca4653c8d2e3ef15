//! The requests of an election: an attempt to acquire or to renew the Lease, and its release.

use std::{ops::ControlFlow, time::Duration};

use super::{
    Election, LEASES,
    lease::{self, LeaseObject},
    step::{self, AttemptOutcome, CurrentTime, ElectionAttempt, ElectionReply, ElectionRequest},
};
use crate::{
    api::{self, RequestTarget},
    clock::Instant,
    duration,
};

impl Election {
    /// Makes one attempt to acquire or to renew the Lease. `lease` is a change that the watch has delivered; `None` if an attempt
    /// without a change is due.
    pub(super) async fn attempt(&mut self, lease: Option<LeaseObject>) -> AttemptOutcome {
        let now = self.current_moment();
        let (mut attempt, mut next) = match lease {
            Some(lease) => {
                self.record_answer(&lease, now.instant);
                let mut attempt = ElectionAttempt::after_read();
                let next = attempt.process_reply(&mut self.memory, ElectionReply::Lease(lease), now.instant, now);
                (attempt, next)
            }
            None => {
                let (attempt, request) = ElectionAttempt::begin(&self.memory, now);
                (attempt, ControlFlow::Continue(request))
            }
        };
        let ended = loop {
            let request = match next {
                ControlFlow::Continue(request) => request,
                ControlFlow::Break(ended) => break ended,
            };
            let since = self.clock.monotonic_now();
            self.suspended_at_last_request = self.clock.total_suspended_time();
            let reply = self.send_request(&request).await;
            let now = self.current_moment();
            if let ElectionReply::Failed(why) | ElectionReply::NotFound(why) = &reply {
                self.last_failure = Some(format!("{}: {why}", request.verb()));
            }
            if let ElectionReply::Lease(lease) = &reply {
                self.record_answer(lease, now.instant);
            }
            next = attempt.process_reply(&mut self.memory, reply, since, now);
        };
        if attempt.took_slow_path {
            self.metrics.slow_path_total.inc();
        }
        if matches!(ended, AttemptOutcome::HoldsLease { .. }) {
            self.last_failure = None;
        }
        let lease = self.memory.lease().cloned();
        let (is_held, was_held) = (
            lease.as_ref().is_some_and(|lease| lease.record.is_held_for_hand_over()),
            self.status.is_held_for_hand_over(),
        );
        let is_held_after_leading = lease.as_ref().is_some_and(|lease| lease.record.is_held_after_leading());
        // A replica without contact to the API server does not know whether the Lease is still held.
        let age = self.clock.monotonic_now().saturating_duration_since(self.last_answer_at);
        let is_known = age <= self.settings.lease_duration;
        self.metrics.lease_held_gauge.set(f64::from(is_held && is_known));
        self.metrics.lease_held_after_leading_gauge.set(f64::from(is_held_after_leading && is_known));
        let lock = self.lease_path();
        if is_held && !was_held {
            let release = self.status.release_command();
            tracing::info!(
                lock,
                release,
                "The lease is held: standing by until it is released, once kube-controller-manager no longer runs these loops"
            );
        }
        if was_held && !is_held {
            tracing::info!(lock, "The lease is no longer held");
        }
        let mut state = self.status.state.lock();
        state.lease = lease;
        state.last_error =
            if let AttemptOutcome::Failed { failure } = &ended { failure.clone() } else { String::new() };
        drop(state);
        match &ended {
            AttemptOutcome::HoldsLease { .. } => {}
            AttemptOutcome::HeldByOther { holder } => {
                tracing::debug!(lock, holder, "The lease is held and has not expired yet");
            }
            AttemptOutcome::LeftToOthers { .. } => {
                tracing::debug!(lock, "The lease is left to other candidates for a while");
            }
            AttemptOutcome::Failed { failure } => {
                tracing::error!(lock, err = failure, "Error retrieving or updating lease lock");
            }
        }
        ended
    }

    /// Records that the server has shown this Lease, and reports lost changes of the server if the Lease is older than the one
    /// before. The renewals of a leader that writes are eight seconds apart, so that few losses are shorter.
    fn record_answer(&mut self, lease: &LeaseObject, now: Instant) {
        self.last_answer_at = now;
        let version = lease.version();
        let last = std::mem::replace(&mut self.last_lease_version, version);
        if version.is_known() && version < last {
            let evidence = format!("the Lease {} has version {version}, it had version {last}", self.lease_path());
            self.api.history().report_lost_changes(&evidence);
        }
    }

    fn current_moment(&self) -> CurrentTime {
        CurrentTime { instant: self.clock.monotonic_now(), wall_clock_time: self.clock.now() }
    }

    /// Sends one request to the API server. The request fails if no answer arrives within half the renew deadline.
    async fn send_request(&self, request: &ElectionRequest) -> ElectionReply {
        let (namespace, name) = (&*self.settings.namespace, &*self.settings.name);
        let (lease, leases) =
            (RequestTarget::object(LEASES, namespace, name), RequestTarget::object(LEASES, namespace, ""));
        let body = |lease| lease::encode_lease(namespace, name, lease);
        let exchange = async {
            match request {
                ElectionRequest::Get => self.api.get(lease).await,
                ElectionRequest::Create(created) => self.api.create(leases, &body(created)).await,
                ElectionRequest::Replace(replaced) => self.api.replace(lease, &body(replaced)).await,
            }
        };
        let timeout = self.settings.request_timeout();
        let answer = tokio::time::timeout(timeout, exchange).await.unwrap_or_else(|_| {
            Err(api::Error::OutcomeUnknown(format!("no answer within {}", duration::format(timeout))))
        });
        match answer {
            Ok(bytes) => lease::decode_lease(&bytes).map_or_else(ElectionReply::Failed, ElectionReply::Lease),
            Err(error) if error.is_not_found() => ElectionReply::NotFound(error.to_string()),
            Err(error) => ElectionReply::Failed(error.to_string()),
        }
    }

    /// Releases the Lease if this candidate holds it.
    pub(super) async fn release_lease(&mut self) -> Result<(), String> {
        let written_versions = self.writes.written_versions_for_successor(self.clock.monotonic_now());
        loop {
            let lease = match self.send_request(&ElectionRequest::Get).await {
                ElectionReply::NotFound(_) => return Ok(()),
                ElectionReply::Failed(why) => return Err(why),
                ElectionReply::Lease(lease) => lease,
            };
            let (now, reserved_standby) = (self.clock.now(), self.chosen_standby.as_ref());
            let Some(given_up) =
                step::released_lease(&lease, &self.memory, now, written_versions.as_ref(), reserved_standby)
            else {
                return Ok(());
            };
            match self.send_request(&ElectionRequest::Replace(given_up)).await {
                ElectionReply::Lease(_) | ElectionReply::NotFound(_) => return Ok(()),
                // A renewal without an answer may have changed the Lease meanwhile. The next iteration reads the Lease again.
                ElectionReply::Failed(why) => {
                    tracing::debug!(lock = self.lease_path(), err = why, "Failed to release lease, trying again");
                    self.clock.sleep(Duration::from_millis(100)).await;
                }
            }
        }
    }
}

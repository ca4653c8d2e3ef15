//! The steps of one attempt to acquire or to renew a Lease. No I/O, no clock.
//!
//! Upstream: `client-go/tools/leaderelection`, `tryAcquireOrRenew`.

use std::{ops::ControlFlow, time::Duration};

use jiff::Timestamp;
use serde_json::{Map, Value, json};

use super::{
    lease::{LeaseObject, LeaseRecord},
    probation::{self, LeaderTerm, LeaseAnnotations, ProbationSettings, RequestingStandby},
    settings::ElectionSettings,
};
use crate::{
    clock::Instant,
    succession::{self, WrittenVersions},
};

/// How long a leader remembers that it has a standby.
const STANDBY_MEMORY: Duration = Duration::from_hours(1);

/// The current time on the monotonic clock and on the wall clock.
#[derive(Clone, Copy, Debug)]
pub(super) struct CurrentTime {
    /// Monotonic time, to measure waits.
    pub(super) instant: Instant,
    /// Wall-clock time, to write into the Lease. Never compared.
    pub(super) wall_clock_time: Timestamp,
}

/// The state that a candidate keeps between its attempts.
#[derive(Clone, Debug)]
pub(super) struct CandidateMemory {
    identity: String,
    lease_duration: Duration,
    /// The Lease as last read or written, and the time since which its record has not changed.
    observed: Option<(LeaseObject, Instant)>,
    /// The record as last read, to detect changes. Writes of this candidate do not update the record.
    last_read_record: Option<LeaseRecord>,
    /// The versions that the last holder wrote and left in the Lease at its release; `None` if the Lease contains none.
    pub(super) predecessor_written_versions: Option<WrittenVersions>,
    /// Version of this candidate; `None` if versions do not matter.
    probation: Option<ProbationSettings>,
    /// Whether the loops of this candidate can lead at once. The candidate asks for the Lease only then.
    pub(super) has_filled_caches: bool,
    /// The term of this candidate as leader, set when it tries to take the Lease.
    pub(super) term: Option<LeaderTerm>,
    /// The version that failed in the term before; `None` after the election has reported the failure.
    pub(super) newly_failed_version: Option<String>,
    /// The standby with a granted request for the Lease; `None` after the election has notified its process.
    pub(super) permitted_standby: Option<RequestingStandby>,
    /// The time until which a deleted Lease is left to its last leader, which may still write; `None` if no Lease was deleted.
    pub(super) deleted_lease_reserved_until: Option<Instant>,
    /// The time until which another process may write that has led with this Lease; `None` if no such process is known.
    other_writes_until: Option<Instant>,
    /// The time of the first of the latest reads that found no Lease; `None` if the last read found one.
    absent_since: Option<Instant>,
    /// How long a leader may write without a renewal.
    renew_deadline: Duration,
    /// `leaseDurationSeconds` of the Lease of a leader that knows of no standby.
    lone_duration_seconds: i64,
    /// When a standby last shortened the Lease of this leader; `None` if this leader knows of no standby.
    standby_seen_at: Option<Instant>,
    /// Whether this candidate takes a Lease that does not exist.
    leads_without_release: bool,
}

impl CandidateMemory {
    /// Creates the memory of a candidate that has not read the Lease.
    pub(super) fn new(settings: &ElectionSettings) -> Self {
        Self {
            identity: settings.identity.clone(),
            lease_duration: settings.stated_lease_duration(),
            observed: None,
            last_read_record: None,
            predecessor_written_versions: None,
            probation: settings.probation.clone(),
            has_filled_caches: false,
            term: None,
            newly_failed_version: None,
            permitted_standby: None,
            deleted_lease_reserved_until: None,
            other_writes_until: None,
            absent_since: None,
            renew_deadline: settings.renew_deadline,
            lone_duration_seconds: settings.lone_lease_duration_seconds(),
            standby_seen_at: None,
            leads_without_release: settings.leads_without_release,
        }
    }

    /// Returns the Lease as last read or written; `None` before the first answer.
    pub(super) fn lease(&self) -> Option<&LeaseObject> {
        self.observed.as_ref().map(|(lease, _)| lease)
    }

    /// Records a Lease that was read, and returns the time since which its record has not changed.
    fn record_read(&mut self, lease: &LeaseObject, now: Instant) -> Instant {
        let since = match (&self.last_read_record, &self.observed) {
            (Some(read), Some((_, since))) if read.equals_in_seconds(&lease.record) => *since,
            _ => now,
        };
        let record = &lease.record;
        if lease.is_released_by_leader() {
            self.other_writes_until = None;
        } else if record.is_led() {
            let is_another = record.holder_identity != self.identity;
            // At least the own lease duration, because an operator may have edited the duration in the Lease.
            self.other_writes_until = is_another.then(|| since + record.stated_duration().max(self.lease_duration));
        } else if !self.last_read_record.as_ref().is_some_and(|last| !last.is_led() && last.is_same_term(record)) {
            // An operator has held or released the Lease since the last read, and its leader may not have noticed it yet.
            self.other_writes_until = Some(now + self.lease_duration);
        }
        self.absent_since = None;
        self.last_read_record = Some(record.clone());
        self.observed = Some((lease.clone(), since));
        since
    }

    /// Whether a Lease that the watch has delivered is newer than the Lease as last read or written.
    pub(super) fn is_news(&self, lease: &LeaseObject) -> bool {
        self.lease().is_none_or(|known| lease.version() > known.version())
    }

    /// Records a Lease that the watch has delivered at `seen_at`, if its holder has done nothing but renew it. Returns whether that
    /// is so. If not, an attempt has to read the Lease.
    pub(super) fn record_renewal(&mut self, lease: &LeaseObject, seen_at: Instant) -> bool {
        let is_renewal = self.lease().is_some_and(|known| known.differs_by_renewal_only(lease));
        if is_renewal {
            self.record_read(lease, seen_at);
        }
        is_renewal
    }

    /// Returns the time until which this standby needs no attempt unless the Lease changes: the expiry of the Lease, or `None` for
    /// a Lease that never expires. Returns `poll_at` if this standby has something to write.
    pub(super) fn idle_until(&self, poll_at: Instant) -> Option<Instant> {
        let Some(lease) = self.lease() else { return Some(poll_at) };
        if self.standby_changes(lease, &LeaseAnnotations::from_lease(lease)).is_some() {
            return Some(poll_at);
        }
        lease.record.is_led().then(|| self.other_writes_until.unwrap_or(poll_at))
    }

    /// Whether this leader states a long duration in its Lease, because it knows of no standby. A standby that was seen is
    /// remembered for [`STANDBY_MEMORY`]: then the leader states the long duration again, and a live standby shortens it.
    pub(super) fn leads_alone(&self, now: Instant) -> bool {
        let is_on_probation = self.term.as_ref().is_some_and(|term| term.is_on_probation);
        !is_on_probation && self.standby_seen_at.is_none_or(|at| now >= at + STANDBY_MEMORY)
    }

    /// Writes the duration of the Lease that this candidate holds or is about to take.
    fn write_duration(&self, lease: &mut LeaseObject, now: Instant) {
        let duration_seconds = self.lease_duration.as_secs() as i64;
        if self.leads_alone(now) {
            lease.set_duration(self.lone_duration_seconds, Some(duration_seconds));
        } else {
            lease.set_duration(duration_seconds, None);
        }
    }

    /// Whether this candidate was the holder when it last read or wrote the Lease.
    fn holds_lease(&self) -> bool {
        self.lease().is_some_and(|lease| lease.record.holder_identity == self.identity)
    }

    /// Returns the time until which this candidate does not create the Lease that it has not found.
    fn absent_lease_left_until(&mut self, now: Instant) -> Option<Instant> {
        // A leader that this candidate has never seen creates its deleted Lease again before it has to stop its writes.
        let first = *self.absent_since.get_or_insert(now);
        let may_have_leader =
            !self.leads_without_release || self.last_read_record.as_ref().is_some_and(LeaseRecord::is_led);
        let recreated_by = may_have_leader.then(|| first + self.renew_deadline);
        let until = self.other_writes_until.max(self.deleted_lease_reserved_until).max(recreated_by);
        until.filter(|until| *until > now && !self.holds_lease())
    }

    /// Returns the record that this candidate writes when it takes the Lease.
    fn record_for_take_over(&self, now: Timestamp, transitions: i64) -> LeaseRecord {
        LeaseRecord {
            holder_identity: self.identity.clone(),
            duration_seconds: self.lease_duration.as_secs() as i64,
            acquire_time: Some(now),
            renew_time: Some(now),
            transition_count: transitions,
        }
    }

    /// Writes this leader's term into the annotations of its Lease.
    fn write_term(&self, lease: &mut LeaseObject) {
        if let (Some(probation), Some(term)) = (&self.probation, &self.term) {
            probation::write_term(lease, term, probation);
        }
    }

    /// Begins a term: computes the term from the Lease before the take-over, and writes its annotations into the new Lease.
    fn start_term(&mut self, annotations: &LeaseAnnotations, record: &LeaseRecord, lease: &mut LeaseObject) {
        let Some(probation) = &self.probation else { return };
        let new_term = annotations.next_term(&probation.version, record);
        probation::write_failed_versions(lease, &new_term.failed_versions);
        self.term = Some(new_term.term);
        self.newly_failed_version = new_term.newly_failed_version;
        self.write_term(lease);
    }

    /// Returns the Lease of another holder as this standby writes it: with the short duration that the leader states for standbys,
    /// and with this standby's request, if it may ask for the Lease. `None` if the standby has nothing to write.
    fn standby_changes(&self, lease: &LeaseObject, annotations: &LeaseAnnotations) -> Option<LeaseObject> {
        let shorter = lease.standby_duration_seconds();
        let may_ask = self.has_filled_caches && annotations.requesting_standby.is_none();
        let request = self
            .probation
            .as_ref()
            .filter(|probation| may_ask && annotations.version_standing(&probation.version).may_ask_for_lease());
        if shorter.is_none() && request.is_none() {
            return None;
        }
        let mut changed = lease.clone();
        if let Some(seconds) = shorter {
            changed.set_duration(seconds, None);
        }
        if let Some(ProbationSettings { version, .. }) = request {
            let standby = RequestingStandby { identity: self.identity.clone(), version: version.clone() };
            probation::write_standby_request(&mut changed, &standby);
        }
        Some(changed)
    }
}

/// A request that an attempt sends to the API server.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum ElectionRequest {
    Get,
    Create(LeaseObject),
    /// Replace the Lease if its version has not changed.
    Replace(LeaseObject),
}

impl ElectionRequest {
    /// Returns the verb for error messages.
    pub(super) fn verb(&self) -> &'static str {
        match self {
            Self::Get => "get",
            Self::Create(_) => "create",
            Self::Replace(_) => "update",
        }
    }
}

/// The answer to an [`ElectionRequest`], reduced to the cases that an attempt distinguishes.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum ElectionReply {
    /// The Lease as read, or as the server stored it after a write.
    Lease(LeaseObject),
    /// The Lease does not exist. Contains the error message.
    NotFound(String),
    /// The error message of any other failure, such as a conflict or a lost answer.
    Failed(String),
}

/// The result of an attempt: the state of the Lease as far as this candidate knows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum AttemptOutcome {
    /// This candidate holds the Lease, because of a write that was sent at `sent_at`.
    HoldsLease { sent_at: Instant },
    /// Another candidate holds the Lease, which has not expired.
    HeldByOther { holder: String },
    /// The Lease is available, but this candidate leaves it to other candidates until the time `until`.
    LeftToOthers { until: Instant },
    /// The attempt failed, and the holder of the Lease is not known.
    Failed { failure: String },
}

/// One attempt to acquire or to renew the Lease.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ElectionAttempt {
    expected_reply: ExpectedReply,
    /// Whether this candidate holds the Lease, but had to read it before the renewal.
    pub(super) took_slow_path: bool,
    /// Whether a write of this attempt has failed. The attempt then reads the Lease once more, to learn its holder.
    has_write_failed: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ExpectedReply {
    /// The renewal of the remembered Lease.
    Renewal,
    /// A read of the Lease.
    Lease,
    /// A write that is based on a read.
    Write,
    /// The creation of a Lease that is held.
    Hold,
    /// A standby's changes to the Lease of another holder.
    StandbyChanges,
}

impl ElectionAttempt {
    fn waiting_for(expected_reply: ExpectedReply) -> Self {
        Self { expected_reply, took_slow_path: false, has_write_failed: false }
    }

    /// Begins an attempt for a Lease that was read, which [`process_reply`](Self::process_reply) then receives.
    pub(super) fn after_read() -> Self {
        Self::waiting_for(ExpectedReply::Lease)
    }

    /// Begins an attempt: a holder renews the remembered Lease, and every other candidate reads the Lease.
    pub(super) fn begin(memory: &CandidateMemory, now: CurrentTime) -> (Self, ElectionRequest) {
        if let Some((lease, since)) = &memory.observed
            && lease.record.holder_identity == memory.identity
            && *since + lease.record.stated_duration() > now.instant
        {
            let mut renewal = lease.clone();
            renewal.record.renew_time = Some(now.wall_clock_time);
            memory.write_duration(&mut renewal, now.instant);
            memory.write_term(&mut renewal);
            return (Self::waiting_for(ExpectedReply::Renewal), ElectionRequest::Replace(renewal));
        }
        (Self::waiting_for(ExpectedReply::Lease), ElectionRequest::Get)
    }

    /// Processes the answer to the request that was sent at `sent`. Returns the next request or the outcome.
    pub(super) fn process_reply(
        &mut self,
        memory: &mut CandidateMemory,
        reply: ElectionReply,
        sent: Instant,
        now: CurrentTime,
    ) -> ControlFlow<AttemptOutcome, ElectionRequest> {
        match (self.expected_reply, reply) {
            (ExpectedReply::Renewal | ExpectedReply::Write, ElectionReply::Lease(lease)) => {
                memory.observed = Some((lease, now.instant));
                ControlFlow::Break(AttemptOutcome::HoldsLease { sent_at: sent })
            }
            // A renewal may fail because the answer to an earlier renewal was lost. The holder then reads the Lease.
            (ExpectedReply::Renewal, ElectionReply::NotFound(_) | ElectionReply::Failed(_)) => {
                self.expected_reply = ExpectedReply::Lease;
                ControlFlow::Continue(ElectionRequest::Get)
            }
            // A failed write is not repeated in the same attempt.
            (ExpectedReply::Lease, ElectionReply::NotFound(why)) if self.has_write_failed => {
                ControlFlow::Break(AttemptOutcome::Failed { failure: why })
            }
            (ExpectedReply::Lease, ElectionReply::Lease(lease)) if self.has_write_failed => {
                memory.record_read(&lease, now.instant);
                let holder = lease.record.holder_identity;
                ControlFlow::Break(if holder == memory.identity {
                    AttemptOutcome::Failed { failure: "the lease was read, but could not be written".to_owned() }
                } else {
                    AttemptOutcome::HeldByOther { holder }
                })
            }
            (ExpectedReply::Lease, ElectionReply::NotFound(_)) => {
                // The Lease may have been deleted. Its leader then creates the Lease again, and may write until it notices the
                // deletion.
                if let Some(until) = memory.absent_lease_left_until(now.instant) {
                    return ControlFlow::Break(AttemptOutcome::LeftToOthers { until });
                }
                let last = memory.lease().map(|lease| &lease.record);
                if !memory.holds_lease() && !memory.leads_without_release {
                    self.expected_reply = ExpectedReply::Hold;
                    let held = LeaseObject::new(Map::new(), LeaseRecord::held(last));
                    return ControlFlow::Continue(ElectionRequest::Create(held));
                }
                self.expected_reply = ExpectedReply::Write;
                let mut record = memory.record_for_take_over(now.wall_clock_time, 0);
                if let Some(last) = last.filter(|_| memory.holds_lease()) {
                    record.acquire_time = last.acquire_time;
                    record.transition_count = last.transition_count;
                }
                let mut created = LeaseObject::new(Map::new(), record);
                memory.start_term(&LeaseAnnotations::default(), &LeaseRecord::default(), &mut created);
                memory.write_duration(&mut created, now.instant);
                ControlFlow::Continue(ElectionRequest::Create(created))
            }
            (ExpectedReply::Hold, ElectionReply::Lease(lease)) => {
                memory.record_read(&lease, now.instant);
                // The Lease did not exist for so long that no leader is left.
                memory.other_writes_until = None;
                ControlFlow::Break(AttemptOutcome::HeldByOther { holder: lease.record.holder_identity })
            }
            (ExpectedReply::Lease, ElectionReply::Lease(lease)) => self.decide_take_over(memory, lease, now),
            // Another candidate was faster, or the answer was lost.
            (ExpectedReply::Write | ExpectedReply::Hold, ElectionReply::Failed(_) | ElectionReply::NotFound(_))
                if !self.has_write_failed =>
            {
                (self.has_write_failed, self.expected_reply) = (true, ExpectedReply::Lease);
                ControlFlow::Continue(ElectionRequest::Get)
            }
            (ExpectedReply::Lease, ElectionReply::Failed(why))
            | (ExpectedReply::Write | ExpectedReply::Hold, ElectionReply::Failed(why) | ElectionReply::NotFound(why)) => {
                ControlFlow::Break(AttemptOutcome::Failed { failure: why })
            }
            (ExpectedReply::StandbyChanges, reply) => {
                // The next attempt repeats a request that failed. A new duration counts from here.
                if let ElectionReply::Lease(lease) = reply {
                    memory.record_read(&lease, now.instant);
                }
                let holder = memory.lease().map(|lease| lease.record.holder_identity.clone());
                ControlFlow::Break(AttemptOutcome::HeldByOther { holder: holder.unwrap_or_default() })
            }
        }
    }

    /// Decides whether this candidate takes or renews the Lease that it has read, or asks the holder for the Lease.
    fn decide_take_over(
        &mut self,
        memory: &mut CandidateMemory,
        mut lease: LeaseObject,
        now: CurrentTime,
    ) -> ControlFlow<AttemptOutcome, ElectionRequest> {
        // A leader whose Lease has lost its holder takes it again: other candidates leave it to this leader meanwhile.
        let was_ours = memory.holds_lease();
        let was_alone = was_ours && memory.lease().is_some_and(|last| last.standby_duration_seconds().is_some());
        if was_alone && lease.standby_duration_seconds().is_none() {
            memory.standby_seen_at = Some(now.instant);
        }
        let since = memory.record_read(&lease, now.instant);
        let record = &lease.record.clone();
        let found = LeaseAnnotations::from_lease(&lease);
        let ours = record.holder_identity == memory.identity;
        let held = AttemptOutcome::HeldByOther { holder: record.holder_identity.clone() };
        if record.is_held_for_hand_over() {
            return ControlFlow::Break(held);
        }
        let free_at = memory.other_writes_until.unwrap_or(since);
        if record.is_led() && !ours && free_at > now.instant {
            let Some(changed) = memory.standby_changes(&lease, &found) else { return ControlFlow::Break(held) };
            self.expected_reply = ExpectedReply::StandbyChanges;
            return ControlFlow::Continue(ElectionRequest::Replace(changed));
        }
        if !ours && !was_ours {
            let delay = memory.probation.as_ref().map_or(Duration::ZERO, |probation| {
                found.take_over_delay(&memory.identity, &probation.version, record, memory.lease_duration)
            });
            if free_at + delay > now.instant {
                return ControlFlow::Break(AttemptOutcome::LeftToOthers { until: free_at + delay });
            }
        }
        let mut record_written =
            memory.record_for_take_over(now.wall_clock_time, record.transition_count.saturating_add(1));
        if ours {
            record_written.acquire_time = record.acquire_time.or(record_written.acquire_time);
            record_written.transition_count = record.transition_count;
            self.took_slow_path = true;
        }
        memory.predecessor_written_versions = take_predecessor_written_versions(&mut lease.metadata, record);
        let mut written = LeaseObject::new(lease.metadata, record_written);
        if ours {
            memory.permitted_standby = found.permitted_standby().cloned();
            memory.write_term(&mut written);
        } else {
            memory.start_term(&found, record, &mut written);
        }
        memory.write_duration(&mut written, now.instant);
        self.expected_reply = ExpectedReply::Write;
        ControlFlow::Continue(ElectionRequest::Replace(written))
    }
}

/// Removes the last holder's written versions from a Lease. Returns them if the Lease has had no holder since its release.
fn take_predecessor_written_versions(
    metadata: &mut Map<String, Value>,
    record: &LeaseRecord,
) -> Option<WrittenVersions> {
    let note = metadata.get_mut("annotations")?.as_object_mut()?.remove(succession::WRITTEN_VERSIONS_ANNOTATION)?;
    let left = WrittenVersions::from_annotation(note.as_str()?, record.transition_count)?;
    record.holder_identity.is_empty().then_some(left)
}

/// Returns the time until which a holder may write, after it sent a successful write of the Lease at `sent`.
///
/// Other candidates take over no earlier than a lease duration after they saw that write, which was after `sent`. The deadline
/// counts from `sent` and not from the answer. Two leaders are therefore separated by the difference between lease duration and
/// renew deadline, even after a slow answer. `suspended` is how long the machine has been suspended since `sent`.
pub(super) fn write_deadline(sent: Instant, suspended: Duration, renew_deadline: Duration) -> Instant {
    sent + renew_deadline.saturating_sub(suspended)
}

/// Returns the released Lease with the versions that its holder wrote; `None` if this candidate is not the holder.
///
/// With a probation, the Lease is reserved for `chosen_standby`, or without it for a standby that has asked meanwhile.
pub(super) fn released_lease(
    lease: &LeaseObject,
    memory: &CandidateMemory,
    now: Timestamp,
    written_versions: Option<&WrittenVersions>,
    chosen_standby: Option<&RequestingStandby>,
) -> Option<LeaseObject> {
    if lease.record.holder_identity != memory.identity {
        return None;
    }
    let mut released = lease.clone();
    released.record = LeaseRecord::released(now, lease.record.transition_count);
    released.set_duration(released.record.duration_seconds, None);
    if let Some(written_versions) = written_versions {
        let annotations = released.metadata.entry("annotations").or_insert_with(|| json!({}));
        annotations[succession::WRITTEN_VERSIONS_ANNOTATION] =
            json!(written_versions.to_annotation(lease.record.transition_count));
    }
    if memory.probation.is_some() {
        let lease_annotations = LeaseAnnotations::from_lease(lease);
        probation::write_reservation(&mut released, chosen_standby.or(lease_annotations.permitted_standby()));
    }
    Some(released)
}

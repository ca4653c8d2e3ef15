//! The steps of one attempt to acquire or to renew a Lease. No I/O, no clock.
//!
//! Upstream: `client-go/tools/leaderelection`, `tryAcquireOrRenew`.

use std::{ops::ControlFlow, time::Duration};

use jiff::Timestamp;
use serde_json::{Map, Value, json};

use super::{
    lease::{Lease, Record},
    probation::{self, Annotations, Applicant, Probation, Term},
};
use crate::{
    clock::Instant,
    succession::{self, WrittenVersions},
};

/// The current time on the monotonic clock and on the wall clock.
#[derive(Clone, Copy, Debug)]
pub(super) struct Moment {
    /// Monotonic time, to measure waits.
    pub(super) instant: Instant,
    /// Wall-clock time, to write into the Lease. Never compared.
    pub(super) wall: Timestamp,
}

/// The state that a candidate keeps between its attempts.
#[derive(Clone, Debug)]
pub(super) struct Memory {
    identity: String,
    lease_duration: Duration,
    /// The Lease as last read or written, and the time since which its record has not changed.
    observed: Option<(Lease, Instant)>,
    /// The record as last read, to detect changes. Own writes do not update it.
    read: Option<Record>,
    /// The versions that the last holder wrote and left in the Lease at its release; `None` if the Lease contains none.
    pub(super) left: Option<WrittenVersions>,
    /// `None` if versions do not matter.
    probation: Option<Probation>,
    /// Whether the loops of this candidate can lead at once. The candidate asks for the Lease only then.
    pub(super) warm: bool,
    /// The term of this candidate as leader, set when it tries to take the Lease.
    pub(super) term: Option<Term>,
    /// The version that failed in the term before, until the election has reported it.
    pub(super) condemned: Option<String>,
    /// The standby that asked for the Lease and may have it, until the election has reported it.
    pub(super) applicant: Option<Applicant>,
    /// Until when a deleted Lease is left to its last leader, which may write until then; `None` if no such Lease was deleted.
    pub(super) left_alone_until: Option<Instant>,
}

impl Memory {
    /// Creates the memory of a candidate that has not read the Lease.
    pub(super) fn new(identity: &str, lease_duration: Duration, probation: Option<Probation>) -> Self {
        Self {
            identity: identity.to_owned(),
            lease_duration,
            observed: None,
            read: None,
            left: None,
            probation,
            warm: false,
            term: None,
            condemned: None,
            applicant: None,
            left_alone_until: None,
        }
    }

    /// Returns the Lease as last read or written; `None` before the first answer.
    pub(super) fn lease(&self) -> Option<&Lease> {
        self.observed.as_ref().map(|(lease, _)| lease)
    }

    /// Notes a Lease that was read, and returns the time since which its record has not changed.
    fn note(&mut self, lease: &Lease, now: Moment) -> Instant {
        let since = match (&self.read, &self.observed) {
            (Some(read), Some((_, since))) if read.looks_like(&lease.record) => *since,
            _ => now.instant,
        };
        self.read = Some(lease.record.clone());
        self.observed = Some((lease.clone(), since));
        since
    }

    /// Returns when the Lease of another holder expires; `None` if there is no other holder, or if the Lease is a hold.
    fn lease_of_another_expires(&self) -> Option<Instant> {
        let (lease, since) = self.observed.as_ref()?;
        let record = &lease.record;
        let is_another = !record.holder.is_empty() && record.holder != self.identity && !record.is_hold();
        is_another.then(|| *since + record.duration())
    }

    /// Returns the record that this candidate writes when it takes the Lease.
    fn taking(&self, now: Timestamp, transitions: i64) -> Record {
        Record {
            holder: self.identity.clone(),
            duration_seconds: self.lease_duration.as_secs() as i64,
            acquired: Some(now),
            renewed: Some(now),
            transitions,
        }
    }

    /// Writes this leader's term into the annotations of its Lease.
    fn sign(&self, lease: &mut Lease) {
        if let (Some(probation), Some(term)) = (&self.probation, &self.term) {
            probation::sign(lease, term, probation);
        }
    }

    /// Begins a term: computes the term from the Lease before the take-over, and writes its annotations into the new Lease.
    fn accede(&mut self, found: &Annotations, record: &Record, lease: &mut Lease) {
        let Some(probation) = &self.probation else { return };
        let accession = found.accession(&probation.version, record);
        probation::condemn(lease, &accession.failed);
        self.term = Some(accession.term);
        self.condemned = accession.condemned;
        self.sign(lease);
    }

    /// Returns the Lease with the request of this standby for it; `None` if the standby may not ask for the Lease.
    fn question(&self, lease: &Lease, found: &Annotations) -> Option<Lease> {
        let probation = self.probation.as_ref().filter(|_| self.warm && found.asks.is_none())?;
        let mut question = lease.clone();
        let applicant = Applicant { identity: self.identity.clone(), version: probation.version.clone() };
        probation::ask(&mut question, &applicant);
        found.standing_of(&probation.version).may_ask().then_some(question)
    }
}

/// A request of an attempt to the API server.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Request {
    Get,
    Create(Lease),
    /// Replace the Lease if its version has not changed.
    Replace(Lease),
}

impl Request {
    /// Returns the verb for error messages.
    pub(super) fn verb(&self) -> &'static str {
        match self {
            Self::Get => "get",
            Self::Create(_) => "create",
            Self::Replace(_) => "update",
        }
    }
}

/// The answer to a [`Request`].
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Reply {
    /// The Lease as read, or as the server stored it after a write.
    Lease(Lease),
    /// The Lease does not exist. Contains the error message.
    Missing(String),
    /// The error message of any other failure, such as a conflict or a lost answer.
    Failed(String),
}

/// The outcome of an attempt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Ended {
    /// This candidate holds the Lease, by a write that was sent at `since`.
    Leads { since: Instant },
    /// Another candidate holds the Lease, which has not expired.
    Held { by: String },
    /// The Lease is available, and is left to other candidates for a while.
    LeftToOthers { until: Instant },
    /// The attempt failed, and the holder of the Lease is not known.
    Failed { why: String },
}

/// One attempt to acquire or to renew the Lease.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Attempt {
    waiting_for: Waiting,
    /// Whether this candidate holds the Lease, but had to read it before the renewal.
    pub(super) slow_path: bool,
    /// Whether a write has failed. The Lease is then read once more, to know its holder if it is deleted later.
    was_refused: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Waiting {
    /// The renewal of the remembered Lease.
    Renewal,
    /// A read of the Lease.
    Lease,
    /// A write that is based on a read.
    Write,
    /// A standby's request for the Lease of another holder.
    Question,
}

impl Attempt {
    fn waiting_for(waiting_for: Waiting) -> Self {
        Self { waiting_for, slow_path: false, was_refused: false }
    }

    /// Begins an attempt: a holder renews the remembered Lease, and every other candidate reads the Lease.
    pub(super) fn begin(memory: &Memory, now: Moment) -> (Self, Request) {
        if let Some((lease, since)) = &memory.observed
            && lease.record.holder == memory.identity
            && *since + lease.record.duration() > now.instant
        {
            let mut renewal = lease.clone();
            renewal.record.renewed = Some(now.wall);
            renewal.record.duration_seconds = memory.lease_duration.as_secs() as i64;
            memory.sign(&mut renewal);
            return (Self::waiting_for(Waiting::Renewal), Request::Replace(renewal));
        }
        (Self::waiting_for(Waiting::Lease), Request::Get)
    }

    /// Processes the answer to the request that was sent at `sent`. Returns the next request or the outcome.
    pub(super) fn answered(
        &mut self,
        memory: &mut Memory,
        reply: Reply,
        sent: Instant,
        now: Moment,
    ) -> ControlFlow<Ended, Request> {
        match (self.waiting_for, reply) {
            (Waiting::Renewal | Waiting::Write, Reply::Lease(lease)) => {
                memory.observed = Some((lease, now.instant));
                ControlFlow::Break(Ended::Leads { since: sent })
            }
            // A renewal may fail because the answer to an earlier renewal was lost. The holder then reads the Lease.
            (Waiting::Renewal, Reply::Missing(_) | Reply::Failed(_)) => {
                self.waiting_for = Waiting::Lease;
                ControlFlow::Continue(Request::Get)
            }
            // A failed write is not repeated in the same attempt.
            (Waiting::Lease, Reply::Missing(why)) if self.was_refused => ControlFlow::Break(Ended::Failed { why }),
            (Waiting::Lease, Reply::Lease(lease)) if self.was_refused => {
                memory.note(&lease, now);
                ControlFlow::Break(Ended::Held { by: lease.record.holder })
            }
            (Waiting::Lease, Reply::Missing(_)) => {
                // The Lease was deleted. Its leader will create the Lease again, and may write until it notices the deletion.
                let until = memory.lease_of_another_expires().max(memory.left_alone_until);
                if let Some(until) = until.filter(|until| *until > now.instant) {
                    return ControlFlow::Break(Ended::LeftToOthers { until });
                }
                self.waiting_for = Waiting::Write;
                let mut created = Lease { metadata: Map::new(), record: memory.taking(now.wall, 0) };
                memory.accede(&Annotations::default(), &Record::default(), &mut created);
                ControlFlow::Continue(Request::Create(created))
            }
            (Waiting::Lease, Reply::Lease(lease)) => self.judge(memory, lease, now),
            // Another candidate was faster, or the answer was lost.
            (Waiting::Write, Reply::Failed(_) | Reply::Missing(_)) if !self.was_refused => {
                (self.was_refused, self.waiting_for) = (true, Waiting::Lease);
                ControlFlow::Continue(Request::Get)
            }
            (Waiting::Lease, Reply::Failed(why)) | (Waiting::Write, Reply::Failed(why) | Reply::Missing(why)) => {
                ControlFlow::Break(Ended::Failed { why })
            }
            (Waiting::Question, reply) => {
                // The next attempt repeats a request that failed.
                if let (Reply::Lease(lease), Some((observed, _))) = (reply, &mut memory.observed) {
                    *observed = lease;
                }
                let holder = memory.lease().map(|lease| lease.record.holder.clone());
                ControlFlow::Break(Ended::Held { by: holder.unwrap_or_default() })
            }
        }
    }

    /// Decides whether this candidate takes or renews the Lease that it has read, or asks its holder for it.
    fn judge(&mut self, memory: &mut Memory, mut lease: Lease, now: Moment) -> ControlFlow<Ended, Request> {
        let since = memory.note(&lease, now);
        let record = &lease.record.clone();
        let found = Annotations::read(&lease);
        let ours = record.holder == memory.identity;
        let held = Ended::Held { by: record.holder.clone() };
        if record.is_hold() {
            return ControlFlow::Break(held);
        }
        let free_at = if record.holder.is_empty() { since } else { since + record.duration() };
        if !record.holder.is_empty() && !ours && free_at > now.instant {
            let Some(question) = memory.question(&lease, &found) else { return ControlFlow::Break(held) };
            self.waiting_for = Waiting::Question;
            return ControlFlow::Continue(Request::Replace(question));
        }
        if let Some(probation) = memory.probation.as_ref().filter(|_| !ours) {
            let until = free_at + found.restraint(&memory.identity, &probation.version, record, memory.lease_duration);
            if until > now.instant {
                return ControlFlow::Break(Ended::LeftToOthers { until });
            }
        }
        let mut record_written = memory.taking(now.wall, record.transitions.saturating_add(1));
        if ours {
            record_written.acquired = record.acquired.or(record_written.acquired);
            record_written.transitions = record.transitions;
            self.slow_path = true;
        }
        memory.left = take_left(&mut lease.metadata, record);
        let mut written = Lease { metadata: lease.metadata, record: record_written };
        if ours {
            memory.applicant = found.successor().cloned();
            memory.sign(&mut written);
        } else {
            memory.accede(&found, record, &mut written);
        }
        self.waiting_for = Waiting::Write;
        ControlFlow::Continue(Request::Replace(written))
    }
}

/// Removes the versions that the last holder wrote from a Lease. Returns them if the Lease had no holder since its release.
fn take_left(metadata: &mut Map<String, Value>, record: &Record) -> Option<WrittenVersions> {
    let note = metadata.get_mut("annotations")?.as_object_mut()?.remove(succession::ANNOTATION)?;
    let left = WrittenVersions::read(note.as_str()?, record.transitions)?;
    record.holder.is_empty().then_some(left)
}

/// Returns the end of the time in which a holder may write after a successful write of the Lease that was sent at `sent`.
///
/// Other candidates take over no earlier than a lease duration after they saw that write, which was after `sent`. The deadline
/// counts from `sent` and not from the answer. Two leaders are therefore separated by the difference between lease duration and
/// renew deadline, even after a slow answer. `suspended` is how long the machine has been suspended since `sent`.
pub(super) fn holds_until(sent: Instant, suspended: Duration, renew_deadline: Duration) -> Instant {
    sent + renew_deadline.saturating_sub(suspended)
}

/// Returns the released Lease with the versions that its holder wrote; `None` if this candidate is not the holder.
///
/// With a probation, the Lease is reserved for `heir`; if `heir` is `None`, for a standby that has asked meanwhile.
pub(super) fn given_up(
    lease: &Lease,
    memory: &Memory,
    now: Timestamp,
    left: Option<&WrittenVersions>,
    heir: Option<&Applicant>,
) -> Option<Lease> {
    if lease.record.holder != memory.identity {
        return None;
    }
    let mut released = lease.clone();
    released.record = Record {
        holder: String::new(),
        duration_seconds: 1,
        acquired: Some(now),
        renewed: Some(now),
        transitions: lease.record.transitions,
    };
    if let Some(left) = left {
        let annotations = released.metadata.entry("annotations").or_insert_with(|| json!({}));
        annotations[succession::ANNOTATION] = json!(left.write(lease.record.transitions));
    }
    if memory.probation.is_some() {
        let found = Annotations::read(lease);
        probation::reserve(&mut released, heir.or(found.successor()));
    }
    Some(released)
}

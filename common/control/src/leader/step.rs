//! What one attempt to acquire or renew a Lease asks for, and what it concludes: no I/O, no clock.
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

/// Now, on both clocks.
#[derive(Clone, Copy, Debug)]
pub(super) struct Moment {
    /// Monotonic: what waits are measured by.
    pub(super) instant: Instant,
    /// Wall clock: what is written, never compared.
    pub(super) wall: Timestamp,
}

/// What a candidate remembers between attempts.
#[derive(Clone, Debug)]
pub(super) struct Memory {
    identity: String,
    lease_duration: Duration,
    /// The Lease as last read or written, and since when it has looked like that.
    observed: Option<(Lease, Instant)>,
    /// The record as last read, which changes are judged by; our own writes do not touch it.
    read: Option<Record>,
    /// What the last holder left, as of the last look at a Lease that nobody held.
    pub(super) left: Option<WrittenVersions>,
    /// Nothing if versions do not matter.
    probation: Option<Probation>,
    /// Whether this candidate could lead at once, and may ask for the Lease therefore.
    pub(super) warm: bool,
    /// What this candidate says about its version as a leader, since it last tried to become one.
    pub(super) term: Option<Term>,
    /// The version that failed in the term before, until it is told.
    pub(super) condemned: Option<String>,
    /// The standby that has asked for the Lease and may have it, until it is told.
    pub(super) applicant: Option<Applicant>,
    /// Until when a Lease that is missing is left to the leader it was deleted under, which may lead until then.
    pub(super) left_alone_until: Option<Instant>,
}

impl Memory {
    /// A candidate that has seen nothing.
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

    /// The Lease as it was last read or written; nothing if it never was.
    pub(super) fn lease(&self) -> Option<&Lease> {
        self.observed.as_ref().map(|(lease, _)| lease)
    }

    /// Notes the Lease as it was read, and returns since when it has looked like that.
    fn note(&mut self, lease: &Lease, now: Moment) -> Instant {
        let since = match (&self.read, &self.observed) {
            (Some(read), Some((_, since))) if read.looks_like(&lease.record) => *since,
            _ => now.instant,
        };
        self.read = Some(lease.record.clone());
        self.observed = Some((lease.clone(), since));
        since
    }

    /// When the Lease expires that another candidate was last seen to hold; nothing if nobody holds it, or for good.
    fn lease_of_another_expires(&self) -> Option<Instant> {
        let (lease, since) = self.observed.as_ref()?;
        let record = &lease.record;
        let is_another = !record.holder.is_empty() && record.holder != self.identity && !record.is_hold();
        is_another.then(|| *since + record.duration())
    }

    /// The record this candidate writes to begin holding the Lease.
    fn taking(&self, now: Timestamp, transitions: i64) -> Record {
        Record {
            holder: self.identity.clone(),
            duration_seconds: self.lease_duration.as_secs() as i64,
            acquired: Some(now),
            renewed: Some(now),
            transitions,
        }
    }

    /// Writes the term of this leader into its Lease.
    fn sign(&self, lease: &mut Lease) {
        if let (Some(probation), Some(term)) = (&self.probation, &self.term) {
            probation::sign(lease, term, probation);
        }
    }

    /// Begins a term, for a Lease as it was found.
    fn accede(&mut self, found: &Annotations, record: &Record, lease: &mut Lease) {
        let Some(probation) = &self.probation else { return };
        let accession = found.accession(&probation.version, record);
        probation::condemn(lease, &accession.failed);
        self.term = Some(accession.term);
        self.condemned = accession.condemned;
        self.sign(lease);
    }

    /// The Lease with this standby's question, if it is to ask.
    fn question(&self, lease: &Lease, found: &Annotations) -> Option<Lease> {
        let probation = self.probation.as_ref().filter(|_| self.warm && found.asks.is_none())?;
        let mut question = lease.clone();
        let applicant = Applicant { identity: self.identity.clone(), version: probation.version.clone() };
        probation::ask(&mut question, &applicant);
        found.standing_of(&probation.version).may_ask().then_some(question)
    }
}

/// What is asked of the API server.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Request {
    /// Read the Lease, live.
    Get,
    /// Create it.
    Create(Lease),
    /// Replace it, if it is still the version it was built from.
    Replace(Lease),
}

impl Request {
    /// What it does to the Lease, in one word.
    pub(super) fn verb(&self) -> &'static str {
        match self {
            Self::Get => "get",
            Self::Create(_) => "create",
            Self::Replace(_) => "update",
        }
    }
}

/// What the API server answered.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Reply {
    /// The Lease, as it is now.
    Lease(Lease),
    /// There is none.
    Missing(String),
    /// No success, for whatever reason: conflicts and lost answers alike.
    Failed(String),
}

/// How an attempt ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Ended {
    /// The Lease is ours, by a write that was sent then.
    Leads { since: Instant },
    /// Another holds it and has changed it within its duration.
    Held { by: String },
    /// Nobody holds it, and it is left to others for a while.
    LeftToOthers { until: Instant },
    /// Nothing is known.
    Failed { why: String },
}

/// One attempt to acquire or renew.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Attempt {
    waiting_for: Waiting,
    /// A holder had to read its Lease before it could renew it.
    pub(super) slow_path: bool,
    /// A write was refused, and the Lease is read again: who holds it now has to be known before it may be missing.
    was_refused: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Waiting {
    /// For the renewal of the Lease as we remember it.
    Renewal,
    /// For the Lease as it is.
    Lease,
    /// For a write made from it.
    Write,
    /// For a question to its holder.
    Question,
}

impl Attempt {
    fn waiting_for(waiting_for: Waiting) -> Self {
        Self { waiting_for, slow_path: false, was_refused: false }
    }

    /// Begins an attempt: a holder renews what it remembers, everyone else looks first.
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

    /// Takes an answer to a request sent at `sent`.
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
            // A renewal fails for many reasons, the loss of an earlier answer among them: look.
            (Waiting::Renewal, Reply::Missing(_) | Reply::Failed(_)) => {
                self.waiting_for = Waiting::Lease;
                ControlFlow::Continue(Request::Get)
            }
            // What was refused or lost is not repeated at once.
            (Waiting::Lease, Reply::Missing(why)) if self.was_refused => ControlFlow::Break(Ended::Failed { why }),
            (Waiting::Lease, Reply::Lease(lease)) if self.was_refused => {
                memory.note(&lease, now);
                ControlFlow::Break(Ended::Held { by: lease.record.holder })
            }
            (Waiting::Lease, Reply::Missing(_)) => {
                // A Lease that was deleted under its leader: the leader creates it anew, and may write until it notices.
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
            // Somebody else was faster, or the answer was lost.
            (Waiting::Write, Reply::Failed(_) | Reply::Missing(_)) if !self.was_refused => {
                (self.was_refused, self.waiting_for) = (true, Waiting::Lease);
                ControlFlow::Continue(Request::Get)
            }
            (Waiting::Lease, Reply::Failed(why)) | (Waiting::Write, Reply::Failed(why) | Reply::Missing(why)) => {
                ControlFlow::Break(Ended::Failed { why })
            }
            (Waiting::Question, reply) => {
                // A question that is not understood, or comes too late, is asked again by the next attempt.
                if let (Reply::Lease(lease), Some((observed, _))) = (reply, &mut memory.observed) {
                    *observed = lease;
                }
                let holder = memory.lease().map(|lease| lease.record.holder.clone());
                ControlFlow::Break(Ended::Held { by: holder.unwrap_or_default() })
            }
        }
    }

    /// Decides whether the Lease can be had.
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

/// Takes the note of a holder out of a Lease. It counts only if nobody has held the Lease since.
fn take_left(metadata: &mut Map<String, Value>, record: &Record) -> Option<WrittenVersions> {
    let note = metadata.get_mut("annotations")?.as_object_mut()?.remove(succession::ANNOTATION)?;
    let left = WrittenVersions::read(note.as_str()?, record.transitions)?;
    record.holder.is_empty().then_some(left)
}

/// Until when a holder may write whose last successful write of the Lease was sent at `sent`.
///
/// Others may take over a lease duration after they saw that write, which is no earlier than `sent`. Counting from `sent`
/// rather than from the answer leaves them apart by the difference of lease duration and renew deadline, however slow the
/// answer was. `suspended` is how long the machine has been suspended since `sent`.
pub(super) fn holds_until(sent: Instant, suspended: Duration, renew_deadline: Duration) -> Instant {
    sent + renew_deadline.saturating_sub(suspended)
}

/// The Lease as its holder leaves it behind, with what it has written; nothing if it is not its holder.
///
/// A leader whose version matters reserves it for `heir`, or else for a standby that has asked for it meanwhile.
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

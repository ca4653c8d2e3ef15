//! What one attempt to acquire or renew a Lease asks for, and what it concludes: no I/O, no clock.
//!
//! Upstream: `client-go/tools/leaderelection`, `tryAcquireOrRenew`.

use std::time::Duration;

use jiff::Timestamp;
use serde_json::{Map, Value, json};

use super::micro_time;
use crate::{
    clock::Instant,
    succession::{self, Left},
};

/// The five fields of a Lease that an election writes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Record {
    /// Who holds it; empty when released.
    pub holder: String,
    /// For how long others wait, in seconds.
    pub duration_seconds: i64,
    /// Since when it is held.
    pub acquired: Option<Timestamp>,
    /// When it was last renewed, by its holder's clock.
    pub renewed: Option<Timestamp>,
    /// How often the holder changed.
    pub transitions: i64,
}

impl Record {
    /// Equality as upstream sees it: times count by their seconds.
    fn looks_like(&self, other: &Self) -> bool {
        let seconds = |at: Option<Timestamp>| at.map(Timestamp::as_second);
        self.holder == other.holder
            && self.duration_seconds == other.duration_seconds
            && seconds(self.acquired) == seconds(other.acquired)
            && seconds(self.renewed) == seconds(other.renewed)
            && self.transitions == other.transitions
    }

    fn duration(&self) -> Duration {
        Duration::from_secs(u64::try_from(self.duration_seconds).unwrap_or(0))
    }
}

/// A Lease: its metadata as the server sent it, and the record.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Lease {
    /// Metadata, passed back as it came.
    pub metadata: Map<String, Value>,
    /// The record.
    pub record: Record,
}

/// Now, on both clocks.
#[derive(Clone, Copy, Debug)]
pub struct Moment {
    /// Monotonic: what waits are measured by.
    pub instant: Instant,
    /// Wall clock: what is written, never compared.
    pub wall: Timestamp,
}

/// What a candidate remembers between attempts.
#[derive(Clone, Debug)]
pub struct Memory {
    identity: String,
    lease_duration: Duration,
    /// The Lease as last read or written, and since when it has looked like that.
    observed: Option<(Lease, Instant)>,
    /// The record as last read, which changes are judged by; our own writes do not touch it.
    read: Option<Record>,
    /// What the last holder left, as of the last look.
    left: Option<Left>,
}

impl Memory {
    /// A candidate that has seen nothing.
    pub fn new(identity: &str, lease_duration: Duration) -> Self {
        Self { identity: identity.to_owned(), lease_duration, observed: None, read: None, left: None }
    }

    /// Who was last seen to hold the Lease.
    pub fn holder(&self) -> &str {
        self.observed.as_ref().map_or("", |(lease, _)| &lease.record.holder)
    }

    /// What the holder before has left, as of the last look at a Lease that nobody held.
    pub fn left(&self) -> Option<&Left> {
        self.left.as_ref()
    }

    /// Metadata of the Lease as last seen.
    pub fn metadata(&self) -> Map<String, Value> {
        self.observed.as_ref().map(|(lease, _)| lease.metadata.clone()).unwrap_or_default()
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
}

/// What is asked of the API server.
#[derive(Clone, Debug, PartialEq)]
pub enum Request {
    /// Read the Lease, live.
    Get,
    /// Create it.
    Create(Lease),
    /// Replace it, if it is still the version it was built from.
    Replace(Lease),
}

impl Request {
    /// What it does to the Lease, in one word.
    pub fn verb(&self) -> &'static str {
        match self {
            Self::Get => "get",
            Self::Create(_) => "create",
            Self::Replace(_) => "update",
        }
    }
}

/// What the API server answered.
#[derive(Clone, Debug, PartialEq)]
pub enum Reply {
    /// The Lease, as it is now.
    Lease(Lease),
    /// There is none.
    Missing(String),
    /// No success, for whatever reason: conflicts and lost answers alike.
    Failed(String),
}

/// What comes next.
#[derive(Clone, Debug, PartialEq)]
pub enum Next {
    /// Another request.
    Ask(Request),
    /// Nothing: the attempt is over.
    End(Ended),
}

/// How an attempt ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ended {
    /// The Lease is ours, by a write that was sent at `since`.
    Leads {
        /// When the successful write was sent.
        since: Instant,
    },
    /// Another holds it and has changed it within its duration.
    Held {
        /// Who.
        by: String,
    },
    /// Nothing is known.
    Failed {
        /// Why.
        why: String,
    },
}

/// One attempt to acquire or renew.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Attempt {
    waiting_for: Waiting,
    slow_path: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Waiting {
    /// For the renewal of the Lease as we remember it.
    Renewal,
    /// For the Lease as it is.
    Lease,
    /// For a write made from it.
    Write,
}

impl Attempt {
    /// Begins an attempt: a holder renews what it remembers, everyone else looks first.
    pub fn begin(memory: &Memory, now: Moment) -> (Self, Request) {
        if let Some((lease, since)) = &memory.observed
            && lease.record.holder == memory.identity
            && *since + lease.record.duration() > now.instant
        {
            let mut renewal = lease.clone();
            renewal.record.renewed = Some(now.wall);
            renewal.record.duration_seconds = memory.lease_duration.as_secs() as i64;
            return (Self { waiting_for: Waiting::Renewal, slow_path: false }, Request::Replace(renewal));
        }
        (Self { waiting_for: Waiting::Lease, slow_path: false }, Request::Get)
    }

    /// Whether a holder had to read its Lease before it could renew it.
    pub fn took_slow_path(&self) -> bool {
        self.slow_path
    }

    /// Takes an answer to a request sent at `sent`.
    pub fn answered(&mut self, memory: &mut Memory, reply: Reply, sent: Instant, now: Moment) -> Next {
        match (self.waiting_for, reply) {
            (Waiting::Renewal | Waiting::Write, Reply::Lease(lease)) => {
                memory.observed = Some((lease, now.instant));
                Next::End(Ended::Leads { since: sent })
            }
            // A renewal fails for many reasons, the loss of an earlier answer among them: look.
            (Waiting::Renewal, Reply::Missing(_) | Reply::Failed(_)) => {
                self.waiting_for = Waiting::Lease;
                Next::Ask(Request::Get)
            }
            (Waiting::Lease, Reply::Missing(_)) => {
                self.waiting_for = Waiting::Write;
                Next::Ask(Request::Create(Lease { metadata: Map::new(), record: memory.taking(now.wall, 0) }))
            }
            (Waiting::Lease, Reply::Lease(lease)) => self.judge(memory, lease, now),
            (Waiting::Lease, Reply::Failed(why)) | (Waiting::Write, Reply::Failed(why) | Reply::Missing(why)) => {
                Next::End(Ended::Failed { why })
            }
        }
    }

    /// Decides whether the Lease can be had.
    fn judge(&mut self, memory: &mut Memory, mut lease: Lease, now: Moment) -> Next {
        let since = match (&memory.read, &memory.observed) {
            (Some(read), Some((_, since))) if read.looks_like(&lease.record) => *since,
            _ => now.instant,
        };
        memory.read = Some(lease.record.clone());
        memory.observed = Some((lease.clone(), since));
        let record = &lease.record.clone();
        let ours = record.holder == memory.identity;
        if !record.holder.is_empty() && !ours && since + record.duration() > now.instant {
            return Next::End(Ended::Held { by: record.holder.clone() });
        }
        let mut written = memory.taking(now.wall, record.transitions.saturating_add(1));
        if ours {
            written.acquired = record.acquired.or(written.acquired);
            written.transitions = record.transitions;
            self.slow_path = true;
        }
        memory.left = take_left(&mut lease.metadata, record);
        self.waiting_for = Waiting::Write;
        Next::Ask(Request::Replace(Lease { metadata: lease.metadata, record: written }))
    }
}

/// Takes the note of a holder out of a Lease. It counts only if nobody has held the Lease since.
fn take_left(metadata: &mut Map<String, Value>, record: &Record) -> Option<Left> {
    let note = metadata.get_mut("annotations")?.as_object_mut()?.remove(succession::ANNOTATION)?;
    let left = Left::read(note.as_str()?, record.transitions)?;
    record.holder.is_empty().then_some(left)
}

/// Until when a holder may write whose last successful write of the Lease was sent at `sent`.
///
/// Others may take over a lease duration after they saw that write, which is no earlier than `sent`. Counting from `sent`
/// rather than from the answer leaves them apart by the difference of lease duration and renew deadline, however slow the
/// answer was. `suspended` is how long the machine has been suspended since `sent`.
pub fn holds_until(sent: Instant, suspended: Duration, renew_deadline: Duration) -> Instant {
    sent + renew_deadline.saturating_sub(suspended)
}

/// The Lease as its holder leaves it behind, with what it has written; nothing if it is not its holder.
pub fn given_up(lease: &Lease, identity: &str, now: Timestamp, left: Option<&Left>) -> Option<Lease> {
    let mut metadata = lease.metadata.clone();
    if let Some(left) = left {
        let annotations = metadata.entry("annotations").or_insert_with(|| json!({}));
        annotations[succession::ANNOTATION] = json!(left.write(lease.record.transitions));
    }
    (lease.record.holder == identity).then(|| Lease {
        metadata,
        record: Record {
            holder: String::new(),
            duration_seconds: 1,
            acquired: Some(now),
            renewed: Some(now),
            transitions: lease.record.transitions,
        },
    })
}

/// A Lease as it is sent. All five fields are always written, an empty holder too.
pub fn body(namespace: &str, name: &str, lease: &Lease) -> Value {
    let mut metadata = lease.metadata.clone();
    metadata.insert("namespace".to_owned(), json!(namespace));
    metadata.insert("name".to_owned(), json!(name));
    json!({
        "apiVersion": "coordination.k8s.io/v1",
        "kind": "Lease",
        "metadata": metadata,
        "spec": {
            "holderIdentity": lease.record.holder,
            "leaseDurationSeconds": lease.record.duration_seconds,
            "acquireTime": lease.record.acquired.map(micro_time),
            "renewTime": lease.record.renewed.map(micro_time),
            "leaseTransitions": lease.record.transitions,
        },
    })
}

/// A Lease as it is received. Fields that are absent count as empty.
pub fn read(bytes: &[u8]) -> Result<Lease, String> {
    let mut object: Value = serde_json::from_slice(bytes).map_err(|e| format!("the lease cannot be read: {e}"))?;
    let Some(mut metadata) = object.get_mut("metadata").and_then(Value::as_object_mut).map(std::mem::take) else {
        return Err("the lease cannot be read: it has no metadata".to_owned());
    };
    metadata.remove("managedFields");
    let spec = &object["spec"];
    let time = |field: &str| spec[field].as_str().and_then(|text| text.parse().ok());
    let record = Record {
        holder: spec["holderIdentity"].as_str().unwrap_or_default().to_owned(),
        duration_seconds: spec["leaseDurationSeconds"].as_i64().unwrap_or(0),
        acquired: time("acquireTime"),
        renewed: time("renewTime"),
        transitions: spec["leaseTransitions"].as_i64().unwrap_or(0),
    };
    Ok(Lease { metadata, record })
}

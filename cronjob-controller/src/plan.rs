//! What one sync does: steps in order, each with its reason, and the status that is written after them.

use std::{fmt, time::Duration};

use common::{
    controller::{Explain, Explanation},
    events::EventType,
    intern::Text,
    meta::{Uid, Version},
};
use jiff::Timestamp;
use serde_json::Value;

use crate::objects::Status;

/// The length of an Event's message, in bytes, beyond which the rest is left out.
///
/// Messages quote schedules, which may be as long as an object can be.
const MAX_MESSAGE: usize = 1024;

/// An Event on the CronJob.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event {
    /// Normal or warning.
    pub kind: EventType,
    /// One word for machines.
    pub reason: &'static str,
    /// A sentence for people.
    pub message: String,
}

impl Event {
    /// An Event of type Normal.
    pub fn normal(reason: &'static str, message: impl Into<String>) -> Self {
        Self::new(EventType::Normal, reason, message.into())
    }

    /// An Event of type Warning.
    pub fn warning(reason: &'static str, message: impl Into<String>) -> Self {
        Self::new(EventType::Warning, reason, message.into())
    }

    fn new(kind: EventType, reason: &'static str, mut message: String) -> Self {
        if message.len() > MAX_MESSAGE {
            message.truncate(message.floor_char_boundary(MAX_MESSAGE - "...".len()));
            message.push_str("...");
        }
        Self { kind, reason, message }
    }
}

/// A read of the API server that must precede the decision.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Question {
    /// The CronJob: the cache holds a Job owned by it that `status.active` does not list.
    CronJob,
    /// A Job that `status.active` lists and the cache does not hold.
    Job(Text),
}

/// Why a Job is deleted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reason {
    /// There are more finished Jobs than the history limit.
    History,
    /// The next run is due, and the policy is Replace.
    Replaced,
}

/// One step.
#[derive(Clone, Debug, PartialEq)]
pub enum Step {
    /// Emits an Event.
    Emit(Event),
    /// Deletes a Job and removes it from the active ones.
    Delete {
        /// Name of the Job.
        name: Text,
        /// Uid of the Job.
        uid: Uid,
        /// The version of the Job that was judged; `None` if the cache does not have the Job.
        version: Option<Version>,
        /// Why it is deleted.
        reason: Reason,
        /// The Event to emit if the deletion is refused.
        if_refused: Option<Event>,
    },
    /// Creates a Job and records it. The last step.
    Create {
        /// Name of the Job, which keeps a run from being started twice.
        name: Text,
        /// The whole object.
        body: Box<Value>,
        /// The scheduled time.
        scheduled: Timestamp,
    },
}

/// What one sync does.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Plan {
    /// The reads that must come first. While there are any, nothing else is decided.
    pub questions: Vec<Question>,
    /// The steps in order.
    pub steps: Vec<Step>,
    /// The status to write, without the effects of deletions and of the new Job.
    pub status: Status,
    /// Whether that status differs from the stored one.
    pub changed: bool,
    /// The time from the snapshot to the next sync, if no event comes before.
    pub requeue_after: Option<Duration>,
    /// The situation in words.
    pub situation: String,
    /// What the CronJob waits for.
    pub waiting: Vec<String>,
}

impl fmt::Display for Question {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::CronJob => f.write_str("read the CronJob: it does not list one of its Jobs as active"),
            Self::Job(name) => write!(f, "read Job {name}: it is listed as active, and the cache does not hold it"),
        }
    }
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Emit(event) => write!(f, "emit an Event: {}", event.message),
            Self::Delete { name, reason: Reason::History, .. } => {
                write!(f, "delete Job {name}: it is beyond the history limit")
            }
            Self::Delete { name, reason: Reason::Replaced, .. } => write!(f, "delete Job {name}: the next run is due"),
            Self::Create { name, scheduled, .. } => write!(f, "create Job {name}: it is due since {scheduled}"),
        }
    }
}

impl Explain for Plan {
    fn explain(&self) -> Explanation {
        let mut actions: Vec<String> = self.questions.iter().map(ToString::to_string).collect();
        actions.extend(self.steps.iter().map(ToString::to_string));
        if self.changed {
            actions.push("write the status".to_owned());
        }
        Explanation { situation: self.situation.clone(), waiting: self.waiting.clone(), actions }
    }

    fn acts(&self) -> bool {
        self.changed || !self.questions.is_empty() || self.steps.iter().any(|step| !matches!(step, Step::Emit(_)))
    }
    fn requeue_after(&self) -> Option<Duration> {
        self.requeue_after
    }
}

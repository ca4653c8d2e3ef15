//! What one sync does: steps in order, each with its reason, and the status that is written after them.

use std::{fmt, time::Duration};

use common::{
    controller::Explain,
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

impl Question {
    /// Why it is asked.
    pub fn why(&self) -> &'static str {
        match self {
            Self::CronJob => "it does not list one of its Jobs as active",
            Self::Job(_) => "it is listed as active, and the cache does not hold it",
        }
    }
}

impl fmt::Display for Question {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::CronJob => write!(f, "read the CronJob: {}", self.why()),
            Self::Job(name) => write!(f, "read Job {name}: {}", self.why()),
        }
    }
}

impl Reason {
    /// The reason in words.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::History => "it is beyond the history limit",
            Self::Replaced => "the next run is due",
        }
    }
}

impl Plan {
    /// The differences between the status to write and the stored one, in the words of the Events.
    pub fn changes(&self) -> String {
        let mut changes = self.steps.iter().filter_map(|step| match step {
            Step::Emit(Event { reason: "SawCompletedJob" | "MissingJob", message, .. }) => Some(message.as_str()),
            _ => None,
        });
        let first = changes.next().unwrap_or_default();
        match changes.count() {
            0 => first.to_owned(),
            more => format!("{first}, and {more} more"),
        }
    }
}

impl Explain for Plan {
    fn situation(&self) -> String {
        match &self.questions[..] {
            [] => self.situation.clone(),
            [question] => format!("{}; first {question}", self.situation),
            [question, others @ ..] => format!("{}; first {question}, and {} more reads", self.situation, others.len()),
        }
    }

    fn waiting(&self) -> Vec<String> {
        let warnings = self.steps.iter().filter_map(|step| match step {
            Step::Emit(Event { kind: EventType::Warning, message, .. }) => Some(message),
            _ => None,
        });
        let news = warnings.filter(|message| !self.waiting.contains(message));
        self.waiting.iter().chain(news).cloned().collect()
    }

    fn requeue_after(&self) -> Option<Duration> {
        self.requeue_after
    }
}

//! What one sync does: steps in order, each with its reason, and a status that is written after them.

use std::{fmt, time::Duration};

use common::{
    controller::{Explain, Explanation, Requeue},
    events::EventType,
    intern::Text,
    meta::Uid,
};
use jiff::Timestamp;
use serde_json::Value;

use crate::objects::Status;

/// An Event on the CronJob.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event {
    /// Whether somebody should look.
    pub kind: EventType,
    /// One word for machines.
    pub reason: &'static str,
    /// A sentence for people.
    pub message: String,
}

impl Event {
    /// An Event that all is well.
    pub fn normal(reason: &'static str, message: impl Into<String>) -> Self {
        Self { kind: EventType::Normal, reason, message: message.into() }
    }

    /// An Event that somebody should look at.
    pub fn warning(reason: &'static str, message: impl Into<String>) -> Self {
        Self { kind: EventType::Warning, reason, message: message.into() }
    }
}

/// What has to be read live before anything can be decided.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Question {
    /// The CronJob: the cache has a Job of its that it does not know of.
    CronJob,
    /// A Job that it knows of and the cache does not have.
    Job(Text),
}

/// Why a Job is deleted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reason {
    /// More have ended than are kept.
    History,
    /// The next one takes its place.
    Replaced,
}

/// One step.
#[derive(Clone, Debug, PartialEq)]
pub enum Step {
    /// Only tells.
    Tell(Event),
    /// Deletes a Job and strikes it off the status.
    Delete {
        /// Its name.
        name: Text,
        /// Its uid.
        uid: Uid,
        /// Why.
        reason: Reason,
    },
    /// Starts a Job and records it. The last step.
    Start {
        /// Its name, by which it is started at most once.
        name: Text,
        /// The whole object.
        body: Box<Value>,
        /// The time it runs for.
        scheduled: Timestamp,
    },
}

/// What one sync does.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Plan {
    /// What has to be read first; then nothing else is decided yet.
    pub questions: Vec<Question>,
    /// What is done, in order.
    pub steps: Vec<Step>,
    /// The status as it is to be, deletions and the new Job aside.
    pub status: Status,
    /// Whether that is another one than is stored.
    pub changed: bool,
    /// In how long to look again.
    pub again: Option<Duration>,
    /// The situation in words.
    pub situation: String,
    /// What is waited for.
    pub waiting: Vec<String>,
}

impl Plan {
    /// When to look again.
    pub fn requeue(&self) -> Requeue {
        self.again.map_or(Requeue::No, Requeue::After)
    }
}

impl fmt::Display for Question {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::CronJob => f.write_str("read the CronJob: it does not know of one of its Jobs"),
            Self::Job(name) => write!(f, "read Job {name}: it is recorded as running, and the cache does not have it"),
        }
    }
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tell(event) => write!(f, "tell: {}", event.message),
            Self::Delete { name, reason: Reason::History, .. } => {
                write!(f, "delete Job {name}: more have ended than are kept")
            }
            Self::Delete { name, reason: Reason::Replaced, .. } => write!(f, "delete Job {name}: the next one is due"),
            Self::Start { name, scheduled, .. } => write!(f, "start Job {name}: it is due since {scheduled}"),
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
        self.changed || !self.questions.is_empty() || self.steps.iter().any(|step| !matches!(step, Step::Tell(_)))
    }

    fn requeue_after(&self) -> Option<Duration> {
        self.again
    }
}

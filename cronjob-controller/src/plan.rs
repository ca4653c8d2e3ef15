//! The input and the plan of one sync: steps in order, each with its reason, and the status to write after them.

use std::{collections::BTreeMap, fmt, sync::Arc, time::Duration};

use common::prelude::*;
use jiff::Timestamp;
use serde_json::Value;

use crate::objects::{CronJob, CronJobStatus, Job};

/// Everything that one sync reads, taken at one time: a CronJob and its Jobs.
#[derive(Clone, Debug)]
pub struct Snapshot {
    /// The CronJob, from the cache or from a live read.
    pub cron_job: Arc<CronJob>,
    /// The owner reference and deletion state of the CronJob.
    pub owner: Owner,
    /// Whether `cron_job` was read live in this sync; `false` if it comes from the cache.
    pub was_cron_job_read_live: bool,
    /// The cached Jobs that the CronJob controls, sorted by name.
    pub jobs: Vec<Arc<Job>>,
    /// Results of the live reads of Jobs that `status.active` lists and the cache does not hold. The key is the name of the
    /// Job; the value is `None` if no such Job exists.
    pub jobs_read_live: BTreeMap<Text, Option<Arc<Job>>>,
    /// Wall-clock time of the sync.
    pub now: Timestamp,
}

/// Maximum length of the message of an Event in bytes; longer messages are truncated.
///
/// Messages quote schedules, which may be as long as an object can be.
const MAX_MESSAGE: usize = 1024;

/// An Event about the CronJob, for [`Action::RecordEvent`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlannedEvent {
    /// `Warning` if a user has to act, else `Normal`.
    pub event_type: EventType,
    /// Reason in one `CamelCase` word, for programs.
    pub reason: &'static str,
    /// One sentence for people, of at most 1,024 bytes.
    pub message: String,
}

impl PlannedEvent {
    /// Returns an Event of type `Normal`, which needs no reaction of a user.
    pub fn normal(reason: &'static str, message: impl Into<String>) -> Self {
        Self::new(EventType::Normal, reason, message.into())
    }

    /// Returns an Event of type `Warning`, about a problem that a user has to solve.
    pub fn warning(reason: &'static str, message: impl Into<String>) -> Self {
        Self::new(EventType::Warning, reason, message.into())
    }

    fn new(event_type: EventType, reason: &'static str, mut message: String) -> Self {
        if message.len() > MAX_MESSAGE {
            message.truncate(message.floor_char_boundary(MAX_MESSAGE - "...".len()));
            message.push_str("...");
        }
        Self { event_type, reason, message }
    }
}

/// A live read from the API server that the decision needs.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum LiveRead {
    /// Reads the CronJob, because the cache holds a Job owned by it that `status.active` does not list.
    CronJob,
    /// Reads a Job by name, because `status.active` lists the Job and the cache does not hold it.
    Job(Text),
}

/// Why the controller deletes a Job: a history limit, or the policy `Replace`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DeletionReason {
    /// The number of finished Jobs exceeds the history limit.
    BeyondHistoryLimit,
    /// The next run is due under the policy `Replace`.
    ReplacedByNextRun,
}

/// An Event or a request of a plan, apart from live reads and the write of the status.
#[derive(Clone, Debug, PartialEq)]
pub enum Action {
    /// Records an Event about the CronJob.
    RecordEvent(PlannedEvent),
    /// Deletes a Job and removes it from `status.active`.
    DeleteJob {
        /// Name of the Job, which is in the namespace of the CronJob.
        name: Text,
        /// UID of the Job, a precondition of the deletion.
        uid: Uid,
        /// Version of the Job in the snapshot; `None` if neither the cache nor a live read has the Job.
        version: Option<ResourceVersion>,
        /// Reason for the deletion. With [`DeletionReason::ReplacedByNextRun`], a failure ends the sync before later steps.
        reason: DeletionReason,
        /// Event to record if the deletion fails, which reports that the Job finished; `None` for other Jobs.
        event_if_refused: Option<PlannedEvent>,
    },
    /// Creates a Job and adds it to `status.active`. Always the last action.
    CreateJob {
        /// Name of the Job; it prevents a second start of the same run.
        name: Text,
        /// The whole Job as JSON, with its owner reference and annotations.
        body: Box<Value>,
        /// Scheduled time of the run, which becomes `status.lastScheduleTime`.
        scheduled_time: Timestamp,
    },
}

/// The decision of one sync: the requests to send, the status to write, and the time of the next sync.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Plan {
    /// The live reads to make first; a plan with live reads has no actions.
    pub live_reads: Vec<LiveRead>,
    /// The actions, in the order in which they are taken.
    pub actions: Vec<Action>,
    /// The status to write. It does not yet include the effects of the deletions and of the new Job.
    pub status: CronJobStatus,
    /// Whether [`Self::status`] differs from the stored status.
    pub is_status_changed: bool,
    /// Time from the snapshot to the next sync; `None` if only an event causes the next sync.
    pub requeue_after: Option<Duration>,
    /// Reasons why no Job is created, as sentences for `/debug/explain`.
    pub reasons_for_no_job: Vec<String>,
}

impl LiveRead {
    /// Returns the reason for the live read, as a sentence about the object that is read.
    pub fn reason_text(&self) -> &'static str {
        match self {
            Self::CronJob => "it does not list one of its Jobs as active",
            Self::Job(_) => "it is listed as active, and the cache does not hold it",
        }
    }
}

impl fmt::Display for LiveRead {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::CronJob => write!(f, "read the CronJob: {}", self.reason_text()),
            Self::Job(name) => write!(f, "read Job {name}: {}", self.reason_text()),
        }
    }
}

impl DeletionReason {
    /// Returns the reason as a sentence about the Job, for logs and `/debug/explain`.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::BeyondHistoryLimit => "it is beyond the history limit",
            Self::ReplacedByNextRun => "the next run is due",
        }
    }
}

impl Plan {
    /// Describes the differences between the status to write and the stored status, in the words of the Events.
    pub fn describe_status_changes(&self) -> String {
        let mut changes = self.actions.iter().filter_map(|action| match action {
            Action::RecordEvent(PlannedEvent { reason: "SawCompletedJob" | "MissingJob", message, .. }) => {
                Some(message.as_str())
            }
            _ => None,
        });
        let first = changes.next().unwrap_or_default();
        match changes.count() {
            0 => first.to_owned(),
            more => format!("{first}, and {more} more"),
        }
    }
}

impl SyncPlan for Plan {
    fn situation(&self) -> String {
        let active_jobs = match self.status.active.len() {
            1 => "1 active Job".to_owned(),
            count => format!("{count} active Jobs"),
        };
        match &self.live_reads[..] {
            [] => active_jobs,
            [live_read] => format!("{active_jobs}; first {live_read}"),
            [live_read, others @ ..] => format!("{active_jobs}; first {live_read}, and {} more reads", others.len()),
        }
    }

    fn wait_reasons(&self) -> Vec<String> {
        let warnings = self.actions.iter().filter_map(|action| match action {
            Action::RecordEvent(PlannedEvent { event_type: EventType::Warning, message, .. }) => Some(message),
            _ => None,
        });
        let further = warnings.filter(|message| !self.reasons_for_no_job.contains(message));
        self.reasons_for_no_job.iter().chain(further).cloned().collect()
    }

    fn requeue_after(&self) -> Option<Duration> {
        self.requeue_after
    }
}

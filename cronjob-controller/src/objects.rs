//! The fields of CronJobs and Jobs that this controller reads.

use common::{
    conditions::{Condition, seconds},
    head::Head,
    intern::{Labels, Text},
    json::{Raw, null_as_default},
    meta::{Annotations, Meta, Uid, Version},
    object::{Object, Resource},
    store::ByController,
    wire::{Message, messages},
};
use jiff::Timestamp;
use serde::{Deserialize, Deserializer, Serialize};

/// CronJobs on the API server.
pub const CRON_JOBS: Resource =
    Resource { group: "batch", version: "v1", plural: "cronjobs", kind: "CronJob", namespaced: true };
/// Jobs on the API server.
pub const JOBS: Resource = Resource { group: "batch", version: "v1", plural: "jobs", kind: "Job", namespaced: true };

/// The annotation of a Job with its scheduled time, in RFC 3339.
pub const SCHEDULED_TIMESTAMP: &str = "batch.kubernetes.io/cronjob-scheduled-timestamp";
/// The annotation that `kubectl create job --from=cronjob/...` leaves on a Job.
const INSTANTIATE: &str = "cronjob.kubernetes.io/instantiate";

/// What happens when a run is due while a Job of the CronJob is active.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Concurrency {
    /// Jobs run side by side.
    #[default]
    Allow,
    /// The new Job waits until the active one has finished.
    Forbid,
    /// The active Job is deleted first.
    Replace,
}

impl<'de> Deserialize<'de> for Concurrency {
    /// An unknown policy, which an API server refuses, counts as the default.
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Ok(match &*Text::deserialize(deserializer)? {
            "Forbid" => Self::Forbid,
            "Replace" => Self::Replace,
            _ => Self::Allow,
        })
    }
}

/// A CronJob.
#[derive(Clone, Debug, Deserialize)]
pub struct CronJob {
    /// Metadata without labels and annotations.
    pub metadata: Meta,
    /// The desired behaviour.
    pub spec: Spec,
    /// The recorded runs.
    #[serde(default)]
    pub status: Status,
}

/// The desired behaviour of a CronJob.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Spec {
    /// The schedule as text.
    pub schedule: Box<str>,
    /// The time zone of the schedule; by default that of the process.
    #[serde(default)]
    pub time_zone: Option<Text>,
    /// How many seconds after its scheduled time a Job may still be created.
    #[serde(default)]
    pub starting_deadline_seconds: Option<i64>,
    /// What happens when a run is due while a Job is active.
    #[serde(default, deserialize_with = "null_as_default")]
    pub concurrency_policy: Concurrency,
    /// Whether no Jobs are created.
    #[serde(default, deserialize_with = "null_as_default")]
    pub suspend: bool,
    /// The template of the Jobs, unread.
    #[serde(default)]
    pub job_template: Option<Raw>,
    /// How many complete Jobs are kept; all if absent.
    #[serde(default)]
    pub successful_jobs_history_limit: Option<i64>,
    /// How many failed Jobs are kept; all if absent.
    #[serde(default)]
    pub failed_jobs_history_limit: Option<i64>,
}

/// The recorded runs of a CronJob.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Status {
    /// The Jobs that were created and have not finished.
    #[serde(deserialize_with = "null_as_default")]
    pub active: Vec<Reference>,
    /// The scheduled time of the last Job.
    #[serde(deserialize_with = "seconds::deserialize")]
    pub last_schedule_time: Option<Timestamp>,
    /// The latest completion time of a complete Job.
    #[serde(deserialize_with = "seconds::deserialize")]
    pub last_successful_time: Option<Timestamp>,
}

/// A reference to a Job in the form of the API.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Reference {
    #[serde(skip_serializing_if = "is_default")]
    kind: Text,
    #[serde(skip_serializing_if = "is_default")]
    namespace: Text,
    /// Name of the Job.
    #[serde(skip_serializing_if = "is_default")]
    pub name: Text,
    /// Uid of the Job.
    #[serde(skip_serializing_if = "is_default")]
    pub uid: Uid,
    #[serde(skip_serializing_if = "is_default")]
    api_version: Text,
    #[serde(skip_serializing_if = "is_default")]
    resource_version: Version,
    #[serde(skip_serializing_if = "is_default")]
    field_path: Text,
}

fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

impl Reference {
    /// A reference to a Job.
    pub fn to(job: &Meta) -> Self {
        Self {
            kind: Text::new(JOBS.kind),
            namespace: job.namespace.clone(),
            name: Text::new(&job.name),
            uid: job.uid.clone(),
            api_version: Text::new(&JOBS.api_version()),
            resource_version: job.resource_version,
            field_path: Text::default(),
        }
    }
}

impl Status {
    /// Whether that Job is recorded as active.
    pub fn is_active(&self, uid: &Uid) -> bool {
        self.active.iter().any(|reference| reference.uid == *uid)
    }

    /// Removes a Job from the active ones. Returns whether it was one.
    pub fn remove_active(&mut self, uid: &Uid) -> bool {
        let before = self.active.len();
        self.active.retain(|reference| reference.uid != *uid);
        self.active.len() != before
    }
}

impl Object for CronJob {
    const RESOURCE: Resource = CRON_JOBS;
    type Indexes = ();

    fn meta(&self) -> &Meta {
        &self.metadata
    }

    fn trim(&mut self) {
        self.metadata.labels = Labels::empty();
        self.metadata.annotations = Annotations::default();
        self.metadata.finalizers = Box::default();
    }
}

/// How a Job finished.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// With success.
    Complete,
    /// Without success.
    Failed,
}

impl End {
    /// The type of the condition.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Complete => "Complete",
            Self::Failed => "Failed",
        }
    }
}

/// A Job of a CronJob.
#[derive(Clone, Debug, Deserialize)]
#[serde(from = "JobAsStored")]
pub struct Job {
    /// Metadata without labels and annotations.
    pub metadata: Meta,
    /// The scheduled time, if the controller created this Job; nothing for a Job made by hand.
    pub scheduled: Option<Timestamp>,
    /// Progress of the Job.
    pub status: JobStatus,
}

/// A Job before its annotations are dropped.
#[derive(Deserialize)]
struct JobAsStored {
    metadata: Meta,
    #[serde(default, deserialize_with = "null_as_default")]
    status: JobStatus,
}

impl From<JobAsStored> for Job {
    fn from(JobAsStored { metadata, status }: JobAsStored) -> Self {
        let annotations = &metadata.annotations;
        // A Job made by hand has all annotations of the template, whatever they are.
        let by_hand = annotations.get(INSTANTIATE).is_some();
        let scheduled = annotations.get(SCHEDULED_TIMESTAMP).filter(|_| !by_hand).and_then(|time| time.parse().ok());
        Self { metadata, scheduled, status }
    }
}

/// Progress of a Job.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct JobStatus {
    #[serde(deserialize_with = "end")]
    conditions: Option<End>,
    /// When the Job started.
    #[serde(deserialize_with = "seconds::deserialize")]
    pub start_time: Option<Timestamp>,
    /// When the Job completed.
    #[serde(deserialize_with = "seconds::deserialize")]
    pub completion_time: Option<Timestamp>,
}

impl Job {
    /// How the Job finished; nothing while it runs.
    pub fn end(&self) -> Option<End> {
        self.status.conditions
    }

    /// When the Job completed with success.
    pub fn completion_time(&self) -> Option<Timestamp> {
        self.status.completion_time.filter(|_| self.end() == Some(End::Complete))
    }
}

/// The first true condition of a finished Job.
fn end<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<End>, D::Error> {
    let conditions = Option::<Vec<Condition>>::deserialize(deserializer)?.unwrap_or_default();
    Ok(conditions.iter().filter(|condition| condition.is_true()).find_map(|condition| match &*condition.kind {
        "Complete" => Some(End::Complete),
        "Failed" => Some(End::Failed),
        _ => None,
    }))
}

impl Object for Job {
    const RESOURCE: Resource = JOBS;
    type Indexes = (ByController,);

    /// Only Jobs of CronJobs are cached.
    const PROTOBUF: Option<&'static Message> = Some(&messages::JOB);
    const CONCERNS: Option<fn(&Head<'_>) -> bool> = Some(|head| head.controller() == Some(CRON_JOBS.kind));

    fn meta(&self) -> &Meta {
        &self.metadata
    }

    fn trim(&mut self) {
        self.metadata.labels = Labels::empty();
        self.metadata.annotations = Annotations::default();
        self.metadata.finalizers = Box::default();
    }
}

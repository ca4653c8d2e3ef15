//! What is read of CronJobs and Jobs.

use common::{
    conditions::{Condition, seconds},
    intern::{Labels, Text},
    json::{Raw, null_as_default},
    meta::{Annotations, Meta, Uid, Version},
    object::{Object, Resource},
};
use jiff::Timestamp;
use serde::{Deserialize, Deserializer, Serialize};

/// CronJobs on the API server.
pub const CRON_JOBS: Resource =
    Resource { group: "batch", version: "v1", plural: "cronjobs", kind: "CronJob", namespaced: true };
/// Jobs on the API server.
pub const JOBS: Resource = Resource { group: "batch", version: "v1", plural: "jobs", kind: "Job", namespaced: true };

/// The annotation of a Job that says which time it runs for.
pub const SCHEDULED_TIMESTAMP: &str = "batch.kubernetes.io/cronjob-scheduled-timestamp";

/// What is done when a Job is due while another one runs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Concurrency {
    /// They run side by side.
    #[default]
    Allow,
    /// The new one has to wait.
    Forbid,
    /// The running one is deleted.
    Replace,
}

impl<'de> Deserialize<'de> for Concurrency {
    /// A policy that nobody knows, which a server would have refused, is none.
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
    /// Its metadata, without labels and annotations.
    pub metadata: Meta,
    /// What it wants.
    pub spec: Spec,
    /// What was done.
    #[serde(default)]
    pub status: Status,
}

/// What a CronJob wants.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Spec {
    /// When.
    pub schedule: Box<str>,
    /// Where the clock hangs; by default where the process runs.
    #[serde(default)]
    pub time_zone: Option<Text>,
    /// How many seconds late a Job may be.
    #[serde(default)]
    pub starting_deadline_seconds: Option<i64>,
    /// What is done while another one runs.
    #[serde(default, deserialize_with = "null_as_default")]
    pub concurrency_policy: Concurrency,
    /// Whether nothing is to be started.
    #[serde(default, deserialize_with = "null_as_default")]
    pub suspend: bool,
    /// What Jobs are made from.
    #[serde(default)]
    pub job_template: Option<Raw>,
    /// How many Jobs that succeeded are kept.
    #[serde(default)]
    pub successful_jobs_history_limit: Option<i64>,
    /// How many Jobs that failed are kept.
    #[serde(default)]
    pub failed_jobs_history_limit: Option<i64>,
}

/// What was done.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Status {
    /// The Jobs that run.
    #[serde(deserialize_with = "null_as_default")]
    pub active: Vec<Reference>,
    /// For which time a Job was last started.
    #[serde(deserialize_with = "seconds::deserialize")]
    pub last_schedule_time: Option<Timestamp>,
    /// When a Job last succeeded.
    #[serde(deserialize_with = "seconds::deserialize")]
    pub last_successful_time: Option<Timestamp>,
}

/// A reference to a Job, as it is stored.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Reference {
    #[serde(skip_serializing_if = "is_empty")]
    kind: Text,
    #[serde(skip_serializing_if = "is_empty")]
    namespace: Text,
    /// Its name.
    #[serde(skip_serializing_if = "is_empty")]
    pub name: Text,
    /// Its uid.
    #[serde(skip_serializing_if = "Uid::is_empty")]
    pub uid: Uid,
    #[serde(skip_serializing_if = "is_empty")]
    api_version: Text,
    #[serde(skip_serializing_if = "is_unknown")]
    resource_version: Version,
    #[serde(skip_serializing_if = "is_empty")]
    field_path: Text,
}

fn is_empty(text: &Text) -> bool {
    text.is_empty()
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "what serde asks for")]
fn is_unknown(version: &Version) -> bool {
    !version.is_known()
}

impl Reference {
    /// To a Job.
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
    /// Whether that Job is recorded as running.
    pub fn runs(&self, uid: &Uid) -> bool {
        self.active.iter().any(|reference| reference.uid == *uid)
    }

    /// Strikes a Job off. Says whether it was there.
    pub fn strike(&mut self, uid: &Uid) -> bool {
        let before = self.active.len();
        self.active.retain(|reference| reference.uid != *uid);
        self.active.len() != before
    }
}

impl Object for CronJob {
    const RESOURCE: Resource = CRON_JOBS;

    fn meta(&self) -> &Meta {
        &self.metadata
    }

    fn trim(&mut self) {
        self.metadata.labels = Labels::empty();
        self.metadata.annotations = Annotations::default();
        self.metadata.finalizers = Box::default();
    }
}

/// How a Job ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// It has done what it was to do.
    Complete,
    /// It has not.
    Failed,
}

impl End {
    /// As the API writes it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Complete => "Complete",
            Self::Failed => "Failed",
        }
    }
}

/// A Job of a CronJob.
#[derive(Clone, Debug, Deserialize)]
pub struct Job {
    /// Its metadata, without labels and annotations.
    pub metadata: Meta,
    /// How it goes.
    #[serde(default, deserialize_with = "null_as_default")]
    pub status: JobStatus,
}

/// How a Job goes.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct JobStatus {
    #[serde(deserialize_with = "end")]
    conditions: Option<End>,
    /// When it began.
    #[serde(deserialize_with = "seconds::deserialize")]
    pub start_time: Option<Timestamp>,
    /// When it was complete.
    #[serde(deserialize_with = "seconds::deserialize")]
    pub completion_time: Option<Timestamp>,
}

impl Job {
    /// How it ended, if it has.
    pub fn end(&self) -> Option<End> {
        self.status.conditions
    }
}

/// The first condition that says that it is over.
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

    fn meta(&self) -> &Meta {
        &self.metadata
    }

    fn trim(&mut self) {
        self.metadata.labels = Labels::empty();
        self.metadata.annotations = Annotations::default();
        self.metadata.finalizers = Box::default();
    }

    /// Those of CronJobs, and no others.
    fn keep(&self) -> bool {
        self.metadata.controller().is_some_and(|owner| owner.kind == CRON_JOBS.kind)
    }
}

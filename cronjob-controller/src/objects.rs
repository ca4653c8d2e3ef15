//! The fields of CronJobs and Jobs that the controller reads, and the status that it writes.

use common::{
    conditions::{Condition, seconds},
    head::ObjectHead,
    intern::Labels,
    json::{RawJson, null_as_default, null_if_default},
    meta::Annotations,
    prelude::*,
    wire::{MessageSchema, messages},
};
use jiff::Timestamp;
use serde::{Deserialize, Deserializer, Serialize};

/// API resource of CronJobs, for requests and owner references.
pub const CRON_JOBS: Resource = Resource::namespaced("batch", "v1", "cronjobs", "CronJob");
/// API resource of Jobs, for requests and references in `status.active`.
pub const JOBS: Resource = Resource::namespaced("batch", "v1", "jobs", "Job");

/// Annotation of a Job with its scheduled time in RFC 3339.
pub const CRON_JOB_SCHEDULED_TIMESTAMP_ANNOTATION: &str = "batch.kubernetes.io/cronjob-scheduled-timestamp";
/// Annotation that `kubectl create job --from=cronjob/...` sets on a Job.
const INSTANTIATE_ANNOTATION: &str = "cronjob.kubernetes.io/instantiate";

/// `spec.concurrencyPolicy`: what happens if a run is due while a Job of the CronJob is active.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ConcurrencyPolicy {
    /// The new Job runs beside the active Job.
    #[default]
    Allow,
    /// The run waits until the active Job has finished.
    Forbid,
    /// The active Job is deleted first.
    Replace,
}

impl<'de> Deserialize<'de> for ConcurrencyPolicy {
    /// Reads an unknown policy, which API validation refuses, as the default.
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Ok(match &*Text::deserialize(deserializer)? {
            "Forbid" => Self::Forbid,
            "Replace" => Self::Replace,
            _ => Self::Allow,
        })
    }
}

/// The fields of a `batch/v1` CronJob that the controller reads.
#[derive(Clone, Debug, Deserialize)]
pub struct CronJob {
    /// `metadata` without labels, annotations and finalizers.
    pub metadata: Meta,
    /// Schedule, policies and Job template.
    pub spec: CronJobSpec,
    /// `status`; empty if it is absent.
    #[serde(default)]
    pub status: CronJobStatus,
}

/// The fields of the `spec` of a CronJob that the controller reads.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct CronJobSpec {
    /// Five cron fields or a descriptor such as `@hourly`, unparsed.
    pub schedule: Box<str>,
    /// IANA name of the schedule's time zone; the zone of the process if absent.
    #[serde(default)]
    pub time_zone: Option<Text>,
    /// Seconds after the scheduled time during which a Job may still be created; no limit if absent.
    #[serde(default)]
    pub starting_deadline_seconds: Option<i64>,
    /// What happens if a run is due while a Job is active; `Allow` if null or absent.
    #[serde(default, deserialize_with = "null_as_default")]
    pub concurrency_policy: ConcurrencyPolicy,
    /// Whether the creation of Jobs is suspended; `false` if null or absent.
    #[serde(default, deserialize_with = "null_as_default")]
    pub suspend: bool,
    /// Template of the Jobs as raw JSON. Without a template, no Job can be created.
    #[serde(default)]
    pub job_template: Option<RawJson>,
    /// Number of complete Jobs to keep; `None` keeps all of them.
    #[serde(default)]
    pub successful_jobs_history_limit: Option<i64>,
    /// Number of failed Jobs to keep; `None` keeps all of them.
    #[serde(default)]
    pub failed_jobs_history_limit: Option<i64>,
}

/// The `status` of a CronJob, as it is read and written.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct CronJobStatus {
    /// The unfinished Jobs that the controller created.
    #[serde(deserialize_with = "null_as_default", serialize_with = "null_if_default")]
    pub active: Vec<JobReference>,
    /// Scheduled time of the last run that was started; `None` before the first run.
    #[serde(with = "seconds")]
    pub last_schedule_time: Option<Timestamp>,
    /// Latest completion time of the complete Jobs; `None` before the first completion.
    #[serde(with = "seconds")]
    pub last_successful_time: Option<Timestamp>,
}

/// An `ObjectReference` to a Job, as `status.active` lists it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct JobReference {
    #[serde(skip_serializing_if = "is_default")]
    kind: Text,
    #[serde(skip_serializing_if = "is_default")]
    namespace: Text,
    /// Name of the Job, which is in the namespace of the CronJob.
    #[serde(skip_serializing_if = "is_default")]
    pub name: Text,
    /// UID of the Job. A later Job of the same name has another UID.
    #[serde(skip_serializing_if = "is_default")]
    pub uid: Uid,
    #[serde(skip_serializing_if = "is_default")]
    api_version: Text,
    #[serde(skip_serializing_if = "is_default")]
    resource_version: ResourceVersion,
    #[serde(skip_serializing_if = "is_default")]
    field_path: Text,
}

fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

impl JobReference {
    /// Returns a reference to a Job, with the version in `job`.
    pub fn from_job(job: &Meta) -> Self {
        Self {
            kind: Text::new(JOBS.kind()),
            namespace: job.namespace.clone(),
            name: Text::new(&job.name),
            uid: job.uid.clone(),
            api_version: Text::new(&JOBS.api_version()),
            resource_version: job.resource_version,
            field_path: Text::default(),
        }
    }
}

impl CronJobStatus {
    /// Removes a Job from `active`. Returns whether the Job was listed.
    pub fn remove_active_job(&mut self, uid: &Uid) -> bool {
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

    fn drop_unneeded_fields(&mut self) {
        self.metadata.labels = Labels::empty();
        self.metadata.annotations = Annotations::default();
        self.metadata.finalizers = Box::default();
    }
}

/// The condition with which a Job finished. The variants are named as the types of the conditions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum JobOutcome {
    /// The Job has the condition `Complete`.
    Complete,
    /// The Job has the condition `Failed`.
    Failed,
}

/// The fields of a `batch/v1` Job that the controller reads. The cache holds only Jobs that a CronJob controls.
#[derive(Clone, Debug, Deserialize)]
#[serde(from = "JobAsStored")]
pub struct Job {
    /// `metadata` without labels, annotations and finalizers.
    pub metadata: Meta,
    /// Scheduled time from the annotation; `None` if the annotation is missing or invalid, or the Job was created manually.
    pub scheduled_time: Option<Timestamp>,
    /// Outcome and times of the Job; empty if the Job has no `status`.
    pub status: JobStatus,
}

/// A decoded Job that still has its annotations.
#[derive(Deserialize)]
struct JobAsStored {
    metadata: Meta,
    #[serde(default, deserialize_with = "null_as_default")]
    status: JobStatus,
}

impl From<JobAsStored> for Job {
    fn from(JobAsStored { metadata, status }: JobAsStored) -> Self {
        let annotations = &metadata.annotations;
        // A manually created Job has all annotations of the template, so its scheduled time is ignored.
        let by_hand = annotations.get(INSTANTIATE_ANNOTATION).is_some();
        let scheduled = annotations
            .get(CRON_JOB_SCHEDULED_TIMESTAMP_ANNOTATION)
            .filter(|_| !by_hand)
            .and_then(|time| time.parse().ok());
        Self { metadata, scheduled_time: scheduled, status }
    }
}

/// The fields of the `status` of a Job that the controller reads.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct JobStatus {
    /// The condition with which the Job finished; `None` while the Job is unfinished.
    #[serde(rename = "conditions", deserialize_with = "outcome")]
    pub outcome: Option<JobOutcome>,
    /// Time at which the Job controller started the Job; `None` before the start.
    #[serde(deserialize_with = "seconds::deserialize")]
    pub start_time: Option<Timestamp>,
    /// Time at which the Job completed; `None` if the Job is unfinished or has failed.
    #[serde(deserialize_with = "seconds::deserialize")]
    pub completion_time: Option<Timestamp>,
}

impl Job {
    /// Returns the time at which the Job completed; `None` if it failed or is unfinished.
    pub fn completion_time(&self) -> Option<Timestamp> {
        self.status.completion_time.filter(|_| self.status.outcome == Some(JobOutcome::Complete))
    }
}

/// Returns `Complete` or `Failed`: the first of the Job's conditions that is one of these types and is true.
fn outcome<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<JobOutcome>, D::Error> {
    let conditions = Option::<Vec<Condition>>::deserialize(deserializer)?.unwrap_or_default();
    Ok(conditions.iter().filter(|condition| condition.is_true()).find_map(|condition| match &*condition.kind {
        "Complete" => Some(JobOutcome::Complete),
        "Failed" => Some(JobOutcome::Failed),
        _ => None,
    }))
}

impl Object for Job {
    const RESOURCE: Resource = JOBS;
    type Indexes = (ByController,);

    const PROTOBUF_SCHEMA: Option<&'static MessageSchema> = Some(&messages::JOB);
    /// Jobs of other controllers are not cached.
    const HEAD_FILTER: Option<fn(&ObjectHead<'_>) -> bool> =
        Some(|head| head.controller_kind() == Some(CRON_JOBS.kind()));

    fn meta(&self) -> &Meta {
        &self.metadata
    }

    fn drop_unneeded_fields(&mut self) {
        self.metadata.labels = Labels::empty();
        self.metadata.annotations = Annotations::default();
        self.metadata.finalizers = Box::default();
    }
}

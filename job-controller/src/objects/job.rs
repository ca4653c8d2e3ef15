//! The fields of a Job that this program reads.

use common::{
    meta::ReplaceableMeta,
    prelude::*,
    store::ByNamespace,
    template::Template,
    wire::{MessageSchema, WithUndeclared, messages},
};
use serde::{
    Deserialize, Deserializer,
    de::{Error as _, IgnoredAny},
};
use serde_json::Value;

use super::{
    pod::CachedPod,
    policy::{PodFailurePolicy, SuccessPolicy},
    status::JobStatus,
};

/// Jobs in the API; all requests for Jobs use the version `v1`.
pub const JOBS: Resource = Resource::namespaced("batch", "v1", "jobs", "Job");
/// The value of `spec.managedBy` that means this controller, as upstream defines it.
const JOB_CONTROLLER: &str = "kubernetes.io/job-controller";

/// `spec.completionMode`: whether completions are counted by Pod or by index.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CompletionMode {
    /// Every succeeded Pod is a completion.
    NonIndexed,
    /// Every succeeded index is a completion.
    Indexed,
    /// A mode unknown to this version. A Job with such a mode is not synced.
    Unknown,
}

impl CompletionMode {
    /// Returns the value in the API and in metrics; `NonIndexed` for an unknown mode.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Indexed => "Indexed",
            Self::NonIndexed | Self::Unknown => "NonIndexed",
        }
    }
}

/// A Job, reduced to the fields that this controller reads.
///
/// Absent fields get the defaults of the API server, because older servers do not set them. A Job with values that API
/// validation rejects cannot be decoded.
#[derive(Debug)]
pub struct Job {
    /// Metadata, decoded without annotations and finalizers.
    pub metadata: ReplaceableMeta,
    /// The maximum number of active Pods, 1 by default.
    pub parallelism: u32,
    /// The wanted number of completions; `None` if any success is enough.
    pub completions: Option<u32>,
    /// `spec.completionMode`, `NonIndexed` by default.
    pub completion_mode: CompletionMode,
    /// The allowed number of failed Pods; the next failure makes the Job fail. 6 by default; unlimited with a limit per index.
    pub backoff_limit: i32,
    /// The allowed number of failures of one index; the next failure makes the index fail. `None` without such a limit.
    pub backoff_limit_per_index: Option<u32>,
    /// The maximum number of failed indexes; `None` without a limit.
    pub max_failed_indexes: Option<u32>,
    /// Whether the user has suspended the Job, so that it has no Pods.
    pub suspend: bool,
    /// The maximum time from the start of the Job to its end, in seconds; `None` without a limit.
    pub active_deadline_seconds: Option<i64>,
    /// The time to live of a finished Job, in seconds; `None` to keep the Job.
    pub ttl_seconds_after_finished: Option<i64>,
    /// `spec.managedBy`, if another controller manages the Job; `None` if this controller does.
    pub managed_by: Option<Text>,
    /// Whether `spec.podReplacementPolicy` is `Failed`.
    pub pod_replacement_policy_is_failed: bool,
    /// Rules that choose an action for a failed Pod; `None` if every failure counts.
    pub pod_failure_policy: Option<PodFailurePolicy>,
    /// Rules for success before all indexes have succeeded; `None` unless the Job is indexed.
    pub success_policy: Option<SuccessPolicy>,
    /// The label selector of the Job's Pods, which may be invalid.
    pub selector: Selector,
    /// The Pod template; `None` once the Job has finished, to save memory.
    pub template: Option<Template>,
    /// Whether the restart policy is `OnFailure`, so that container restarts count towards the back-off limit.
    pub restarts_on_failure: bool,
    /// Whether the user has set a `schedulingGroup` in the template.
    pub has_scheduling_group: bool,
    /// The status in this version of the Job.
    pub status: WithUndeclared<JobStatus>,
}

impl Job {
    /// Whether the status has the condition `Complete` or `Failed`.
    pub fn is_finished(&self) -> bool {
        self.status.is_finished()
    }

    /// Whether `spec.completionMode` is `Indexed`, so that each Pod works on one index.
    pub fn is_indexed(&self) -> bool {
        self.completion_mode == CompletionMode::Indexed
    }

    /// Whether `spec.podReplacementPolicy` is `Failed`, or the Job has a failure policy, which requires the same behaviour.
    pub fn replaces_pods_only_when_finished(&self) -> bool {
        self.pod_replacement_policy_is_failed || self.pod_failure_policy.is_some()
    }

    /// Returns the number of indexes, which is `completions`; 0 unless the Job is indexed.
    pub fn index_count(&self) -> u32 {
        if self.is_indexed() { self.completions.unwrap_or(0) } else { 0 }
    }

    /// Whether the completion index of a Pod is below [`Self::index_count`]. Always true unless the Job is indexed.
    pub fn accepts_index_of(&self, pod: &CachedPod) -> bool {
        !self.is_indexed() || pod.completion_index.is_some_and(|index| index < self.index_count())
    }
}

impl Object for Job {
    const RESOURCE: Resource = JOBS;
    type Indexes = (ByNamespace,);
    const PROTOBUF_SCHEMA: Option<&'static MessageSchema> = Some(&messages::JOB);

    fn meta(&self) -> &Meta {
        &self.metadata
    }
}

#[derive(Deserialize)]
struct Wire {
    metadata: ReplaceableMeta,
    spec: WireSpec,
    #[serde(default)]
    status: Option<WithUndeclared<JobStatus>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct WireSpec {
    parallelism: Option<i64>,
    completions: Option<i64>,
    completion_mode: Option<Text>,
    backoff_limit: Option<i64>,
    backoff_limit_per_index: Option<i64>,
    max_failed_indexes: Option<i64>,
    suspend: Option<bool>,
    active_deadline_seconds: Option<i64>,
    ttl_seconds_after_finished: Option<i64>,
    managed_by: Option<Text>,
    pod_replacement_policy: Option<Text>,
    pod_failure_policy: Option<PodFailurePolicy>,
    success_policy: Option<SuccessPolicy>,
    #[serde(default)]
    selector: Value,
    template: Option<Template>,
}

impl<'de> Deserialize<'de> for Job {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Wire::deserialize(deserializer)?.check().map_err(D::Error::custom)
    }
}

impl Wire {
    fn check(self) -> Result<Job, String> {
        let Self { mut metadata, spec, status } = self;
        let status = status.unwrap_or_default();
        let mode = match spec.completion_mode.as_deref() {
            None | Some("" | "NonIndexed") => CompletionMode::NonIndexed,
            Some("Indexed") => CompletionMode::Indexed,
            Some(_) => CompletionMode::Unknown,
        };
        let optional = |field: &str, value: Option<i64>| value.map(|n| count(field, n)).transpose();
        let parallelism = optional("spec.parallelism", spec.parallelism)?;
        let mut completions = optional("spec.completions", spec.completions)?;
        if parallelism.is_none() && completions.is_none() {
            completions = Some(1);
        }
        if mode == CompletionMode::Indexed && completions.is_none() {
            return Err("spec.completions is missing, and completionMode is Indexed".to_owned());
        }
        let indexed = mode == CompletionMode::Indexed;
        let per_index = optional("spec.backoffLimitPerIndex", spec.backoff_limit_per_index)?.filter(|_| indexed);
        let default_limit = if per_index.is_some() { i64::from(i32::MAX) } else { 6 };
        let selector = Selector::from_value(&spec.selector);
        if selector.is_null() {
            return Err("spec.selector is missing".to_owned());
        }
        let template = spec.template.ok_or("spec.template is missing")?;
        let pods: PodSpec = template.decode_spec().map_err(|error| format!("spec.template: {error}"))?;
        for (field, seconds) in [
            ("spec.activeDeadlineSeconds", spec.active_deadline_seconds),
            ("spec.ttlSecondsAfterFinished", spec.ttl_seconds_after_finished),
        ] {
            if let Some(seconds @ ..0) = seconds {
                return Err(format!("{field} is {seconds}"));
            }
        }
        metadata.annotations = common::meta::Annotations::default();
        metadata.finalizers = Box::default();
        Ok(Job {
            metadata,
            parallelism: parallelism.unwrap_or(1),
            completions,
            completion_mode: mode,
            backoff_limit: count("spec.backoffLimit", spec.backoff_limit.unwrap_or(default_limit))?.cast_signed(),
            backoff_limit_per_index: per_index,
            max_failed_indexes: optional("spec.maxFailedIndexes", spec.max_failed_indexes)?,
            suspend: spec.suspend.unwrap_or(false),
            active_deadline_seconds: spec.active_deadline_seconds,
            ttl_seconds_after_finished: spec.ttl_seconds_after_finished,
            managed_by: spec.managed_by.filter(|by| *by != JOB_CONTROLLER),
            pod_replacement_policy_is_failed: spec.pod_replacement_policy.is_some_and(|policy| policy == "Failed"),
            pod_failure_policy: spec.pod_failure_policy,
            success_policy: spec.success_policy.filter(|_| indexed),
            selector,
            template: (!status.is_finished()).then_some(template),
            restarts_on_failure: pods.restart_policy == "OnFailure",
            has_scheduling_group: pods.scheduling_group.is_some(),
            status,
        })
    }
}

/// The fields of the Pod template's `spec` that this program reads.
#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase")]
struct PodSpec {
    #[serde(default)]
    restart_policy: Text,
    scheduling_group: Option<IgnoredAny>,
}

fn count(field: &str, value: i64) -> Result<u32, String> {
    i32::try_from(value).ok().and_then(|n| u32::try_from(n).ok()).ok_or_else(|| format!("{field} is {value}"))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn bare() -> Value {
        json!({
            "metadata": {"name": "sum", "namespace": "shop", "uid": "u", "annotations": {"a": "b"}, "finalizers": ["x/y"]},
            "spec": {"selector": {"matchLabels": {"a": "b"}}, "template": {"spec": {"restartPolicy": "OnFailure"}}},
        })
    }

    fn read(value: &Value) -> Result<Job, String> {
        serde_json::from_str(&value.to_string()).map_err(|error| error.to_string())
    }

    fn read_with(field: &str, value: Value) -> Job {
        let mut job = bare();
        job["spec"][field] = value;
        read(&job).unwrap()
    }

    /// JOB-4.
    #[test]
    fn a_job_without_the_fields_of_newer_servers_is_read_with_their_defaults() {
        let job = read(&bare()).unwrap();
        assert_eq!((job.parallelism, job.completions, job.completion_mode), (1, Some(1), CompletionMode::NonIndexed));
        assert_eq!((job.backoff_limit, job.backoff_limit_per_index, job.max_failed_indexes), (6, None, None));
        assert!(
            !job.suspend
                && !job.replaces_pods_only_when_finished()
                && job.managed_by.is_none()
                && job.restarts_on_failure
        );
        assert_eq!(job.status.declared, JobStatus::default());
        assert!(job.metadata.annotations.is_empty() && job.metadata.finalizers.is_empty());
    }

    /// JOB-4.
    #[test]
    fn a_work_queue_has_no_number_of_completions() {
        assert_eq!(read_with("parallelism", json!(3)).completions, None);
    }

    /// JOB-4.
    #[test]
    fn limits_of_indexes_belong_to_indexed_jobs() {
        let mut value = bare();
        value["spec"]["backoffLimitPerIndex"] = json!(1);
        value["spec"]["successPolicy"] = json!({"rules": [{"succeededCount": 1}]});
        let job = read(&value).unwrap();
        assert_eq!((job.backoff_limit_per_index, job.success_policy.is_none()), (None, true));
        value["spec"]["completionMode"] = json!("Indexed");
        value["spec"]["completions"] = json!(5);
        let job = read(&value).unwrap();
        assert_eq!((job.backoff_limit_per_index, job.backoff_limit), (Some(1), i32::MAX));
        assert!(job.success_policy.is_some());
    }

    /// JOB-17.
    #[test]
    fn policies_say_when_pods_are_replaced() {
        let mut value = bare();
        value["spec"]["podReplacementPolicy"] = json!("Failed");
        assert!(read(&value).unwrap().replaces_pods_only_when_finished());
        value["spec"]["podReplacementPolicy"] = json!("TerminatingOrFailed");
        assert!(!read(&value).unwrap().replaces_pods_only_when_finished());
        value["spec"]["podFailurePolicy"] = json!({"rules": []});
        assert!(read(&value).unwrap().replaces_pods_only_when_finished());
    }

    /// JOB-5.
    #[test]
    fn managed_by_this_controller_means_no_other_manager() {
        let managed_by = |manager: &str| read_with("managedBy", json!(manager)).managed_by;
        assert_eq!(managed_by("kubernetes.io/job-controller"), None);
        assert_eq!(managed_by("example.com/x").as_deref(), Some("example.com/x"));
        assert_eq!(managed_by("").as_deref(), Some(""));
    }

    #[test]
    fn a_finished_job_keeps_no_template() {
        let mut value = bare();
        value["status"] = json!({"conditions": [{"type": "Failed", "status": "True"}]});
        let job = read(&value).unwrap();
        assert!(job.is_finished() && job.template.is_none());
    }

    /// JOB-3.
    #[test]
    fn invalid_jobs_are_not_decoded() {
        for (field, value, error) in [
            ("parallelism", json!(-1), "spec.parallelism is -1"),
            ("completions", json!(3_000_000_000_u32), "spec.completions is 3000000000"),
            ("backoffLimit", json!(-2), "spec.backoffLimit is -2"),
            ("completionMode", json!("Indexed"), "spec.completions is missing"),
            ("activeDeadlineSeconds", json!(-5), "spec.activeDeadlineSeconds is -5"),
            ("ttlSecondsAfterFinished", json!(-1), "spec.ttlSecondsAfterFinished is -1"),
            ("selector", json!(null), "spec.selector is missing"),
            ("template", json!(null), "spec.template is missing"),
            ("template", json!("x"), "expected an object"),
            ("suspend", json!("yes"), "invalid type"),
        ] {
            let mut job = bare();
            job["spec"]["parallelism"] = json!(1);
            job["spec"][field] = value.clone();
            let got = read(&job).unwrap_err();
            assert!(got.contains(error), "{field} = {value}: {got}");
        }
    }
}

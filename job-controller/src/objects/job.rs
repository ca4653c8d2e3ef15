//! What is read of a Job.

use common::{
    intern::Text,
    json::Raw,
    meta::Meta,
    object::{Object, Resource},
    selector::Selector,
    store::ByNamespace,
};
use serde::{
    Deserialize, Deserializer,
    de::{Error as _, IgnoredAny},
};
use serde_json::Value;

use super::{
    pod::CachedPod,
    policy::{FailurePolicy, SuccessPolicy},
    status::Status,
};

/// Jobs on the API server.
pub const JOBS: Resource = Resource { group: "batch", version: "v1", plural: "jobs", kind: "Job", namespaced: true };
/// The value of `spec.managedBy` that means this controller.
const JOB_CONTROLLER: &str = "kubernetes.io/job-controller";

/// How a Job counts its completions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// Every Pod that succeeds counts.
    NonIndexed,
    /// Every index counts once.
    Indexed,
    /// One that this version does not know: such a Job is left alone.
    Unknown,
}

impl Mode {
    /// As the API and metrics write it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Indexed => "Indexed",
            Self::NonIndexed | Self::Unknown => "NonIndexed",
        }
    }
}

/// A Job.
///
/// What the API server fills in is filled in here as well where an older server did not. A Job with values that validation
/// refuses is not read at all.
#[derive(Debug)]
pub struct Job {
    /// Metadata, without annotations and finalizers.
    pub metadata: Meta,
    /// How many Pods may be active at once.
    pub parallelism: u32,
    /// How many completions are wanted; none if any success is enough.
    pub completions: Option<u32>,
    /// How completions are counted.
    pub mode: Mode,
    /// How many Pods may fail.
    pub backoff_limit: i32,
    /// How often one index may fail; none if that is not limited by itself.
    pub backoff_limit_per_index: Option<u32>,
    /// How many indexes may fail.
    pub max_failed_indexes: Option<u32>,
    /// Whether it is to run no Pods for now.
    pub suspend: bool,
    /// For how many seconds it may be active.
    pub active_deadline_seconds: Option<i64>,
    /// How many seconds after its end it is removed.
    pub ttl_seconds_after_finished: Option<i64>,
    /// Who manages it, unless it is this controller.
    pub managed_by: Option<Text>,
    /// Whether `spec.podReplacementPolicy` is `Failed`.
    pub replaces_failed: bool,
    /// What failures of Pods mean.
    pub failure_policy: Option<FailurePolicy>,
    /// When enough has succeeded.
    pub success_policy: Option<SuccessPolicy>,
    /// Which Pods are its own.
    pub selector: Selector,
    /// What its Pods are made from; not kept once it has finished.
    pub template: Option<Raw>,
    /// Whether its Pods restart their containers themselves.
    pub restarts_on_failure: bool,
    /// Whether its template says itself which group its Pods are scheduled with.
    pub has_scheduling_group: bool,
    /// As stored.
    pub status: Status,
}

impl Job {
    /// Whether it has finished.
    pub fn is_finished(&self) -> bool {
        self.status.is_finished()
    }

    /// Whether its completions are indexes.
    pub fn is_indexed(&self) -> bool {
        self.mode == Mode::Indexed
    }

    /// Whether a terminating Pod is replaced only once it has finished.
    pub fn only_replaces_failed(&self) -> bool {
        self.replaces_failed || self.failure_policy.is_some()
    }

    /// The completions of an Indexed Job.
    pub fn indexes(&self) -> u32 {
        if self.is_indexed() { self.completions.unwrap_or(0) } else { 0 }
    }

    /// Whether a Pod names an index that this Job has. Pods of a Job that is not Indexed need none.
    pub fn has_index_of(&self, pod: &CachedPod) -> bool {
        !self.is_indexed() || pod.index.is_some_and(|index| index < self.indexes())
    }
}

impl Object for Job {
    const RESOURCE: Resource = JOBS;
    type Indexes = (ByNamespace,);

    fn meta(&self) -> &Meta {
        &self.metadata
    }
}

#[derive(Deserialize)]
struct Wire {
    metadata: Meta,
    spec: WireSpec,
    #[serde(default)]
    status: Option<Status>,
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
    pod_failure_policy: Option<FailurePolicy>,
    success_policy: Option<SuccessPolicy>,
    #[serde(default)]
    selector: Value,
    template: Option<Raw>,
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
            None | Some("" | "NonIndexed") => Mode::NonIndexed,
            Some("Indexed") => Mode::Indexed,
            Some(_) => Mode::Unknown,
        };
        let optional = |field: &str, value: Option<i64>| value.map(|n| count(field, n)).transpose();
        let parallelism = optional("spec.parallelism", spec.parallelism)?;
        let mut completions = optional("spec.completions", spec.completions)?;
        if parallelism.is_none() && completions.is_none() {
            completions = Some(1);
        }
        if mode == Mode::Indexed && completions.is_none() {
            return Err("spec.completions is missing, and completionMode is Indexed".to_owned());
        }
        let indexed = mode == Mode::Indexed;
        let per_index = optional("spec.backoffLimitPerIndex", spec.backoff_limit_per_index)?.filter(|_| indexed);
        let default_limit = if per_index.is_some() { i64::from(i32::MAX) } else { 6 };
        let selector = Selector::from_value(&spec.selector);
        if selector.is_null() {
            return Err("spec.selector is missing".to_owned());
        }
        let template = spec.template.ok_or("spec.template is missing")?;
        let pods = pod_spec(&template)?;
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
            mode,
            backoff_limit: count("spec.backoffLimit", spec.backoff_limit.unwrap_or(default_limit))?.cast_signed(),
            backoff_limit_per_index: per_index,
            max_failed_indexes: optional("spec.maxFailedIndexes", spec.max_failed_indexes)?,
            suspend: spec.suspend.unwrap_or(false),
            active_deadline_seconds: spec.active_deadline_seconds,
            ttl_seconds_after_finished: spec.ttl_seconds_after_finished,
            managed_by: spec.managed_by.filter(|by| *by != JOB_CONTROLLER),
            replaces_failed: spec.pod_replacement_policy.is_some_and(|policy| policy == "Failed"),
            failure_policy: spec.pod_failure_policy,
            success_policy: spec.success_policy.filter(|_| indexed),
            selector,
            template: (!status.is_finished()).then_some(template),
            restarts_on_failure: pods.restart_policy == "OnFailure",
            has_scheduling_group: pods.scheduling_group.is_some(),
            status,
        })
    }
}

/// What is read of a template's specification.
#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase")]
struct PodSpec {
    #[serde(default)]
    restart_policy: Text,
    scheduling_group: Option<IgnoredAny>,
}

fn pod_spec(template: &Raw) -> Result<PodSpec, String> {
    #[derive(Deserialize)]
    struct Parts {
        spec: Option<PodSpec>,
    }
    let parts: Parts = serde_json::from_str(template.text()).map_err(|error| format!("spec.template: {error}"))?;
    Ok(parts.spec.unwrap_or_default())
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

    #[test]
    fn a_job_without_the_fields_of_newer_servers_is_read_with_their_defaults() {
        let job = read(&bare()).unwrap();
        assert_eq!((job.parallelism, job.completions, job.mode), (1, Some(1), Mode::NonIndexed));
        assert_eq!((job.backoff_limit, job.backoff_limit_per_index, job.max_failed_indexes), (6, None, None));
        assert!(!job.suspend && !job.only_replaces_failed() && job.managed_by.is_none() && job.restarts_on_failure);
        assert_eq!(job.status, Status::default());
        assert!(job.metadata.annotations.is_empty() && job.metadata.finalizers.is_empty());
    }

    #[test]
    fn a_work_queue_has_no_number_of_completions() {
        let mut value = bare();
        value["spec"]["parallelism"] = json!(3);
        assert_eq!(read(&value).unwrap().completions, None);
    }

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

    #[test]
    fn policies_say_when_pods_are_replaced() {
        let mut value = bare();
        value["spec"]["podReplacementPolicy"] = json!("Failed");
        assert!(read(&value).unwrap().only_replaces_failed());
        value["spec"]["podReplacementPolicy"] = json!("TerminatingOrFailed");
        assert!(!read(&value).unwrap().only_replaces_failed());
        value["spec"]["podFailurePolicy"] = json!({"rules": []});
        assert!(read(&value).unwrap().only_replaces_failed());
    }

    #[test]
    fn managed_by_this_controller_is_managed_by_nobody_else() {
        let mut value = bare();
        value["spec"]["managedBy"] = json!("kubernetes.io/job-controller");
        assert_eq!(read(&value).unwrap().managed_by, None);
        value["spec"]["managedBy"] = json!("example.com/x");
        assert_eq!(read(&value).unwrap().managed_by.as_deref(), Some("example.com/x"));
        value["spec"]["managedBy"] = json!("");
        assert_eq!(read(&value).unwrap().managed_by.as_deref(), Some(""));
    }

    #[test]
    fn a_finished_job_keeps_no_template() {
        let mut value = bare();
        value["status"] = json!({"conditions": [{"type": "Failed", "status": "True"}]});
        let job = read(&value).unwrap();
        assert!(job.is_finished() && job.template.is_none());
    }

    #[test]
    fn absurd_jobs_are_not_read() {
        for (field, value, error) in [
            ("parallelism", json!(-1), "spec.parallelism is -1"),
            ("completions", json!(3_000_000_000_u32), "spec.completions is 3000000000"),
            ("backoffLimit", json!(-2), "spec.backoffLimit is -2"),
            ("completionMode", json!("Indexed"), "spec.completions is missing"),
            ("activeDeadlineSeconds", json!(-5), "spec.activeDeadlineSeconds is -5"),
            ("ttlSecondsAfterFinished", json!(-1), "spec.ttlSecondsAfterFinished is -1"),
            ("selector", json!(null), "spec.selector is missing"),
            ("template", json!(null), "spec.template is missing"),
            ("template", json!("x"), "spec.template"),
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

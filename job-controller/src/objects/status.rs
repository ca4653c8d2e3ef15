//! The status of a Job, as it is read and written.

use common::{
    conditions::{Condition, seconds},
    json::null_as_default,
    prelude::*,
};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};

/// Condition types in the status of a Job.
pub mod condition_types {
    /// The Job has finished successfully.
    pub const COMPLETE: &str = "Complete";
    /// The Job has finished with a failure.
    pub const FAILED: &str = "Failed";
    /// The Job will complete after its Pods are counted.
    pub const SUCCESS_CRITERIA_MET: &str = "SuccessCriteriaMet";
    /// The Job will fail after its Pods are counted.
    pub const FAILURE_TARGET: &str = "FailureTarget";
    /// The user has suspended the Job.
    pub const SUSPENDED: &str = "Suspended";
}

/// UIDs of terminated Pods that are not counted yet (`uncountedTerminatedPods`). Each Pod is listed once, and then counted.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct UncountedTerminatedPods {
    /// UIDs of succeeded Pods that `status.succeeded` does not include yet.
    #[serde(deserialize_with = "null_as_default")]
    pub succeeded: Vec<Uid>,
    /// UIDs of failed Pods that `status.failed` does not include yet.
    #[serde(deserialize_with = "null_as_default")]
    pub failed: Vec<Uid>,
}

impl UncountedTerminatedPods {
    /// Returns the number of UIDs in both lists.
    pub fn len(&self) -> usize {
        self.succeeded.len() + self.failed.len()
    }

    /// Whether the lists `succeeded` and `failed` are empty.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// The status of a Job, with the fields of the API.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct JobStatus {
    /// Conditions, in the order in which they were first set.
    #[serde(deserialize_with = "null_as_default")]
    pub conditions: Vec<Condition>,
    /// The time at which the Job was started or resumed.
    #[serde(with = "seconds")]
    pub start_time: Option<Timestamp>,
    /// The time at which the Job completed; `None` for a failed Job.
    #[serde(with = "seconds")]
    pub completion_time: Option<Timestamp>,
    /// The number of Pods that are neither finished nor terminating.
    #[serde(deserialize_with = "null_as_default")]
    pub active: i32,
    /// The number of active Pods that are ready; `None` if the status was never written.
    pub ready: Option<i32>,
    /// The number of terminating Pods that have not finished; `None` if the status was never written.
    pub terminating: Option<i32>,
    /// The number of counted Pods that have succeeded; for an Indexed Job, the number of succeeded indexes.
    #[serde(deserialize_with = "null_as_default")]
    pub succeeded: i32,
    /// The number of counted Pods that have failed.
    #[serde(deserialize_with = "null_as_default")]
    pub failed: i32,
    /// The succeeded indexes as text, such as `0,2-4`.
    #[serde(deserialize_with = "null_as_default")]
    pub completed_indexes: Box<str>,
    /// The permanently failed indexes as text; `None` without a limit per index.
    pub failed_indexes: Option<Box<str>>,
    /// Terminated Pods that the counters do not include yet.
    #[serde(rename = "uncountedTerminatedPods", deserialize_with = "null_as_default")]
    pub uncounted_terminated_pods: UncountedTerminatedPods,
}

impl JobStatus {
    /// Whether the condition `Complete` or `Failed` is `True`.
    pub fn is_finished(&self) -> bool {
        self.finished_condition().is_some()
    }

    /// Returns the first condition that is `True` and has the type `Complete` or `Failed`.
    pub fn finished_condition(&self) -> Option<&Condition> {
        let terminal =
            |c: &&Condition| c.is_true() && (c.kind == condition_types::COMPLETE || c.kind == condition_types::FAILED);
        self.conditions.iter().find(terminal)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_status_survives_the_round_trip() {
        let json = json!({"startTime": "2026-11-21T09:40:08Z", "active": 3, "terminating": 0, "failedIndexes": "",
            "completedIndexes": "0,2", "ready": 1, "succeeded": 2, "failed": 1, "completionTime": null,
            "conditions": [{"type": "Suspended", "status": "False", "lastProbeTime": "2026-11-21T09:40:28Z",
                "lastTransitionTime": "2026-11-21T09:40:28Z", "reason": "JobResumed", "message": "Job resumed"}],
            "uncountedTerminatedPods": {"succeeded": ["a"], "failed": []}});
        let status: JobStatus = serde_json::from_value(json.clone()).unwrap();
        assert_eq!(serde_json::to_value(&status).unwrap(), json);
    }

    #[test]
    fn a_status_of_an_older_server_is_read() {
        let status: JobStatus = serde_json::from_value(json!({"uncountedTerminatedPods": null, "conditions": null,
            "active": null, "startTime": null}))
        .unwrap();
        assert_eq!(status, JobStatus::default());
    }
}

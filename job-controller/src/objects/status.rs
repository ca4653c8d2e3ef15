//! The status of a Job.

use common::{
    conditions::{self, Condition, seconds},
    json::null_as_default,
    meta::Uid,
};
use jiff::Timestamp;
use serde::{Deserialize, Serialize, Serializer};

/// Condition types, as the API has them.
pub mod kinds {
    /// The Job has finished: it succeeded.
    pub const COMPLETE: &str = "Complete";
    /// The Job has finished: it failed.
    pub const FAILED: &str = "Failed";
    /// It is decided that the Job succeeds.
    pub const SUCCESS_CRITERIA_MET: &str = "SuccessCriteriaMet";
    /// It is decided that the Job fails.
    pub const FAILURE_TARGET: &str = "FailureTarget";
    /// The Job runs no Pods because the user said so.
    pub const SUSPENDED: &str = "Suspended";
}

/// Uids of terminated Pods that the status names until their finalizer is removed, to count each once.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct NamedPods {
    /// Those that succeeded.
    #[serde(deserialize_with = "null_as_default", serialize_with = "null_if_default")]
    pub succeeded: Vec<Uid>,
    /// Those that failed.
    #[serde(deserialize_with = "null_as_default", serialize_with = "null_if_default")]
    pub failed: Vec<Uid>,
}

impl NamedPods {
    /// How many uids there are.
    pub fn len(&self) -> usize {
        self.succeeded.len() + self.failed.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// The status of a Job, in the API's terms. As it is written, everything that the API leaves out is null.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Status {
    /// Conditions, in the order in which they were first set.
    #[serde(deserialize_with = "null_as_default", serialize_with = "null_if_default")]
    pub conditions: Vec<Condition>,
    /// When the Job was started, or resumed.
    #[serde(with = "seconds")]
    pub start_time: Option<Timestamp>,
    /// When the Job was complete.
    #[serde(with = "seconds")]
    pub completion_time: Option<Timestamp>,
    /// Pods that are neither finished nor terminating.
    #[serde(deserialize_with = "null_as_default", serialize_with = "null_if_default")]
    pub active: i32,
    /// Active Pods that are ready.
    pub ready: Option<i32>,
    /// Pods that are terminating and not finished.
    pub terminating: Option<i32>,
    /// Pods that succeeded; of an Indexed Job: indexes.
    #[serde(deserialize_with = "null_as_default", serialize_with = "null_if_default")]
    pub succeeded: i32,
    /// Pods that failed.
    #[serde(deserialize_with = "null_as_default", serialize_with = "null_if_default")]
    pub failed: i32,
    /// The indexes that succeeded.
    #[serde(deserialize_with = "null_as_default", serialize_with = "null_if_default")]
    pub completed_indexes: Box<str>,
    /// The indexes that failed for good.
    pub failed_indexes: Option<Box<str>>,
    /// Pods that are being counted.
    #[serde(rename = "uncountedTerminatedPods", deserialize_with = "null_as_default")]
    pub named: NamedPods,
}

impl Status {
    /// Whether the condition of that type is there and `True`.
    pub fn has(&self, kind: &str) -> bool {
        conditions::is_true(&self.conditions, kind)
    }

    /// Whether the Job has finished.
    pub fn is_finished(&self) -> bool {
        self.finished().is_some()
    }

    /// The condition that says that the Job has finished: the first in the list.
    pub fn finished(&self) -> Option<&Condition> {
        let terminal = |c: &&Condition| c.is_true() && (c.kind == kinds::COMPLETE || c.kind == kinds::FAILED);
        self.conditions.iter().find(terminal)
    }
}

/// Writes what the API leaves out as null, so that a merge patch removes it.
fn null_if_default<T: Default + PartialEq + Serialize, S: Serializer>(value: &T, to: S) -> Result<S::Ok, S::Error> {
    if *value == T::default() { to.serialize_none() } else { value.serialize(to) }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    #[test]
    fn what_is_not_there_is_written_as_null() {
        let written = serde_json::to_value(Status { ready: Some(0), ..Status::default() }).unwrap();
        assert_eq!(written["ready"], 0);
        assert_eq!(written["uncountedTerminatedPods"], json!({"succeeded": null, "failed": null}));
        for field in [
            "conditions",
            "startTime",
            "completionTime",
            "active",
            "terminating",
            "succeeded",
            "failed",
            "completedIndexes",
            "failedIndexes",
        ] {
            assert_eq!(written.as_object().unwrap()[field], Value::Null, "{field}");
        }
    }

    #[test]
    fn a_status_survives_the_round_trip() {
        let json = json!({"startTime": "2026-11-21T09:40:08Z", "active": 3, "terminating": 0, "failedIndexes": "",
            "completedIndexes": "0,2", "ready": 1, "succeeded": 2, "failed": 1, "completionTime": null,
            "conditions": [{"type": "Suspended", "status": "False", "lastProbeTime": "2026-11-21T09:40:28Z",
                "lastTransitionTime": "2026-11-21T09:40:28Z", "reason": "JobResumed", "message": "Job resumed"}],
            "uncountedTerminatedPods": {"succeeded": ["a"], "failed": null}});
        let status: Status = serde_json::from_value(json.clone()).unwrap();
        assert_eq!(serde_json::to_value(&status).unwrap(), json);
    }

    #[test]
    fn a_status_of_an_older_server_is_read() {
        let status: Status = serde_json::from_value(json!({"uncountedTerminatedPods": null, "conditions": null,
            "active": null, "startTime": null}))
        .unwrap();
        assert_eq!(status, Status::default());
    }
}

//! Status conditions: reading, setting and removing entries of `status.conditions`.
//!
//! Kinds differ in the fields that a new condition inherits from the old one. Each such rule has its own function.

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::{intern::Text, json::null_as_default};

/// Value of the field `status` if the condition holds.
pub const TRUE: &str = "True";
/// Value of the field `status` if the condition does not hold.
pub const FALSE: &str = "False";
/// Value of the field `status` if it is unknown whether the condition holds.
pub const UNKNOWN: &str = "Unknown";

/// An element of `status.conditions` of any kind. JSON fields that this struct does not declare are preserved in `extra`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Condition {
    /// `type`, for example `Ready`; unique within the list of an object.
    #[serde(rename = "type")]
    pub kind: Text,
    /// `True`, `False` or `Unknown`.
    pub status: Text,
    /// `lastProbeTime`: when the object was last probed. Only some kinds have it.
    #[serde(with = "seconds", skip_serializing_if = "Option::is_none")]
    pub last_probe_time: Option<Timestamp>,
    /// `lastUpdateTime`: when the condition was last updated. Only some kinds have it.
    #[serde(with = "seconds", skip_serializing_if = "Option::is_none")]
    pub last_update_time: Option<Timestamp>,
    /// `lastTransitionTime`: when `status` last changed.
    #[serde(with = "seconds", skip_serializing_if = "Option::is_none")]
    pub last_transition_time: Option<Timestamp>,
    /// Machine-readable reason in one word, for example `MinimumReplicasAvailable`.
    #[serde(skip_serializing_if = "str::is_empty")]
    pub reason: Text,
    /// Human-readable explanation of the status; may be empty.
    #[serde(deserialize_with = "null_as_default", skip_serializing_if = "str::is_empty")]
    pub message: Box<str>,
    /// All other fields, preserved as they were read. In protobuf, fields of a newer server are one entry.
    #[serde(flatten)]
    pub extra: BTreeMap<String, Value>,
}

impl Condition {
    /// Sets `last_transition_time` to `now`. [`Condition::last_update_time`] remains `None`.
    pub fn new(kind: &str, status: &str, reason: &str, message: &str, now: Timestamp) -> Self {
        Self {
            kind: Text::new(kind),
            status: Text::new(status),
            reason: Text::new(reason),
            message: message.into(),
            last_transition_time: Some(seconds::floor_to_second(now)),
            ..Self::default()
        }
    }

    /// Sets `lastUpdateTime`, which conditions of Deployments have.
    #[must_use]
    pub fn with_last_update_time(mut self, time: Timestamp) -> Self {
        self.last_update_time = Some(seconds::floor_to_second(time));
        self
    }

    /// Whether `status` is `True`. The result is false for `False`, `Unknown` and every other text.
    pub fn is_true(&self) -> bool {
        self.status == TRUE
    }
}

/// Returns the message of a condition, truncated to the 32,768 bytes that the server accepts.
pub fn limited_message(mut message: String) -> String {
    const MAX_LENGTH: usize = 32_768;
    if message.len() > MAX_LENGTH {
        message.truncate(message.floor_char_boundary(MAX_LENGTH - "...".len()));
        message.push_str("...");
    }
    message
}

/// Result of setting a condition in a list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum ConditionListChange {
    /// The condition was added to the list, or replaced the previous condition of its type.
    Changed,
    /// The list already had a condition with the same status and reason, and was not modified.
    Unchanged,
}

/// Returns the condition of type `kind`; the first one, if the list has several.
pub fn get<'a>(conditions: &'a [Condition], kind: &str) -> Option<&'a Condition> {
    conditions.iter().find(|c| c.kind == kind)
}

/// Whether the condition of type `kind` exists and is `True`.
pub fn is_true(conditions: &[Condition], kind: &str) -> bool {
    get(conditions, kind).is_some_and(Condition::is_true)
}

/// Removes all conditions of type `kind`. Returns true if the list contained at least one.
pub fn remove(conditions: &mut Vec<Condition>, kind: &str) -> bool {
    let before = conditions.len();
    conditions.retain(|c| c.kind != kind);
    conditions.len() != before
}

/// Removes the conditions with the type of `condition`, and appends `condition`, even if it is equal to a removed one.
///
/// Deployments set `ReplicaSetUpdated` in this way, because `lastUpdateTime` must change even if the reason does not.
pub fn replace(conditions: &mut Vec<Condition>, condition: Condition) {
    remove(conditions, &condition.kind);
    conditions.push(condition);
}

/// Sets a condition by the rules for Deployments.
///
/// If status and reason are the same as before, nothing changes, not even the message and the times. If only the status is the
/// same, the condition is replaced, but keeps its `lastTransitionTime`. Otherwise the condition is replaced as given. A replaced
/// condition moves to the end. Upstream: `pkg/controller/deployment/util`, `SetDeploymentCondition`.
pub fn set_deployment_condition(conditions: &mut Vec<Condition>, mut condition: Condition) -> ConditionListChange {
    if let Some(current) = get(conditions, &condition.kind)
        && current.status == condition.status
    {
        if current.reason == condition.reason {
            return ConditionListChange::Unchanged;
        }
        condition.last_transition_time = current.last_transition_time;
    }
    replace(conditions, condition);
    ConditionListChange::Changed
}

/// Sets a condition by the rules for Namespaces.
///
/// A message over 32,768 bytes is truncated. If status, reason and message are the same as before, nothing changes. Otherwise the
/// condition is replaced in its place, and keeps its `lastTransitionTime` if the status is the same. A new condition is appended.
/// Upstream: `pkg/controller/namespace/deletion`, `updateConditions`.
pub fn set_namespace_condition(conditions: &mut Vec<Condition>, mut condition: Condition) -> ConditionListChange {
    condition.message = limited_message(condition.message.into()).into();
    let Some(current) = conditions.iter_mut().find(|current| current.kind == condition.kind) else {
        conditions.push(condition);
        return ConditionListChange::Changed;
    };
    if current.status == condition.status {
        if current.reason == condition.reason && current.message == condition.message {
            return ConditionListChange::Unchanged;
        }
        condition.last_transition_time = current.last_transition_time;
    }
    *current = condition;
    ConditionListChange::Changed
}

/// Times as the API server writes them: RFC 3339, UTC, whole seconds. `null` and the empty string are read as `None`.
pub mod seconds {
    use jiff::Timestamp;
    use serde::{Deserialize, Deserializer, Serializer, de::Error};

    /// Returns the whole second at or before `time`.
    pub fn floor_to_second(time: Timestamp) -> Timestamp {
        let second = time.as_second() - i64::from(time.subsec_nanosecond() < 0);
        Timestamp::from_second(second).unwrap_or(time)
    }

    /// Formats a time as the API server does, for example `2026-11-21T09:50:29Z`.
    pub fn format_rfc3339(time: Timestamp) -> String {
        floor_to_second(time).to_string()
    }

    /// Writes a time, or `null` for `None`.
    pub fn serialize<S: Serializer>(time: &Option<Timestamp>, serializer: S) -> Result<S::Ok, S::Error> {
        match time {
            Some(time) => serializer.collect_str(&floor_to_second(*time)),
            None => serializer.serialize_none(),
        }
    }

    /// Reads a time, with or without a fraction of a second.
    pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Timestamp>, D::Error> {
        match Option::<std::borrow::Cow<'de, str>>::deserialize(deserializer)?.as_deref() {
            None | Some("") => Ok(None),
            Some(text) => text.parse().map(Some).map_err(D::Error::custom),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(1_700_000_000 + second).unwrap()
    }

    fn condition(kind: &str, status: &str, reason: &str, second: i64) -> Condition {
        Condition::new(kind, status, reason, &format!("at {second}"), at(second)).with_last_update_time(at(second))
    }

    #[test]
    fn a_deployment_keeps_a_condition_of_the_same_status_and_reason() {
        let mut list = vec![condition("Progressing", TRUE, "A", 0), condition("Available", TRUE, "M", 0)];
        let before = list.clone();
        assert_eq!(
            set_deployment_condition(&mut list, condition("Progressing", TRUE, "A", 9)),
            ConditionListChange::Unchanged
        );
        assert_eq!(list, before);
    }

    #[test]
    fn a_deployment_keeps_the_transition_time_of_the_same_status() {
        let mut list = vec![condition("Progressing", TRUE, "A", 0), condition("Available", TRUE, "M", 0)];
        assert_eq!(
            set_deployment_condition(&mut list, condition("Progressing", TRUE, "B", 9)),
            ConditionListChange::Changed
        );
        assert_eq!(list[0].kind, "Available");
        let set = &list[1];
        assert_eq!((set.last_transition_time, set.last_update_time), (Some(at(0)), Some(at(9))));
        assert_eq!((&*set.reason, &*set.message), ("B", "at 9"));
    }

    #[test]
    fn a_deployment_takes_both_times_of_another_status() {
        let mut list = vec![condition("Available", FALSE, "M", 0)];
        let _ = set_deployment_condition(&mut list, condition("Available", TRUE, "M", 9));
        let _ = set_deployment_condition(&mut list, condition("Progressing", UNKNOWN, "P", 5));
        assert_eq!(list, vec![condition("Available", TRUE, "M", 9), condition("Progressing", UNKNOWN, "P", 5)]);
    }

    #[test]
    fn replacing_ignores_the_old_condition() {
        let mut list = vec![condition("Progressing", TRUE, "R", 0), condition("Available", TRUE, "M", 0)];
        replace(&mut list, condition("Progressing", TRUE, "R", 9));
        assert_eq!(list, vec![condition("Available", TRUE, "M", 0), condition("Progressing", TRUE, "R", 9)]);
    }

    #[test]
    fn unknown_fields_and_times_of_the_server_survive() {
        let json = json!({"type": "Ready", "status": "True", "lastProbeTime": "2026-11-21T09:50:29Z",
            "lastTransitionTime": "2026-11-21T09:50:29Z", "reason": "R", "message": "m", "observedGeneration": 3,
            "newer": {"a": [1]}});
        let condition: Condition = serde_json::from_value(json.clone()).unwrap();
        assert!(condition.is_true());
        assert_eq!(serde_json::to_value(&condition).unwrap(), json);
    }

    #[test]
    fn null_and_absent_fields_are_read_alike() {
        let bare = json!({"type": "Ready", "status": "True"});
        let nulls = json!({"type": "Ready", "status": "True", "lastProbeTime": null, "message": null, "reason": null});
        let condition: Condition = serde_json::from_value(nulls).unwrap();
        assert_eq!(serde_json::to_value(&condition).unwrap(), bare);
        assert!(serde_json::from_value::<Condition>(json!({"type": "Ready", "lastUpdateTime": "yesterday"})).is_err());
    }

    #[test]
    fn times_are_written_in_whole_seconds() {
        let time: Timestamp = "2026-11-21T09:50:29.987654321+02:00".parse().unwrap();
        assert_eq!(seconds::format_rfc3339(time), "2026-11-21T07:50:29Z");
        assert_eq!(seconds::format_rfc3339("1969-12-31T23:59:58.5Z".parse().unwrap()), "1969-12-31T23:59:58Z");
        let condition = Condition::new("A", TRUE, "", "", time);
        assert_eq!(
            serde_json::to_string(&condition).unwrap(),
            r#"{"type":"A","status":"True","lastTransitionTime":"2026-11-21T07:50:29Z"}"#
        );
    }

    proptest! {
        #[test]
        fn setting_leaves_one_entry_of_each_type(steps in prop::collection::vec((0..3usize, 0..2usize, 0..3usize), 1..12)) {
            let mut list = Vec::new();
            for (at, (kind, status, reason)) in steps.into_iter().enumerate() {
                let kind = ["A", "B", "C"][kind];
                let new = condition(kind, [TRUE, FALSE][status], ["X", "Y", "Z"][reason], at as i64);
                let before = list.clone();
                let changed = set_deployment_condition(&mut list, new.clone());
                prop_assert_eq!(changed == ConditionListChange::Unchanged, list == before);
                prop_assert_eq!(list.iter().filter(|c| c.kind == kind).count(), 1);
                let set = get(&list, kind).unwrap();
                prop_assert_eq!((&set.status, &set.reason), (&new.status, &new.reason));
            }
        }
    }
}

//! The condition `ReplicaFailure`: the latest failure to create or delete Pods.
//!
//! The condition is set from the first failure until a sync manages Pods without a failure. Upstream removes the condition in
//! every sync that must not create or delete Pods, so that it comes and goes. Upstream also never updates the condition, which
//! may then name a problem solved long ago (kubernetes/kubernetes#127081). Here it is updated when the problem changes.
//! Messages of refusals contain a new Pod name or the used quota in every attempt; such differences are ignored. Updates are at
//! least [`MIN_MESSAGE_AGE`] apart, because each status write enqueues the set at once, even during its back-off.

use common::conditions::{self, Condition};
use jiff::{SignedDuration, Timestamp};

use crate::plan::{PodChangesOutcome, REPLICA_FAILURE};

/// Minimum time between two changes of the condition's message.
const MIN_MESSAGE_AGE: SignedDuration = SignedDuration::from_mins(1);

/// Returns the conditions of the status after Pods were created or deleted at `now` with this outcome.
pub fn updated_conditions(stored: &[Condition], outcome: &PodChangesOutcome, now: Timestamp) -> Vec<Condition> {
    let mut list = stored.to_vec();
    match outcome {
        PodChangesOutcome::NotAllowed | PodChangesOutcome::PodsHaveChanged => {}
        PodChangesOutcome::Done => {
            conditions::remove(&mut list, REPLICA_FAILURE);
        }
        PodChangesOutcome::RequestFailed { operation, message } => {
            let reason = operation.condition_reason();
            let is_same_problem = |text: &str| without_names_and_numbers(text) == without_names_and_numbers(message);
            let keep = conditions::get(&list, REPLICA_FAILURE)
                .is_some_and(|c| c.reason == reason && (is_recent(c, now) || is_same_problem(&c.message)));
            if !keep {
                let failure = Condition::new(REPLICA_FAILURE, conditions::TRUE, reason, message, now);
                conditions::replace(&mut list, failure);
            }
        }
    }
    list
}

fn is_recent(condition: &Condition, now: Timestamp) -> bool {
    condition.last_transition_time.is_some_and(|since| now.duration_since(since) < MIN_MESSAGE_AGE)
}

/// Replaces names of Pods by `*` and numbers by `#`, so that two messages about the same problem are equal.
fn without_names_and_numbers(message: &str) -> String {
    let mut out = String::with_capacity(message.len());
    let mut rest = message;
    while let Some(c) = rest.chars().next() {
        if c == '"' {
            let (quoted, after) = rest[1..].split_once('"').unwrap_or((&rest[1..], ""));
            let of_a_pod = ["pods ", "pod ", "Pod "].iter().any(|word| out.ends_with(word));
            out.push('"');
            out.push_str(if of_a_pod { "*" } else { quoted });
            out.push('"');
            rest = after;
        } else if c.is_ascii_digit() {
            out.push('#');
            rest = rest.trim_start_matches(|c: char| c.is_ascii_alphanumeric() || c == '.');
        } else {
            out.push(c);
            rest = &rest[c.len_utf8()..];
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{plan::FailedPodOperation, world::time_before_now};

    fn at(second: i64) -> Timestamp {
        time_before_now(-second)
    }

    fn failed(operation: FailedPodOperation, message: &str) -> PodChangesOutcome {
        PodChangesOutcome::RequestFailed { operation, message: message.to_owned() }
    }

    fn quota(pod: &str, used: u32) -> String {
        format!(
            r#"pods "{pod}" is forbidden: exceeded quota: q, requested: pods=1, used: pods={used}, limited: pods={used}"#
        )
    }

    fn stored(message: &str) -> Vec<Condition> {
        updated_conditions(&[], &failed(FailedPodOperation::Create, message), at(0))
    }

    /// REPLICASET-37.
    #[test]
    fn a_failure_is_noted_with_its_reason_text_and_time() {
        let list = stored("no quota");
        let other = Condition::new("Other", "False", "R", "m", at(-5));
        assert_eq!(list.len(), 1);
        let c = &list[0];
        assert_eq!(
            (&*c.kind, &*c.status, &*c.reason, &*c.message),
            ("ReplicaFailure", "True", "FailedCreate", "no quota")
        );
        assert_eq!(c.last_transition_time, Some(at(0)));
        let list =
            updated_conditions(&[list[0].clone(), other.clone()], &failed(FailedPodOperation::Delete, "denied"), at(1));
        assert_eq!(list[0], other);
        assert_eq!((&*list[1].reason, &*list[1].message), ("FailedDelete", "denied"));
    }

    /// REPLICASET-77.
    #[test]
    fn the_condition_is_removed_only_after_pods_were_managed() {
        let list = stored("no quota");
        assert_eq!(updated_conditions(&list, &PodChangesOutcome::NotAllowed, at(9)), list);
        assert_eq!(updated_conditions(&list, &PodChangesOutcome::Done, at(9)), []);
        assert_eq!(updated_conditions(&[], &PodChangesOutcome::Done, at(9)), []);
    }

    /// REPLICASET-38.
    #[test]
    fn another_message_for_the_same_problem_changes_nothing() {
        let list = stored(&quota("web-abcde", 3));
        let again = failed(FailedPodOperation::Create, &quota("web-x7k2p", 14));
        assert_eq!(updated_conditions(&list, &again, at(3600)), list);
    }

    /// REPLICASET-77.
    #[test]
    fn another_problem_updates_the_message_at_most_once_a_minute() {
        let list = stored(&quota("web-abcde", 3));
        let other = failed(FailedPodOperation::Create, "admission webhook \"policy\" denied the request: id 7");
        assert_eq!(updated_conditions(&list, &other, at(59)), list);
        let refreshed = updated_conditions(&list, &other, at(60));
        assert_eq!(&*refreshed[0].message, "admission webhook \"policy\" denied the request: id 7");
        assert_eq!(
            updated_conditions(&refreshed, &failed(FailedPodOperation::Create, &quota("web-b", 1)), at(61)),
            refreshed
        );
    }

    /// REPLICASET-38.
    #[test]
    fn gists_omit_only_pods_and_numbers() {
        assert_eq!(without_names_and_numbers(&quota("web-x", 3)), without_names_and_numbers(&quota("stray", 999)));
        assert_eq!(
            without_names_and_numbers("used: requests.cpu=500m"),
            without_names_and_numbers("used: requests.cpu=1.5")
        );
        assert_ne!(without_names_and_numbers("exceeded quota: a"), without_names_and_numbers("exceeded quota: b"));
        assert_ne!(
            without_names_and_numbers(r#"admission webhook "a" denied"#),
            without_names_and_numbers(r#"admission webhook "b" denied"#)
        );
        assert_eq!(without_names_and_numbers("über \"quotes"), "über \"quotes\"");
    }
}

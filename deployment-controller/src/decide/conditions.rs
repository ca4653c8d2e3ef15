//! Types and reasons of the conditions of a Deployment, and constructors for them.

use common::conditions::{self, Condition, FALSE, TRUE, UNKNOWN};
use jiff::Timestamp;

use crate::objects::{DeploymentStatus, REPLICA_FAILURE};

/// Condition type: whether at least `spec.replicas` minus maxUnavailable Pods are available.
pub const AVAILABLE: &str = "Available";
/// Condition type: whether the rollout makes progress.
pub const PROGRESSING: &str = "Progressing";

/// Reason of `Available=True`: enough Pods are available.
pub const MINIMUM_REPLICAS_AVAILABLE: &str = "MinimumReplicasAvailable";
/// Reason of `Available=False`: too few Pods are available.
pub const MINIMUM_REPLICAS_UNAVAILABLE: &str = "MinimumReplicasUnavailable";
/// Reason of `Progressing=True`: the new ReplicaSet was created.
pub const NEW_REPLICA_SET_CREATED: &str = "NewReplicaSetCreated";
/// Reason of `Progressing=True`: the new ReplicaSet existed already.
pub const FOUND_NEW_REPLICA_SET: &str = "FoundNewReplicaSet";
/// Reason of `Progressing=True`: the counts in the status improved.
pub const REPLICA_SET_UPDATED: &str = "ReplicaSetUpdated";
/// Reason of `Progressing=True`: the rollout is complete.
pub const NEW_REPLICA_SET_AVAILABLE: &str = "NewReplicaSetAvailable";
/// Reason of `Progressing=False`: no count improved before the progress deadline.
pub const PROGRESS_DEADLINE_EXCEEDED: &str = "ProgressDeadlineExceeded";
/// Reason of `Progressing=False`: the new ReplicaSet cannot be created.
pub const REPLICA_SET_CREATE_ERROR: &str = "ReplicaSetCreateError";
/// Reason of `Progressing=Unknown`: the Deployment was paused.
pub const DEPLOYMENT_PAUSED: &str = "DeploymentPaused";
/// Reason of `Progressing=Unknown`: the Deployment was resumed.
pub const DEPLOYMENT_RESUMED: &str = "DeploymentResumed";

/// Returns the condition `Progressing` with a reason; the reason decides whether its status is True, False or Unknown.
pub fn progressing_condition(reason: &str, message: &str, now: Timestamp) -> Condition {
    let status = match reason {
        PROGRESS_DEADLINE_EXCEEDED | REPLICA_SET_CREATE_ERROR => FALSE,
        DEPLOYMENT_PAUSED | DEPLOYMENT_RESUMED => UNKNOWN,
        _ => TRUE,
    };
    Condition::new(PROGRESSING, status, reason, message, now).with_last_update_time(now)
}

/// Returns the condition `Available`; it is True if `enough` Pods are available, else False.
pub fn available_condition(enough: bool, now: Timestamp) -> Condition {
    let (status, reason, message) = if enough {
        (TRUE, MINIMUM_REPLICAS_AVAILABLE, "Deployment has minimum availability.")
    } else {
        (FALSE, MINIMUM_REPLICAS_UNAVAILABLE, "Deployment does not have minimum availability.")
    };
    Condition::new(AVAILABLE, status, reason, message, now).with_last_update_time(now)
}

/// Copies the condition `ReplicaFailure` of a ReplicaSet into a condition of the Deployment.
pub fn replica_failure_condition(condition: &Condition) -> Condition {
    Condition {
        kind: REPLICA_FAILURE.into(),
        status: condition.status.clone(),
        reason: condition.reason.clone(),
        message: condition.message.clone(),
        last_update_time: condition.last_transition_time,
        last_transition_time: condition.last_transition_time,
        ..Condition::default()
    }
}

/// Returns the condition `Progressing` of a status; `None` if the status lacks it.
pub fn find_progressing_condition(status: &DeploymentStatus) -> Option<&Condition> {
    conditions::get(&status.conditions, PROGRESSING)
}

/// Whether the condition `Progressing` has this reason.
pub fn has_progressing_reason(status: &DeploymentStatus, reason: &str) -> bool {
    find_progressing_condition(status).is_some_and(|condition| condition.reason == reason)
}

/// Sets the condition `Progressing`, as [`progressing_condition`] makes it. Returns whether the status changed.
pub fn set_progressing_condition(status: &mut DeploymentStatus, reason: &str, message: &str, now: Timestamp) -> bool {
    set_condition(status, progressing_condition(reason, message, now))
}

/// Adds or replaces a condition. Returns whether the status changed.
pub fn set_condition(status: &mut DeploymentStatus, condition: Condition) -> bool {
    conditions::set_deployment_condition(&mut status.conditions, condition) == conditions::ConditionListChange::Changed
}

//! The conditions of a Deployment: their words.

use common::conditions::{self, Condition, FALSE, TRUE, UNKNOWN};
use jiff::Timestamp;

use crate::objects::{DeploymentStatus, REPLICA_FAILURE};

/// Whether enough Pods are available.
pub const AVAILABLE: &str = "Available";
/// Whether the rollout gets on.
pub const PROGRESSING: &str = "Progressing";

/// `Available`: enough.
pub const MINIMUM_REPLICAS_AVAILABLE: &str = "MinimumReplicasAvailable";
/// `Available`: not enough.
pub const MINIMUM_REPLICAS_UNAVAILABLE: &str = "MinimumReplicasUnavailable";
/// `Progressing`: the new ReplicaSet was just created.
pub const NEW_REPLICA_SET: &str = "NewReplicaSetCreated";
/// `Progressing`: the new ReplicaSet was there already.
pub const FOUND_NEW_REPLICA_SET: &str = "FoundNewReplicaSet";
/// `Progressing`: something got better.
pub const REPLICA_SET_UPDATED: &str = "ReplicaSetUpdated";
/// `Progressing`: the rollout is complete.
pub const NEW_REPLICA_SET_AVAILABLE: &str = "NewReplicaSetAvailable";
/// `Progressing`: nothing has got better for too long.
pub const PROGRESS_DEADLINE_EXCEEDED: &str = "ProgressDeadlineExceeded";
/// `Progressing`: the new ReplicaSet cannot be created.
pub const REPLICA_SET_CREATE_ERROR: &str = "ReplicaSetCreateError";
/// `Progressing`: the Deployment was paused.
pub const PAUSED: &str = "DeploymentPaused";
/// `Progressing`: the Deployment was resumed.
pub const RESUMED: &str = "DeploymentResumed";

/// The `Progressing` condition of that reason, which says of itself whether it is true.
pub fn progressing(reason: &str, message: &str, now: Timestamp) -> Condition {
    let status = match reason {
        PROGRESS_DEADLINE_EXCEEDED | REPLICA_SET_CREATE_ERROR => FALSE,
        PAUSED | RESUMED => UNKNOWN,
        _ => TRUE,
    };
    Condition::new(PROGRESSING, status, reason, message, now).updated_at(now)
}

/// The `Available` condition.
pub fn available(enough: bool, now: Timestamp) -> Condition {
    let (status, reason, message) = if enough {
        (TRUE, MINIMUM_REPLICAS_AVAILABLE, "Deployment has minimum availability.")
    } else {
        (FALSE, MINIMUM_REPLICAS_UNAVAILABLE, "Deployment does not have minimum availability.")
    };
    Condition::new(AVAILABLE, status, reason, message, now).updated_at(now)
}

/// What a ReplicaSet says of its failure, as the Deployment's own condition.
pub fn replica_failure(of_set: &Condition) -> Condition {
    Condition {
        kind: REPLICA_FAILURE.into(),
        status: of_set.status.clone(),
        reason: of_set.reason.clone(),
        message: of_set.message.clone(),
        last_update_time: of_set.last_transition_time,
        last_transition_time: of_set.last_transition_time,
        ..Condition::default()
    }
}

/// The `Progressing` condition of a status.
pub fn progress(status: &DeploymentStatus) -> Option<&Condition> {
    conditions::get(&status.conditions, PROGRESSING)
}

/// Whether the reason of the `Progressing` condition is `reason`.
pub fn progress_is(status: &DeploymentStatus, reason: &str) -> bool {
    progress(status).is_some_and(|condition| condition.reason == reason)
}

/// Sets a condition; says whether that changed anything.
pub fn set(status: &mut DeploymentStatus, condition: Condition) -> bool {
    conditions::set_for_deployment(&mut status.conditions, condition) == conditions::Change::Changed
}

//! The condition `Progressing`: whether a rollout is complete, makes progress, or has passed its progress deadline.

use std::time::Duration;

use common::{
    conditions::{self as list, Condition},
    prelude::*,
};
use jiff::{SignedDuration, Timestamp};

use crate::{
    decide::{
        conditions::{
            self, NEW_REPLICA_SET_AVAILABLE, PROGRESS_DEADLINE_EXCEEDED, PROGRESSING, REPLICA_SET_UPDATED,
            has_progressing_reason,
        },
        draft::PlanDraft,
        status,
    },
    objects::{DeploymentStatus, REPLICA_FAILURE},
};

const SECOND: SignedDuration = SignedDuration::from_secs(1);

/// Plans a status write with an updated condition `Progressing`, and the time of the next check of the deadline.
/// Upstream: `syncRolloutStatus`.
pub fn plan_status_with_progress(draft: &mut PlanDraft<'_>) {
    let mut status = status::calculate_status(draft);
    match draft.spec().effective_progress_deadline_seconds() {
        Some(deadline) => update_progressing(draft, &mut status, deadline),
        None => _ = list::remove(&mut status.conditions, PROGRESSING),
    }
    match replica_failure(draft) {
        Some(failure) => _ = conditions::set_condition(&mut status, conditions::replica_failure_condition(failure)),
        None => _ = list::remove(&mut status.conditions, REPLICA_FAILURE),
    }
    let written = draft.push_status_write(status, None, "counts, availability or progress changed");
    if let Some(deadline) = draft.spec().effective_progress_deadline_seconds() {
        draft.requeue = next_deadline_check(draft, deadline);
        if written && draft.requeue == Requeue::AfterBackoff {
            // The event of the status write enqueues the Deployment earlier; this delay only covers a missing event.
            draft.requeue = Requeue::After(Duration::from_secs(2));
        }
    }
}

/// Whether all replicas are new and available, and the status describes the current generation. Upstream:
/// `DeploymentComplete`.
pub fn is_rollout_complete(draft: &PlanDraft<'_>, status: &DeploymentStatus) -> bool {
    let wanted = draft.snapshot.rollout_limits.replicas;
    [status.updated_replicas, status.replicas, status.available_replicas] == [wanted; 3]
        && status.observed_generation >= draft.deployment().metadata.generation
}

fn update_progressing(draft: &PlanDraft<'_>, status: &mut DeploymentStatus, deadline: i64) {
    // The rollout was complete, and only the new ReplicaSet has Pods, so a change of the counts comes from scaling or from
    // a lost Pod, and not from a rollout.
    if status.replicas == status.updated_replicas && has_progressing_reason(&draft.status, NEW_REPLICA_SET_AVAILABLE) {
        return;
    }
    let now = draft.snapshot.now;
    let subject = match draft.new_set() {
        Some(set) => format!("ReplicaSet {:?}", set.name),
        None => format!("Deployment {:?}", draft.deployment().metadata.name),
    };
    if is_rollout_complete(draft, status) {
        let message = format!("{subject} has successfully progressed.");
        conditions::set_progressing_condition(status, NEW_REPLICA_SET_AVAILABLE, &message, now);
    } else if has_progressed(&draft.status, status) {
        let message = format!("{subject} is progressing.");
        let mut condition = conditions::progressing_condition(REPLICA_SET_UPDATED, &message, now);
        let stored = conditions::find_progressing_condition(&draft.status);
        if let Some(stored) = stored.filter(|stored| stored.is_true()) {
            condition.last_transition_time = stored.last_transition_time;
        }
        list::replace(&mut status.conditions, condition);
    } else if conditions::find_progressing_condition(status)
        .is_some_and(|condition| has_timed_out(condition, deadline, now))
    {
        let message = format!("{subject} has timed out progressing.");
        conditions::set_progressing_condition(status, PROGRESS_DEADLINE_EXCEEDED, &message, now);
    }
}

/// Whether any count of the status improved. Upstream: `DeploymentProgressing`.
fn has_progressed(old: &DeploymentStatus, new: &DeploymentStatus) -> bool {
    new.updated_replicas > old.updated_replicas
        || new.replicas - new.updated_replicas < old.replicas - old.updated_replicas
        || new.ready_replicas > old.ready_replicas
        || new.available_replicas > old.available_replicas
}

/// Whether the progress deadline has passed. Upstream: `DeploymentTimedOut`.
fn has_timed_out(condition: &Condition, deadline: i64, now: Timestamp) -> bool {
    match condition.reason.as_str() {
        NEW_REPLICA_SET_AVAILABLE => false,
        PROGRESS_DEADLINE_EXCEEDED => true,
        _ => time_until_deadline(condition, deadline, now).is_negative(),
    }
}

/// Returns the time until the progress deadline; negative after the deadline.
fn time_until_deadline(condition: &Condition, deadline: i64, now: Timestamp) -> SignedDuration {
    let since = condition.last_update_time.unwrap_or(Timestamp::MIN);
    SignedDuration::from_secs(deadline).saturating_sub(now.duration_since(since))
}

/// A rollout that was complete needs no check, because it cannot time out. Upstream's `requeueStuckDeployment` requeues such a
/// rollout as fast as the queue allows if Pods are lost later.
fn next_deadline_check(draft: &PlanDraft<'_>, deadline: i64) -> Requeue {
    let Some(condition) = conditions::find_progressing_condition(&draft.status) else {
        return Requeue::AfterPlannedDelay;
    };
    let settled = [NEW_REPLICA_SET_AVAILABLE, PROGRESS_DEADLINE_EXCEEDED].contains(&condition.reason.as_str());
    if settled || is_rollout_complete(draft, &draft.status) {
        return Requeue::AfterPlannedDelay;
    }
    match time_until_deadline(condition, deadline, draft.snapshot.now) {
        left if left < SECOND => Requeue::AfterBackoff,
        left => Requeue::After(left.saturating_add(SECOND).unsigned_abs()),
    }
}

/// Returns `ReplicaFailure` of the new ReplicaSet, or else of the oldest ReplicaSet with this condition.
fn replica_failure<'d>(draft: &'d PlanDraft<'_>) -> Option<&'d Condition> {
    let mut sets = draft.new_set().into_iter().chain(draft.old_sets());
    sets.find_map(|set| list::get(&set.status().conditions, REPLICA_FAILURE))
}

#[cfg(test)]
mod tests;

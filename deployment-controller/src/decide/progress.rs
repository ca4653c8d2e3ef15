//! The `Progressing` condition: whether a rollout is complete, gets on, or has been stuck for too long.

use std::time::Duration;

use common::{
    conditions::{self as list, Condition},
    io::Requeue,
};
use jiff::{SignedDuration, Timestamp};

use crate::{
    decide::{
        conditions::{
            self, NEW_REPLICA_SET_AVAILABLE, PROGRESS_DEADLINE_EXCEEDED, PROGRESSING, REPLICA_SET_UPDATED, progress_is,
        },
        draft::Draft,
        status,
    },
    objects::{DeploymentStatus, REPLICA_FAILURE},
};

const SECOND: SignedDuration = SignedDuration::from_secs(1);

/// Writes the status with an estimate of progress if it differs from what is stored, and arranges for the next look.
///
/// Upstream: `syncRolloutStatus`.
pub fn write(draft: &mut Draft<'_>) {
    let mut status = status::calculate(draft);
    match draft.spec().deadline() {
        Some(deadline) => estimate(draft, &mut status, deadline),
        None => _ = list::remove(&mut status.conditions, PROGRESSING),
    }
    match replica_failure(draft) {
        Some(failure) => _ = conditions::set(&mut status, conditions::replica_failure(failure)),
        None => _ = list::remove(&mut status.conditions, REPLICA_FAILURE),
    }
    let written = draft.write(status, None, "counts, availability or progress changed");
    if let Some(deadline) = draft.spec().deadline() {
        let requeue = next_look(draft, deadline);
        // What was just written brings the key back by itself; that it does is not relied on.
        let requeue =
            if written && requeue == Requeue::RateLimited { Requeue::After(Duration::from_secs(2)) } else { requeue };
        draft.look_again(requeue);
    }
}

/// Whether all replicas are new and available, and this generation has been looked at.
///
/// Upstream: `DeploymentComplete`.
pub fn is_complete(draft: &Draft<'_>, status: &DeploymentStatus) -> bool {
    let wanted = draft.limits().replicas;
    [status.updated_replicas, status.replicas, status.available_replicas] == [wanted; 3]
        && status.observed_generation >= draft.deployment().metadata.generation
}

fn estimate(draft: &Draft<'_>, status: &mut DeploymentStatus, deadline: i64) {
    // Only one ReplicaSet has Pods and its rollout was complete: this is scaling or a lost Pod, no rollout.
    if status.replicas == status.updated_replicas && progress_is(&draft.status, NEW_REPLICA_SET_AVAILABLE) {
        return;
    }
    let now = draft.snapshot.now;
    let subject = match draft.new_set() {
        Some(set) => format!("ReplicaSet {:?}", set.name),
        None => format!("Deployment {:?}", draft.deployment().metadata.name),
    };
    if is_complete(draft, status) {
        let message = format!("{subject} has successfully progressed.");
        conditions::set(status, conditions::progressing(NEW_REPLICA_SET_AVAILABLE, &message, now));
    } else if has_progressed(&draft.status, status) {
        let mut condition = conditions::progressing(REPLICA_SET_UPDATED, &format!("{subject} is progressing."), now);
        if let Some(current) = conditions::progress(&draft.status).filter(|current| current.is_true()) {
            condition.last_transition_time = current.last_transition_time;
        }
        list::replace(&mut status.conditions, condition);
    } else if conditions::progress(status).is_some_and(|condition| has_timed_out(condition, deadline, now)) {
        let message = format!("{subject} has timed out progressing.");
        conditions::set(status, conditions::progressing(PROGRESS_DEADLINE_EXCEEDED, &message, now));
    }
}

/// Whether anything got better. Upstream: `DeploymentProgressing`.
fn has_progressed(old: &DeploymentStatus, new: &DeploymentStatus) -> bool {
    new.updated_replicas > old.updated_replicas
        || new.replicas - new.updated_replicas < old.replicas - old.updated_replicas
        || new.ready_replicas > old.ready_replicas
        || new.available_replicas > old.available_replicas
}

/// Upstream: `DeploymentTimedOut`.
fn has_timed_out(condition: &Condition, deadline: i64, now: Timestamp) -> bool {
    match condition.reason.as_str() {
        NEW_REPLICA_SET_AVAILABLE => false,
        PROGRESS_DEADLINE_EXCEEDED => true,
        _ => left(condition, deadline, now).is_negative(),
    }
}

/// How long until the deadline.
fn left(condition: &Condition, deadline: i64, now: Timestamp) -> SignedDuration {
    let since = condition.last_update_time.unwrap_or(Timestamp::MIN);
    SignedDuration::from_secs(deadline).saturating_sub(now.duration_since(since))
}

/// When to look whether the deadline has passed.
///
/// Never after a complete rollout: it cannot time out. Upstream: `requeueStuckDeployment`, which then comes back as fast as
/// the queue allows.
fn next_look(draft: &Draft<'_>, deadline: i64) -> Requeue {
    let Some(condition) = conditions::progress(&draft.status) else { return Requeue::AsPlanned };
    let settled = [NEW_REPLICA_SET_AVAILABLE, PROGRESS_DEADLINE_EXCEEDED].contains(&condition.reason.as_str());
    if settled || is_complete(draft, &draft.status) {
        return Requeue::AsPlanned;
    }
    match left(condition, deadline, draft.snapshot.now) {
        left if left < SECOND => Requeue::RateLimited,
        left => Requeue::After(left.saturating_add(SECOND).unsigned_abs()),
    }
}

/// The failure to pass on: the newest ReplicaSet's, or else the first of all.
fn replica_failure<'d>(draft: &'d Draft<'_>) -> Option<&'d Condition> {
    let mut sets = draft.new_set().into_iter().chain(draft.old_sets());
    sets.find_map(|set| list::get(&set.status().conditions, REPLICA_FAILURE))
}

#[cfg(test)]
mod tests;

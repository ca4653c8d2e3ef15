//! Sends the requests of a Job's plan: first claims, then the gang, then Pods, then the writes that count finished Pods.

mod body;
mod count;
mod finalizers;
mod gang;
mod note;
mod pods;

use std::borrow::Cow;

use common::{
    events::EventType,
    io::{ChildClaim, Requeue, SyncError},
    pods::PODS,
};

pub(super) use self::note::Note;
use self::{
    finalizers::{FinalizerRemovalResult, remove_finalizers},
    note::Io,
};
use super::{
    decide::{decide_with_adopted_pods, first_status, manage, requeue::decide_requeue},
    plan::{Plan, ScalingDecision, SkipReason, SyncPlan},
    snapshot::{SharedPod, Snapshot},
};
use crate::objects::JOB_TRACKING_FINALIZER;

/// Sends the requests of a plan, and returns the time of the Job's next sync.
pub(crate) async fn act(snapshot: &Snapshot, plan: &Plan, io: Io<'_>) -> Result<Requeue, SyncError> {
    // These Pods lose their finalizers even if the Job is not synced, for example because its selector is invalid.
    let why = "the terminating Job does not count this Pod";
    let untracked = remove_finalizers(plan.uncounted_pods_to_remove_finalizer_from.iter().collect(), why, io).await;
    untracked.record_denied_removal_event(io);

    let sync_plan = match &plan.sync_plan {
        Ok(sync_plan) => sync_plan,
        Err(left_alone) => {
            match left_alone {
                SkipReason::Finished | SkipReason::ManagedExternally(_) => {}
                SkipReason::UnknownCompletionMode => {
                    let message = "Skipped Job sync because completion mode is unknown";
                    io.record_event(EventType::Warning, "UnknownCompletionMode", message);
                }
                SkipReason::InvalidSelector(problem) => {
                    io.apply_memory_note(Note::InvalidSelector(problem.to_string()));
                }
            }
            return untracked.first_error(REMOVING_FINALIZER).map_or(Ok(Requeue::AfterPlannedDelay), Err);
        }
    };
    // The value of the metric label `action` if the sync fails before it creates or deletes Pods.
    let mut action = "reconciling";
    let outcome = sync(snapshot, sync_plan, &untracked, &mut action, io).await;
    io.apply_memory_note(Note::SyncFinished {
        is_ok: outcome.is_ok(),
        action,
        elapsed: io.now().duration_since(snapshot.now),
    });
    outcome
}

/// The beginning of an error message about a finalizer that was not removed; the namespace and name of the Pod follow.
const REMOVING_FINALIZER: &str = "removing the finalizer of pod";

async fn sync(
    snapshot: &Snapshot,
    plan: &SyncPlan,
    uncounted: &FinalizerRemovalResult<'_>,
    action: &mut &'static str,
    io: Io<'_>,
) -> Result<Requeue, SyncError> {
    let claims = &snapshot.pod_claims;
    let claim = ChildClaim::new(&snapshot.owner, PODS, &claims.to_adopt, &claims.to_release)
        .with_finalizers(&[JOB_TRACKING_FINALIZER]);
    let mut claim = claim.send(io).await;
    claim.record_event_if_denied(io);
    if claim.has_only_conflicts() {
        return Ok(Requeue::Conflict);
    }
    claim.take_claim_result().map_err(|failed| failed.with_context("cannot claim Pods"))?;
    // The plan assumes that every adoption succeeds, so a refused adoption requires a new decision.
    let plan = if claim.has_adopted_all() {
        Cow::Borrowed(plan)
    } else {
        let adopted: Vec<SharedPod> = claim.adopted_children().cloned().collect();
        Cow::Owned(decide_with_adopted_pods(snapshot, &adopted))
    };
    let SyncPlan { pod_summary: situation, scaling_decision: manage, .. } = &*plan;
    // The `PodGroup` must exist before the Pods, because each new Pod refers to it by name.
    let group = gang::ensure_workload_and_pod_group(snapshot, situation, plan.pod_scheduling.clone(), io).await?;

    *action = manage.metric_action_label();
    let (mut writes, failed) = match manage {
        ScalingDecision::Create { pods, .. } => pods::create_pods(snapshot, situation, pods, group.as_ref(), io).await,
        _ => pods::delete_pods(situation, manage, io).await,
    };

    let managed = manage::pod_counts_after_scaling(snapshot, situation, manage, &writes);
    let tracked = first_status::decide_first_status(snapshot, situation, manage, &managed, io.now());
    if let Some(suspension) = tracked.suspension_change {
        let (reason, message) = suspension.event_reason_and_message();
        io.record_event(EventType::Normal, reason, message);
    }
    let counted = count::write_statuses_and_remove_finalizers(snapshot, situation, &managed, &tracked, io).await?;
    if let Some(failed) = failed.or_else(|| uncounted.first_error(REMOVING_FINALIZER)) {
        return Err(failed);
    }
    writes.conflict_count += uncounted.conflict_count() + counted.conflict_count();
    Ok(decide_requeue(snapshot, &plan, &tracked, &writes, counted.pods_without_finalizer.len()))
}

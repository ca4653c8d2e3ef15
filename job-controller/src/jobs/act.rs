//! Sends the requests of a Job's plan: first claims, then the gang, then Pods, then the writes that count finished Pods.

mod body;
mod count;
pub(crate) mod finalizers;
mod gang;
mod pods;

use std::borrow::Cow;

use common::{pods::PODS, prelude::*};

use self::finalizers::FinalizerRemoval;
use super::{
    JobController, REMOVING_FINALIZER,
    decide::{decide_requeue, decide_with_adopted_pods, first_status::decide_first_status},
    plan::{JobSyncPlan, ScalingDecision},
    snapshot::{SharedPod, Snapshot},
};
use crate::objects::JOB_TRACKING_FINALIZER;

/// Sends the requests of a plan after `finalizer_removal`, and returns the time of the Job's next sync. Sets the value of the
/// metric label `action`.
pub(super) async fn sync(
    snapshot: &Snapshot,
    sync_plan: &JobSyncPlan,
    finalizer_removal: &FinalizerRemoval<'_>,
    action: &mut &'static str,
    io: Io<'_, JobController>,
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
    let sync_plan = if claim.has_adopted_all() {
        Cow::Borrowed(sync_plan)
    } else {
        let adopted_pods: Vec<SharedPod> = claim.adopted_children().cloned().collect();
        Cow::Owned(decide_with_adopted_pods(snapshot, &adopted_pods))
    };
    let JobSyncPlan { pod_summary, scaling_decision, .. } = &*sync_plan;
    // The `PodGroup` must exist before the Pods, because each new Pod refers to it by name.
    let pod_scheduling = sync_plan.pod_scheduling.clone();
    let group = gang::ensure_workload_and_pod_group(snapshot, pod_summary, pod_scheduling, io).await?;

    *action = scaling_decision.metric_action_label();
    let (mut pod_writes, error) = match scaling_decision {
        ScalingDecision::Create { pods, .. } => {
            pods::create_pods(snapshot, pod_summary, pods, group.as_ref(), io).await
        }
        _ => pods::delete_pods(pod_summary, scaling_decision, io).await,
    };

    // The plan assumes that every request succeeds, so the status is decided again with the outcome.
    let first_status_write = decide_first_status(snapshot, pod_summary, scaling_decision, &pod_writes, io.now());
    if let Some(suspension_change) = first_status_write.suspension_change {
        let (reason, message) = suspension_change.event_reason_and_message();
        io.record_event(EventType::Normal, reason, message);
    }
    let counted = count::write_statuses_and_remove_finalizers(snapshot, pod_summary, &first_status_write, io).await?;
    if let Some(error) = error.or_else(|| finalizer_removal.first_error(REMOVING_FINALIZER)) {
        return Err(error);
    }
    pod_writes.conflict_count += finalizer_removal.conflict_count() + counted.conflict_count();
    Ok(decide_requeue(snapshot, &sync_plan, &first_status_write, &pod_writes, &counted.pods_without_finalizer))
}

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
    io::{Claim, Failed, Requeue},
    pods::PODS,
};

pub(super) use self::note::Note;
use self::{
    finalizers::{Untracked, untrack_all},
    note::Io,
};
use super::{
    decide::{decide_adopting, manage, requeue::requeue, track},
    plan::{LeftAlone, Manage, Plan, SyncPlan},
    snapshot::{PodRef, Snapshot},
};
use crate::objects::JOB_TRACKING;

/// Sends the requests of a plan. Returns when the Job is synced again.
pub(crate) async fn act(snapshot: &Snapshot, plan: &Plan, io: Io<'_>) -> Result<Requeue, Failed> {
    // These finalizers are removed first, even if the Job cannot be synced.
    let why = "the terminating Job does not count this Pod";
    let untracked = untrack_all(plan.untrack_uncounted.iter().collect(), why, io).await;
    untracked.report_denied(io);

    let sync_plan = match &plan.sync {
        Ok(sync_plan) => sync_plan,
        Err(left_alone) => {
            match left_alone {
                LeftAlone::Finished | LeftAlone::ManagedBy(_) => {}
                LeftAlone::UnknownCompletionMode => {
                    let message = "Skipped Job sync because completion mode is unknown";
                    io.event(EventType::Warning, "UnknownCompletionMode", message);
                }
                LeftAlone::Selector(problem) => io.note(Note::BrokenSelector(problem.to_string())),
            }
            return untracked.failure(UNTRACKING).map_or(Ok(Requeue::AsPlanned), Err);
        }
    };
    // The value of the metric label `action` if the sync fails before it creates or deletes Pods.
    let mut action = "reconciling";
    let outcome = sync(snapshot, sync_plan, &untracked, &mut action, io).await;
    io.note(Note::Synced { is_ok: outcome.is_ok(), action, took: io.now().duration_since(snapshot.now) });
    outcome
}

/// The beginning of the error about a finalizer that was not removed; the key of the Pod follows.
const UNTRACKING: &str = "removing the finalizer of pod";

async fn sync(
    snapshot: &Snapshot,
    plan: &SyncPlan,
    uncounted: &Untracked<'_>,
    action: &mut &'static str,
    io: Io<'_>,
) -> Result<Requeue, Failed> {
    let claims = &snapshot.claims;
    let claim = Claim::new(&snapshot.owner, PODS, &claims.adopt, &claims.release).finalizers(&[JOB_TRACKING]);
    let mut claim = claim.send(io).await;
    claim.report_denied(io);
    if claim.found_only_changes() {
        return Ok(Requeue::Conflict);
    }
    claim.result().map_err(|failed| failed.while_doing("cannot claim Pods"))?;
    // The plan assumes that every adoption succeeds.
    let plan = if claim.is_complete() {
        Cow::Borrowed(plan)
    } else {
        let adopted: Vec<PodRef> = claim.adopted().cloned().collect();
        Cow::Owned(decide_adopting(snapshot, &adopted))
    };
    let SyncPlan { situation, manage, .. } = &*plan;
    // The `PodGroup` must exist before the Pods, because each new Pod names its group.
    let group = gang::ensure(snapshot, situation, plan.gang.clone(), io).await?;

    *action = manage.label();
    let (mut writes, failed) = match manage {
        Manage::Create { pods, .. } => pods::create(snapshot, situation, pods, group.as_ref(), io).await,
        _ => pods::remove(situation, manage, io).await,
    };

    let managed = manage::managed(snapshot, situation, manage, &writes);
    let tracked = track::track(snapshot, situation, manage, &managed, io.now());
    if let Some(suspension) = tracked.suspension {
        let (reason, message) = suspension.event();
        io.event(EventType::Normal, reason, message);
    }
    let counted = count::count(snapshot, situation, &managed, &tracked, io).await?;
    if let Some(failed) = failed.or_else(|| uncounted.failure(UNTRACKING)) {
        return Err(failed);
    }
    writes.changed += uncounted.changed() + counted.changed();
    Ok(requeue(snapshot, &plan, &tracked, &writes, counted.done.len()))
}

//! Sends the requests of a sync in this order: revisions, Pods, the deletion of old revisions, the status.

mod body;
mod note;
mod pods;
mod refusals;
mod revisions;

use std::time::Duration;

use common::{
    events::EventType,
    io::{Request, Requeue, SyncError},
};
use serde_json::json;

pub(crate) use self::note::Note;
use self::{note::Io, refusals::sync_error_from_status_refusal};
use crate::{
    objects::DAEMON_SETS,
    plan::{Plan, SelectorProblem, SyncScope},
    snapshot::Snapshot,
};

/// Sends the requests of a plan. Returns the time of the next sync of the DaemonSet.
pub(crate) async fn act(snapshot: &Snapshot, plan: &Plan, io: Io<'_>) -> Result<Requeue, SyncError> {
    match (&plan.selector_problem, plan.sync_scope) {
        (Some(problem @ SelectorProblem::EmptySelector), _) => {
            io.record_event(EventType::Warning, "SelectingAll", problem.to_string());
            Ok(Requeue::AfterPlannedDelay)
        }
        (Some(SelectorProblem::InvalidSelector(error)), _) => {
            io.apply_memory_note(Note::InvalidSelector(error.to_string()));
            Ok(Requeue::AfterPlannedDelay)
        }
        (None, SyncScope::Nothing) => Ok(Requeue::AfterPlannedDelay),
        (None, SyncScope::StatusOnly) => write_status(plan, io).await.map(|()| Requeue::AfterPlannedDelay),
        (None, SyncScope::ClaimsOnly | SyncScope::Everything) => claim_and_manage(snapshot, plan, io).await,
    }
}

/// Writes revisions, and adopts and releases Pods. With the scope `Everything`, also manages Pods and writes the status.
async fn claim_and_manage(snapshot: &Snapshot, plan: &Plan, io: Io<'_>) -> Result<Requeue, SyncError> {
    // The first change that the server has denied. The sync continues without the change, and returns this failure at its end.
    let mut denied: Option<SyncError> = None;
    if !revisions::adopt_release_and_label(snapshot, &mut denied, io).await? {
        return Ok(Requeue::AfterPlannedDelay);
    }
    let relabelled = pods::relabel(snapshot, &mut denied, io).await?;
    revisions::delete_duplicates(snapshot, &relabelled.hashes_still_on_pods, &mut denied, io).await?;
    if !revisions::write_current_revision(snapshot, io).await? {
        return Ok(Requeue::AfterPlannedDelay);
    }
    let adopted = pods::adopt_and_release(snapshot, plan, &mut denied, io).await?;
    if plan.sync_scope == SyncScope::ClaimsOnly {
        return denied.map_or_else(|| Ok(requeue_for_remaining_work(adopted + relabelled.relabelled_pod_count)), Err);
    }

    let created = pods::create(snapshot, plan, io).await;
    // Pods are deleted even if some creations have failed.
    let deleted = pods::delete(snapshot, plan, io).await;
    let managed = created.and_then(|created| Ok(created + deleted?));
    let forgotten = match &managed {
        Ok(_) => {
            let why = "the history is longer than its limit";
            revisions::delete(plan.revisions_to_delete.iter(), why, &mut denied, io).await
        }
        Err(_) => Ok(()),
    };
    let status_written = write_status(plan, io).await;
    let managed = managed?;
    forgotten.and(status_written)?;
    if let Some(denied) = denied {
        return Err(denied);
    }
    Ok(match (plan.deferred_node_counts.total(), plan.deferred_adoption_count) {
        // A creation without an answer is checked again when it can no longer take effect. The back-off of the key is kept.
        (0, 0) => snapshot
            .nodes_with_unanswered_pod_creation
            .values()
            .min()
            .map_or(Requeue::AfterPlannedDelay, |left| Requeue::AfterPartialWork(*left)),
        (0, _) => Requeue::AfterBackoff,
        _ => requeue_for_remaining_work(managed),
    })
}

/// Writes the status if it differs from the stored one, with the version of the DaemonSet as a precondition. Succeeds if the
/// DaemonSet has been deleted.
///
/// After a conflict, upstream writes the same status onto the newer DaemonSet, even if that is a new object of the same name
/// (`pkg/controller/daemon`, `storeDaemonSetStatus`). Here a conflict fails the sync, and the next sync computes a new status.
async fn write_status(plan: &Plan, io: Io<'_>) -> Result<(), SyncError> {
    if !plan.writes_status() {
        return Ok(());
    }
    let body = io.encode_body(|| json!({"status": plan.status}));
    match io.send(Request::patch_status(DAEMON_SETS, &plan.set.metadata, body)).await {
        Err(refusal) if !refusal.error.is_not_found() => Err(sync_error_from_status_refusal(&plan.set, &refusal)),
        _ => Ok(()),
    }
}

/// Returns the delay before the sync that does the remaining work. `effective` counts the requests that changed an object.
///
/// If `effective` is above 0, the next sync needs no delay, because it begins by waiting for the caches. If it is 0, all
/// Pods were already deleted, and the back-off limits the repetition of the requests until the cache shows the deletions.
fn requeue_for_remaining_work(effective: usize) -> Requeue {
    if effective > 0 { Requeue::After(Duration::ZERO) } else { Requeue::AfterBackoff }
}

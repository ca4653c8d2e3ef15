//! Sends the requests of a sync in this order: revisions, Pods, the deletion of old revisions, the status.

mod body;
mod pods;
mod revisions;

use std::time::Duration;

use common::prelude::*;

use crate::{
    DaemonSetController,
    objects::{DAEMON_SETS, DaemonSet},
    plan::{Plan, SyncScope},
    snapshot::Snapshot,
};

/// The access of a sync to the API server and to the controller's memory.
type SetIo<'r> = Io<'r, DaemonSetController>;

/// Writes revisions, and adopts and releases Pods. With the scope `Everything`, also manages Pods and writes the status.
pub(crate) async fn claim_and_manage(snapshot: &Snapshot, plan: &Plan, io: SetIo<'_>) -> Result<Requeue, SyncError> {
    // The first change that the server has denied. The sync continues without the change, and returns this failure at its end.
    let mut denial_error: Option<SyncError> = None;
    if !revisions::adopt_release_and_label(snapshot, &mut denial_error, io).await? {
        return Ok(Requeue::AfterPlannedDelay);
    }
    let relabelled = pods::relabel(snapshot, &mut denial_error, io).await?;
    revisions::delete_duplicates(snapshot, &relabelled.hashes_still_on_pods, &mut denial_error, io).await?;
    if !revisions::write_current_revision(snapshot, io).await? {
        return Ok(Requeue::AfterPlannedDelay);
    }
    let adopted = pods::adopt_and_release(snapshot, plan, &mut denial_error, io).await?;
    if plan.sync_scope == SyncScope::ClaimsOnly {
        return denial_error
            .map_or_else(|| Ok(requeue_for_remaining_work(adopted + relabelled.relabelled_pod_count)), Err);
    }

    let created = pods::create(snapshot, plan, io).await;
    // Pods are deleted even if some creations have failed.
    let deleted = pods::delete(snapshot, plan, io).await;
    let managed = created.and_then(|created| Ok(created + deleted?));
    let (mut forgotten, why) = (Ok(()), "the history is longer than its limit");
    if managed.is_ok() {
        forgotten = revisions::delete(snapshot, plan.revisions_to_delete.iter(), why, &mut denial_error, io).await;
    }
    let status_written = write_status(plan, io).await;
    let managed = managed?;
    forgotten.and(status_written)?;
    if let Some(error) = denial_error {
        return Err(error);
    }
    Ok(match (plan.deferred_node_counts.total(), plan.deferred_adoption_count) {
        // A creation without an answer is checked again when it can no longer take effect. The back-off of the key is kept.
        (0, 0) => {
            let time_left = snapshot.actionable_nodes.delayed_pod_creations.unanswered.values().min();
            time_left.map_or(Requeue::AfterPlannedDelay, |time_left| Requeue::AfterPartialWork(*time_left))
        }
        (0, _) => Requeue::AfterBackoff,
        _ => requeue_for_remaining_work(managed),
    })
}

/// Writes the status if it differs from the stored one, with the version of the DaemonSet as a precondition. Succeeds if the
/// DaemonSet has been deleted.
///
/// After a conflict, upstream writes the same status onto the newer DaemonSet, even if that is a new object of the same name
/// (`pkg/controller/daemon`, `storeDaemonSetStatus`). Here a conflict fails the sync, and the next sync computes a new status.
pub(crate) async fn write_status(plan: &Plan, io: SetIo<'_>) -> Result<(), SyncError> {
    if !plan.writes_status() {
        return Ok(());
    }
    let DaemonSet { metadata, status: cached_status, .. } = plan.set.as_ref();
    let body = io.encode_status::<DaemonSet>(metadata.replacement(), &plan.status, &cached_status.undeclared);
    match io.send(Request::replace_status(DAEMON_SETS, metadata, body)).await {
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

/// Converts the refusal of a status write into the failure of the sync, with upstream's message.
fn sync_error_from_status_refusal(set: &DaemonSet, refusal: &Refusal) -> SyncError {
    SyncError::from_refusal_in_namespace(
        &format!("error storing status for daemon set {}", set.metadata.key()),
        refusal,
    )
}

/// Records an Event about a denied change of a revision or a Pod, and the back-off because of which the next syncs omit the
/// change. `verb` names the change, for example `release`. Returns `None` if the refusal is not a denial.
fn report_denied_change(
    snapshot: &Snapshot,
    verb: &str,
    resource: &Resource,
    object: &Meta,
    refusal: &Refusal,
    io: SetIo<'_>,
) -> Option<SyncError> {
    if !refusal.error.is_denied() {
        return None;
    }
    io.update_memory(|controller| controller.record_denied_change(snapshot, resource, object));
    let message = format!("cannot {verb} {} {}", resource.kind(), object.name);
    let reason = if verb == "delete" { "FailedDelete" } else { "FailedUpdate" };
    io.record_event(EventType::Warning, reason, format!("Error: {message}: {}", refusal.error));
    Some(SyncError::from_refusal_in_namespace(&message, refusal))
}

impl DaemonSetController {
    fn record_denied_change(&self, snapshot: &Snapshot, resource: &Resource, object: &Meta) {
        let now = self.context.clock.monotonic_now();
        self.change_record(snapshot, |record| record.denied_changes_of(resource).record_denial(object, now));
    }
}

/// Returns `false` only for a version conflict. Otherwise the server would probably refuse the same request again.
fn is_likely_permanent(refusal: &Refusal) -> bool {
    refusal.class != RefusalClass::VersionConflict
}

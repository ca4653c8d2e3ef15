//! Sends the requests of a plan: adoptions, the revision of the template, Pods phase by phase, the status, the history.

mod body;
mod note;
mod pod;
mod request;
mod templates;

use std::{borrow::Cow, time::Duration};

use common::{
    events::EventType,
    io::{
        ChildClaim, GroupConcurrency, RefusalClass, Request, Requeue, RevisionChange, RevisionChangeError,
        RevisionStoreOutcome, RevisionStoreRequest, SyncError, delete_revision,
    },
    pods::PODS,
    revision::CONTROLLER_REVISIONS,
};
use serde_json::{Value, json};

pub(crate) use self::note::{NamesakeState, Note};
use self::{
    note::Io,
    request::{request_failure, write_role},
    templates::PhaseTemplates,
};
use crate::{
    decide::{self, history, revisions, status},
    objects::{STATEFUL_SETS, Status},
    plan::{
        Plan, PodPlan, UnmanagedReason,
        revisions::{RevisionWrite, Revisions},
    },
    snapshot::{SharedPod, Snapshot},
};

/// Sends the requests of a plan. If an adoption fails or the revision gets another name, decides the work on Pods again.
pub(crate) async fn act(snapshot: &Snapshot, plan: &Plan, io: Io<'_>) -> Result<Requeue, SyncError> {
    if let Some(problem) = &plan.unmanaged_reason {
        if let UnmanagedReason::TooManyClaims { .. } = problem {
            io.record_event(EventType::Warning, "TooManyClaims", problem.to_string());
        }
        io.apply_memory_note(Note::UnmanagedReason(problem.clone()));
        return Ok(Requeue::AfterPlannedDelay);
    }
    for mismatch in &plan.mismatches_to_report {
        io.record_event(EventType::Warning, "ClaimMismatch", mismatch.to_string());
        io.apply_memory_note(Note::MismatchReported(mismatch.describe_difference(), io.now()));
    }

    adopt_revisions(snapshot, io).await?;
    let Snapshot { set, owner, pods, .. } = snapshot;
    let mut claim = ChildClaim::new(owner, PODS, &pods.to_adopt, &pods.to_release)
        .with_adoption_labels(missing_labels)
        .send(io)
        .await;
    claim.record_event_if_denied(io);
    claim.take_claim_result().map_err(|failed| failed.with_context("cannot claim Pods"))?;
    for labelled in claim.adopted_children().filter(|pod| pod.lacks_name_label()) {
        let (pod, set) = (&labelled.meta().name, &set.metadata.name);
        io.record_event(
            EventType::Normal,
            "SuccessfulUpdate",
            format!("Update Pod {pod} in StatefulSet {set} successful"),
        );
    }
    let claimed: Vec<SharedPod> = pods.to_keep.iter().chain(claim.adopted_children()).cloned().collect();

    let Some(revisions) = write_revision(snapshot, &plan.revisions, io).await? else {
        return Ok(Requeue::AfterPlannedDelay);
    };
    // The plan assumes that every adoption succeeds and that the new revision gets its planned name.
    let reconcile = if claim.has_adopted_all() && revisions.update_revision.name == plan.revisions.update_revision.name
    {
        Cow::Borrowed(&plan.pod_plan)
    } else {
        Cow::Owned(decide::plan_pod_work(snapshot, &claimed, &revisions))
    };
    let (lowered, worked) = work_on_pods(snapshot, &revisions, &reconcile, io).await;

    if let Some(unavailable) = reconcile.unavailable_pods {
        io.apply_memory_note(Note::RolloutProgress(unavailable));
    }
    io.apply_memory_note(Note::AwaitedClaims(reconcile.volume_claims_to_await.clone()));
    let status =
        status::complete_rollout(set, &status::with_lowered_current_replicas(&reconcile.status_before_work, lowered));
    let status_written = write_status(snapshot, &status, io).await;
    let forgotten = forget_revisions(snapshot, &revisions, &claimed, io).await;
    worked.and(status_written).and(forgotten)?;

    // The next sync handles the remaining Pods. It starts only after the caches show the Pods that this sync created.
    if reconcile.deferred_pod_count > 0 {
        return Ok(Requeue::After(Duration::ZERO));
    }
    let check = status::time_to_next_availability(set, &claimed, &status, snapshot.now, io.now());
    Ok(check.map_or(Requeue::AfterPlannedDelay, Requeue::After))
}

async fn adopt_revisions(snapshot: &Snapshot, io: Io<'_>) -> Result<(), SyncError> {
    const DOING: &str = "can't adopt ControllerRevisions";
    let mut claim =
        ChildClaim::new(&snapshot.owner, CONTROLLER_REVISIONS, &snapshot.revisions.to_adopt, &[]).send(io).await;
    claim.record_event_if_denied(io);
    claim.take_claim_result().map_err(|failed| failed.with_context(DOING))?;
    match claim.first_missing_orphan() {
        // The plan relies on a revision that no longer exists. The next sync decides without this revision.
        Some(gone) => Err(SyncError::new("gone", format!("{DOING}: {} is gone", gone.meta.name))),
        None => Ok(()),
    }
}

/// Returns the labels to add to a Pod that lacks the label by which Pods are watched; `None` if the Pod has the label.
fn missing_labels(pod: &SharedPod) -> Option<Value> {
    pod.lacks_name_label().then(|| body::identity_labels(&pod.meta().name, pod.ordinal()))
}

/// Writes the revision of the template, and returns the revisions after the write. Returns `None` if the set no longer exists
/// or the process is shutting down. The sync then ends.
async fn write_revision<'p>(
    snapshot: &Snapshot,
    planned: &'p Revisions,
    io: Io<'_>,
) -> Result<Option<Cow<'p, Revisions>>, SyncError> {
    let (revision, number) = match &planned.revision_write {
        RevisionWrite::Nothing => return Ok(Some(Cow::Borrowed(planned))),
        RevisionWrite::Create { number } => return store_revision(snapshot, planned, *number, io).await,
        RevisionWrite::Renumber { revision, number } => (&revision.meta, *number),
    };
    let name = &revision.name;
    match io
        .await_unless_shutting_down(RevisionChange::set_revision_number(&snapshot.owner, revision, number, io))
        .await
    {
        None => Ok(None),
        Some(Ok(())) => Ok(Some(Cow::Borrowed(planned))),
        Some(Err(RevisionChangeError::RevisionLost)) => {
            Err(SyncError::new("gone", format!("can't adopt ControllerRevisions: {name} is gone")))
        }
        Some(Err(RevisionChangeError::RequestRefused(refusal))) => {
            Err(request_failure(&format!("cannot renumber ControllerRevision {name}"), &refusal))
        }
    }
}

/// Stores a new revision. A revision with the same name and data is used instead. If the name is taken by other data, the next
/// name is tried. Upstream: `pkg/controller/history`, `CreateControllerRevision`.
async fn store_revision<'p>(
    snapshot: &Snapshot,
    planned: &'p Revisions,
    number: i64,
    io: Io<'_>,
) -> Result<Option<Cow<'p, Revisions>>, SyncError> {
    let Snapshot { set, template, owner, .. } = snapshot;
    let mut collisions = planned.collision_count;
    loop {
        let name = revisions::revision_name(set, &revisions::template_hash(template, collisions));
        let body = body::build_revision(snapshot, number, planned.collision_count, &name)
            .map_err(|error| SyncError::new("template", format!("cannot make a revision: {error}")))?;
        let why = format!("the template is new, its revision is number {number}");
        let store = RevisionStoreRequest::new(owner, &name, template.revision_data(), why);
        let was_stored_before = set.status.observed_generation == set.metadata.generation;
        let store = if was_stored_before { store.only_if_owner_exists() } else { store };
        match io.await_unless_shutting_down(store.send(io.encode_body(|| body), io)).await {
            // An existing revision may have other labels. They do not matter, because Pods only name their revision.
            Some(Ok(RevisionStoreOutcome::Created | RevisionStoreOutcome::AlreadyExists(_))) => {
                let is_as_planned = *planned.update_revision.name == *name;
                let created = || Cow::Owned(revisions::with_created_revision(planned, template, &name, collisions));
                return Ok(Some(if is_as_planned { Cow::Borrowed(planned) } else { created() }));
            }
            Some(Ok(RevisionStoreOutcome::NameTaken(_))) => {
                let unnamed = || format!("cannot make a name for a revision of {}", set.metadata.name);
                collisions = collisions.checked_add(1).ok_or_else(|| SyncError::new("template", unnamed()))?;
            }
            Some(Ok(RevisionStoreOutcome::OwnerGone)) | None => return Ok(None),
            Some(Err(refusal)) => {
                // The set cannot create Pods without this revision, so a denial is reported.
                if refusal.class == RefusalClass::NotWritten && refusal.error.is_denied() {
                    let message = format!("Error creating ControllerRevision {name}: {}", refusal.error);
                    io.record_event(EventType::Warning, "FailedCreate", message);
                }
                return Err(request_failure(&format!("cannot create ControllerRevision {name}"), &refusal));
            }
        }
    }
}

/// Works on Pods, phase by phase until one fails. Returns the number of deleted Pods of the current revision, and the failure.
async fn work_on_pods(
    snapshot: &Snapshot,
    revisions: &Revisions,
    reconcile: &PodPlan,
    io: Io<'_>,
) -> (i32, Result<(), SyncError>) {
    let mut lowered = 0;
    for phase in &reconcile.phases {
        let templates = &PhaseTemplates::read_for_phase(phase, snapshot, revisions, io).await;
        let each = |work| pod::work_on_pod(snapshot, work, templates, io);
        let done = io.run_group(phase.concurrency, &phase.work, each).await;
        let successes = phase.work.iter().zip(&done).filter(|(_, done)| done.is_ok());
        lowered += successes.filter(|(work, _)| work.lowers_current_replicas()).count() as i32;
        if let Some(failed) = done.into_iter().find_map(Result::err) {
            return (lowered, Err(failed));
        }
    }
    (lowered, Ok(()))
}

/// Writes the status if it differs from the stored status, with the version of the set as a precondition. A 404 is no error.
///
/// After a conflict, upstream writes the same status onto the newer set (`pkg/controller/statefulset`,
/// `UpdateStatefulSetStatus`). This function fails the sync instead, and the next sync computes the status of the newer set.
async fn write_status(snapshot: &Snapshot, status: &Status, io: Io<'_>) -> Result<(), SyncError> {
    let set = &snapshot.set;
    if !status.differs_from(&set.status) {
        return Ok(());
    }
    let body = io.encode_body(|| json!({"status": status}));
    match io.send(Request::patch_status(STATEFUL_SETS, &set.metadata, body).with_role(write_role(snapshot))).await {
        Err(refusal) if !refusal.error.is_not_found() => Err(request_failure("cannot write the status", &refusal)),
        _ => Ok(()),
    }
}

/// Deletes the unused revisions beyond the history limit, the oldest first.
async fn forget_revisions(
    snapshot: &Snapshot,
    revisions: &Revisions,
    claimed: &[SharedPod],
    io: Io<'_>,
) -> Result<(), SyncError> {
    let (why, what) = ("the history is longer than its limit", "cannot delete ControllerRevision");
    let forgotten = &history::revisions_to_delete(&snapshot.set, revisions, claimed);
    let deleted = io
        .run_group(GroupConcurrency::Sequential, forgotten, |revision| delete_revision(&revision.meta, why, what, io))
        .await;
    deleted.into_iter().collect()
}

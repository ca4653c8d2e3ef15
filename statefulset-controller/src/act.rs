//! Sends the requests of a plan: adoptions, the revision of the template, Pods phase by phase, the status, the history.

mod body;
mod pod;
mod templates;

use std::borrow::Cow;

use common::{
    io::{RevisionChange, RevisionChangeError, RevisionStoreOutcome, RevisionStoreRequest, delete_revision},
    prelude::*,
    revision::CONTROLLER_REVISIONS,
};
use serde_json::Value;

use self::templates::PhaseTemplates;
use crate::{
    StatefulSetController,
    decide::revisions,
    objects::{STATEFUL_SETS, StatefulSet, Status},
    plan::{
        PodPlan,
        revisions::{RevisionWrite, Revisions},
    },
    snapshot::{SharedPod, Snapshot},
};

/// The access of a sync to the API server and to the controller's memory.
type SetIo<'r> = Io<'r, StatefulSetController>;

pub(crate) async fn adopt_revisions(snapshot: &Snapshot, io: SetIo<'_>) -> Result<(), SyncError> {
    const DOING: &str = "can't adopt ControllerRevisions";
    let mut claim =
        ChildClaim::new(&snapshot.owner, CONTROLLER_REVISIONS, &snapshot.revisions.to_adopt, &[]).send(io).await;
    claim.record_event_if_denied(io);
    claim.take_claim_result().map_err(|error| error.with_context(DOING))?;
    match claim.first_missing_orphan() {
        // The plan relies on a revision that no longer exists. The next sync decides without this revision.
        Some(gone) => Err(SyncError::new(SyncErrorClass::Gone, format!("{DOING}: {} is gone", gone.meta.name))),
        None => Ok(()),
    }
}

/// Returns the labels to add to a Pod that lacks the label by which Pods are watched; `None` if the Pod has the label.
pub(crate) fn missing_labels(pod: &SharedPod) -> Option<Value> {
    pod.lacks_name_label().then(|| body::identity_labels(&pod.meta().name, pod.ordinal()))
}

/// Writes the revision of the template, and returns the revisions after the write. Returns `None` if the set no longer exists
/// or the process is shutting down. The sync then ends.
pub(crate) async fn write_revision<'p>(
    snapshot: &Snapshot,
    planned_revisions: &'p Revisions,
    io: SetIo<'_>,
) -> Result<Option<Cow<'p, Revisions>>, SyncError> {
    let (revision, number) = match &planned_revisions.revision_write {
        RevisionWrite::Nothing => return Ok(Some(Cow::Borrowed(planned_revisions))),
        RevisionWrite::Create { number } => return store_revision(snapshot, planned_revisions, *number, io).await,
        RevisionWrite::Renumber { revision, number } => (&revision.meta, *number),
    };
    let name = &revision.name;
    let renumber = RevisionChange::set_revision_number(&snapshot.owner, revision, number, io);
    match io.await_unless_shutting_down(renumber).await {
        None => Ok(None),
        Some(Ok(())) => Ok(Some(Cow::Borrowed(planned_revisions))),
        Some(Err(RevisionChangeError::RevisionLost)) => {
            Err(SyncError::new(SyncErrorClass::Gone, format!("can't adopt ControllerRevisions: {name} is gone")))
        }
        Some(Err(RevisionChangeError::RequestRefused(refusal))) => {
            Err(SyncError::from_refusal_in_namespace(&format!("cannot renumber ControllerRevision {name}"), &refusal))
        }
    }
}

/// Stores a new revision. A revision with the same name and data is used instead. If the name is taken by other data, the next
/// name is tried. Upstream: `pkg/controller/history`, `CreateControllerRevision`.
async fn store_revision<'p>(
    snapshot: &Snapshot,
    planned_revisions: &'p Revisions,
    number: i64,
    io: SetIo<'_>,
) -> Result<Option<Cow<'p, Revisions>>, SyncError> {
    let Snapshot { set, template, owner, .. } = snapshot;
    let mut collisions = planned_revisions.collision_count;
    loop {
        let name = revisions::revision_name(set, &revisions::template_hash(template, collisions));
        let body = body::build_revision(snapshot, number, planned_revisions.collision_count, &name)
            .map_err(|error| SyncError::new(SyncErrorClass::Template, format!("cannot make a revision: {error}")))?;
        let why = format!("the template is new, its revision is number {number}");
        let store = RevisionStoreRequest::new(owner, &name, template.revision_data(), why);
        let was_stored_before = set.status.observed_generation == set.metadata.generation;
        let store = if was_stored_before { store.only_if_owner_exists() } else { store };
        match io.await_unless_shutting_down(store.send(io.encode_body(|| body), io)).await {
            // An existing revision may have other labels. They do not matter, because Pods only name their revision.
            Some(Ok(RevisionStoreOutcome::Created | RevisionStoreOutcome::AlreadyExists(_))) => {
                let is_as_planned = *planned_revisions.update_revision.name == *name;
                let created =
                    || Cow::Owned(revisions::with_created_revision(planned_revisions, template, &name, collisions));
                return Ok(Some(if is_as_planned { Cow::Borrowed(planned_revisions) } else { created() }));
            }
            Some(Ok(RevisionStoreOutcome::NameTaken(_))) => {
                let unnamed = || format!("cannot make a name for a revision of {}", set.metadata.name);
                collisions =
                    collisions.checked_add(1).ok_or_else(|| SyncError::new(SyncErrorClass::Template, unnamed()))?;
            }
            Some(Ok(RevisionStoreOutcome::OwnerGone)) | None => return Ok(None),
            Some(Err(refusal)) => {
                // The set cannot create Pods without this revision, so a denial is reported.
                if refusal.class == RefusalClass::NotWritten && refusal.error.is_denied() {
                    let message = format!("Error creating ControllerRevision {name}: {}", refusal.error);
                    io.record_event(EventType::Warning, "FailedCreate", message);
                }
                return Err(SyncError::from_refusal_in_namespace(
                    &format!("cannot create ControllerRevision {name}"),
                    &refusal,
                ));
            }
        }
    }
}

/// Works on Pods, phase by phase until one fails. Returns the number of deleted Pods of the current revision, and the failure.
pub(crate) async fn work_on_pods(
    snapshot: &Snapshot,
    revisions: &Revisions,
    pod_plan: &PodPlan,
    io: SetIo<'_>,
) -> (i32, Result<(), SyncError>) {
    let mut lowered = 0;
    for phase in &pod_plan.phases {
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
pub(crate) async fn write_status(snapshot: &Snapshot, status: &Status, io: SetIo<'_>) -> Result<(), SyncError> {
    let set = &snapshot.set;
    if !status.differs_from(&set.status) {
        return Ok(());
    }
    let body = io.encode_status::<StatefulSet>(set.metadata.replacement(), status, &set.status.undeclared);
    match io.send(Request::replace_status(STATEFUL_SETS, &set.metadata, body).with_role(write_role(snapshot))).await {
        Err(refusal) if !refusal.error.is_not_found() => {
            Err(SyncError::from_refusal_in_namespace("cannot write the status", &refusal))
        }
        _ => Ok(()),
    }
}

/// Deletes the unused revisions beyond the history limit, the oldest first.
pub(crate) async fn forget_revisions(
    snapshot: &Snapshot,
    revisions: &Revisions,
    claimed_pods: &[SharedPod],
    io: SetIo<'_>,
) -> Result<(), SyncError> {
    let (why, what) = ("the history is longer than its limit", "cannot delete ControllerRevision");
    let surplus = &revisions::revisions_to_delete(&snapshot.set, revisions, claimed_pods);
    let deleted =
        io.run_group(GroupConcurrency::Sequential, surplus, |revision| delete_revision(&revision.meta, why, what, io));
    deleted.await.into_iter().collect()
}

/// Returns the role of all writes. With `StaleControllerConsistencyStatefulSet`, the next sync waits for the new versions.
///
/// Names of Pods and claims are known in advance, so a lost answer cannot hide a new object.
fn write_role(snapshot: &Snapshot) -> ObjectRole {
    if snapshot.features.awaits_own_writes { ObjectRole::AwaitedObject } else { ObjectRole::UntrackedObject }
}

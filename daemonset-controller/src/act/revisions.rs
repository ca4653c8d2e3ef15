//! The requests for ControllerRevisions: claims, labels, creations, renumbering and deletions.

use std::collections::BTreeSet;

use common::{
    io::{RawRevisionMembers, RevisionChange, RevisionChangeError, RevisionStoreOutcome, RevisionStoreRequest},
    meta::ReplaceableMeta,
    prelude::*,
    revision::{CONTROLLER_REVISIONS, body::NewRevision},
    wire::WithUndeclared,
};
use serde::Deserialize;
use serde_json::{Value, json};

use super::{SetIo, report_denied_change, sync_error_from_status_refusal};
use crate::{
    decide::revisions::revision_name,
    objects::{DAEMON_SETS, DaemonSet, DaemonSetStatus, REVISION_HASH_LABEL, SharedRevision},
    snapshot::{
        Snapshot,
        revisions::{CurrentRevision, revision_hash_or_name},
    },
};

const REVISIONS_FAILURE: &str = "failed to construct revisions of DaemonSet";

/// Adopts, releases and labels revisions. Returns `false` if the process is shutting down. Upstream: `pkg/controller/daemon`,
/// `constructHistory`, which also contains [`delete_duplicates`] and [`write_current_revision`].
pub(super) async fn adopt_release_and_label(
    snapshot: &Snapshot,
    denial_error: &mut Option<SyncError>,
    io: SetIo<'_>,
) -> Result<bool, SyncError> {
    let Snapshot { owner, revisions, .. } = snapshot;
    let mut released =
        ChildClaim::new(owner, CONTROLLER_REVISIONS, &[], &revisions.revisions_to_release).send(io).await;
    for (revision, refusal) in released.take_failed_releases(|refusal| refusal.error.is_denied()) {
        let error = report_denied_change(snapshot, "release", &CONTROLLER_REVISIONS, &revision.meta, &refusal, io);
        *denial_error = denial_error.take().or(error);
    }
    released.take_claim_result().map_err(|failed| failed.with_context(REVISIONS_FAILURE))?;

    let mut adopted = ChildClaim::new(owner, CONTROLLER_REVISIONS, &revisions.revisions_to_adopt, &[]).send(io).await;
    for (_, revision, refusal) in adopted.claim_failures() {
        report_denied_change(snapshot, "adopt", &CONTROLLER_REVISIONS, &revision.meta, refusal, io);
    }
    adopted.take_claim_result().map_err(|failed| failed.with_context(REVISIONS_FAILURE))?;
    // The plan relies on the adopted revisions. If one of them was deleted since the snapshot, the next sync decides again.
    if let Some(gone) = adopted.first_missing_orphan() {
        return Err(sync_error_for_deleted_revision(&gone.meta.name));
    }

    let labelled = io.run_group(GroupConcurrency::Sequential, &revisions.revisions_without_hash_label, |revision| {
        let revision = &revision.meta;
        RevisionChange::new(owner, revision, "label", "it has no hash")
            .send(|members| add_label(members, &revision.name), io)
    });
    let labelled = labelled.await;
    let is_ending = labelled.len() < revisions.revisions_without_hash_label.len();
    for (revision, result) in revisions.revisions_without_hash_label.iter().zip(labelled) {
        result.map_err(|error| sync_error_from_revision_change(snapshot, "label", &revision.meta, error, io))?;
    }
    Ok(!is_ending)
}

/// Deletes the duplicates of the current revision, except for those with a hash in `kept_hashes`, which some Pods still have.
pub(super) async fn delete_duplicates(
    snapshot: &Snapshot,
    kept_hashes: &BTreeSet<&str>,
    denial_error: &mut Option<SyncError>,
    io: SetIo<'_>,
) -> Result<(), SyncError> {
    let duplicates = snapshot.revisions.duplicate_revisions.iter();
    let unused = duplicates.filter(|revision| !kept_hashes.contains(revision_hash_or_name(revision)));
    delete(snapshot, unused, "another revision holds the same template", denial_error, io).await
}

/// Deletes revisions one after the other. If the server denies a deletion, the sync continues, and `denial_error` holds the failure.
pub(super) async fn delete<'r>(
    snapshot: &Snapshot,
    revisions: impl Iterator<Item = &'r SharedRevision>,
    why: &'static str,
    denial_error: &mut Option<SyncError>,
    io: SetIo<'_>,
) -> Result<(), SyncError> {
    let delete = |revision: &'r SharedRevision| async move {
        match io.send(Request::delete(CONTROLLER_REVISIONS, &revision.meta).with_reason(why)).await {
            Err(refusal) if !refusal.error.is_not_found() => Err((&revision.meta, refusal)),
            _ => Ok(()),
        }
    };
    let deleted = io.run_group(GroupConcurrency::Sequential, revisions, delete).await;
    let Some((revision, refusal)) = deleted.into_iter().find_map(Result::err) else { return Ok(()) };
    let error = report_denied_change(snapshot, "delete", &CONTROLLER_REVISIONS, revision, &refusal, io);
    let what = || format!("failed to clean up revisions of DaemonSet: delete {}", revision.name);
    denial_error.get_or_insert(error.ok_or_else(|| SyncError::from_refusal(&what(), &refusal))?);
    Ok(())
}

/// Stores or renumbers the current revision if needed; `false` if the DaemonSet was deleted or the process is shutting down.
pub(super) async fn write_current_revision(snapshot: &Snapshot, io: SetIo<'_>) -> Result<bool, SyncError> {
    match &snapshot.revisions.current_revision {
        CurrentRevision::Stored(_) => Ok(true),
        CurrentRevision::Renumber(revision, number) => {
            let renumber = RevisionChange::set_revision_number(&snapshot.owner, &revision.meta, *number, io);
            let Some(renumbered) = io.await_unless_shutting_down(renumber).await else { return Ok(false) };
            renumbered
                .map_err(|error| sync_error_from_revision_change(snapshot, "renumber", &revision.meta, error, io))?;
            Ok(true)
        }
        CurrentRevision::Create { number, hash } => store_new_revision(snapshot, *number, hash, io).await,
    }
}

/// Returns the failure of a sync because a revision could not be changed. Records an Event if the server denies the change.
fn sync_error_from_revision_change(
    snapshot: &Snapshot,
    verb: &str,
    revision: &Meta,
    error: RevisionChangeError,
    io: SetIo<'_>,
) -> SyncError {
    match error {
        RevisionChangeError::RevisionLost => sync_error_for_deleted_revision(&revision.name),
        RevisionChangeError::RequestRefused(refusal) => {
            report_denied_change(snapshot, verb, &CONTROLLER_REVISIONS, revision, &refusal, io);
            SyncError::from_refusal_in_namespace(&format!("{REVISIONS_FAILURE}: {verb} {}", revision.name), &refusal)
        }
    }
}

fn sync_error_for_deleted_revision(revision: &str) -> SyncError {
    let text = format!("{REVISIONS_FAILURE}: ControllerRevision {revision} is gone or has another controller");
    SyncError::new(SyncErrorClass::Gone, text)
}

/// Stores the revision of the template. If an existing revision with other data has the same name, the collision is counted in
/// the status, and the next sync tries another name. If its data are equal, Pods get the hash of the existing revision, even if
/// that has another controller. Upstream: `pkg/controller/daemon`, `snapshot`.
async fn store_new_revision(snapshot: &Snapshot, number: i64, hash: &Text, io: SetIo<'_>) -> Result<bool, SyncError> {
    let (set, owner, template) = (&snapshot.set, &snapshot.owner, &snapshot.template.pod_template);
    let planned = &snapshot.revisions.current_hash;
    let name = revision_name(set, hash);
    let new = NewRevision {
        name: &name,
        revision: number,
        hash_label: (REVISION_HASH_LABEL, hash),
        annotations: &set.metadata.annotations,
    };
    let body = new
        .creation_request_body(owner, template)
        .map_err(|error| SyncError::new(SyncErrorClass::Template, format!("cannot make a revision: {error}")))?;
    let why = format!("the template is new, its revision is number {number}");
    let store = RevisionStoreRequest::new(owner, &name, template.revision_data(), why);
    let was_stored_before = set.status.observed_generation == set.metadata.generation;
    let store = if was_stored_before { store.only_if_owner_exists() } else { store };
    let (stored, taken) = match io.await_unless_shutting_down(store.send(io.encode_body(|| body), io)).await {
        Some(Ok(RevisionStoreOutcome::Created)) => (hash.clone(), None),
        Some(Ok(RevisionStoreOutcome::AlreadyExists(there))) => {
            let stored = Text::new(there.meta.labels.get(REVISION_HASH_LABEL).unwrap_or(&there.meta.name));
            (stored.clone(), Some((name, stored)))
        }
        Some(Ok(RevisionStoreOutcome::NameTaken(refusal))) => {
            count_collision(snapshot, io).await?;
            return Err(SyncError::new(SyncErrorClass::Collision, format!("{REVISIONS_FAILURE}: {}", refusal.error)));
        }
        Some(Ok(RevisionStoreOutcome::OwnerGone)) | None => return Ok(false),
        Some(Err(refusal)) => {
            // Without this revision, the DaemonSet gets no Pods and no status, so users get an Event. A conflict is resolved by
            // a retry, and a terminating namespace needs no revision.
            if !matches!(refusal.class, RefusalClass::VersionConflict | RefusalClass::NamespaceTerminating) {
                let message = format!("Error creating ControllerRevision {name}: {}", refusal.error);
                io.record_event(EventType::Warning, "FailedCreate", message);
            }
            return Err(SyncError::from_refusal_in_namespace(&format!("{REVISIONS_FAILURE}: create {name}"), &refusal));
        }
    };
    // If the stored hash differs from the hash in the plan, the sync ends here, and the next sync decides with the stored hash.
    if stored == *planned {
        return Ok(true);
    }
    io.update_memory(|controller| {
        controller.change_record(snapshot, |record| record.taken_revision_name_and_hash = taken);
    });
    let text = format!("{REVISIONS_FAILURE}: the revision is stored with hash {stored} instead of {planned}");
    Err(SyncError::new(SyncErrorClass::OtherHash, text))
}

/// The fields of a DaemonSet that are read from the server before its collision count is written.
#[derive(Deserialize)]
struct LiveDaemonSet {
    metadata: ReplaceableMeta,
    #[serde(default)]
    status: WithUndeclared<DaemonSetStatus>,
}

/// Increments `status.collisionCount`, so that the next sync computes another hash for the new revision.
///
/// The current count is read from the server. If the cache has another count, nothing is written.
async fn count_collision(snapshot: &Snapshot, io: SetIo<'_>) -> Result<(), SyncError> {
    const WHY: &str = "the name of the new revision is taken";
    let set = &snapshot.set;
    let status_error = |refusal: Refusal| sync_error_from_status_refusal(set, &refusal);
    let read = Request::get(DAEMON_SETS, &set.metadata.namespace, &set.metadata.name)
        .with_object_answer::<DaemonSet>()
        .with_reason(WHY);
    let live = io.send_and_decode::<LiveDaemonSet>(read).await.map_err(status_error)?;
    // A forecast sends no request and gets no answer. It assumes that the name is free.
    let Some(live) = live else { return Ok(()) };
    let (cached, live_count) = (set.status.collision_count, live.status.collision_count);
    if live.metadata.uid != set.metadata.uid || live_count != cached {
        let text = format!(
            "found a stale collision count ({cached:?}, expected {live_count:?}) of DaemonSet {:?} while processing; will retry until it is updated",
            set.metadata.name
        );
        return Err(SyncError::new(SyncErrorClass::Collision, text));
    }
    let WithUndeclared { declared, undeclared } = &live.status;
    let count = live_count.unwrap_or(0).saturating_add(1);
    let status = DaemonSetStatus { collision_count: Some(count), ..declared.clone() };
    let body = io.encode_status::<DaemonSet>(live.metadata.replacement(), &status, undeclared);
    let request = Request::replace_status(DAEMON_SETS, &live.metadata, body).with_role(ObjectRole::AwaitedObject);
    io.send(request.with_reason(WHY)).await.map_err(status_error)?;
    Ok(())
}

/// Adds the name of a revision as its hash label if the revision lacks the label. Returns whether the label was added.
fn add_label(revision: &mut RawRevisionMembers, name: &str) -> serde_json::Result<bool> {
    let text = revision.get("metadata").map_or("{}", |metadata| metadata.get());
    let mut metadata: Value = serde_json::from_str(text)?;
    if metadata.pointer(&format!("/labels/{REVISION_HASH_LABEL}")).is_some() {
        return Ok(false);
    }
    if !metadata["labels"].is_object() {
        metadata["labels"] = json!({});
    }
    metadata["labels"][REVISION_HASH_LABEL] = json!(name);
    revision.insert("metadata".to_owned(), serde_json::value::to_raw_value(&metadata)?);
    Ok(true)
}

//! The requests for ControllerRevisions: claims, labels, creations, renumbering and deletions.

use std::collections::BTreeSet;

use common::{
    events::EventType,
    intern::Text,
    io::{Change, Claim, Class, Failed, Pace, RawMembers, Refused, Request, Role, StoreRevision, Stored},
    meta::Meta,
    revision::{CONTROLLER_REVISIONS, body::NewRevision},
};
use serde::Deserialize;
use serde_json::{Value, json};

use super::{
    note::{Io, Note},
    refusals::{refused, report_denied, status_failed},
};
use crate::{
    decide::revisions::name,
    objects::{DAEMON_SETS, HASH_LABEL, RevisionRef, Status},
    snapshot::{
        Snapshot,
        revisions::{Current, hash_of},
    },
};

const NOT_CONSTRUCTED: &str = "failed to construct revisions of DaemonSet";

/// Adopts, releases and labels revisions. Returns `false` if the process is shutting down. Upstream: `pkg/controller/daemon`,
/// `constructHistory`, which also contains [`delete_duplicates`] and [`write_current`].
pub(super) async fn claim(snapshot: &Snapshot, denied: &mut Option<Failed>, io: Io<'_>) -> Result<bool, Failed> {
    let Snapshot { owner, revisions, .. } = snapshot;
    let mut released = Claim::new(owner, CONTROLLER_REVISIONS, &[], &revisions.release).send(io).await;
    for (revision, refusal) in released.give_up_releases(|refusal| refusal.error.is_denied()) {
        let failed = report_denied(io, "release ControllerRevision", &revision.meta, Note::RefusedRevision, &refusal);
        *denied = denied.take().or(failed);
    }
    released.result().map_err(|failed| failed.while_doing(NOT_CONSTRUCTED))?;

    let mut adopted = Claim::new(owner, CONTROLLER_REVISIONS, &revisions.adopt, &[]).send(io).await;
    for (_, revision, refusal) in adopted.failures() {
        report_denied(io, "adopt ControllerRevision", &revision.meta, Note::RefusedRevision, refusal);
    }
    adopted.result().map_err(|failed| failed.while_doing(NOT_CONSTRUCTED))?;
    // The plan relies on the adopted revisions. After the deletion of one of them, the next sync decides again.
    if let Some(gone) = adopted.gone() {
        return Err(is_gone(&gone.meta.name));
    }

    let labelled = io.all(Pace::InOrder, &revisions.unlabelled, |revision| {
        let revision = &revision.meta;
        Change::new(owner, revision, "label", "it has no hash").send(|members| add_label(members, &revision.name), io)
    });
    let labelled = labelled.await;
    let is_ending = labelled.len() < revisions.unlabelled.len();
    for (revision, result) in revisions.unlabelled.iter().zip(labelled) {
        result.map_err(|refused| not_changed("label", &revision.meta, refused, io))?;
    }
    Ok(!is_ending)
}

/// Deletes the duplicates of the current revision, but not those with a hash of `kept_hashes`, which Pods keep.
pub(super) async fn delete_duplicates(
    snapshot: &Snapshot,
    kept_hashes: &BTreeSet<&str>,
    denied: &mut Option<Failed>,
    io: Io<'_>,
) -> Result<(), Failed> {
    let unused = snapshot.revisions.duplicates.iter().filter(|revision| !kept_hashes.contains(hash_of(revision)));
    delete(unused, "another revision holds the same template", denied, io).await
}

/// Deletes revisions one after the other. If the server denies a deletion, the sync continues, and `denied` holds the failure.
pub(super) async fn delete<'r>(
    revisions: impl Iterator<Item = &'r RevisionRef>,
    why: &'static str,
    denied: &mut Option<Failed>,
    io: Io<'_>,
) -> Result<(), Failed> {
    let delete = |revision: &'r RevisionRef| async move {
        match io.send(Request::delete(CONTROLLER_REVISIONS, &revision.meta).because(why)).await {
            Err(refusal) if !refusal.error.is_not_found() => Err((&revision.meta, refusal)),
            _ => Ok(()),
        }
    };
    let deleted = io.all(Pace::InOrder, revisions, delete).await;
    let Some((revision, refusal)) = deleted.into_iter().find_map(Result::err) else { return Ok(()) };
    let failed = report_denied(io, "delete ControllerRevision", revision, Note::RefusedRevision, &refusal);
    let what = || format!("failed to clean up revisions of DaemonSet: delete {}", revision.name);
    denied.get_or_insert(failed.ok_or_else(|| Failed::request(&what(), &refusal))?);
    Ok(())
}

/// Stores or renumbers the current revision; `false` if the DaemonSet was deleted or the process is shutting down.
pub(super) async fn write_current(snapshot: &Snapshot, io: Io<'_>) -> Result<bool, Failed> {
    match &snapshot.revisions.current {
        Current::Stored(_) => Ok(true),
        Current::Renumber(revision, number) => {
            let renumber = Change::renumber(&snapshot.owner, &revision.meta, *number, io);
            let Some(renumbered) = io.unless_ending(renumber).await else { return Ok(false) };
            renumbered.map_err(|refused| not_changed("renumber", &revision.meta, refused, io))?;
            Ok(true)
        }
        Current::Create { number, hash } => store(snapshot, *number, hash, io).await,
    }
}

/// Returns the failure of a sync because a revision could not be changed. Records an Event if the server denies the change.
fn not_changed(verb: &str, revision: &Meta, why: Refused, io: Io<'_>) -> Failed {
    match why {
        Refused::Gone => is_gone(&revision.name),
        Refused::Request(refusal) => {
            report_denied(io, &format!("{verb} ControllerRevision"), revision, Note::RefusedRevision, &refusal);
            refused(&format!("{NOT_CONSTRUCTED}: {verb} {}", revision.name), &refusal)
        }
    }
}

fn is_gone(revision: &str) -> Failed {
    Failed::new("gone", format!("{NOT_CONSTRUCTED}: ControllerRevision {revision} is gone or has another controller"))
}

/// Stores the revision of the template. If another revision has its name, the result depends on the data of that revision. With
/// other data, the collision is counted in the status, and the next sync tries another name. With equal data, Pods get the hash
/// of the existing revision, regardless of its controller. Upstream: `pkg/controller/daemon`, `snapshot`.
async fn store(snapshot: &Snapshot, number: i64, hash: &Text, io: Io<'_>) -> Result<bool, Failed> {
    let (set, owner, template) = (&snapshot.set, &snapshot.owner, &snapshot.template.template);
    let planned = &snapshot.revisions.hash;
    let name = name(set, hash);
    let new = NewRevision { name: &name, number, hash: (HASH_LABEL, hash), annotations: &set.metadata.annotations };
    let body = new
        .body(owner, template)
        .map_err(|error| Failed::new("template", format!("cannot make a revision: {error}")))?;
    let why = format!("the template is new, its revision is number {number}");
    let store = StoreRevision::new(owner, &name, template.data(), why);
    let was_stored_before = set.status.observed_generation == set.metadata.generation;
    let store = if was_stored_before { store.if_still_there() } else { store };
    let (stored, taken) = match io.unless_ending(store.send(io.body(|| body), io)).await {
        Some(Ok(Stored::Yes)) => (hash.clone(), None),
        Some(Ok(Stored::There(there))) => {
            let stored = Text::new(there.meta.labels.get(HASH_LABEL).unwrap_or(&there.meta.name));
            (stored.clone(), Some((name, stored)))
        }
        Some(Ok(Stored::Taken(refusal))) => {
            count_collision(snapshot, io).await?;
            return Err(Failed::new("collision", format!("{NOT_CONSTRUCTED}: {}", refusal.error)));
        }
        Some(Ok(Stored::OwnerGone)) | None => return Ok(false),
        Some(Err(refusal)) => {
            // Without this revision, the DaemonSet gets no Pods and no status, so users get an Event. A conflict is resolved by
            // a retry, and a terminating namespace needs no revision.
            if !matches!(refusal.class, Class::Changed | Class::NamespaceTerminating) {
                let message = format!("Error creating ControllerRevision {name}: {}", refusal.error);
                io.event(EventType::Warning, "FailedCreate", message);
            }
            return Err(refused(&format!("{NOT_CONSTRUCTED}: create {name}"), &refusal));
        }
    };
    // The plan has another hash than the stored revision, so the sync ends. The next sync decides with the stored hash.
    if stored == *planned {
        return Ok(true);
    }
    io.note(Note::TakenName(taken));
    let text = format!("{NOT_CONSTRUCTED}: the revision is stored with hash {stored} instead of {planned}");
    Err(Failed::new("other_hash", text))
}

/// The fields of a DaemonSet that are read from the server before its collision count is written.
#[derive(Deserialize)]
struct Live {
    metadata: Meta,
    #[serde(default)]
    status: Status,
}

/// Increments `status.collisionCount`, so that the next sync computes another hash for the new revision.
///
/// The current count is read from the server. If the cache has another count, nothing is written.
async fn count_collision(snapshot: &Snapshot, io: Io<'_>) -> Result<(), Failed> {
    const WHY: &str = "the name of the new revision is taken";
    let set = &snapshot.set;
    let read = Request::get(DAEMON_SETS, &set.metadata.namespace, &set.metadata.name).because(WHY);
    let live = io.send_and_read::<Live>(read).await.map_err(|refusal| status_failed(set, &refusal))?;
    // A forecast sends no request and has no answer. It assumes that the name is free.
    let Some(live) = live else { return Ok(()) };
    let (cached, live_count) = (set.status.collision_count, live.status.collision_count);
    if live.metadata.uid != set.metadata.uid || live_count != cached {
        let text = format!(
            "found a stale collision count ({cached:?}, expected {live_count:?}) of DaemonSet {:?} while processing; will retry until it is updated",
            set.metadata.name
        );
        return Err(Failed::new("collision", text));
    }
    let count = live_count.unwrap_or(0).saturating_add(1);
    let body = io.body(|| json!({"status": {"collisionCount": count}}));
    let version = Some(live.metadata.resource_version);
    let request = Request::status(DAEMON_SETS, &set.metadata, body).at(version).role(Role::Awaited);
    io.send(request.because(WHY)).await.map_err(|refusal| status_failed(set, &refusal))?;
    Ok(())
}

/// Adds the hash label with the name of the revision if the revision lacks the label. Returns whether it was missing.
fn add_label(revision: &mut RawMembers, name: &str) -> serde_json::Result<bool> {
    let text = revision.get("metadata").map_or("{}", |metadata| metadata.get());
    let mut metadata: Value = serde_json::from_str(text)?;
    if metadata.pointer(&format!("/labels/{HASH_LABEL}")).is_some() {
        return Ok(false);
    }
    if !metadata["labels"].is_object() {
        metadata["labels"] = json!({});
    }
    metadata["labels"][HASH_LABEL] = json!(name);
    revision.insert("metadata".to_owned(), serde_json::value::to_raw_value(&metadata)?);
    Ok(true)
}

//! Sends the requests of a plan: adoptions, the revision of the template, Pods phase by phase, the status, the history.

mod body;
mod note;
mod pod;
mod request;
mod templates;

use std::{borrow::Cow, time::Duration};

use common::{
    events::EventType,
    io::{Change, Claim, Class, Failed, Pace, Refused, Request, Requeue, StoreRevision, Stored, delete_revision},
    pods::PODS,
    revision::CONTROLLER_REVISIONS,
};
use serde_json::{Value, json};

pub(crate) use self::note::{Namesake, Note};
use self::{
    note::Io,
    request::{refused, role},
    templates::Templates,
};
use crate::{
    decide::{self, history, revisions, status},
    objects::{STATEFUL_SETS, Status},
    plan::{
        Plan, Problem, Reconcile,
        revisions::{Revisions, Step},
    },
    snapshot::{PodRef, Snapshot},
};

/// Sends the requests of a plan. If an adoption fails or the revision gets another name, decides the work on Pods again.
pub(crate) async fn act(snapshot: &Snapshot, plan: &Plan, io: Io<'_>) -> Result<Requeue, Failed> {
    if let Some(problem) = &plan.problem {
        if let Problem::TooManyClaims { .. } = problem {
            io.event(EventType::Warning, "TooManyClaims", problem.to_string());
        }
        io.note(Note::Problem(problem.clone()));
        return Ok(Requeue::AsPlanned);
    }
    for mismatch in &plan.reports {
        io.event(EventType::Warning, "ClaimMismatch", mismatch.to_string());
        io.note(Note::Reported(mismatch.difference(), io.now()));
    }

    adopt_revisions(snapshot, io).await?;
    let Snapshot { set, owner, pods, .. } = snapshot;
    let mut claim = Claim::new(owner, PODS, &pods.adopt, &pods.release).labelled(missing_labels).send(io).await;
    claim.report_denied(io);
    claim.result().map_err(|failed| failed.while_doing("cannot claim Pods"))?;
    for labelled in claim.adopted().filter(|pod| pod.is_unlabelled()) {
        let (pod, set) = (&labelled.meta().name, &set.metadata.name);
        io.event(EventType::Normal, "SuccessfulUpdate", format!("Update Pod {pod} in StatefulSet {set} successful"));
    }
    let claimed: Vec<PodRef> = pods.keep.iter().chain(claim.adopted()).cloned().collect();

    let Some(revisions) = write_revision(snapshot, &plan.revisions, io).await? else { return Ok(Requeue::AsPlanned) };
    // The plan assumes that every adoption succeeds and that the new revision gets its planned name.
    let reconcile = if claim.is_complete() && revisions.update.name == plan.revisions.update.name {
        Cow::Borrowed(&plan.reconcile)
    } else {
        Cow::Owned(decide::reconcile(snapshot, &claimed, &revisions))
    };
    let (lowered, worked) = work_on_pods(snapshot, &revisions, &reconcile, io).await;

    if let Some(unavailable) = reconcile.unavailable {
        io.note(Note::Rollout(unavailable));
    }
    io.note(Note::AwaitedClaims(reconcile.claims_to_await.clone()));
    let status = status::complete(set, &status::lowered(&reconcile.counted, lowered));
    let status_written = write_status(snapshot, &status, io).await;
    let forgotten = forget_revisions(snapshot, &revisions, &claimed, io).await;
    worked.and(status_written).and(forgotten)?;

    // The next sync handles the remaining Pods. It starts only after the caches show the Pods that this sync created.
    if reconcile.deferred > 0 {
        return Ok(Requeue::After(Duration::ZERO));
    }
    let check = status::next_check(set, &claimed, &status, snapshot.now, io.now());
    Ok(check.map_or(Requeue::AsPlanned, Requeue::After))
}

async fn adopt_revisions(snapshot: &Snapshot, io: Io<'_>) -> Result<(), Failed> {
    const DOING: &str = "can't adopt ControllerRevisions";
    let mut claim = Claim::new(&snapshot.owner, CONTROLLER_REVISIONS, &snapshot.revisions.adopt, &[]).send(io).await;
    claim.report_denied(io);
    claim.result().map_err(|failed| failed.while_doing(DOING))?;
    match claim.gone() {
        // The plan relies on a revision that no longer exists. The next sync decides without it.
        Some(gone) => Err(Failed::new("gone", format!("{DOING}: {} is gone", gone.meta.name))),
        None => Ok(()),
    }
}

/// Returns the labels to add to a Pod that lacks the label by which Pods are watched; `None` if the Pod has the label.
fn missing_labels(pod: &PodRef) -> Option<Value> {
    pod.is_unlabelled().then(|| body::identity(&pod.meta().name, pod.ordinal()))
}

/// Writes the revision of the template, and returns the revisions after the write. Returns `None` if the set no longer exists
/// or the process is shutting down. The sync then ends.
async fn write_revision<'p>(
    snapshot: &Snapshot,
    planned: &'p Revisions,
    io: Io<'_>,
) -> Result<Option<Cow<'p, Revisions>>, Failed> {
    let (revision, number) = match &planned.step {
        Step::Nothing => return Ok(Some(Cow::Borrowed(planned))),
        Step::Create { number } => return store_revision(snapshot, planned, *number, io).await,
        Step::Renumber { revision, number } => (&revision.meta, *number),
    };
    let name = &revision.name;
    match io.unless_ending(Change::renumber(&snapshot.owner, revision, number, io)).await {
        None => Ok(None),
        Some(Ok(())) => Ok(Some(Cow::Borrowed(planned))),
        Some(Err(Refused::Gone)) => {
            Err(Failed::new("gone", format!("can't adopt ControllerRevisions: {name} is gone")))
        }
        Some(Err(Refused::Request(refusal))) => {
            Err(refused(&format!("cannot renumber ControllerRevision {name}"), &refusal))
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
) -> Result<Option<Cow<'p, Revisions>>, Failed> {
    let Snapshot { set, template, owner, .. } = snapshot;
    let mut collisions = planned.collisions;
    loop {
        let name = revisions::name(set, &revisions::hash(template, collisions));
        let body = body::revision(snapshot, number, planned.collisions, &name)
            .map_err(|error| Failed::new("template", format!("cannot make a revision: {error}")))?;
        let why = format!("the template is new, its revision is number {number}");
        let store = StoreRevision::new(owner, &name, template.data(), why);
        let was_stored_before = set.status.observed_generation == set.metadata.generation;
        let store = if was_stored_before { store.if_still_there() } else { store };
        match io.unless_ending(store.send(io.body(|| body), io)).await {
            // An existing revision may have other labels. They do not matter, because Pods only name their revision.
            Some(Ok(Stored::Yes | Stored::There(_))) => {
                let is_as_planned = *planned.update.name == *name;
                let created = || Cow::Owned(revisions::created(planned, template, &name, collisions));
                return Ok(Some(if is_as_planned { Cow::Borrowed(planned) } else { created() }));
            }
            Some(Ok(Stored::Taken(_))) => {
                let unnamed = || format!("cannot make a name for a revision of {}", set.metadata.name);
                collisions = collisions.checked_add(1).ok_or_else(|| Failed::new("template", unnamed()))?;
            }
            Some(Ok(Stored::OwnerGone)) | None => return Ok(None),
            Some(Err(refusal)) => {
                // The set cannot create Pods without this revision, so a denial is reported.
                if refusal.class == Class::Refused && refusal.error.is_denied() {
                    let message = format!("Error creating ControllerRevision {name}: {}", refusal.error);
                    io.event(EventType::Warning, "FailedCreate", message);
                }
                return Err(refused(&format!("cannot create ControllerRevision {name}"), &refusal));
            }
        }
    }
}

/// Works on Pods, phase by phase until one fails. Returns the number of deleted Pods of the current revision, and the failure.
async fn work_on_pods(
    snapshot: &Snapshot,
    revisions: &Revisions,
    reconcile: &Reconcile,
    io: Io<'_>,
) -> (i32, Result<(), Failed>) {
    let mut lowered = 0;
    for phase in &reconcile.phases {
        let templates = &Templates::of(phase, snapshot, revisions, io).await;
        let each = |work| pod::work_on_pod(snapshot, work, templates, io);
        let done = io.all(phase.pace, &phase.work, each).await;
        let successes = phase.work.iter().zip(&done).filter(|(_, done)| done.is_ok());
        lowered += successes.filter(|(work, _)| work.lowers_current()).count() as i32;
        if let Some(failed) = done.into_iter().find_map(Result::err) {
            return (lowered, Err(failed));
        }
    }
    (lowered, Ok(()))
}

/// Writes the status if it differs from the stored one, with the version of the set as a precondition. A 404 is no error.
///
/// After a conflict, upstream writes the same status onto the newer set (`pkg/controller/statefulset`,
/// `UpdateStatefulSetStatus`). This function fails the sync instead, and the next sync computes the status of the newer set.
async fn write_status(snapshot: &Snapshot, status: &Status, io: Io<'_>) -> Result<(), Failed> {
    let set = &snapshot.set;
    if !status.differs(&set.status) {
        return Ok(());
    }
    let body = io.body(|| json!({"status": status}));
    match io.send(Request::status(STATEFUL_SETS, &set.metadata, body).role(role(snapshot))).await {
        Err(refusal) if !refusal.error.is_not_found() => Err(refused("cannot write the status", &refusal)),
        _ => Ok(()),
    }
}

/// Deletes the unused revisions beyond the history limit, the oldest first.
async fn forget_revisions(
    snapshot: &Snapshot,
    revisions: &Revisions,
    claimed: &[PodRef],
    io: Io<'_>,
) -> Result<(), Failed> {
    let (why, what) = ("the history is longer than its limit", "cannot delete ControllerRevision");
    let forgotten = &history::forget(&snapshot.set, revisions, claimed);
    let deleted = io.all(Pace::InOrder, forgotten, |revision| delete_revision(&revision.meta, why, what, io)).await;
    deleted.into_iter().collect()
}

//! Sends the requests of a plan: first claims, then creations or deletions of Pods, then the status.

mod body;

use std::{borrow::Cow, sync::Arc, time::Duration};

use common::{
    io::{self, Claim, Class, Failed, Pace, Refusal, Request, Requeue, Role, create_pod, delete_pod},
    meta::{Meta, Uid, Version},
    pods::PODS,
};
use serde::Deserialize;

use crate::{
    decide::{manage, status, timer},
    objects::Status,
    plan::{FailureReason, Manage, Managed, Plan, Victim},
    snapshot::{PodRef, Snapshot},
};

/// A change of the controller's memory, metrics or log that a sync asks for.
#[derive(Debug)]
pub enum Note {
    /// The sync does nothing, because the selector is invalid for this reason.
    BrokenSelector(String),
    /// Pods are about to be created.
    Creates,
    /// The server refused a Pod because the namespace is terminating.
    NamespaceTerminates,
    /// Pods are about to be deleted: their UIDs, and the ages of the ready ones as multiples of the youngest ready Pod's age.
    Deletes(Vec<Uid>, Vec<u64>),
    /// Whether the server kept the written `status.terminatingReplicas`.
    KeepsTerminating(bool),
}

impl io::Note for Note {
    type Question = ();
    type Fresh = ();
}

type Io<'r> = io::Io<'r, Note>;

/// How long to wait after a conflict for the cache to show the change, before the set is read live.
const WATCH_LAG: Duration = Duration::from_millis(100);

/// Sends the requests of a plan, and returns the time at which the key comes back.
pub(crate) async fn act(snapshot: &Snapshot, plan: &Plan, io: Io<'_>) -> Result<Requeue, Failed> {
    if let Some(problem) = plan.set.selector.problem() {
        io.note(Note::BrokenSelector(problem.to_string()));
        return Ok(Requeue::AsPlanned);
    }

    let mut claim = Claim::new(&snapshot.owner, PODS, &plan.adopt, &plan.release).send(io).await;
    claim.report_denied(io);
    if claim.found_only_changes() {
        return Ok(Requeue::Conflict);
    }
    claim.result().map_err(|failed| failed.while_doing("cannot claim Pods"))?;
    let claimed: Vec<&PodRef> = snapshot.claims.keep.iter().chain(claim.adopted()).collect();

    // The plan assumes that every adoption succeeds. Without one of the Pods, the number to create or delete is decided again.
    let manage =
        if claim.is_complete() { Cow::Borrowed(&plan.manage) } else { Cow::Owned(manage::manage(snapshot, &claimed)) };
    let (managed, failed) = match &*manage {
        Manage::Nothing => (Managed::Done, None),
        Manage::NotAllowed(_) | Manage::Later(_) => (Managed::NotAllowed, None),
        Manage::Impossible(problem) => cannot_create(problem),
        Manage::Create { count, missing } => create_pods(snapshot, *count, *missing, io).await,
        Manage::Delete { victims, age_ratios, .. } => delete_pods(victims, age_ratios, io).await,
    };

    let status = if claim.is_complete() && managed == plan.expected {
        Cow::Borrowed(&plan.status)
    } else {
        Cow::Owned(status::status(snapshot, &claimed, &managed, snapshot.now))
    };
    // A failure has to be written by this sync, because the next sync does not know it.
    let status_written = write_status(snapshot, &status, failed.is_none(), io).await?;
    if let Some(failed) = failed {
        return Err(failed);
    }
    if status_written == StatusWritten::CacheIsNewer || managed == Managed::Changed {
        // The next sync starts from the changed objects.
        return Ok(Requeue::Conflict);
    }

    let until_available = timer::next_check(snapshot, &claimed, &status, snapshot.now, io.now());
    let until_allowed = timer::requeue_after(snapshot, &manage, None);
    // A sync that must not manage Pods, for example after a lost answer, does not reset the count of failures.
    let requeue = if managed == Managed::NotAllowed { Requeue::Unfinished } else { Requeue::After };
    Ok(until_available.into_iter().chain(until_allowed).min().map_or(Requeue::AsPlanned, requeue))
}

/// The result of creating or deleting Pods, and the failure that the sync returns; `None` if no request failed.
type ManageOutcome = (Managed, Option<Failed>);

fn failure(reason: FailureReason, failed: Failed) -> ManageOutcome {
    (Managed::Failed { reason, message: failed.to_string() }, Some(failed))
}

fn cannot_create(problem: &str) -> ManageOutcome {
    failure(FailureReason::Create, Failed::new("template", format!("unable to create pods, {problem}")))
}

/// Creates Pods with a slow start: if the server refuses all Pods, the sync costs one request.
async fn create_pods(snapshot: &Snapshot, count: usize, missing: usize, io: Io<'_>) -> ManageOutcome {
    let owner = &snapshot.owner;
    let Some(template) = &snapshot.set.template else { return cannot_create("no template") };
    io.note(Note::Creates);
    let body = io.body(|| body::body(&owner.name, template, owner.controller_ref()));
    let request = Request::create(PODS, &owner.namespace, &Arc::default(), body);
    let why = if count == missing { Cow::Borrowed("") } else { format!("{missing} Pods are missing").into() };
    let request = request.generate_name(body::generate_name(&owner.name)).because(why);
    let created = io.all(Pace::SlowStart(usize::MAX), 0..count, |_| create_pod(io, request.clone())).await;

    let refusals = created.into_iter().filter_map(Result::err);
    let (namespace_terminates, others): (Vec<_>, Vec<_>) =
        refusals.partition(|refusal| refusal.class == Class::NamespaceTerminating);
    if !namespace_terminates.is_empty() {
        io.note(Note::NamespaceTerminates);
    }
    match others.first() {
        Some(refusal) => failure(FailureReason::Create, Failed::request("", refusal)),
        None => (Managed::Done, None),
    }
}

async fn delete_pods(victims: &[Victim], age_ratios: &[u64], io: Io<'_>) -> ManageOutcome {
    let uids = victims.iter().map(|victim| victim.pod.meta().uid.clone()).collect();
    io.note(Note::Deletes(uids, age_ratios.to_vec()));
    let delete = |Victim { pod, why }: &Victim| Request::delete(PODS, pod.meta()).because(why.to_string());
    let deleted = io.all(Pace::AtOnce, victims, |victim| delete_pod(io, delete(victim))).await;

    let refusals = deleted.into_iter().filter_map(Result::err);
    let (changed, others): (Vec<_>, Vec<_>) = refusals.partition(|refusal| refusal.class == Class::Changed);
    match others.first() {
        Some(refusal) => failure(FailureReason::Delete, Failed::request("unable to delete pods", refusal)),
        None if !changed.is_empty() => (Managed::Changed, None),
        None => (Managed::Done, None),
    }
}

#[derive(Debug, PartialEq, Eq)]
enum StatusWritten {
    /// The server has the status, or the set is gone and needs none.
    Done,
    /// The set has changed, and the cache shows the change already.
    CacheIsNewer,
}

/// The fields of a set that are read from the server's answers.
#[derive(Deserialize)]
struct StoredSet {
    metadata: Meta,
    #[serde(default)]
    status: Option<Status>,
}

/// Writes the status if it differs from the stored one.
///
/// If the set has changed and `may_wait` is true, waits [`WATCH_LAG`] for the cache to show the change; the next sync then writes
/// the status. In all other cases the set is read live, and the status is written once more onto that version.
/// Upstream: `pkg/controller/replicaset`, `updateReplicaSetStatus`.
async fn write_status(
    snapshot: &Snapshot,
    status: &Status,
    may_wait: bool,
    io: Io<'_>,
) -> Result<StatusWritten, Failed> {
    let (owner, known, limits) = (&snapshot.owner, &snapshot.set.metadata, &snapshot.limits);
    if !limits.worth_writing(status, &snapshot.set.status) {
        return Ok(StatusWritten::Done);
    }
    let first = io.send_and_read::<StoredSet>(status_request(snapshot, status, known.resource_version, io)).await;
    if !matches!(first, Err(Refusal { class: Class::Changed, .. })) {
        return status_answered(status, first, io);
    }
    if may_wait {
        io.pause(WATCH_LAG).await;
        if io.observe_again(()).is_some() {
            return Ok(StatusWritten::CacheIsNewer);
        }
    }
    let request = Request::get(owner.resource, &owner.namespace, &known.name);
    let live = match io.send_and_read::<StoredSet>(request.because("another writer has changed its status")).await {
        Ok(Some(live)) => live,
        answer => return status_answered(status, answer, io),
    };
    let is_there = |stored: &Status| !limits.worth_writing(status, stored);
    if live.metadata.uid != owner.uid || live.status.as_ref().is_some_and(is_there) {
        return Ok(StatusWritten::Done);
    }
    let second =
        io.send_and_read::<StoredSet>(status_request(snapshot, status, live.metadata.resource_version, io)).await;
    status_answered(status, second, io)
}

fn status_request(snapshot: &Snapshot, status: &Status, version: Version, io: Io<'_>) -> Request {
    let (owner, known) = (&snapshot.owner, &snapshot.set.metadata);
    let body = io.body(|| serde_json::json!({"status": status}));
    let role = if snapshot.limits.reads_own_writes { Role::Itself } else { Role::Other };
    Request::status(owner.resource, known, body).strategic().at(Some(version)).role(role)
}

fn status_answered(
    status: &Status,
    answer: Result<Option<StoredSet>, Refusal>,
    io: Io<'_>,
) -> Result<StatusWritten, Failed> {
    match answer {
        Ok(Some(stored)) if status.terminating_replicas.is_some() => {
            let kept = stored.status.is_some_and(|stored| stored.terminating_replicas.is_some());
            io.note(Note::KeepsTerminating(kept));
        }
        Err(refusal) if refusal.class != Class::Gone => {
            return Err(Failed::request("cannot write the status", &refusal));
        }
        Ok(_) | Err(_) => {}
    }
    Ok(StatusWritten::Done)
}

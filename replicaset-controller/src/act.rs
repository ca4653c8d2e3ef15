//! Sends the requests of a plan: first claims, then creations or deletions of Pods, then the status.

mod body;

use std::{borrow::Cow, sync::Arc, time::Duration};

use common::{
    io::{
        self, ChildClaim, GroupConcurrency, ObjectRole, Refusal, RefusalClass, Request, Requeue, SyncError, create_pod,
        delete_pod,
    },
    meta::{Meta, ResourceVersion, Uid},
    pod_creation_pauses::PodCreationOutcome,
    pods::PODS,
};
use serde::Deserialize;

use crate::{
    decide::{manage, status, timer},
    objects::Status,
    plan::{FailedPodOperation, Plan, PodChanges, PodChangesOutcome, PodDeletion},
    snapshot::{SharedPod, Snapshot},
};

/// A change of the controller's memory, metrics or log that a sync asks for.
#[derive(Debug)]
pub enum ReplicaSetNote {
    /// The sync does nothing, because the selector is invalid for this reason.
    InvalidSelector(String),
    /// Pods are about to be created. The back-off after failed Pods counts them as replacements.
    CreatingPods,
    /// The requests to create Pods have been answered.
    PodCreationEnded(PodCreationOutcome),
    /// Pods are about to be deleted: their UIDs, and the ages of the ready ones as multiples of the youngest ready Pod's age.
    DeletingPods(Vec<Uid>, Vec<u64>),
    /// Whether the server kept the written `status.terminatingReplicas`.
    KeepsTerminatingReplicas(bool),
}

impl io::MemoryNote for ReplicaSetNote {
    type Query = ();
    type NewState = ();
}

type Io<'r> = io::Io<'r, ReplicaSetNote>;

/// How long to wait after a conflict for the cache to show the change, before the set is read from the API server.
const MAX_WATCH_LAG: Duration = Duration::from_millis(100);

/// Sends the requests of a plan, and returns the time of the next sync of the set.
pub(crate) async fn act(snapshot: &Snapshot, plan: &Plan, io: Io<'_>) -> Result<Requeue, SyncError> {
    if let Some(problem) = plan.set.selector.validation_error() {
        io.apply_memory_note(ReplicaSetNote::InvalidSelector(problem.to_string()));
        return Ok(Requeue::AfterPlannedDelay);
    }

    let mut claim =
        ChildClaim::new(&snapshot.owner, PODS, &plan.orphans_to_adopt, &plan.pods_to_release).send(io).await;
    claim.record_event_if_denied(io);
    if claim.has_only_conflicts() {
        return Ok(Requeue::Conflict);
    }
    claim.take_claim_result().map_err(|failed| failed.with_context("cannot claim Pods"))?;
    let claimed: Vec<&SharedPod> = snapshot.claims.to_keep.iter().chain(claim.adopted_children()).collect();

    // The plan assumes that every adoption succeeds. Otherwise the count of Pods to create or delete is decided again.
    let manage = if claim.has_adopted_all() {
        Cow::Borrowed(&plan.pod_changes)
    } else {
        Cow::Owned(manage::decide_pod_changes(snapshot, &claimed))
    };
    let (managed, failed) = match &*manage {
        PodChanges::NoChange => (PodChangesOutcome::Done, None),
        PodChanges::NotAllowed(_) | PodChanges::CreationPaused(_) | PodChanges::DelayedAfterFailures(_) => {
            (PodChangesOutcome::NotAllowed, None)
        }
        PodChanges::UnusableTemplate(problem) => creation_impossible(problem),
        PodChanges::Create { pods_to_create_count: count, missing_pod_count: missing } => {
            create_pods(snapshot, *count, *missing, io).await
        }
        PodChanges::Delete { pod_deletions: victims, age_ratios, .. } => delete_pods(victims, age_ratios, io).await,
    };

    let status = if claim.has_adopted_all() && managed == plan.expected_outcome {
        Cow::Borrowed(&plan.status)
    } else {
        Cow::Owned(status::compute_status(snapshot, &claimed, &managed, snapshot.now))
    };
    // This sync must write a failure into the status, because later syncs do not know of the failure.
    let status_written = write_status(snapshot, &status, failed.is_none(), io).await?;
    if let Some(failed) = failed {
        return Err(failed);
    }
    if status_written == StatusWriteOutcome::CacheShowsChange || managed == PodChangesOutcome::PodsHaveChanged {
        // The next sync starts from the changed set or Pods.
        return Ok(Requeue::Conflict);
    }

    let until_available = timer::time_until_next_available(snapshot, &claimed, &status, snapshot.now, io.now());
    let until_allowed = timer::requeue_after(snapshot, &manage, None);
    // A sync that must not create or delete Pods, for example after a lost answer, does not reset the back-off of its key. A
    // pause of creations is a back-off of its own.
    let is_paused = matches!(*manage, PodChanges::CreationPaused(_));
    let requeue =
        if managed == PodChangesOutcome::NotAllowed && !is_paused { Requeue::AfterPartialWork } else { Requeue::After };
    Ok(until_available.into_iter().chain(until_allowed).min().map_or(Requeue::AfterPlannedDelay, requeue))
}

/// The result of creating or deleting Pods, and the failure that the sync returns; `None` if no request failed.
type ManageOutcome = (PodChangesOutcome, Option<SyncError>);

fn failed_outcome(reason: FailedPodOperation, failed: SyncError) -> ManageOutcome {
    (PodChangesOutcome::RequestFailed { reason, message: failed.to_string() }, Some(failed))
}

fn creation_impossible(problem: &str) -> ManageOutcome {
    failed_outcome(FailedPodOperation::Create, SyncError::new("template", format!("unable to create pods, {problem}")))
}

/// Creates Pods in batches of 1, 2, 4, ... Pods. If the server refuses all Pods, the sync sends only one request.
async fn create_pods(snapshot: &Snapshot, count: usize, missing: usize, io: Io<'_>) -> ManageOutcome {
    let Snapshot { set, owner, .. } = snapshot;
    let Some(template) = &set.template else { return creation_impossible("no template") };
    io.apply_memory_note(ReplicaSetNote::CreatingPods);
    let body = io.encode_body(|| body::new_pod_body(&owner.name, template, owner.controller_reference()));
    let request = Request::create(PODS, &owner.namespace, &Arc::default(), body);
    let why = if count == missing { Cow::Borrowed("") } else { format!("{missing} Pods are missing").into() };
    let request = request.with_generate_name(body::pod_name_prefix(&owner.name)).with_reason(why);
    let create = |_| create_pod(io, request.clone(), owner, &set.selector);
    let created = io.run_group(GroupConcurrency::SlowStart(usize::MAX), 0..count, create).await;

    io.apply_memory_note(ReplicaSetNote::PodCreationEnded(PodCreationOutcome::from_results(&created)));
    let mut refusals = created.into_iter().filter_map(Result::err);
    match refusals.find(|refusal| refusal.class != RefusalClass::NamespaceTerminating) {
        Some(refusal) => failed_outcome(FailedPodOperation::Create, SyncError::from_refusal("", &refusal)),
        None => (PodChangesOutcome::Done, None),
    }
}

async fn delete_pods(victims: &[PodDeletion], age_ratios: &[u64], io: Io<'_>) -> ManageOutcome {
    let uids = victims.iter().map(|victim| victim.pod.meta().uid.clone()).collect();
    io.apply_memory_note(ReplicaSetNote::DeletingPods(uids, age_ratios.to_vec()));
    let delete = |PodDeletion { pod, deletion_reason: why }: &PodDeletion| {
        Request::delete(PODS, pod.meta()).with_reason(why.to_string())
    };
    let deleted = io.run_group(GroupConcurrency::AllConcurrent, victims, |victim| delete_pod(io, delete(victim))).await;

    let refusals = deleted.into_iter().filter_map(Result::err);
    let (changed, others): (Vec<_>, Vec<_>) =
        refusals.partition(|refusal| refusal.class == RefusalClass::VersionConflict);
    match others.first() {
        Some(refusal) => {
            failed_outcome(FailedPodOperation::Delete, SyncError::from_refusal("unable to delete pods", refusal))
        }
        None if !changed.is_empty() => (PodChangesOutcome::PodsHaveChanged, None),
        None => (PodChangesOutcome::Done, None),
    }
}

#[derive(Debug, PartialEq, Eq)]
enum StatusWriteOutcome {
    /// The server has stored the status, or the set was deleted.
    Done,
    /// Another client has changed the set, and the cache already shows this change.
    CacheShowsChange,
}

/// The fields of a set that are read from the server's answers.
#[derive(Deserialize)]
struct StoredSet {
    metadata: Meta,
    #[serde(default)]
    status: Option<Status>,
}

/// Writes the status if it differs from the stored status.
///
/// After a conflict, if `may_wait` is true, waits [`MAX_WATCH_LAG`] for the cache to show the changed set. If the cache shows
/// this set, the next sync writes the status. Otherwise the set is read from the server, and the status is written once more
/// onto the version that was read. Upstream: `pkg/controller/replicaset`, `updateReplicaSetStatus`.
async fn write_status(
    snapshot: &Snapshot,
    status: &Status,
    may_wait: bool,
    io: Io<'_>,
) -> Result<StatusWriteOutcome, SyncError> {
    let (owner, known, limits) = (&snapshot.owner, &snapshot.set.metadata, &snapshot.decision_settings);
    if !limits.is_status_worth_writing(status, &snapshot.set.status) {
        return Ok(StatusWriteOutcome::Done);
    }
    let first = io.send_and_decode::<StoredSet>(status_request(snapshot, status, known.resource_version, io)).await;
    if !matches!(first, Err(Refusal { class: RefusalClass::VersionConflict, .. })) {
        return process_status_answer(status, first, io);
    }
    if may_wait {
        io.pause(MAX_WATCH_LAG).await;
        if io.observe_again(()).is_some() {
            return Ok(StatusWriteOutcome::CacheShowsChange);
        }
    }
    let request = Request::get(owner.resource.clone(), &owner.namespace, &known.name);
    let live = match io.send_and_decode::<StoredSet>(request.with_reason("another writer has changed its status")).await
    {
        Ok(Some(live)) => live,
        answer => return process_status_answer(status, answer, io),
    };
    let is_there = |stored: &Status| !limits.is_status_worth_writing(status, stored);
    if live.metadata.uid != owner.uid || live.status.as_ref().is_some_and(is_there) {
        return Ok(StatusWriteOutcome::Done);
    }
    let second =
        io.send_and_decode::<StoredSet>(status_request(snapshot, status, live.metadata.resource_version, io)).await;
    process_status_answer(status, second, io)
}

fn status_request(snapshot: &Snapshot, status: &Status, version: ResourceVersion, io: Io<'_>) -> Request {
    let (owner, known) = (&snapshot.owner, &snapshot.set.metadata);
    let body = io.encode_body(|| serde_json::json!({"status": status}));
    let role = if snapshot.decision_settings.waits_for_own_writes {
        ObjectRole::SyncedObject
    } else {
        ObjectRole::UntrackedObject
    };
    Request::patch_status(owner.resource.clone(), known, body)
        .into_strategic_patch()
        .with_precondition_version(Some(version))
        .with_role(role)
}

fn process_status_answer(
    status: &Status,
    answer: Result<Option<StoredSet>, Refusal>,
    io: Io<'_>,
) -> Result<StatusWriteOutcome, SyncError> {
    match answer {
        Ok(Some(stored)) if status.terminating_replicas.is_some() => {
            let kept = stored.status.is_some_and(|stored| stored.terminating_replicas.is_some());
            io.apply_memory_note(ReplicaSetNote::KeepsTerminatingReplicas(kept));
        }
        Err(refusal) if refusal.class != RefusalClass::NotFound => {
            return Err(SyncError::from_refusal("cannot write the status", &refusal));
        }
        Ok(_) | Err(_) => {}
    }
    Ok(StatusWriteOutcome::Done)
}

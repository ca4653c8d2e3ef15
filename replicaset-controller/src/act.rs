//! The requests of a sync: creations or deletions of Pods, and the status.

mod body;
#[cfg(test)]
mod guards;

use std::{borrow::Cow, sync::Arc, time::Duration};

use common::{
    io::{create_pod, delete_pod},
    meta::ReplaceableMeta,
    pod_creation_pauses::PodCreationOutcome,
    pods::PODS,
    prelude::*,
    wire::{RawMessage, WithUndeclared, messages},
};
use serde::Deserialize;

use crate::{
    ReplicaController,
    kind::SetKind,
    objects::{CachedSet, Status},
    plan::{FailedPodOperation, PodChangesOutcome, PodDeletion},
    snapshot::Snapshot,
};

/// How long to wait after a conflict for the cache to show the change, before the set is read from the API server.
const MAX_WATCH_LAG: Duration = Duration::from_millis(100);

/// The result of creating or deleting Pods, and the failure that the sync returns; `None` if no request failed.
pub(crate) type ManageOutcome = (PodChangesOutcome, Option<SyncError>);

fn failed_outcome(operation: FailedPodOperation, error: SyncError) -> ManageOutcome {
    (PodChangesOutcome::RequestFailed { operation, message: error.to_string() }, Some(error))
}

pub(crate) fn creation_impossible(problem: &str) -> ManageOutcome {
    failed_outcome(
        FailedPodOperation::Create,
        SyncError::new(SyncErrorClass::Template, format!("unable to create pods, {problem}")),
    )
}

/// Creates Pods in batches of 1, 2, 4, ... Pods. If the server refuses all Pods, the sync sends only one request.
pub(crate) async fn create_pods<K: SetKind>(
    Snapshot { set, owner, .. }: &Snapshot,
    count: usize,
    missing: usize,
    io: Io<'_, ReplicaController<K>>,
) -> ManageOutcome {
    let Some(template) = &set.template else { return creation_impossible("no template") };
    io.update_memory(|controller| {
        controller.watch.failed_pod_backoffs.iter().for_each(|backoffs| backoffs.record_pod_creation(&owner.uid));
    });
    let body = io.encode_object(&PODS, &messages::POD, || {
        body::new_pod_body(&owner.name, template, owner.controller_reference())
    });
    let request = Request::create(PODS, &owner.namespace, &Arc::default(), body);
    let why = if count == missing { Cow::Borrowed("") } else { format!("{missing} Pods are missing").into() };
    let request = request.with_generate_name(body::pod_name_prefix(&owner.name)).with_reason(why);
    let create = |_| create_pod(io, request.clone(), owner, &set.selector);
    let created = io.run_group(GroupConcurrency::SlowStart(usize::MAX), 0..count, create).await;

    let outcome = PodCreationOutcome::from_results(&created);
    io.update_memory(|controller| {
        controller.watch.pod_creation_pauses.record(&owner.uid, set.metadata.generation, outcome);
    });
    let mut refusals = created.into_iter().filter_map(Result::err);
    match refusals.find(|refusal| refusal.class != RefusalClass::NamespaceTerminating) {
        Some(refusal) => failed_outcome(FailedPodOperation::Create, SyncError::from_refusal("", &refusal)),
        None => (PodChangesOutcome::Done, None),
    }
}

pub(crate) async fn delete_pods<K: SetKind>(
    set: &Uid,
    pod_deletions: &[PodDeletion],
    age_ratios: &[u64],
    io: Io<'_, ReplicaController<K>>,
) -> ManageOutcome {
    io.update_memory(|controller| {
        controller.metrics.record_deletion_age_ratios(age_ratios);
        if let Some(backoffs) = &controller.watch.failed_pod_backoffs {
            for PodDeletion { pod, .. } in pod_deletions {
                backoffs.record_deleted_pod(set, &pod.meta().uid);
            }
        }
    });
    let delete = |PodDeletion { pod, deletion_reason }: &PodDeletion| {
        delete_pod(io, Request::delete(PODS, pod.meta()).with_reason(deletion_reason.to_string()))
    };
    let deleted = io.run_group(GroupConcurrency::AllConcurrent, pod_deletions, delete).await;

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
pub(crate) enum StatusWriteOutcome {
    /// The server has stored the status, or the set was deleted.
    Done,
    /// Another client has changed the set, and the cache already shows this change.
    CacheShowsChange,
}

/// The fields of a set that are read from the server's answers.
#[derive(Deserialize)]
struct StoredSet {
    metadata: ReplaceableMeta,
    #[serde(default)]
    status: WithUndeclared<Status>,
}

/// Writes the status if it differs from the stored status.
///
/// After a conflict, if `may_wait` is true, waits [`MAX_WATCH_LAG`] for the cache to show the changed set. If the cache shows
/// this set, the next sync writes the status. Otherwise the set is read from the server, and the status is written once more
/// onto the version that was read. Upstream: `pkg/controller/replicaset`, `updateReplicaSetStatus`.
pub(crate) async fn write_status<K: SetKind>(
    snapshot: &Snapshot,
    status: &Status,
    may_wait: bool,
    io: Io<'_, ReplicaController<K>>,
) -> Result<StatusWriteOutcome, SyncError> {
    let (owner, known, decision_settings) = (&snapshot.owner, &snapshot.set.metadata, &snapshot.decision_settings);
    if !decision_settings.is_status_worth_writing(status, &snapshot.set.status) {
        return Ok(StatusWriteOutcome::Done);
    }
    let first = send_status(snapshot, status, known, &snapshot.set.status.undeclared, io).await;
    if !matches!(first, Err(Refusal { class: RefusalClass::VersionConflict, .. })) {
        return process_status_answer(status, first, io);
    }
    if may_wait {
        io.pause(MAX_WATCH_LAG).await;
        let find_change = |controller: &ReplicaController<K>| {
            let is_same = |meta: &Meta| meta.resource_version == known.resource_version;
            let is_cached =
                controller.watch.replica_set_store.with_metadata(&known.namespace, &known.name, is_same) == Some(true);
            (!is_cached).then_some(())
        };
        if io.observe_again(find_change).is_some() {
            return Ok(StatusWriteOutcome::CacheShowsChange);
        }
    }
    let request = Request::get(K::RESOURCE, &owner.namespace, &known.name);
    let request = request.with_object_answer::<CachedSet<K>>().with_reason("another writer has changed its status");
    let live = match io.send_and_decode::<StoredSet>(request).await {
        Ok(Some(live)) => live,
        answer => return process_status_answer(status, answer, io),
    };
    if live.metadata.uid != owner.uid || !decision_settings.is_status_worth_writing(status, &live.status) {
        return Ok(StatusWriteOutcome::Done);
    }
    let second = send_status(snapshot, status, &live.metadata, &live.status.undeclared, io).await;
    process_status_answer(status, second, io)
}

/// Replaces the status of the set with these metadata, whose status has further fields that are kept.
async fn send_status<K: SetKind>(
    snapshot: &Snapshot,
    status: &Status,
    meta: &ReplaceableMeta,
    raw_undeclared: &RawMessage,
    io: Io<'_, ReplicaController<K>>,
) -> Result<Option<StoredSet>, Refusal> {
    let body = io.encode_status::<CachedSet<K>>(meta.replacement(), status, raw_undeclared);
    let role = if snapshot.decision_settings.waits_for_own_writes {
        ObjectRole::SyncedObject
    } else {
        ObjectRole::UntrackedObject
    };
    let request = Request::replace_status(K::RESOURCE, meta, body).with_object_answer::<CachedSet<K>>();
    io.send_and_decode(request.with_role(role)).await
}

fn process_status_answer<K: SetKind>(
    status: &Status,
    answer: Result<Option<StoredSet>, Refusal>,
    io: Io<'_, ReplicaController<K>>,
) -> Result<StatusWriteOutcome, SyncError> {
    match answer {
        Ok(Some(stored)) if status.terminating_replicas.is_some() => {
            let kept = stored.status.terminating_replicas.is_some();
            io.update_memory(|controller| controller.record_terminating_replicas_kept(kept));
        }
        Err(refusal) if !refusal.is_not_found() => {
            return Err(SyncError::from_refusal("cannot write the status", &refusal));
        }
        Ok(_) | Err(_) => {}
    }
    Ok(StatusWriteOutcome::Done)
}

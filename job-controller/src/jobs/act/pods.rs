//! Creates and deletes the Pods of a Job.

use common::{
    io::{create_pod, delete_pod},
    pod_creation_pauses::PodCreationOutcome,
    pods::PODS,
    prelude::*,
    wire::messages,
};

use super::{body::PodBodyBuilder, finalizers::finalizer_removal_request};
use crate::{
    jobs::{
        JobController,
        plan::{ControlledPod, DeletionReason, NewPod, PodSummary, PodToDelete, PodWrites, ScalingDecision},
        snapshot::Snapshot,
    },
    objects::Job,
};

/// Creates Pods in batches of 1, 2, 4, ... (slow start). A sync sends only one request if the server refuses all Pods.
pub(super) async fn create_pods(
    snapshot: &Snapshot,
    pod_summary: &PodSummary,
    pods: &[NewPod],
    group: Option<&Text>,
    io: Io<'_, JobController>,
) -> (PodWrites, Option<SyncError>) {
    let Snapshot { job, owner, .. } = snapshot;
    let bodies = match PodBodyBuilder::new(job, owner.controller_reference(), group) {
        Ok(bodies) => bodies,
        Err(problem) => {
            let error = SyncError::new(SyncErrorClass::Template, format!("unable to create pods, {problem}"));
            return (PodWrites::default(), Some(error));
        }
    };
    let create = |pod: NewPod| {
        let prefix = bodies.pod_generate_name(pod.completion_index);
        let name = pod.completion_index.map_or_else(String::new, |_| format!("{prefix}*")).into();
        let request = Request::create(
            PODS,
            &owner.namespace,
            &name,
            io.encode_object(&PODS, &messages::POD, || bodies.pod_body(pod)),
        );
        create_pod(io, request.with_generate_name(prefix), owner, &job.selector)
    };
    let created = io.run_group(GroupConcurrency::SlowStart(usize::MAX), pods.iter().copied(), create).await;

    let created_pod_count = created.iter().filter(|created| created.is_ok()).count();
    let outcome = PodCreationOutcome::from_results(&created);
    let refusals = created.into_iter().filter_map(Result::err);
    let refused: Vec<_> = refusals.filter(|refusal| refusal.class != RefusalClass::NamespaceTerminating).collect();
    let reason = pod_creation_reason(job, pod_summary);
    io.update_memory(|controller| {
        controller.watch.metrics.record_pod_create_requests(reason, created_pod_count, refused.len());
        controller.pod_creation_pauses.record(&owner.uid, job.metadata.generation, outcome);
    });
    let error = refused.first().map(|refusal| SyncError::from_refusal("", refusal));
    (PodWrites { created_pod_count, ..PodWrites::default() }, error)
}

/// Returns the value of the metric label `reason`.
fn pod_creation_reason(job: &Job, pod_summary: &PodSummary) -> &'static str {
    match (pod_summary.failed_pod_count > 0, pod_summary.terminating_pod_count > 0) {
        (true, _) if job.pod_replacement_policy_is_failed => "recreate_failed",
        (false, false) => "new",
        _ => "recreate_terminating_or_failed",
    }
}

/// Deletes the Pods that the decision selects. Returns the counts of requests, and the first error except version conflicts.
pub(super) async fn delete_pods(
    pod_summary: &PodSummary,
    scaling_decision: &ScalingDecision,
    io: Io<'_, JobController>,
) -> (PodWrites, Option<SyncError>) {
    let pods_to_delete = scaling_decision.pods_to_delete();
    let delete = |PodToDelete { pod_position, deletion_reason }| {
        let pod = &pod_summary.pods[pod_position];
        delete_job_pod(pod, scaling_decision.removes_finalizer_before_deletion(pod), deletion_reason, io)
    };
    let deleted = io.run_group(GroupConcurrency::AllConcurrent, pods_to_delete.iter().copied(), delete).await;

    let (mut pod_writes, mut error) = (PodWrites::default(), None);
    for (pod_to_delete, deleted) in pods_to_delete.iter().zip(deleted) {
        match deleted {
            Ok(()) => {
                let is_ready = pod_summary.pods[pod_to_delete.pod_position].pod.is_ready();
                pod_writes.deleted_pod_count += 1;
                pod_writes.deleted_ready_pod_count += usize::from(is_ready);
            }
            Err(refusal) if refusal.class == RefusalClass::VersionConflict => pod_writes.conflict_count += 1,
            Err(refusal) => {
                error.get_or_insert_with(|| SyncError::from_refusal("unable to delete pods", &refusal));
            }
        }
    }
    (pod_writes, error)
}

/// Deletes a Pod with a precondition on its cached version. If the Pod has changed since it was cached, for example because it
/// has finished, the server refuses the deletion, and the next sync decides again.
///
/// With `removes_finalizer_first`, the Pod loses its finalizer before the deletion, so that it is not counted.
async fn delete_job_pod(
    ControlledPod { pod, .. }: &ControlledPod,
    removes_finalizer_first: bool,
    deletion_reason: DeletionReason,
    io: Io<'_, JobController>,
) -> Result<(), Refusal> {
    let delete = Request::delete(PODS, pod.meta()).with_reason(deletion_reason.to_string());
    if !removes_finalizer_first {
        return delete_pod(io, delete).await;
    }
    match io.send(finalizer_removal_request(pod, "", io).with_role(ObjectRole::Child)).await {
        // Without the finalizer, no process counts the Pod any more, so the delete needs no precondition.
        Ok(_) => delete_pod(io, delete.with_precondition_version(None)).await,
        Err(refusal) if refusal.class == RefusalClass::NotFound => Ok(()),
        Err(refusal) => Err(refusal),
    }
}

//! Removes the Pods in the plan of a pass of the Pod garbage collector.

use std::{convert::Infallible, sync::Arc};

use common::{
    api::{self, PatchFormat},
    conditions::{TRUE, seconds},
    intern::Text,
    io::{self, GroupConcurrency, ObjectRole, Refusal, RefusalClass, Request, Requeue, SyncError, Verb},
    pods::PODS,
};
use serde_json::json;

use super::{
    plan::{Plan, PodRemoval, PodRemovalsOnNode, RemovalReason},
    snapshot::MAX_FINISHED_PODS_PER_CHUNK,
};
use crate::objects::{CachedPod, DISRUPTION_TARGET_CONDITION, NODES, Node};

/// Number of nodes that a pass reads from the server concurrently.
const MAX_CONCURRENT_NODE_READS: usize = 8;
/// Number of Pods that a pass removes concurrently.
const MAX_CONCURRENT_REMOVALS: usize = 50;
/// Maximum number of attempts to remove a Pod that changes during its removal.
const MAX_REMOVE_ATTEMPTS: usize = 3;

/// A message from a pass to its controller, for logs and metrics.
#[derive(Debug)]
pub(crate) enum PodGcNote {
    /// The removal of a Pod starts.
    RemovalStarted(Arc<CachedPod>, RemovalReason),
    /// The removal of a Pod has finished; the error is set if the removal failed.
    RemovalFinished(Arc<CachedPod>, RemovalReason, Option<api::Error>),
    /// The node with this name could not be read from the server, so its Pods are not removed.
    NodeReadFailed(Text, api::Error),
}

/// Query for the finished Pods that follow this Pod in the order of removal, with the maximum count of Pods in the answer.
#[derive(Debug)]
pub(crate) struct NextFinishedPodsQuery(pub(crate) Arc<CachedPod>, pub(crate) usize);

impl io::MemoryNote for PodGcNote {
    type Query = NextFinishedPodsQuery;
    type NewState = Vec<Arc<CachedPod>>;
}

type Io<'r> = io::Io<'r, PodGcNote>;

/// Removes the planned Pods, one reason after the other. Returns the pause before the next pass.
pub(super) async fn act(plan: &Plan, io: Io<'_>) -> Result<Requeue, SyncError> {
    remove_pods(&plan.finished_pod_removals, io).await;
    remove_further_ended_pods(plan, io).await;
    for (of_nodes, reason) in [
        (&plan.out_of_service_pod_removals, RemovalReason::OutOfService),
        (&plan.orphaned_pod_removals, RemovalReason::Orphaned),
    ] {
        for of_nodes in of_nodes.chunks(MAX_CONCURRENT_NODE_READS) {
            let confirmed = io
                .run_group(GroupConcurrency::AllConcurrent, of_nodes, |of_node| {
                    is_removal_confirmed(of_node, reason, io)
                })
                .await;
            for (of_node, _) in of_nodes.iter().zip(confirmed).filter(|(_, is_confirmed)| *is_confirmed == Ok(true)) {
                remove_pods(&of_node.pod_removals, io).await;
            }
        }
    }
    remove_pods(&plan.unscheduled_pod_removals, io).await;
    // The pause before the next pass begins when this pass ends.
    Ok(Requeue::After(plan.pause_before_next_pass()))
}

/// Removes the finished Pods above the threshold that follow those in the plan. A forecast does not show these removals.
async fn remove_further_ended_pods(plan: &Plan, io: Io<'_>) {
    let mut last = plan.finished_pod_removals.last().map(|victim| Arc::clone(&victim.pod));
    let mut left = plan.excess_finished_pod_count.saturating_sub(plan.finished_pod_removals.len());
    while let Some(behind) = last.take().filter(|_| left > 0) {
        let pods =
            io.observe_again(NextFinishedPodsQuery(behind, left.min(MAX_FINISHED_PODS_PER_CHUNK))).unwrap_or_default();
        left = left.saturating_sub(pods.len());
        last = pods.last().cloned();
        let victims: Vec<PodRemoval> =
            pods.into_iter().map(|pod| PodRemoval { pod, reason: RemovalReason::Terminated }).collect();
        remove_pods(&victims, io).await;
    }
}

async fn remove_pods(victims: &[PodRemoval], io: Io<'_>) {
    io.run_group(GroupConcurrency::LimitedConcurrent(MAX_CONCURRENT_REMOVALS), victims, |victim| {
        remove_pod(victim, io)
    })
    .await;
}

/// Reads a node, and returns true if its state is still the reason to remove its Pods; false if the read fails.
async fn is_removal_confirmed(
    PodRemovalsOnNode { node_name: node, .. }: &PodRemovalsOnNode,
    reason: RemovalReason,
    io: Io<'_>,
) -> Result<bool, Infallible> {
    let request = Request::get(NODES, &"".into(), &node.as_str().into());
    let request = request.with_reason("its Pods are removed only if it equals the cached state");
    let is_confirmed = match io.send_and_decode::<Node>(request).await {
        // A forecast sends no request, and assumes that the node on the server equals the cached node.
        Ok(None) => true,
        Ok(Some(live)) => reason.is_confirmed_by_node(Some(&live)),
        Err(refusal) if refusal.error.is_not_found() => reason.is_confirmed_by_node(None),
        Err(refusal) => {
            io.apply_memory_note(PodGcNote::NodeReadFailed(node.clone(), refusal.error));
            return Ok(false);
        }
    };
    if !is_confirmed {
        io.explain_deviation(format!("Node {node} differs from the cache"));
    }
    Ok(is_confirmed)
}

/// Removes a Pod without waiting for its kubelet, and reports the result.
async fn remove_pod(victim: &PodRemoval, io: Io<'_>) -> Result<(), Infallible> {
    let PodRemoval { pod, reason } = victim;
    io.apply_memory_note(PodGcNote::RemovalStarted(Arc::clone(pod), *reason));
    let error = remove_while_reason_holds(victim, io).await.err();
    io.apply_memory_note(PodGcNote::RemovalFinished(Arc::clone(pod), *reason, error));
    Ok(())
}

/// Removes a Pod. If the Pod has changed since the decision, reads it again and removes it only if the reason still applies.
async fn remove_while_reason_holds(victim: &PodRemoval, io: Io<'_>) -> Result<(), api::Error> {
    let mut judged = Arc::clone(&victim.pod);
    let mut attempt = 1;
    loop {
        let refusal = match remove_pod_version(victim, &judged, io).await {
            Ok(()) => return Ok(()),
            Err(refusal) => refusal,
        };
        match refusal.class {
            RefusalClass::NotFound => return Ok(()),
            RefusalClass::VersionConflict if attempt < MAX_REMOVE_ATTEMPTS => attempt += 1,
            _ => return Err(refusal.error),
        }
        let meta = &victim.pod.meta;
        let request = Request::get(PODS, &meta.namespace, &meta.name);
        match io.send_and_decode::<CachedPod>(request.with_reason("it has changed")).await {
            Err(refusal) if refusal.error.is_not_found() => return Ok(()),
            Err(refusal) => return Err(refusal.error),
            Ok(Some(live)) if victim.reason.still_applies(&victim.pod, &live) => judged = Arc::new(live),
            Ok(_) => {
                io.explain_deviation("the reason of the removal no longer applies");
                return Ok(());
            }
        }
    }
}

/// Sets the phase to `Failed` if it is not terminal yet, and deletes this version of the Pod with a grace period of 0.
async fn remove_pod_version(victim: &PodRemoval, pod: &CachedPod, io: Io<'_>) -> Result<(), Refusal> {
    let meta = &pod.meta;
    if !pod.phase.is_terminal() {
        let body = io.encode_body(|| {
            let mut status = json!({"phase": "Failed"});
            if meta.generation > 0 {
                status["observedGeneration"] = json!(meta.generation);
            }
            if victim.reason == RemovalReason::Orphaned {
                let since = pod.disruption_time.get().unwrap_or(io.now());
                let mut condition = json!({"type": DISRUPTION_TARGET_CONDITION, "status": TRUE, "reason": "DeletionByPodGC",
                    "message": "PodGC: node no longer exists", "lastTransitionTime": seconds::format_rfc3339(since)});
                if meta.generation > 0 {
                    condition["observedGeneration"] = json!(meta.generation);
                }
                status["conditions"] = json!([condition]);
            }
            json!({"status": status})
        });
        let request = Request::patch(PODS, meta, PatchFormat::Strategic, body).with_role(ObjectRole::Child);
        let request = request.with_verb_text("set the phase Failed of").with_reason(victim.reason_text());
        io.send(Request { subresource: "status", ..request }).await?;
    }
    let request = Request::delete(PODS, meta).with_reason(victim.reason_text());
    io.send(Request { verb: Verb::Delete(None, Some(0)), ..request }).await?;
    Ok(())
}

//! The removal of the Pods in the plan of a pass.

use std::{convert::Infallible, sync::Arc};

use common::{pods::PODS, prelude::*};
use serde_json::json;

use super::{
    PodGarbageCollector,
    decide::{MAX_FINISHED_PODS_PER_CHUNK, Plan, PodRemoval, PodRemovalsOnNode, RemovalReason},
};
use crate::objects::{CachedPod, NODES, Node};

/// Number of nodes that a pass reads from the server concurrently.
const MAX_CONCURRENT_NODE_READS: usize = 8;
/// Number of Pods that a pass removes concurrently.
const MAX_CONCURRENT_REMOVALS: usize = 50;
/// Maximum number of attempts to remove a Pod that changes during its removal.
const MAX_REMOVE_ATTEMPTS: usize = 3;

/// Removes Pods because of their nodes, after a read of each node.
pub(super) async fn remove_pods_of_nodes(
    nodes: &[PodRemovalsOnNode],
    reason: RemovalReason,
    io: Io<'_, PodGarbageCollector>,
) {
    for nodes in nodes.chunks(MAX_CONCURRENT_NODE_READS) {
        let confirm = |removals| is_removal_confirmed(removals, reason, io);
        let confirmed = io.run_group(GroupConcurrency::AllConcurrent, nodes, confirm).await;
        for (removals, _) in nodes.iter().zip(confirmed).filter(|(_, is_confirmed)| *is_confirmed == Ok(true)) {
            remove_pods(&removals.pod_removals, io).await;
        }
    }
}

/// Removes the finished Pods above the threshold that follow those in the plan. A forecast does not show these removals.
pub(super) async fn remove_further_finished_pods(plan: &Plan, io: Io<'_, PodGarbageCollector>) {
    let mut last_pod = plan.finished_pod_removals.last().map(|removal| Arc::clone(&removal.pod));
    let mut remaining_count = plan.excess_finished_pod_count.saturating_sub(plan.finished_pod_removals.len());
    while let Some(previous_pod) = last_pod.take().filter(|_| remaining_count > 0) {
        let count = remaining_count.min(MAX_FINISHED_PODS_PER_CHUNK);
        let next_pods = |controller: &PodGarbageCollector| {
            Some(controller.finished_pods.lock().pods_after(count, Some(&previous_pod)))
        };
        let pods = io.observe_again(next_pods).unwrap_or_default();
        remaining_count = remaining_count.saturating_sub(pods.len());
        last_pod = pods.last().cloned();
        let removals = pods.into_iter().map(|pod| PodRemoval { pod, reason: RemovalReason::Terminated });
        remove_pods(&removals.collect::<Vec<_>>(), io).await;
    }
}

pub(super) async fn remove_pods(removals: &[PodRemoval], io: Io<'_, PodGarbageCollector>) {
    let concurrency = GroupConcurrency::LimitedConcurrent(MAX_CONCURRENT_REMOVALS);
    io.run_group(concurrency, removals, |removal| remove_pod(removal, io)).await;
}

/// Reads a node, and returns true if its state is still the reason to remove its Pods; false if the read fails.
async fn is_removal_confirmed(
    PodRemovalsOnNode { node_name, .. }: &PodRemovalsOnNode,
    reason: RemovalReason,
    io: Io<'_, PodGarbageCollector>,
) -> Result<bool, Infallible> {
    let request = Request::get(NODES, &"".into(), &node_name.as_str().into());
    let request = request.with_reason("its Pods are removed only if it equals the cached state");
    let is_confirmed = match io.send_and_decode::<Node>(request).await {
        // A forecast sends no request, and assumes that the node on the server equals the cached node.
        Ok(None) => true,
        Ok(Some(live)) => reason.is_confirmed_by_node(Some(&live)),
        Err(refusal) if refusal.error.is_not_found() => reason.is_confirmed_by_node(None),
        Err(Refusal { error, .. }) => {
            io.update_memory(|_| {
                let node = &**node_name;
                tracing::warn!(logger = "podgc", node, err = %error, "Error getting node from apiserver");
            });
            return Ok(false);
        }
    };
    if !is_confirmed {
        io.explain_deviation(format!("Node {node_name} differs from the cache"));
    }
    Ok(is_confirmed)
}

/// Removes a Pod without waiting for its kubelet, and reports the result.
async fn remove_pod(removal: &PodRemoval, io: Io<'_, PodGarbageCollector>) -> Result<(), Infallible> {
    let (pod, reason) = (&removal.pod, removal.reason.as_str());
    io.update_memory(
        |_| tracing::info!(logger = "podgc", pod = %pod.meta.key(), reason, "PodGC is force deleting Pod"),
    );
    let result = remove_while_reason_holds(removal, io).await;
    io.update_memory(|controller| {
        let labels = [pod.meta.namespace.as_str(), reason];
        if let Err(Refusal { error, .. }) = &result {
            controller.force_deletion_errors_total.with_label_values(&labels).inc();
            tracing::error!(logger = "podgc", pod = %pod.meta.key(), err = %error, "Failed to delete pod");
        }
        controller.force_deletions_total.with_label_values(&labels).inc();
    });
    Ok(())
}

/// Removes a Pod. If the Pod has changed since the decision, reads it again and removes it only if the reason still applies.
async fn remove_while_reason_holds(removal: &PodRemoval, io: Io<'_, PodGarbageCollector>) -> Result<(), Refusal> {
    let mut pod = Arc::clone(&removal.pod);
    let mut attempt = 1;
    loop {
        match remove_pod_version(removal, &pod, io).await {
            Err(refusal) if refusal.is_not_found() => return Ok(()),
            Err(refusal) if refusal.class == RefusalClass::VersionConflict && attempt < MAX_REMOVE_ATTEMPTS => {}
            result => return result,
        }
        attempt += 1;
        let meta = &removal.pod.meta;
        let request = Request::get(PODS, &meta.namespace, &meta.name);
        match io.send_and_decode::<CachedPod>(request.with_reason("it has changed")).await {
            Err(refusal) if refusal.error.is_not_found() => return Ok(()),
            Err(refusal) => return Err(refusal),
            Ok(Some(live)) if removal.reason.still_applies(&removal.pod, &live) => pod = Arc::new(live),
            Ok(_) => {
                io.explain_deviation("the reason of the removal no longer applies");
                return Ok(());
            }
        }
    }
}

/// Sets the phase to `Failed` if it is not terminal yet, and deletes this version of the Pod with a grace period of 0.
async fn remove_pod_version(
    removal: &PodRemoval,
    pod: &CachedPod,
    io: Io<'_, PodGarbageCollector>,
) -> Result<(), Refusal> {
    let meta = &pod.meta;
    if !pod.phase.is_terminal() {
        let body = io.encode_body(|| {
            let mut status = json!({"phase": "Failed"});
            if meta.generation > 0 {
                status["observedGeneration"] = json!(meta.generation);
            }
            if removal.reason == RemovalReason::Orphaned {
                let since = pod.disruption_time.get().unwrap_or(io.now());
                let reason_and_message = ("DeletionByPodGC", "PodGC: node no longer exists");
                status["conditions"] = json!([pod.disruption_target_condition(reason_and_message, since)]);
            }
            json!({"status": status})
        });
        let request = Request::patch_status(PODS, meta, body).into_strategic_patch().with_role(ObjectRole::Child);
        io.send(request.with_verb_text("set the phase Failed of").with_reason(removal.reason_text())).await?;
    }
    io.send(Request::delete(PODS, meta).with_grace_period(0).with_reason(removal.reason_text())).await?;
    Ok(())
}

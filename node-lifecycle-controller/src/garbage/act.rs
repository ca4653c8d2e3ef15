//! Removes the Pods in the plan of a pass of the Pod garbage collector.

use std::{convert::Infallible, sync::Arc};

use common::{
    api::{self, Patch},
    conditions::{TRUE, seconds},
    intern::Text,
    io::{self, Class, Failed, Pace, Refusal, Request, Requeue, Role, Verb},
    pods::PODS,
};
use serde_json::json;

use super::{
    plan::{OfNode, Plan, Reason, Victim},
    snapshot::CHUNK,
};
use crate::objects::{CachedPod, DISRUPTION_TARGET, NODES, Node};

/// Number of nodes that a pass reads from the server concurrently, in the order of the plan.
const NODES_AT_ONCE: usize = 8;
/// Number of Pods that a pass removes concurrently.
const PODS_AT_ONCE: usize = 50;
/// Maximum number of attempts to remove a Pod that changes during its removal.
const ATTEMPTS: usize = 3;

/// A message from a pass to its controller, for logs and metrics.
#[derive(Debug)]
pub(crate) enum Note {
    /// The removal of a Pod starts.
    Removes(Arc<CachedPod>, Reason),
    /// The removal of a Pod has ended; the error is set if the removal failed.
    Removed(Arc<CachedPod>, Reason, Option<api::Error>),
    /// The node with this name could not be read from the server, so its Pods stay.
    Unread(Text, api::Error),
}

/// A request for at most this number of ended Pods that follow this Pod in the order of removal.
#[derive(Debug)]
pub(crate) struct Behind(pub(crate) Arc<CachedPod>, pub(crate) usize);

impl io::Note for Note {
    type Question = Behind;
    type Fresh = Vec<Arc<CachedPod>>;
}

type Io<'r> = io::Io<'r, Note>;

/// Executes the plan of a pass.
pub(super) async fn act(plan: &Plan, io: Io<'_>) -> Result<Requeue, Failed> {
    remove(&plan.terminated, io).await;
    remove_other_ended(plan, io).await;
    for (of_nodes, reason) in [(&plan.out_of_service, Reason::OutOfService), (&plan.orphaned, Reason::Orphaned)] {
        for of_nodes in of_nodes.chunks(NODES_AT_ONCE) {
            let confirmed = io.all(Pace::AtOnce, of_nodes, |of_node| is_confirmed(of_node, reason, io)).await;
            for (of_node, _) in of_nodes.iter().zip(confirmed).filter(|(_, is_confirmed)| *is_confirmed == Ok(true)) {
                remove(&of_node.pods, io).await;
            }
        }
    }
    remove(&plan.unscheduled, io).await;
    // The pause before the next pass begins when this pass ends.
    Ok(Requeue::After(plan.pause()))
}

/// Removes the ended Pods above the threshold that follow those in the plan. A forecast does not show these removals.
async fn remove_other_ended(plan: &Plan, io: Io<'_>) {
    let mut last = plan.terminated.last().map(|victim| Arc::clone(&victim.pod));
    let mut left = plan.excess.saturating_sub(plan.terminated.len());
    while let Some(behind) = last.take().filter(|_| left > 0) {
        let pods = io.observe_again(Behind(behind, left.min(CHUNK))).unwrap_or_default();
        left = left.saturating_sub(pods.len());
        last = pods.last().cloned();
        let victims: Vec<Victim> = pods.into_iter().map(|pod| Victim { pod, reason: Reason::Terminated }).collect();
        remove(&victims, io).await;
    }
}

async fn remove(victims: &[Victim], io: Io<'_>) {
    io.all(Pace::AtMost(PODS_AT_ONCE), victims, |victim| remove_pod(victim, io)).await;
}

/// Reads a node and returns whether its Pods may be removed. If the read fails, the Pods stay.
async fn is_confirmed(OfNode { node, .. }: &OfNode, reason: Reason, io: Io<'_>) -> Result<bool, Infallible> {
    let request = Request::get(NODES, &"".into(), &node.as_str().into());
    let request = request.because("its Pods are removed only if it equals the cached state");
    let is_confirmed = match io.send_and_read::<Node>(request).await {
        // A forecast sends no request, and assumes that the node on the server equals the cached node.
        Ok(None) => true,
        Ok(Some(live)) => reason.is_confirmed_by(Some(&live)),
        Err(refusal) if refusal.error.is_not_found() => reason.is_confirmed_by(None),
        Err(refusal) => {
            io.note(Note::Unread(node.clone(), refusal.error));
            return Ok(false);
        }
    };
    if !is_confirmed {
        io.deviate(format!("Node {node} differs from the cache"));
    }
    Ok(is_confirmed)
}

/// Removes a Pod without waiting for its kubelet, and reports the result.
async fn remove_pod(victim: &Victim, io: Io<'_>) -> Result<(), Infallible> {
    let Victim { pod, reason } = victim;
    io.note(Note::Removes(Arc::clone(pod), *reason));
    let error = remove_while_reason_holds(victim, io).await.err();
    io.note(Note::Removed(Arc::clone(pod), *reason, error));
    Ok(())
}

/// Removes a Pod. If the Pod has changed since the decision, reads it again and removes it only if the reason still applies.
async fn remove_while_reason_holds(victim: &Victim, io: Io<'_>) -> Result<(), api::Error> {
    let mut judged = Arc::clone(&victim.pod);
    let mut attempt = 1;
    loop {
        let refusal = match remove_version(victim, &judged, io).await {
            Ok(()) => return Ok(()),
            Err(refusal) => refusal,
        };
        match refusal.class {
            Class::Gone => return Ok(()),
            Class::Changed if attempt < ATTEMPTS => attempt += 1,
            _ => return Err(refusal.error),
        }
        let meta = &victim.pod.meta;
        let request = Request::get(PODS, &meta.namespace, &meta.name);
        match io.send_and_read::<CachedPod>(request.because("it has changed")).await {
            Err(refusal) if refusal.error.is_not_found() => return Ok(()),
            Err(refusal) => return Err(refusal.error),
            Ok(Some(live)) if victim.reason.still_holds(&victim.pod, &live) => judged = Arc::new(live),
            Ok(_) => {
                io.deviate("the reason of the removal no longer applies");
                return Ok(());
            }
        }
    }
}

/// Sets the phase to `Failed` if it is not terminal yet, and deletes this version of the Pod with a grace period of 0.
async fn remove_version(victim: &Victim, pod: &CachedPod, io: Io<'_>) -> Result<(), Refusal> {
    let meta = &pod.meta;
    if !pod.phase.is_terminal() {
        let body = io.body(|| {
            let mut status = json!({"phase": "Failed"});
            if meta.generation > 0 {
                status["observedGeneration"] = json!(meta.generation);
            }
            if victim.reason == Reason::Orphaned {
                let since = pod.disrupted.get().unwrap_or(io.now());
                let mut condition = json!({"type": DISRUPTION_TARGET, "status": TRUE, "reason": "DeletionByPodGC",
                    "message": "PodGC: node no longer exists", "lastTransitionTime": seconds::text(since)});
                if meta.generation > 0 {
                    condition["observedGeneration"] = json!(meta.generation);
                }
                status["conditions"] = json!([condition]);
            }
            json!({"status": status})
        });
        let request = Request::patch(PODS, meta, Patch::Strategic, body).role(Role::Child);
        let request = request.doing("set the phase Failed of").because(victim.why());
        io.send(Request { subresource: "status", ..request }).await?;
    }
    let request = Request::delete(PODS, meta).because(victim.why());
    io.send(Request { verb: Verb::Delete(None, Some(0)), ..request }).await?;
    Ok(())
}

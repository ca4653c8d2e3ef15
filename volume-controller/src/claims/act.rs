//! Sends the requests of a sync: writes the condition, lists the Pods of the namespace, and changes the finalizer.

use std::sync::Arc;

use common::{
    api::PatchFormat,
    conditions::{self, seconds::format_rfc3339},
    io::CollectionPages,
    partial_object::ObjectPage,
    pods::PODS,
    prelude::*,
};
use serde_json::{Value, json};

use super::{
    ClaimController,
    decide::{LiveUsage, Plan, Snapshot, UNSEEN_USER_RECHECK_DELAY},
};
use crate::{
    objects::{CLAIMS, Claim, Pod, UNUSED},
    protection::{decide::FinalizerStep, write_finalizer},
};

/// Query of a page of a list of Pods.
const POD_PAGE: &str = "limit=500";
/// Selects the Pods with a node, because others use no claim.
const PODS_WITH_NODE: &str = "fieldSelector=spec.nodeName%21%3D";

/// Runs a sync.
pub(super) async fn act(snapshot: &Snapshot, plan: &Plan, io: Io<'_, ClaimController>) -> Result<Requeue, SyncError> {
    let Snapshot { claim, is_used_on_server, .. } = snapshot;
    if let Some(status) = plan.unused {
        let body = io.encode_body(|| condition_patch(status, io));
        let request = Request::patch(CLAIMS, &claim.metadata, PatchFormat::Strategic, body).with_subresource("status");
        let why = if status == conditions::TRUE { "no Pod refers to it" } else { "a Pod refers to it" };
        match io.send(request.with_role(ObjectRole::SyncedObject).with_reason(why)).await {
            Ok(_) => {}
            Err(refusal) if refusal.is_not_found() => return Ok(Requeue::AfterPlannedDelay),
            Err(refusal) if refusal.class == RefusalClass::VersionConflict => return Ok(Requeue::Conflict),
            Err(refusal) => return Err(SyncError::from_refusal("cannot write the condition", &refusal)),
        }
    }
    if is_used_on_server.is_some() {
        io.update_memory(|controller| controller.forget_list_answer(claim));
    } else if plan.step == FinalizerStep::Remove
        && let Some(pod) = find_user_on_server(claim, io).await?
    {
        io.explain_deviation(format!("Pod {pod}, which the cache lacks, uses the claim"));
        return Ok(Requeue::After(UNSEEN_USER_RECHECK_DELAY));
    }
    write_finalizer(&**claim, plan.step, io).await
}

/// Returns the patch that sets the condition. All other conditions stay, because the server merges them by type.
fn condition_patch<M: Sync>(status: &str, io: Io<'_, M>) -> Value {
    let (reason, message) = if status == conditions::TRUE {
        ("NoPodsUsingPVC", "No pods are currently referencing this PVC")
    } else {
        ("PodUsingPVC", "A pod is currently referencing this PVC")
    };
    let time = format_rfc3339(io.now());
    json!({"status": {"conditions": [{"type": UNUSED, "status": status, "reason": reason, "message": message,
        "lastTransitionTime": time, "lastProbeTime": null}]}})
}

/// Lists the Pods of the namespace from the server, and returns the name of one that uses the claim. Remembers what the list says
/// of the other claims that were terminating before it was requested.
///
/// Upstream: `pkg/controller/volume/pvcprotection`, `askAPIServer`.
async fn find_user_on_server(claim: &Arc<Claim>, io: Io<'_, ClaimController>) -> Result<Option<Arc<str>>, SyncError> {
    let failed = |refusal| SyncError::from_refusal("cannot list the Pods that may use the claim", &refusal);
    let namespace = &claim.metadata.namespace;
    let held = io.observe_again(|controller| Some(controller.held_claims(namespace))).unwrap_or_default();
    let mut usage = LiveUsage::new(held.into_iter().chain([Arc::clone(claim)]));
    let requested = io.now();
    let mut pages = CollectionPages::new(POD_PAGE).with_selector(PODS_WITH_NODE);
    while let Some(query) = pages.next_query() {
        if !pages.is_at_start() {
            io.explain_deviation("the list of Pods has several pages");
        }
        let request = Request::list(PODS, namespace, query).with_reason("the cache may lack a Pod that uses the claim");
        match io.send(request).await {
            Ok(answer) => {
                let page: ObjectPage<Pod> = pages.advance(&answer).map_err(failed)?;
                page.items.iter().for_each(|pod| usage.add(pod));
            }
            Err(refusal) if pages.restart_if_expired(&refusal) => usage.restart(),
            Err(refusal) => return Err(failed(refusal)),
        }
    }
    let user = usage.take_user(claim);
    let now = io.now();
    io.update_memory(|controller| controller.record_list(requested, now, usage.into_answers()));
    Ok(user)
}

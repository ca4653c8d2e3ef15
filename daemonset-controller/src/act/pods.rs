//! Adopts, releases, labels, creates and deletes Pods.

use std::{borrow::Cow, collections::BTreeSet, sync::Arc};

use common::{
    api::PatchFormat, io::create_pod_with_answer, pod_creation_pauses::PodCreationOutcome, pods::PODS, prelude::*,
    wire::messages,
};
use serde::Deserialize;
use serde_json::json;

use super::{SetIo, body::PodBodyTemplate, is_likely_permanent, report_denied_change};
use crate::{
    DaemonSetController,
    decide::recheck::deletion_reason_still_applies,
    node_indexes::UnansweredPodCreation,
    objects::{CachedPod, REVISION_HASH_LABEL, SharedPod},
    plan::{DeletionReason, Plan, PodCreation, PodDeletion},
    snapshot::{FirstTask, PodsToChange, Snapshot, nodes::NodeCursor},
};

/// Greatest total size of the Pods in concurrent create requests, in bytes. A single Pod may be larger.
const MAX_CREATE_BYTES_IN_FLIGHT: usize = 8 << 20;
/// Greatest number of requests to delete a Pod in one sync, if other clients change the Pod between the requests.
const MAX_DELETE_ATTEMPTS: usize = 5;

/// The outcome of the requests that change the hash in the labels of Pods.
#[derive(Default)]
pub(super) struct RelabelOutcome<'s> {
    /// Number of Pods that the server stored with the new hash.
    pub(super) relabelled_pod_count: usize,
    /// The hashes that are still in the labels of some Pods, because the server has denied the new label.
    pub(super) hashes_still_on_pods: BTreeSet<&'s str>,
}

/// Changes the label `controller-revision-hash` of Pods. Pods with the hash of a duplicate revision get the hash of the current
/// revision. Pods without the label get it with an empty value, because the watch selects Pods by this label.
pub(super) async fn relabel<'s>(
    snapshot: &'s Snapshot,
    denial_error: &mut Option<SyncError>,
    io: SetIo<'_>,
) -> Result<RelabelOutcome<'s>, SyncError> {
    let PodsToChange { pods_to_relabel, pods_without_hash_label, .. } = &snapshot.pods_to_change;
    let with_hashes = pods_to_relabel.iter().map(|pod| (pod, snapshot.revisions.current_hash.as_str()));
    let without_hashes = pods_without_hash_label.iter().map(|pod| (pod, ""));
    let changes: Vec<(&SharedPod, &str)> = with_hashes.chain(without_hashes).collect();
    let relabel = |(pod, hash)| relabel_pod(snapshot, pod, hash, io);
    let results = io.run_group(GroupConcurrency::AllConcurrent, changes.iter().copied(), relabel).await;
    let mut relabelled = RelabelOutcome::default();
    for ((pod, _), result) in changes.into_iter().zip(results) {
        match result {
            Ok(is_done) => relabelled.relabelled_pod_count += usize::from(is_done),
            Err(refusal) => {
                let meta = pod.meta();
                let error = report_denied_change(snapshot, "relabel", &PODS, meta, &refusal, io).ok_or_else(|| {
                    SyncError::from_refusal_in_namespace(&format!("relabel Pod {}", meta.name), &refusal)
                })?;
                denial_error.get_or_insert(error);
                relabelled.hashes_still_on_pods.insert(pod.revision_hash());
            }
        }
    }
    Ok(relabelled)
}

/// Sets the hash label of a Pod, with the Pod's version as a precondition. Returns whether the Pod exists and has the label.
async fn relabel_pod(snapshot: &Snapshot, pod: &SharedPod, hash: &str, io: SetIo<'_>) -> Result<bool, Refusal> {
    let body = io.encode_body(|| json!({"metadata": {"labels": {REVISION_HASH_LABEL: hash}}}));
    let request = Request::patch(PODS, pod.meta(), PatchFormat::Merge, body)
        .with_role(ObjectRole::Child)
        .with_verb_text("relabel");
    let why = match hash {
        "" => Cow::Borrowed("it lacks the label by which Pods are watched"),
        hash => format!("its revision is kept under the hash {hash}").into(),
    };
    match io.send(request.with_reason(why)).await {
        Ok(answer) => {
            // If the stored Pod lacks the hash label, a webhook has removed the label. The next attempt follows a back-off.
            let stored = answer.decode_metadata().ok().flatten();
            let Some(stored) = stored.filter(|stored| stored.labels.get(REVISION_HASH_LABEL).is_none()) else {
                return Ok(true);
            };
            io.update_memory(|controller| controller.record_denied_change(snapshot, &PODS, &stored));
            Ok(false)
        }
        Err(refusal) if refusal.error.is_not_found() => Ok(false),
        Err(refusal) => Err(refusal),
    }
}

/// Adopts and releases Pods. Returns the number of adopted Pods.
pub(super) async fn adopt_and_release(
    snapshot: &Snapshot,
    plan: &Plan,
    denial_error: &mut Option<SyncError>,
    io: SetIo<'_>,
) -> Result<usize, SyncError> {
    let claim =
        ChildClaim::new(&snapshot.owner, PODS, &plan.orphans_to_adopt, &snapshot.pods_to_change.pods_to_release);
    let missing_label = |pod: &SharedPod| pod.lacks_revision_hash_label().then(|| json!({REVISION_HASH_LABEL: ""}));
    let mut claim = claim.with_adoption_labels(missing_label).send(io).await;
    for (pod, refusal) in claim.take_failed_releases(|refusal| refusal.error.is_denied()) {
        let error = report_denied_change(snapshot, "release", &PODS, pod.meta(), &refusal, io);
        *denial_error = denial_error.take().or(error);
    }
    for (verb, pod, refusal) in claim.claim_failures() {
        report_denied_change(snapshot, verb, &PODS, pod.meta(), refusal, io);
    }
    if claim.has_lost_owner() {
        // The next sync adopts Pods again before it creates or deletes any.
        io.update_memory(|controller| {
            controller.change_record(snapshot, |record| record.first_task_of_next_sync = FirstTask::AdoptOrphans);
        });
    }
    claim.take_claim_result().map_err(|failed| failed.with_context("cannot claim Pods"))?;
    Ok(claim.adopted_children().count())
}

/// Creates Pods in batches of 1, 2, 4, ... Pods; a batch of large Pods is smaller. Returns the number of created Pods.
///
/// Upstream: `pkg/controller/daemon`, `syncNodes`.
pub(super) async fn create(snapshot: &Snapshot, plan: &Plan, io: SetIo<'_>) -> Result<usize, SyncError> {
    record_finished_pod_events(plan, io);
    if plan.pod_creations.is_empty() {
        return Ok(0);
    }
    let template = &PodBodyTemplate::new(&snapshot.set, &snapshot.owner, &plan.revision_hash).map_err(|error| {
        SyncError::new(SyncErrorClass::Template, format!("cannot make a Pod from spec.template: {error}"))
    })?;
    let pace = GroupConcurrency::SlowStart(MAX_CREATE_BYTES_IN_FLIGHT / template.approximate_pod_bytes.max(1));
    let create = |creation| create_for_node(snapshot, creation, template, io);
    let created = io.run_group(pace, &plan.pod_creations, create).await;

    let outcome = PodCreationOutcome::from_results(&created);
    io.update_memory(|controller| {
        controller.watch.pod_creation_pauses.record(&snapshot.owner.uid, snapshot.set.metadata.generation, outcome);
    });
    let count = created.iter().filter(|result| result.is_ok()).count();
    let refusals =
        plan.pod_creations.iter().zip(created).filter_map(|(creation, result)| Some((creation, result.err()?)));
    // A refusal because the namespace is terminating does not fail the sync.
    let failures: Vec<(&PodCreation, Refusal)> =
        refusals.filter(|(_, refusal)| refusal.class != RefusalClass::NamespaceTerminating).collect();
    if let Some((creation, _)) = failures.iter().rfind(|(_, refusal)| is_likely_permanent(refusal)) {
        let cursor = NodeCursor(Some(creation.node_name.clone()));
        io.update_memory(|controller| {
            controller.change_record(snapshot, |record| record.refused_node_cursors.creation_cursor = cursor);
        });
    }
    failures
        .first()
        .map_or(Ok(count), |(_, refusal)| Err(SyncError::from_refusal_in_namespace("cannot create Pods", refusal)))
}

/// Records an Event for each failed or succeeded Pod that the plan deletes. Upstream: `podsShouldBeOnNode`.
fn record_finished_pod_events(plan: &Plan, io: SetIo<'_>) {
    for PodDeletion { pod, node_name: node, deletion_reason } in &plan.pod_deletions {
        let (kind, reason, phase, verb) = match deletion_reason {
            DeletionReason::PodFailed => (EventType::Warning, "FailedDaemonPod", "failed", "kill"),
            DeletionReason::PodSucceeded => (EventType::Normal, "SucceededDaemonPod", "succeeded", "delete"),
            _ => continue,
        };
        let pod = pod.meta().key();
        io.record_event(kind, reason, format!("Found {phase} daemon pod {pod} on node {node}, will try to {verb} it"));
    }
}

/// Creates the Pod for one node. The body is made just before the request, because the bodies for all nodes take much memory.
async fn create_for_node(
    snapshot: &Snapshot,
    PodCreation { node_name, creation_reason }: &PodCreation,
    template: &PodBodyTemplate,
    io: SetIo<'_>,
) -> Result<(), Refusal> {
    let body = io.encode_object(&PODS, &messages::POD, || template.pod_body_for_node(node_name));
    let request = Request::create(PODS, &snapshot.owner.namespace, &Arc::default(), body);
    // After a lost answer, no other Pod is created for this node for some time. Other nodes of the DaemonSet still get Pods.
    let request = request.with_generate_name(Arc::clone(&template.generate_name)).with_role(ObjectRole::AwaitedObject);
    let request = request.with_reason(format!("node {node_name}: {creation_reason}")).with_object_answer::<CachedPod>();
    let created = create_pod_with_answer(io, request, &snapshot.owner, &snapshot.set.selector).await;
    match &created {
        // A webhook may have removed the hash label of the Pod, so that the watch does not show the Pod. If the Pod were not
        // tracked by reads, each sync would create another Pod.
        Ok(answer) => {
            if let Some(pod) = answer.decode::<CachedPod>().ok().flatten().filter(CachedPod::lacks_revision_hash_label)
            {
                io.update_memory(|controller| controller.pods.add_object_hidden_from_watch(pod));
            }
        }
        Err(Refusal { class: RefusalClass::MaybeWritten, .. }) => {
            io.update_memory(|controller| controller.record_unanswered_creation(snapshot, node_name));
        }
        Err(_) => {}
    }
    created.map(drop)
}

impl DaemonSetController {
    /// Records a lost answer to a creation. While the creation may still take effect, the node gets no other Pod.
    fn record_unanswered_creation(&self, snapshot: &Snapshot, node: &Text) {
        let nodes = &snapshot.actionable_nodes;
        let lists = [
            &nodes.nodes_needing_pod,
            &nodes.nodes_with_unavailable_outdated_pod,
            &nodes.nodes_with_available_outdated_pod,
        ];
        let listed = lists.into_iter().flat_map(|list| &list.nodes).find(|listed| listed.name == *node);
        let known_uids = listed.into_iter().flat_map(|listed| &listed.pods).map(|pod| pod.meta().uid.clone()).collect();
        let until = self.context.clock.monotonic_now() + self.watch.ledger.unanswered_creation_timeout();
        let creation = UnansweredPodCreation { known_uids, until };
        self.change_record(snapshot, |record| _ = record.unanswered_pod_creations.insert(node.clone(), creation));
    }
}

/// Deletes the Pods of the plan. Returns the number of Pods that still existed.
pub(super) async fn delete(snapshot: &Snapshot, plan: &Plan, io: SetIo<'_>) -> Result<usize, SyncError> {
    let delete = |deletion| delete_if_unchanged(snapshot, deletion, io);
    let deleted = io.run_group(GroupConcurrency::AllConcurrent, &plan.pod_deletions, delete).await;

    let count = deleted.iter().filter(|result| matches!(result, Ok(true))).count();
    let results = plan.pod_deletions.iter().zip(deleted);
    let failures: Vec<(&PodDeletion, Refusal)> =
        results.filter_map(|(deletion, result)| Some((deletion, result.err()?))).collect();
    if let Some((deletion, _)) = failures.iter().rfind(|(_, refusal)| is_likely_permanent(refusal)) {
        let cursor = NodeCursor(Some(deletion.node_name.clone()));
        io.update_memory(|controller| {
            controller.change_record(snapshot, |record| record.refused_node_cursors.deletion_cursor = cursor);
        });
    }
    failures.first().map_or(Ok(count), |(deletion, refusal)| {
        Err(SyncError::from_refusal_in_namespace(&format!("cannot delete Pod {}", deletion.pod.meta().name), refusal))
    })
}

/// Deletes a Pod if the reason for the deletion still applies. Returns whether the Pod existed.
///
/// If the Pod has changed, it is read from the server, and the reason is checked again. The next request has the version that
/// was read as a precondition, so even a Pod that other clients change all the time can be deleted. After a lost answer, the
/// read shows whether the Pod itself still exists, because another Pod may have its name by then.
async fn delete_if_unchanged(snapshot: &Snapshot, deletion: &PodDeletion, io: SetIo<'_>) -> Result<bool, Refusal> {
    let (set, criteria, name) = (&snapshot.set, &snapshot.actionable_nodes.pod_criteria, &deletion.pod.meta().name);
    let report_deleted = || io.record_event(EventType::Normal, "SuccessfulDelete", format!("Deleted pod: {name}"));
    let mut request = Request::delete(PODS, deletion.pod.meta()).with_reason(deletion.deletion_reason.to_string());
    let mut attempts = MAX_DELETE_ATTEMPTS;
    loop {
        let Err(refusal) = io.send(request.clone()).await else {
            report_deleted();
            return Ok(true);
        };
        attempts -= 1;
        let is_unknown = refusal.class == RefusalClass::MaybeWritten;
        if attempts > 0 && (is_unknown || refusal.class == RefusalClass::VersionConflict) {
            match read_live(&deletion.pod, io).await {
                // The request with the lost answer has probably deleted the Pod. The next sync waits until the cache shows the
                // deletion.
                Some(None) if is_unknown => {
                    let (owner, Meta { namespace, uid, .. }) = (&snapshot.owner.uid, deletion.pod.meta());
                    io.update_memory(|controller| {
                        controller.watch.ledger.record_deletion(owner, PODS, namespace, name, uid);
                    });
                    report_deleted();
                    return Ok(true);
                }
                Some(None) => return Ok(false),
                Some(Some(live))
                    if !is_unknown
                        && deletion_reason_still_applies(deletion, &live, set, criteria, snapshot.now, io.now()) =>
                {
                    request = request.with_precondition_version(Some(live.meta().resource_version));
                    continue;
                }
                // The Pod must not be deleted, its deletion is uncertain, or the read has failed. The next sync decides again.
                Some(Some(_)) | None => {}
            }
        }
        if refusal.error.is_not_found() {
            return Ok(false);
        }
        // A conflict needs no Event, because the DaemonSet is synced again once the cache shows the changed Pod.
        if is_likely_permanent(&refusal) {
            io.record_event(EventType::Warning, "FailedDelete", format!("Error deleting: {}", refusal.error));
        }
        return Err(refusal);
    }
}

#[derive(Deserialize)]
struct PodListAnswer {
    items: Vec<CachedPod>,
}

/// Reads the Pod to delete from the server: `Some(None)` if it is deleted or terminating, `None` if the read fails.
async fn read_live(pod: &SharedPod, io: SetIo<'_>) -> Option<Option<SharedPod>> {
    // A list request reads the Pod, because the ClusterRole of upstream's controller has no right to get Pods.
    let Meta { namespace, name, uid, .. } = pod.meta();
    let request = Request::list(PODS, namespace, format!("fieldSelector=metadata.name%3D{name}"));
    let PodListAnswer { items } = io.send_and_decode(request).await.ok().flatten()?;
    Some(items.into_iter().find(|live| live.meta().uid == *uid && !live.meta().is_deleting()).map(Arc::new))
}

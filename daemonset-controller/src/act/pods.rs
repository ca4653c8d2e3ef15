//! The requests for Pods: claims, labels, creations and deletions.

use std::{borrow::Cow, collections::BTreeSet, sync::Arc};

use common::{
    api::Patch,
    events::EventType,
    io::{Claim, Class, Failed, Pace, Refusal, Request, Role, create_pod_with_answer},
    pods::PODS,
};
use serde::Deserialize;
use serde_json::json;

use super::{
    body::PodSource,
    note::{Io, Note},
    refusals::{is_for_good, refused, report_denied},
};
use crate::{
    decide::recheck::still_holds,
    objects::{CachedPod, HASH_LABEL, PodRef},
    plan::{Creation, Deletion, Plan, Why},
    snapshot::Snapshot,
};

/// Greatest total size of the Pods in concurrent create requests, in bytes. A single Pod may be larger.
const BODIES_IN_FLIGHT: usize = 8 << 20;
/// Greatest number of requests to delete a Pod in one sync, if other clients change the Pod between the requests.
const DELETE_ATTEMPTS: usize = 5;

/// The outcome of the requests that change the hash in the labels of Pods.
#[derive(Default)]
pub(super) struct Relabelled<'s> {
    /// Number of Pods that the server stored with the new hash.
    pub(super) done: usize,
    /// The hashes that Pods keep because the server denies to relabel them.
    pub(super) kept_hashes: BTreeSet<&'s str>,
}

/// Changes the label `controller-revision-hash` of Pods. Pods with the hash of a duplicate revision get the hash of the current
/// revision. Pods without the label get it with an empty value, because the watch selects Pods by this label.
pub(super) async fn relabel<'s>(
    snapshot: &'s Snapshot,
    denied: &mut Option<Failed>,
    io: Io<'_>,
) -> Result<Relabelled<'s>, Failed> {
    let Snapshot { relabel, unlabelled, revisions, .. } = snapshot;
    let with_hashes = relabel.iter().map(|pod| (pod, revisions.hash.as_str()));
    let changes: Vec<(&PodRef, &str)> = with_hashes.chain(unlabelled.iter().map(|pod| (pod, ""))).collect();
    let results = io.all(Pace::AtOnce, changes.iter().copied(), |(pod, hash)| relabel_pod(pod, hash, io)).await;
    let mut relabelled = Relabelled::default();
    for ((pod, _), result) in changes.into_iter().zip(results) {
        match result {
            Ok(is_done) => relabelled.done += usize::from(is_done),
            Err(refusal) => {
                let meta = pod.meta();
                let failed = report_denied(io, "relabel Pod", meta, Note::RefusedPod, &refusal)
                    .ok_or_else(|| refused(&format!("relabel Pod {}", meta.name), &refusal))?;
                denied.get_or_insert(failed);
                relabelled.kept_hashes.insert(pod.hash());
            }
        }
    }
    Ok(relabelled)
}

/// Sets the hash label of a Pod, with the Pod's version as a precondition. Returns whether the Pod exists and has the label.
async fn relabel_pod(pod: &PodRef, hash: &str, io: Io<'_>) -> Result<bool, Refusal> {
    let body = io.body(|| json!({"metadata": {"labels": {HASH_LABEL: hash}}}));
    let request = Request::patch(PODS, pod.meta(), Patch::Merge, body).role(Role::Child).doing("relabel");
    let why = match hash {
        "" => Cow::Borrowed("it lacks the label by which Pods are watched"),
        hash => format!("its revision is kept under the hash {hash}").into(),
    };
    match io.send(request.because(why)).await {
        Ok(answer) => {
            // If the stored Pod lacks the hash label, a webhook has removed it. The next attempt follows after a back-off.
            let stored = answer.metadata().ok().flatten().filter(|stored| stored.labels.get(HASH_LABEL).is_none());
            let Some(stored) = stored else { return Ok(true) };
            io.note(Note::RefusedPod(Box::new(stored)));
            Ok(false)
        }
        Err(refusal) if refusal.error.is_not_found() => Ok(false),
        Err(refusal) => Err(refusal),
    }
}

/// Adopts and releases Pods. Returns the number of adopted Pods.
pub(super) async fn claim(
    snapshot: &Snapshot,
    plan: &Plan,
    denied: &mut Option<Failed>,
    io: Io<'_>,
) -> Result<usize, Failed> {
    let claim = Claim::new(&snapshot.owner, PODS, &plan.adopt, &snapshot.release);
    let mut claim = claim.labelled(|pod| pod.is_unlabelled().then(|| json!({HASH_LABEL: ""}))).send(io).await;
    for (pod, refusal) in claim.give_up_releases(|refusal| refusal.error.is_denied()) {
        let failed = report_denied(io, "release Pod", pod.meta(), Note::RefusedPod, &refusal);
        *denied = denied.take().or(failed);
    }
    for (verb, pod, refusal) in claim.failures() {
        report_denied(io, &format!("{verb} Pod"), pod.meta(), Note::RefusedPod, refusal);
    }
    if claim.lost_owner() {
        io.note(Note::LostOwner);
    }
    claim.result().map_err(|failed| failed.while_doing("cannot claim Pods"))?;
    Ok(claim.adopted().count())
}

/// Creates Pods in batches of 1, 2, 4, ... Pods; a batch of large Pods is smaller. Returns the number of created Pods.
///
/// Upstream: `pkg/controller/daemon`, `syncNodes`.
pub(super) async fn create(snapshot: &Snapshot, plan: &Plan, io: Io<'_>) -> Result<usize, Failed> {
    report_found(plan, io);
    if plan.creates.is_empty() {
        return Ok(0);
    }
    let source = &PodSource::new(&snapshot.set, &snapshot.owner, &plan.hash)
        .map_err(|error| Failed::new("template", format!("cannot make a Pod from spec.template: {error}")))?;
    let pace = Pace::SlowStart(BODIES_IN_FLIGHT / source.size().max(1));
    let created = io.all(pace, &plan.creates, |creation| create_for_node(snapshot, creation, source, io)).await;

    let count = created.iter().filter(|result| result.is_ok()).count();
    let refusals = plan.creates.iter().zip(created).filter_map(|(creation, result)| Some((creation, result.err()?)));
    // A refusal because the namespace is terminating does not fail the sync.
    let failures: Vec<(&Creation, Refusal)> =
        refusals.filter(|(_, refusal)| refusal.class != Class::NamespaceTerminating).collect();
    if let Some((creation, _)) = failures.iter().rfind(|(_, refusal)| is_for_good(refusal)) {
        io.note(Note::RefusedCreate(creation.node.clone()));
    }
    failures.first().map_or(Ok(count), |(_, refusal)| Err(refused("cannot create Pods", refusal)))
}

/// Records an Event for each failed or succeeded Pod that the plan deletes. Upstream: `podsShouldBeOnNode`.
fn report_found(plan: &Plan, io: Io<'_>) {
    for Deletion { pod, node, why } in &plan.deletes {
        let (kind, reason, phase, verb) = match why {
            Why::Failed => (EventType::Warning, "FailedDaemonPod", "failed", "kill"),
            Why::Succeeded => (EventType::Normal, "SucceededDaemonPod", "succeeded", "delete"),
            _ => continue,
        };
        let pod = pod.meta().key();
        io.event(kind, reason, format!("Found {phase} daemon pod {pod} on node {node}, will try to {verb} it"));
    }
}

/// Creates the Pod for one node. The body is made just before the request, because the bodies for all nodes take much memory.
async fn create_for_node(
    snapshot: &Snapshot,
    Creation { node, lack }: &Creation,
    source: &PodSource,
    io: Io<'_>,
) -> Result<(), Refusal> {
    let body = io.body(|| source.pod(node));
    let request = Request::create(PODS, &snapshot.owner.namespace, &Arc::default(), body);
    // After a lost answer, only this node waits. Other nodes of the DaemonSet still get Pods.
    let request = request.generate_name(Arc::clone(source.generate_name())).role(Role::Awaited);
    let created = create_pod_with_answer(io, request.because(format!("node {node}: {lack}"))).await;
    match &created {
        // A webhook has removed the hash label from such a Pod, and the watch does not show the Pod. Without the note, each
        // sync would create another Pod.
        Ok(answer) => {
            if let Some(pod) = answer.read::<CachedPod>().ok().flatten().filter(CachedPod::is_unlabelled) {
                io.note(Note::UnlabelledPod(Box::new(pod)));
            }
        }
        Err(Refusal { class: Class::Unknown, .. }) => io.note(Note::LostCreate(node.clone())),
        Err(Refusal { class: Class::NamespaceTerminating, .. }) => io.note(Note::NamespaceTerminates),
        Err(_) => {}
    }
    created.map(drop)
}

/// Deletes the Pods of the plan. Returns the number of Pods that still existed.
pub(super) async fn delete(snapshot: &Snapshot, plan: &Plan, io: Io<'_>) -> Result<usize, Failed> {
    let deleted = io.all(Pace::AtOnce, &plan.deletes, |deletion| delete_if_unchanged(snapshot, deletion, io)).await;

    let count = deleted.iter().filter(|result| matches!(result, Ok(true))).count();
    let failures: Vec<(&Deletion, Refusal)> =
        plan.deletes.iter().zip(deleted).filter_map(|(deletion, result)| Some((deletion, result.err()?))).collect();
    if let Some((deletion, _)) = failures.iter().rfind(|(_, refusal)| is_for_good(refusal)) {
        io.note(Note::RefusedDelete(deletion.node.clone()));
    }
    failures.first().map_or(Ok(count), |(deletion, refusal)| {
        Err(refused(&format!("cannot delete Pod {}", deletion.pod.meta().name), refusal))
    })
}

/// Deletes a Pod if the reason for the deletion still applies. Returns whether the Pod existed.
///
/// If the Pod has changed, it is read live and judged again. The next request has the version of this read as a precondition. A
/// Pod that other clients change all the time can therefore be deleted. After a lost answer, the Pod is read as well, because
/// another Pod may have its name by then.
async fn delete_if_unchanged(snapshot: &Snapshot, deletion: &Deletion, io: Io<'_>) -> Result<bool, Refusal> {
    let (set, criteria, name) = (&snapshot.set, &snapshot.nodes.criteria, &deletion.pod.meta().name);
    let report_deleted = || io.event(EventType::Normal, "SuccessfulDelete", format!("Deleted pod: {name}"));
    let mut request = Request::delete(PODS, deletion.pod.meta()).because(deletion.why.to_string());
    let mut attempts = DELETE_ATTEMPTS;
    loop {
        let Err(refusal) = io.send(request.clone()).await else {
            report_deleted();
            return Ok(true);
        };
        attempts -= 1;
        let is_unknown = refusal.class == Class::Unknown;
        if attempts > 0 && (is_unknown || refusal.class == Class::Changed) {
            match read_live(&request, deletion, io).await {
                // The request with the lost answer has probably deleted the Pod. The note makes the next sync wait until the
                // cache shows the deletion.
                Some(None) if is_unknown => {
                    io.note(Note::Deleted(Arc::clone(&deletion.pod)));
                    report_deleted();
                    return Ok(true);
                }
                Some(None) => return Ok(false),
                Some(Some(live))
                    if !is_unknown && still_holds(deletion, &live, set, criteria, snapshot.now, io.now()) =>
                {
                    request = request.at(Some(live.meta().resource_version));
                    continue;
                }
                // The reason does not apply to the changed Pod, or the read has failed. The next sync decides about the Pod.
                Some(Some(_)) | None => {}
            }
        }
        if refusal.error.is_not_found() {
            return Ok(false);
        }
        // A conflict needs no Event, because the DaemonSet is synced again once the cache shows the changed Pod.
        if is_for_good(&refusal) {
            io.event(EventType::Warning, "FailedDelete", format!("Error deleting: {}", refusal.error));
        }
        return Err(refusal);
    }
}

#[derive(Deserialize)]
struct List {
    items: Vec<CachedPod>,
}

/// Reads the Pod of a deletion from the server: `Some(None)` if it is deleted or terminating, `None` if the read fails.
async fn read_live(request: &Request, deletion: &Deletion, io: Io<'_>) -> Option<Option<PodRef>> {
    // A list request reads the Pod, because the ClusterRole of upstream's controller has no right to get Pods.
    let query = format!("fieldSelector=metadata.name%3D{}", request.name);
    let List { items } = io.send_and_read(Request::list(PODS, &request.namespace, query)).await.ok().flatten()?;
    let uid = &deletion.pod.meta().uid;
    Some(items.into_iter().find(|live| live.meta().uid == *uid && !live.meta().is_deleting()).map(Arc::new))
}

//! The loop that releases the dependents of objects that are deleted with the policy `Orphan`.

mod decide;

use std::{borrow::Cow, sync::Arc};

use common::{api::PatchFormat, prelude::*};
use jiff::Timestamp;
use serde_json::{Value, json};

use self::decide::{DependentWithResource, Plan, Snapshot};
use crate::{
    graph::{Dependent, ORPHAN_FINALIZER},
    key::ObjectKey,
    monitors::Monitors,
    parked::{QueueId, WaitCondition},
    place::{
        LiveReadResult, MAX_WRITE_ATTEMPTS, ObjectLocation, REFERENCE_CHANGE_ACTIVITY, event_reference,
        is_unsupported_patch, report_denied_reference_change, unserved_kind_error,
    },
};

/// Maximum number of dependents of one owner that are released concurrently.
const MAX_CONCURRENT_RELEASES: usize = 20;

/// Removes the references of dependents to an owner, and then the finalizer `orphan` of the owner.
pub struct Orphaner {
    pub(crate) monitors: Arc<Monitors>,
}

impl Controller for Orphaner {
    type Key = ObjectKey;
    type Snapshot = Snapshot;
    type Plan = Plan;

    fn observe(&self, key: &ObjectKey, _now: Timestamp) -> Result<Snapshot, NoSnapshot> {
        let graph_node = self.monitors.collector_state.graph.lock().node_view(&key.0);
        let graph_node = graph_node.ok_or(NoSnapshot::Gone)?;
        let resource = self.monitors.kind_state_and_resource(&graph_node.kind).1;
        let unsynced_resources = self.monitors.awaited_resources();
        let is_release = decide::has_dependents_to_release(&graph_node) && unsynced_resources.is_empty();
        let dependents = if is_release { self.dependents(&graph_node.identity.uid) } else { Vec::new() };
        Ok(Snapshot { graph_node, resource, dependents, unsynced_resources })
    }

    fn decide(snapshot: &Snapshot) -> Plan {
        decide::decide(snapshot)
    }

    /// Releases the dependents, then removes the finalizer of the owner. Dependents that appear during the sync are released, too.
    async fn act(snapshot: &Snapshot, plan: &Plan, io: Io<'_, Self>) -> Result<Requeue, SyncError> {
        let Snapshot { graph_node, .. } = snapshot;
        let owner = &graph_node.identity.uid;
        let key = || ObjectKey(owner.clone());
        io.update_memory(|orphaner| orphaner.monitors.collector_state.parked_objects.unpark(QueueId::Orphan, key()));
        match plan {
            Plan::Nothing => return Ok(Requeue::AfterPlannedDelay),
            Plan::Wait(_) => {
                let condition = WaitCondition::EverythingListed;
                io.update_memory(|orphaner| orphaner.monitors.park(QueueId::Orphan, key(), condition));
                return Ok(Requeue::AfterPlannedDelay);
            }
            Plan::Release(_) => {}
        }
        let mut released = HashSet::default();
        let mut dependents = Cow::Borrowed(&snapshot.dependents);
        loop {
            let mut failed = None;
            let mut locations = Vec::new();
            for (dependent, resource) in &*dependents {
                match resource {
                    Some(resource) => locations.push(ObjectLocation::new(resource.clone(), &dependent.identity)),
                    None => failed = Some(unserved_kind_error(&dependent.kind)),
                }
            }
            let concurrency = GroupConcurrency::LimitedConcurrent(MAX_CONCURRENT_RELEASES);
            let release = |location| release_dependent(location, owner, io);
            let results = io.run_group(concurrency, &locations, release).await;
            if results.len() < locations.len() {
                // The process is shutting down, so not all dependents were released.
                return Ok(Requeue::AfterPlannedDelay);
            }
            if let Some(failed) = results.into_iter().rev().find_map(Result::err).or(failed) {
                report_denied_reference_change(&failed, io);
                return Err(failed);
            }
            released.extend(locations.into_iter().map(|location| location.uid));
            let mut new = io.observe_again(|orphaner| Some(orphaner.dependents(owner))).unwrap_or_default();
            new.retain(|(dependent, _)| !released.contains(&dependent.identity.uid));
            if new.is_empty() {
                break;
            }
            io.explain_deviation(format!("{} dependents have turned up since", new.len()));
            dependents = Cow::Owned(new);
        }
        let Some(resource) = &snapshot.resource else { return Err(unserved_kind_error(&graph_node.kind)) };
        let location = ObjectLocation::new(resource.clone(), &graph_node.identity);
        let why = "orphan; no dependent refers to it any more";
        io.await_unless_shutting_down(location.remove_finalizer(ORPHAN_FINALIZER, why, io)).await.transpose()?;
        Ok(Requeue::AfterPlannedDelay)
    }

    fn object(snapshot: &Snapshot) -> InvolvedObject {
        event_reference(&snapshot.graph_node.identity, &snapshot.graph_node.kind)
    }
}

impl Orphaner {
    fn dependents(&self, owner: &Uid) -> Vec<DependentWithResource> {
        let dependents = self.monitors.collector_state.graph.lock().dependents(owner);
        let resource = |dependent: &Dependent| self.monitors.kind_state_and_resource(&dependent.kind).1;
        dependents.into_iter().map(|dependent| (dependent.clone(), resource(&dependent))).collect()
    }
}

/// Removes every reference of a dependent to an owner, regardless of the other fields of the reference. Succeeds if the dependent
/// does not exist.
///
/// The removal is right for every version of the dependent, so the requests have no precondition on the version.
async fn release_dependent(location: &ObjectLocation, owner: &Uid, io: Io<'_, Orphaner>) -> Result<(), SyncError> {
    let body = io.encode_body(|| json!({"metadata": {"ownerReferences": [{"$patch": "delete", "uid": owner}]}}));
    let object = Precondition { uid: location.uid.clone(), version: None };
    let request = |format, precondition, body| {
        let request = location.patch(format, precondition, body);
        request.with_verb_text("release").with_role(ObjectRole::Child)
    };
    match io.send(request(PatchFormat::Strategic, Some(object), body)).await {
        Ok(_) => return Ok(()),
        Err(refusal) if refusal.error.is_object_absent() => return Ok(()),
        // The UID belongs to another object, the kind does not support the patch, or an old server requires the removed
        // references to be present. A read of the live object shows which of these is true.
        Err(refusal) if is_unsupported_patch(&refusal) || refusal.error.is_invalid() || refusal.error.is_conflict() => {
        }
        Err(refusal) => return Err(location.refusal_error(REFERENCE_CHANGE_ACTIVITY, &refusal)),
    }
    // Replace the whole list of references, starting from the list in the live object.
    for _ in 0..MAX_WRITE_ATTEMPTS {
        let meta = match location.read_live("", io).await? {
            LiveReadResult::Existing(meta) if meta.owners.iter().any(|reference| reference.uid == *owner) => meta,
            _ => return Ok(()),
        };
        let body = io.encode_body(|| {
            let others: Vec<&OwnerRef> = meta.owners.iter().filter(|reference| reference.uid != *owner).collect();
            let others = if others.is_empty() { Value::Null } else { json!(others) };
            json!({"metadata": {"resourceVersion": meta.resource_version, "ownerReferences": others}})
        });
        match io.send(request(PatchFormat::Merge, None, body)).await {
            Err(refusal) if refusal.error.is_conflict() => {}
            Err(refusal) if !refusal.error.is_object_absent() => {
                return Err(location.refusal_error(REFERENCE_CHANGE_ACTIVITY, &refusal));
            }
            Ok(_) | Err(_) => return Ok(()),
        }
    }
    Err(location.conflict_error())
}

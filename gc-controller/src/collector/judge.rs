//! Decides by the owners of an object whether to delete it, and sends the writes.
//!
//! The first decision uses the metadata that monitors have seen; each later decision uses the live object. Every write carries
//! the UID and the resourceVersion of the version for which the decision was made. If the object has changed meanwhile, it is
//! read, and the decision is made again.

use std::borrow::Cow;

use common::prelude::*;

use super::{
    Collector,
    decide::{CollectionDecision, OwnerLookupResult, OwnerWithState, PropagationPolicy, Snapshot, decide_by_owners},
};
use crate::{
    graph::{FOREGROUND_FINALIZER, GraphNodeView, Identity, Kind, ORPHAN_FINALIZER, OwnerState},
    objects::is_terminating_with,
    place::{LiveReadResult, MAX_WRITE_ATTEMPTS, ObjectLocation, unserved_kind_error},
};

/// A version of an object, with the owner references on which the decision is based.
pub(super) struct DependentVersion<'a> {
    pub(super) location: &'a ObjectLocation,
    version: ResourceVersion,
    pub(super) owners: Cow<'a, [OwnerWithState]>,
    /// Propagation policy that the finalizers of this version request.
    propagation: PropagationPolicy,
    /// Whether this version was read from the server.
    pub(super) was_read_live: bool,
}

/// Result of a write with the version of the object as a precondition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum WriteResult {
    /// The server accepted the write.
    Done,
    /// The object does not exist.
    Absent,
    /// The object has changed since the decision.
    Changed,
}

/// Decides what to do with the object, and sends the writes. Decides again if the object changes. Returns whether it exists.
pub(super) async fn delete_or_release(
    snapshot: &Snapshot,
    location: &ObjectLocation,
    io: Io<'_, Collector>,
) -> Result<bool, SyncError> {
    let node = &snapshot.graph_node;
    let mut judged = DependentVersion {
        location,
        version: node.version,
        owners: Cow::Borrowed(&snapshot.owners),
        propagation: PropagationPolicy::from_finalizers(node.has_orphan_finalizer, node.has_foreground_finalizer),
        was_read_live: !node.version.is_known(),
    };
    for _ in 0..MAX_WRITE_ATTEMPTS {
        if judged.was_read_live && !judged.read(io).await? {
            return Ok(false);
        }
        let owners = judged.look_up_owners(io).await?;
        let decision =
            decide_by_owners(&owners, node.dependent_count, || may_be_in_cycle(node, io), judged.propagation);
        let result = match decision {
            CollectionDecision::Keep => WriteResult::Done,
            CollectionDecision::Release(uids) => judged.remove_owner_references(&uids, io).await?,
            CollectionDecision::Delete { unblock: true, .. }
                if judged.owners.iter().any(OwnerWithState::blocks_owner_deletion) =>
            {
                judged.unblock_owners(io).await?
            }
            CollectionDecision::Delete { propagation, .. } => judged.delete(propagation, io).await?,
        };
        match result {
            WriteResult::Done => return Ok(true),
            WriteResult::Absent => return Ok(false),
            WriteResult::Changed => judged.was_read_live = true,
        }
    }
    Err(location.conflict_error())
}

/// Whether the object may be part of a cycle: a dependent of the object is in foreground deletion, so that both may wait for each
/// other. Reads the graph again, because dependents may have changed during the lookups of the owners.
fn may_be_in_cycle(node: &GraphNodeView, io: Io<'_, Collector>) -> bool {
    let uid = &node.identity.uid;
    let observed =
        io.observe_again(|collector| Some(collector.monitors.collector_state.graph.lock().may_be_in_cycle(uid)));
    let may_be_in_cycle = observed.unwrap_or(node.may_be_in_cycle);
    if may_be_in_cycle != node.may_be_in_cycle {
        io.explain_deviation("whether a dependent waits for its own dependents has changed");
    }
    may_be_in_cycle
}

impl DependentVersion<'_> {
    /// Reads the current version of the object. Returns whether the object exists.
    async fn read(&mut self, io: Io<'_, Collector>) -> Result<bool, SyncError> {
        let meta = match self.location.read_live("to judge its current version", io).await? {
            LiveReadResult::Absent => return Ok(false),
            LiveReadResult::AsExpected => return Ok(true),
            LiveReadResult::Existing(meta) => meta,
        };
        let propagation = PropagationPolicy::from_finalizers(
            meta.has_finalizer(ORPHAN_FINALIZER),
            meta.has_finalizer(FOREGROUND_FINALIZER),
        );
        if propagation != self.propagation {
            io.explain_deviation(format!("the finalizers of {} have changed", self.location.describe()));
        }
        self.version = meta.resource_version;
        self.propagation = propagation;
        let owners = io.observe_again(|collector| {
            let mut graph = collector.monitors.collector_state.graph.lock();
            let states = meta.owners.iter().map(|reference| graph.owner_state(reference, &self.location.namespace));
            let states: Vec<OwnerState> = states.collect();
            drop(graph);
            Some(collector.owners(meta.owners.to_vec(), &states)).filter(|owners| owners[..] != self.owners[..])
        });
        if let Some(owners) = owners {
            io.explain_deviation(format!("the owners of {} have changed", self.location.describe()));
            self.owners = Cow::Owned(owners);
        }
        Ok(true)
    }

    /// Returns the UID of each owner and whether the owner exists, in the order of the references. Sends lookups if necessary.
    async fn look_up_owners(&self, io: Io<'_, Collector>) -> Result<Vec<(Uid, OwnerLookupResult)>, SyncError> {
        let mut results = Vec::new();
        for owner in &*self.owners {
            let result = match owner.state_in_graph {
                OwnerState::Absent => OwnerLookupResult::Dangling,
                // If the owner has just been deleted, its monitor will report the deletion, and the object is enqueued again.
                OwnerState::Present => OwnerLookupResult::Solid,
                OwnerState::WaitingForDependents => {
                    self.look_up(owner, OwnerLookupResult::WaitingForDependents, io).await?
                }
                OwnerState::Unknown => self.look_up(owner, OwnerLookupResult::Solid, io).await?,
            };
            results.push((owner.reference.uid.clone(), result));
        }
        Ok(results)
    }

    async fn look_up(
        &self,
        owner: &OwnerWithState,
        expected_result: OwnerLookupResult,
        io: Io<'_, Collector>,
    ) -> Result<OwnerLookupResult, SyncError> {
        let location = self.location_of(owner)?;
        let result = match location.read_live("an owner that exists keeps the object", io).await? {
            LiveReadResult::AsExpected => expected_result,
            LiveReadResult::Existing(meta) if is_terminating_with(&meta, FOREGROUND_FINALIZER) => {
                OwnerLookupResult::WaitingForDependents
            }
            LiveReadResult::Existing(_) => OwnerLookupResult::Solid,
            LiveReadResult::Absent => {
                io.update_memory(|collector| {
                    let mut graph = collector.monitors.collector_state.graph.lock();
                    let ObjectLocation { namespace, name, uid, .. } = location.clone();
                    let kind = graph.intern_kind(&owner.reference.api_version, &owner.reference.kind);
                    graph.remember_absent_object(Identity { kind, namespace, name, uid });
                });
                OwnerLookupResult::Dangling
            }
        };
        // A forecast and a sync cannot differ for a name that no object can have, because neither sends a request.
        if result != expected_result && location.can_exist() {
            let found = match result {
                OwnerLookupResult::Solid => "does not wait for its dependents",
                OwnerLookupResult::Dangling => "does not exist",
                OwnerLookupResult::WaitingForDependents => "waits for its dependents",
            };
            io.explain_deviation(format!("owner {} {found}", owner.describe()));
        }
        Ok(result)
    }

    fn location_of(&self, owner: &OwnerWithState) -> Result<ObjectLocation, SyncError> {
        let Some(resource) = &owner.resource else {
            return Err(unserved_kind_error(&Kind::of_owner(&owner.reference)));
        };
        if resource.is_namespaced() && self.location.namespace.is_empty() {
            let text = format!("{} is cluster-scoped and names a namespaced owner", self.location.describe());
            return Err(SyncError::new(SyncErrorClass::Scope, text).with_retry_policy(RetryPolicy::NextEvent));
        }
        let namespace = if resource.is_namespaced() { self.location.namespace.clone() } else { "".into() };
        let OwnerRef { name, uid, .. } = &owner.reference;
        let resource = resource.clone();
        Ok(ObjectLocation { resource, namespace, name: name.as_str().into(), uid: uid.clone() })
    }

    async fn delete(&self, propagation: PropagationPolicy, io: Io<'_, Collector>) -> Result<WriteResult, SyncError> {
        let propagation = propagation.as_str();
        let request = Request::delete(self.location.resource.clone(), &self.location.meta())
            .with_propagation(propagation)
            .with_metadata_answer()
            .with_precondition(Some(self.write_precondition()))
            .with_role(ObjectRole::SyncedObject)
            .with_reason(format!("no owner keeps it; propagation policy {propagation}"));
        match io.send(request).await {
            Ok(_) => Ok(WriteResult::Done),
            Err(refusal) if refusal.error.is_object_absent() => Ok(WriteResult::Absent),
            Err(refusal) if refusal.error.is_conflict() => Ok(WriteResult::Changed),
            Err(refusal) => Err(self.location.refusal_error("deleting", &refusal)),
        }
    }

    /// Returns the precondition of every write: the UID of the object, and the version for which the decision was made.
    pub(super) fn write_precondition(&self) -> Precondition {
        Precondition { uid: self.location.uid.clone(), version: Some(self.version) }
    }
}

//! The loop that deletes objects after all of their owners were deleted.
//!
//! A forecast (a sync without requests) expects the object to be as it is in the graph. It expects an owner that the plan looks
//! up to exist, and to be in foreground deletion only if the graph shows this.

pub mod decide;

mod judge;
mod references;

use std::sync::Arc;

use common::{partial_object::PartialObject, prelude::*};
use jiff::Timestamp;

use self::decide::{KindState, OwnerWithState, Plan, Snapshot};
use crate::{
    graph::{FOREGROUND_FINALIZER, Kind, OwnerState},
    key::ObjectKey,
    monitors::Monitors,
    parked::QueueId,
    place::{LiveReadResult, ObjectLocation, event_reference},
};

/// Deletes each object that has owner references and no existing owner. Otherwise, removes the references to missing owners.
pub struct Collector {
    pub(crate) monitors: Arc<Monitors>,
}

impl Controller for Collector {
    type Key = ObjectKey;
    type Snapshot = Snapshot;
    type Plan = Plan;

    fn observe(&self, key: &ObjectKey, _now: Timestamp) -> Result<Snapshot, NoSnapshot> {
        let graph_node = self.monitors.collector_state.graph.lock().node_view(&key.0);
        let mut graph_node = graph_node.ok_or(NoSnapshot::Gone)?;
        let owners = self.owners(std::mem::take(&mut graph_node.owner_references), &graph_node.owner_states);
        let (kind_state, resource) = self.monitors.kind_state_and_resource(&graph_node.kind);
        let unsynced_resources =
            if graph_node.is_deleting_dependents { self.monitors.awaited_resources() } else { Vec::new() };
        let is_kind_unsynced = kind_state == KindState::Unsynced;
        Ok(Snapshot { graph_node, resource, is_kind_unsynced, owners, unsynced_resources })
    }

    fn decide(snapshot: &Snapshot) -> Plan {
        decide::decide(snapshot)
    }

    /// Looks up owners, then deletes the object, or changes its owner references or finalizers.
    async fn act(snapshot: &Snapshot, plan: &Plan, io: Io<'_, Self>) -> Result<Requeue, SyncError> {
        let identity = &snapshot.graph_node.identity;
        let key = || ObjectKey(identity.uid.clone());
        // If the kind is not served, the plan sends no request, so the placeholder resource is never used.
        let resource = snapshot.resource.clone().unwrap_or(PartialObject::RESOURCE);
        let location = ObjectLocation::new(resource, identity);
        io.update_memory(|collector| collector.monitors.collector_state.parked_objects.unpark(QueueId::Delete, key()));
        let exists = match plan {
            Plan::Nothing(_) | Plan::BlockedByDependents(_) => true,
            Plan::Wait(condition, _) => {
                io.update_memory(|collector| collector.monitors.park(QueueId::Delete, key(), condition.clone()));
                true
            }
            Plan::RemoveForegroundFinalizer => {
                let why = "foregroundDeletion; no dependent blocks its deletion";
                io.await_unless_shutting_down(location.remove_finalizer(FOREGROUND_FINALIZER, why, io))
                    .await
                    .unwrap_or(Ok(true))?
            }
            Plan::LookUpObject => match location.read_live("only owner references name it", io).await? {
                LiveReadResult::Absent => false,
                // The object exists, but no monitor has seen it yet, so the lookup is repeated.
                LiveReadResult::AsExpected | LiveReadResult::Existing(_) => return Ok(Requeue::AfterBackoff),
            },
            Plan::Delete { .. } | Plan::LookUpOwners { .. } => {
                judge::delete_or_release(snapshot, &location, io).await?
            }
        };
        if !exists {
            io.update_memory(|collector| {
                let state = &collector.monitors.collector_state;
                state.apply_change(Priority::Normal, |graph, work| graph.apply_absence(identity, work));
            });
        }
        Ok(Requeue::AfterPlannedDelay)
    }

    fn object(snapshot: &Snapshot) -> InvolvedObject {
        event_reference(&snapshot.graph_node.identity, &snapshot.graph_node.kind)
    }
}

impl Collector {
    /// Combines each owner reference with the owner's state in the graph and the state of the monitor for the owner's kind.
    fn owners(&self, owner_refs: Vec<OwnerRef>, owner_states: &[OwnerState]) -> Vec<OwnerWithState> {
        let owner = |(reference, state_in_graph): (OwnerRef, &OwnerState)| {
            let (kind_state, resource) = self.monitors.kind_state_and_resource(&Kind::of_owner(&reference));
            OwnerWithState { reference, kind_state, resource, state_in_graph: *state_in_graph }
        };
        owner_refs.into_iter().zip(owner_states).map(owner).collect()
    }
}

#[cfg(test)]
mod tests;

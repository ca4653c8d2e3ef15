//! The requests that taint waiting nodes.

use std::{convert::Infallible, sync::Arc};

use common::{
    api,
    io::{GroupConcurrency, Requeue, SyncError},
};

use crate::{
    monitor::{
        change::NodeChange,
        node_pass::plan::tainting::{NodeToTaint, Plan},
        nodes::{change_node, has_unseen_lease_renewal},
        notes::{Io, MonitorNote},
    },
    silence,
};

/// Raises the alarm of the plan, and then taints the chosen nodes, one after the other.
pub(super) async fn act(plan: &Plan, io: Io<'_>) -> Result<Requeue, SyncError> {
    if let Some(alarm) = &plan.alarm_message {
        io.apply_memory_note(MonitorNote::ManyNodesTainted(alarm.clone()));
    }
    io.run_group(GroupConcurrency::Sequential, &plan.nodes_to_taint, |chosen| taint(chosen, io)).await;
    Ok(Requeue::AfterPlannedDelay)
}

/// Taints a node if the taint is still necessary; otherwise ends the node's wait for the taint.
async fn taint(chosen: &NodeToTaint, io: Io<'_>) -> Result<(), Infallible> {
    let Some(outcome) = try_taint(chosen, io).await else { return Ok(()) };
    let NodeToTaint { node, zone_key: zone, cause } = chosen;
    let name = Arc::clone(&node.metadata.name);
    io.apply_memory_note(match outcome {
        Ok(true) => MonitorNote::NodeTainted(name, zone.clone(), *cause),
        Ok(false) => MonitorNote::TaintUnnecessary(name),
        Err(error) => MonitorNote::TaintWriteFailed(name, error),
    });
    Ok(())
}

/// Taints a node. Returns true if the taint was written, and `None` if the process shuts down before the answer arrives.
async fn try_taint(
    NodeToTaint { node, zone_key: zone, cause }: &NodeToTaint,
    io: Io<'_>,
) -> Option<Result<bool, api::Error>> {
    if silence::is_marked_unknown_by_monitor(node) {
        match has_unseen_lease_renewal(node, io).await {
            Ok(false) => {}
            renewed => return Some(renewed.map(|_| false)),
        }
    }
    let why = format!("{}:NoExecute, its turn in zone {zone:?}", cause.taint_key());
    io.await_unless_shutting_down(change_node(node, NodeChange::AddNoExecute, why, io)).await
}

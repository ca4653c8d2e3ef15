//! The passes over nodes that wait for a `NoExecute` taint, which are tainted at the rate of their zone.

pub(crate) mod decide;

use std::{convert::Infallible, sync::Arc};

use common::prelude::*;
use jiff::Timestamp;

use self::decide::{NodeToTaint, Plan, TaintingSnapshot};
use super::{
    NodeMonitor,
    nodes::{NodeChange, change_node, has_unseen_lease_renewal},
};
use crate::{objects::NODE_LEASE_NAMESPACE, silence};

const NAMESPACES: Resource = Resource::cluster_scoped("", "v1", "namespaces", "Namespace");

periodic_key!(TaintingPassKey, "tainting");

/// The loop that taints nodes that wait for a `NoExecute` taint.
pub(crate) struct NodeTaintingController(pub(super) Arc<NodeMonitor>);

impl AsRef<NodeMonitor> for NodeTaintingController {
    fn as_ref(&self) -> &NodeMonitor {
        &self.0
    }
}

impl Controller for NodeTaintingController {
    type Key = TaintingPassKey;
    type Snapshot = TaintingSnapshot;
    type Plan = Plan;

    fn observe(&self, _: &TaintingPassKey, _: Timestamp) -> Result<TaintingSnapshot, NoSnapshot> {
        let (now, contact_problem) = (self.0.now(), self.0.heartbeats.contact_problem());
        let node_records = self.0.node_records.lock();
        Ok(TaintingSnapshot {
            now,
            has_server_contact: contact_problem.is_none() && node_records.server_contact.has_recent_contact(now),
            zones_with_waiting_nodes: node_records.zones_with_waiting_nodes(now),
            total_node_count: node_records.len(),
            tainted_node_count: node_records.tainted_node_count(),
            share_limits: self.0.share_limits,
            is_taint_alarm_active: *self.0.is_taint_alarm_active.lock(),
            pass_period: self.0.heartbeats.node_monitor_period,
        })
    }

    fn decide(snapshot: &TaintingSnapshot) -> Plan {
        decide::decide(snapshot)
    }

    /// Raises the alarm of the plan, and then taints the chosen nodes, one after the other.
    async fn act(_: &TaintingSnapshot, plan: &Plan, io: Io<'_, Self>) -> Result<Requeue, SyncError> {
        if let Some(alarm) = &plan.alarm_message {
            io.update_memory(|Self(monitor)| {
                tracing::warn!(
                    logger = "node-controller",
                    alarm,
                    "A large share of nodes has a NoExecute taint or waits for one"
                );
                let leases = InvolvedObject::without_version(NAMESPACES, "", NODE_LEASE_NAMESPACE, Uid::default());
                monitor.context.recorder.record_event(&leases, EventType::Warning, "ManyNodesTainted", alarm.clone());
            });
        }
        io.run_group(GroupConcurrency::Sequential, &plan.nodes_to_taint, |node| taint(node, io)).await;
        Ok(Requeue::AfterPlannedDelay)
    }

    fn record_plan(&self, snapshot: &TaintingSnapshot, plan: &Plan) {
        let mut node_records = self.0.node_records.lock();
        for node in &plan.nodes_to_taint {
            node_records.zones.take_taint_token(&node.zone_key, snapshot.now);
        }
        for name in &plan.nodes_no_longer_waiting_for_taint {
            node_records.stop_waiting_for_taint(name);
        }
        let mut is_alarm_active = self.0.is_taint_alarm_active.lock();
        *is_alarm_active = plan.alarm_message.is_some() || (*is_alarm_active && plan.exceeds_alarm_share);
        self.0.metrics.tainted_node_share.set(plan.tainted_node_share);
        self.0.metrics.nodes_blocked_by_max_share.set(plan.blocked_by_max_share_count as f64);
    }
}

/// Taints a node if the taint is still necessary; otherwise ends the node's wait for the taint.
async fn taint(node: &NodeToTaint, io: Io<'_, NodeTaintingController>) -> Result<(), Infallible> {
    // If the process shuts down before the answer arrives, there is no outcome.
    let Some(outcome) = try_taint(node, io).await else { return Ok(()) };
    io.update_memory(|NodeTaintingController(monitor)| {
        let NodeToTaint { node, zone_key, cause } = node;
        let name = &node.metadata.name;
        let error = outcome.as_ref().err().map(|refusal| &*refusal.error);
        monitor.record_change_result(name, "add the NoExecute taint", error);
        match outcome {
            Ok(true) => {
                let taint = cause.taint_key();
                tracing::info!(logger = "node-controller", node = &**name, taint, "Added taint to node");
                monitor.metrics.count_tainted_node(zone_key);
            }
            Ok(false) => monitor.node_records.lock().stop_waiting_for_taint(name),
            Err(Refusal { error, .. }) => {
                tracing::error!(logger = "node-controller", node = &**name, err = %error, "Failed to taint node");
                monitor.node_records.lock().move_to_end_of_taint_queue(name, monitor.now());
            }
        }
    });
    Ok(())
}

/// Taints a node. Returns true if the taint was written, and `None` if the process shuts down before the answer arrives.
async fn try_taint(
    NodeToTaint { node, zone_key, cause }: &NodeToTaint,
    io: Io<'_, NodeTaintingController>,
) -> Option<Result<bool, Refusal>> {
    if silence::is_marked_unknown_by_monitor(node) {
        match has_unseen_lease_renewal(node, io).await {
            Ok(false) => {}
            renewed => return Some(renewed.map(|_| false)),
        }
    }
    let why = format!("{}:NoExecute, its turn in zone {zone_key:?}", cause.taint_key());
    io.await_unless_shutting_down(change_node(node, NodeChange::AddNoExecute, why, io)).await
}

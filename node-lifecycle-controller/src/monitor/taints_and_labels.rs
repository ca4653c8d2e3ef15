//! Keeps the `NoSchedule` taints and the copied labels of nodes up to date.

pub(crate) mod decide;

use std::sync::Arc;

use common::prelude::*;
use jiff::Timestamp;

use self::decide::{Plan, Snapshot};
use super::{
    NodeMonitor,
    nodes::{NodeChange, change_node},
};
use crate::objects::NODES;

/// The loop that updates the `NoSchedule` taints and the copied labels of nodes; its keys are the names of nodes.
pub(crate) struct NodeTaintAndLabelController(pub(super) Arc<NodeMonitor>);

impl AsRef<NodeMonitor> for NodeTaintAndLabelController {
    fn as_ref(&self) -> &NodeMonitor {
        &self.0
    }
}

impl Controller for NodeTaintAndLabelController {
    type Key = NamespacedName;
    type Snapshot = Snapshot;
    type Plan = Plan;

    fn observe(&self, key: &NamespacedName, _: Timestamp) -> Result<Snapshot, NoSnapshot> {
        let outage_duration = self.0.outage.outage_duration();
        let node_records = self.0.node_records.lock();
        node_records.node_snapshot(&key.name, self.0.now(), outage_duration).ok_or(NoSnapshot::Gone)
    }

    fn decide(snapshot: &Snapshot) -> Plan {
        decide::decide(snapshot)
    }

    async fn act(Snapshot { node, .. }: &Snapshot, plan: &Plan, io: Io<'_, Self>) -> Result<Requeue, SyncError> {
        if !plan.change_lines.is_empty() {
            let change = change_node(node, NodeChange::SyncTaintsAndLabels, plan.change_lines.join("; "), io);
            if let Some(Err(refusal)) = io.await_unless_shutting_down(change).await {
                let what = format!("update taints and labels of Node {}", node.metadata.name);
                return Err(SyncError::from_refusal(&what, &refusal));
            }
        }
        Ok(Requeue::AfterPlannedDelay)
    }

    fn object(snapshot: &Snapshot) -> InvolvedObject {
        InvolvedObject::new(NODES, &snapshot.node.metadata)
    }
}

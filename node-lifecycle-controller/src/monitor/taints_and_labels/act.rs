//! The request that updates the `NoSchedule` taints and labels of one node.

use common::io::{Requeue, SyncError};

use super::{plan::Plan, snapshot::Snapshot};
use crate::monitor::{change::NodeChange, nodes::change_node, notes::Io};

pub(super) async fn act(snapshot: &Snapshot, plan: &Plan, io: Io<'_>) -> Result<Requeue, SyncError> {
    let node = &snapshot.node;
    if plan.has_taint_or_label_changes() {
        let changed = io
            .await_unless_shutting_down(change_node(
                node,
                NodeChange::SyncTaintsAndLabels,
                plan.taint_and_label_change_lines().join("; "),
                io,
            ))
            .await;
        if let Some(Err(error)) = changed {
            let what = format!("update taints and labels of Node {}", node.metadata.name);
            return Err(SyncError::from_refusal(&what, &error.into()));
        }
    }
    Ok(Requeue::AfterPlannedDelay)
}

//! The request that updates the `NoSchedule` taints and labels of one node.

use common::io::{Failed, Requeue};

use super::{plan::Plan, snapshot::Snapshot};
use crate::monitor::{change::Change, nodes::change_node, notes::Io};

pub(super) async fn act(snapshot: &Snapshot, plan: &Plan, io: Io<'_>) -> Result<Requeue, Failed> {
    let node = &snapshot.node;
    if plan.is_needed() {
        let changed = io.unless_ending(change_node(node, Change::Upkeep, plan.changes().join("; "), io)).await;
        if let Some(Err(error)) = changed {
            let what = format!("update taints and labels of Node {}", node.metadata.name);
            return Err(Failed::request(&what, &error.into()));
        }
    }
    Ok(Requeue::AsPlanned)
}

//! The requests that taint waiting nodes.

use std::{convert::Infallible, sync::Arc};

use common::{
    api,
    io::{Failed, Pace, Requeue},
};

use crate::{
    monitor::{
        change::Change,
        nodes::{change_node, has_renewed},
        notes::{Io, Note},
        rounds::plan::tainting::{Chosen, Plan},
    },
    silence,
};

/// Raises the alarm of the plan, and then taints the chosen nodes, one after the other.
pub(super) async fn act(plan: &Plan, io: Io<'_>) -> Result<Requeue, Failed> {
    if let Some(alarm) = &plan.alarm {
        io.note(Note::Alarm(alarm.clone()));
    }
    io.all(Pace::InOrder, &plan.chosen, |chosen| taint(chosen, io)).await;
    Ok(Requeue::AsPlanned)
}

/// Taints a node if the taint is still necessary; otherwise ends the node's wait for the taint.
async fn taint(chosen: &Chosen, io: Io<'_>) -> Result<(), Infallible> {
    let Some(outcome) = try_taint(chosen, io).await else { return Ok(()) };
    let Chosen { node, zone, cause } = chosen;
    let name = Arc::clone(&node.metadata.name);
    io.note(match outcome {
        Ok(true) => Note::Tainted(name, zone.clone(), *cause),
        Ok(false) => Note::Released(name),
        Err(error) => Note::NotTainted(name, error),
    });
    Ok(())
}

/// Taints a node. Returns whether the taint was written, or `None` if the process shuts down before the answer arrives.
async fn try_taint(Chosen { node, zone, cause }: &Chosen, io: Io<'_>) -> Option<Result<bool, api::Error>> {
    if silence::is_lapsed(node) {
        match has_renewed(node, io).await {
            Ok(false) => {}
            renewed => return Some(renewed.map(|_| false)),
        }
    }
    let why = format!("{}:NoExecute, its turn in zone {zone:?}", cause.key());
    io.unless_ending(change_node(node, Change::Taint, why, io)).await
}

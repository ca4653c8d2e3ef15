//! The requests of a round: conditions and taints of a pass over nodes, or taints of waiting nodes.

mod health;
mod tainting;

use common::io::{Failed, Requeue};

use super::plan::Plan;
use crate::monitor::notes::Io;

/// Executes the plan of one round.
pub(super) async fn act(plan: &Plan, io: Io<'_>) -> Result<Requeue, Failed> {
    match plan {
        Plan::Health(plan) => health::act(plan, io).await,
        Plan::Tainting(plan) => tainting::act(plan, io).await,
    }
}

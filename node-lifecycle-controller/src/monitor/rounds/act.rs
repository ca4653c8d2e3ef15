//! The requests of a round: conditions and taints after a pass over nodes, or the taints of waiting nodes.

mod health;
mod tainting;

use common::io::{Requeue, SyncError};

use super::plan::Plan;
use crate::monitor::notes::Io;

pub(super) async fn act(plan: &Plan, io: Io<'_>) -> Result<Requeue, SyncError> {
    match plan {
        Plan::Health(plan) => health::act(plan, io).await,
        Plan::Tainting(plan) => tainting::act(plan, io).await,
    }
}

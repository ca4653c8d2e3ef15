//! The requests of a pass: conditions and taints of examined nodes, or taints of waiting nodes.

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

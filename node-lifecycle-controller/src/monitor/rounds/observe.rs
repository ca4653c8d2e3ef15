//! Builds the snapshot of a round from the memory of the node monitor.

use super::{
    Round, Rounds,
    snapshot::{Snapshot, TaintingSnapshot},
};
use crate::monitor::memory::Monitor;

impl Rounds {
    pub(super) fn observe(&self, round: Round) -> Snapshot {
        let Monitor { context, fleet, heartbeats, .. } = &*self.monitor;
        let (now, trouble) = (context.clock.instant(), heartbeats.trouble());
        let fleet = fleet.lock();
        match round {
            Round::Health => Snapshot::Health(Box::new(fleet.pass(now, trouble, heartbeats.period))),
            Round::Tainting => Snapshot::Tainting(TaintingSnapshot {
                now,
                sees: trouble.is_none() && fleet.sight.is_fresh(now),
                zones: fleet.waiting_zones(now),
                nodes: fleet.len(),
                tainted: fleet.tainted(),
                brake: self.brake,
                is_alarmed: *self.is_alarmed.lock(),
                period: heartbeats.period,
            }),
        }
    }
}

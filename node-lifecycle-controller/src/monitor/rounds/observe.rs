//! Builds the snapshot of a pass from the memory of the node monitor.

use super::{
    RoundKind, RoundsController,
    snapshot::{Snapshot, TaintingSnapshot},
};
use crate::monitor::memory::NodeMonitor;

impl RoundsController {
    pub(super) fn observe(&self, round: RoundKind) -> Snapshot {
        let NodeMonitor { context, node_records: fleet, heartbeats, .. } = &*self.monitor;
        let (now, trouble) = (context.clock.monotonic_now(), heartbeats.live_view_problem());
        let fleet = fleet.lock();
        match round {
            RoundKind::Health => {
                Snapshot::Health(Box::new(fleet.pass_snapshot(now, trouble, heartbeats.monitor_period)))
            }
            RoundKind::Tainting => Snapshot::Tainting(TaintingSnapshot {
                now,
                has_live_view: trouble.is_none() && fleet.live_view.has_fresh_evidence(now),
                waiting_zones: fleet.waiting_zones(now),
                total_nodes: fleet.len(),
                tainted_count: fleet.tainted_count(),
                share_limits: self.share_limits,
                is_alarm_active: *self.is_alarm_active.lock(),
                pass_period: heartbeats.monitor_period,
            }),
        }
    }
}

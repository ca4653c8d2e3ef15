//! Builds the snapshot of a pass from the memory of the node monitor.

use super::{
    NodePassController, PassKind,
    snapshot::{Snapshot, TaintingSnapshot},
};
use crate::monitor::memory::NodeMonitor;

impl NodePassController {
    pub(super) fn observe(&self, round: PassKind) -> Snapshot {
        let NodeMonitor { context, node_records: fleet, heartbeats, .. } = &*self.monitor;
        let (now, trouble) = (context.clock.monotonic_now(), heartbeats.contact_problem());
        let fleet = fleet.lock();
        match round {
            PassKind::Health => {
                Snapshot::Health(Box::new(fleet.health_snapshot(now, trouble, heartbeats.node_monitor_period)))
            }
            PassKind::Tainting => Snapshot::Tainting(TaintingSnapshot {
                now,
                has_server_contact: trouble.is_none() && fleet.server_contact.has_recent_contact(now),
                zones_with_waiting_nodes: fleet.zones_with_waiting_nodes(now),
                total_node_count: fleet.len(),
                tainted_node_count: fleet.tainted_node_count(),
                share_limits: self.share_limits,
                is_taint_alarm_active: *self.is_taint_alarm_active.lock(),
                pass_period: heartbeats.node_monitor_period,
            }),
        }
    }
}

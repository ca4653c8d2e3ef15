//! Builds the snapshot of one node from the records of nodes.

use std::sync::Arc;

use common::controller::Observation;

use super::snapshot::Snapshot;
use crate::monitor::memory::NodeMonitor;

pub(super) fn observe(monitor: &NodeMonitor, node: &str) -> Observation<Snapshot> {
    let blind_for = monitor.outage.outage_duration();
    let fleet = monitor.node_records.lock();
    let standing = fleet.node_facts(node, monitor.context.clock.monotonic_now(), blind_for);
    let snapshot = |(node, standing)| Snapshot { node: Arc::clone(node), node_facts: standing };
    fleet.node(node).zip(standing).map(snapshot).map_or(Observation::Gone, Observation::Ready)
}

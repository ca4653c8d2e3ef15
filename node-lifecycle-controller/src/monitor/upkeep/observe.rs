//! Builds the snapshot of one node from the records of nodes.

use std::sync::Arc;

use common::controller::Observed;

use super::snapshot::Snapshot;
use crate::monitor::memory::Monitor;

pub(super) fn observe(monitor: &Monitor, node: &str) -> Observed<Snapshot> {
    let blind_for = monitor.blindness.duration();
    let fleet = monitor.fleet.lock();
    let standing = fleet.standing(node, monitor.context.clock.instant(), blind_for);
    let snapshot = |(node, standing)| Snapshot { node: Arc::clone(node), standing };
    fleet.node(node).zip(standing).map(snapshot).map_or(Observed::Gone, Observed::Ready)
}

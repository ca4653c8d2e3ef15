//! Builds the snapshot of one Pod from the cache of Pods and the records of nodes.

use common::{controller::Observed, meta::Key};

use super::snapshot::Snapshot;
use crate::monitor::memory::Monitor;

pub(super) fn observe(monitor: &Monitor, key: &Key) -> Observed<Snapshot> {
    let Some(pod) = monitor.caches.pods.store().get_readable(&key.namespace, &key.name) else { return Observed::Gone };
    let fleet = monitor.fleet.lock();
    if let Some(blind_for) = fleet.sight.blind_for(monitor.context.clock.instant()) {
        let why = format!("this process has had no live view of nodes for {}s", blind_for.as_secs());
        return Observed::wait(why, monitor.heartbeats.period);
    }
    let node = fleet.node(&pod.node).map(|node| node.ready());
    Observed::Ready(Snapshot { pod, node })
}

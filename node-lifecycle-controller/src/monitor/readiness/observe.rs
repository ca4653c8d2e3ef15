//! Builds the snapshot of one Pod from the cache of Pods and the records of nodes.

use common::{controller::Observation, meta::NamespacedName};

use super::snapshot::Snapshot;
use crate::monitor::memory::NodeMonitor;

pub(super) fn observe(monitor: &NodeMonitor, key: &NamespacedName) -> Observation<Snapshot> {
    let Some(pod) = monitor.caches.pod_informer.store().get_decoded(&key.namespace, &key.name) else {
        return Observation::Gone;
    };
    let fleet = monitor.node_records.lock();
    if let Some(blind_for) = fleet.server_contact.time_without_contact(monitor.context.clock.monotonic_now()) {
        let why = format!("this process has had no live view of nodes for {}s", blind_for.as_secs());
        return Observation::waiting_because(why, monitor.heartbeats.node_monitor_period);
    }
    let node = fleet.node(&pod.node_name).map(|node| node.ready_status());
    Observation::Ready(Snapshot { pod, node_ready_status: node })
}

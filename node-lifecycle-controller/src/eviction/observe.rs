//! Takes the snapshot of a Pod for one sync.

use common::{controller::Observation, meta::NamespacedName};

use super::{TaintEvictionController, snapshot::Snapshot};

impl TaintEvictionController {
    pub(super) fn observe(&self, key: &NamespacedName) -> Observation<Snapshot> {
        let timer = self.timers.get(key);
        let pod = self.caches.pod_informer.store().get_decoded(&key.namespace, &key.name);
        if pod.is_none() && timer.is_none() {
            return Observation::Gone;
        }
        let node = pod.as_ref().and_then(|pod| self.caches.cache_view().node(&pod.node_name));
        let taints = node.map(|node| node.no_execute_taints().cloned().collect());
        let (key, now, compares) = (key.clone(), self.context.clock.monotonic_now(), self.is_comparison_enabled);
        Observation::Ready(Snapshot {
            key,
            pod,
            no_execute_taints: taints,
            time_until_taint_confirmation: None,
            timer,
            now,
            are_comparison_operators_enabled: compares,
        })
    }
}

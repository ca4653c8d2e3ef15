//! Takes the snapshot of a Pod for one sync.

use common::{controller::Observed, meta::Key};

use super::{Evictor, snapshot::Snapshot};

impl Evictor {
    pub(super) fn observe(&self, key: &Key) -> Observed<Snapshot> {
        let timer = self.timers.get(key);
        let pod = self.caches.pods.store().get_readable(&key.namespace, &key.name);
        if pod.is_none() && timer.is_none() {
            return Observed::Gone;
        }
        let node = pod.as_ref().and_then(|pod| self.caches.view().node(&pod.node));
        let taints = node.map(|node| node.evicting().cloned().collect());
        let (key, now, compares) = (key.clone(), self.context.clock.instant(), self.compares);
        Observed::Ready(Snapshot { key, pod, taints, doubt: None, timer, now, compares })
    }
}

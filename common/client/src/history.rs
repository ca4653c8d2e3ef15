//! Notices that the API server has lost its latest changes, as after a restore of etcd from a backup.
//!
//! Versions of one resource only rise, unless etcd is replaced by an older copy. A cache then keeps objects that no longer
//! exist, and its watch delivers nothing until the server has passed the lost versions. Three parts of a process notice it: an
//! informer that finds a lower version than that of its cache, the election that finds an older Lease than before, and a sync
//! whose write is refused although the cache has not changed for seconds. Each of them reports to the [`ServerHistory`] of the
//! process, which then starts its loops again with empty caches.

use std::sync::Arc;

use crate::watched as watch;

/// The reports of one process about lost changes of the API server. Clones share the reports.
#[derive(Clone, Debug)]
pub struct ServerHistory(Arc<watch::Sender<u64>>);

impl Default for ServerHistory {
    fn default() -> Self {
        Self(Arc::new(watch::Sender::new(0)))
    }
}

impl ServerHistory {
    /// Reports that the server has lost changes. `evidence` is a sentence for the log.
    pub fn report_lost_changes(&self, evidence: &str) {
        tracing::error!(
            evidence,
            "The API server has lost its latest changes; was etcd restored? Starting the loops again with empty caches"
        );
        self.0.send_modify(|count| *count += 1);
    }

    /// Returns a receiver of the number of reports, which waits for reports after this call.
    pub fn subscribe(&self) -> watch::Receiver<u64> {
        self.0.subscribe()
    }
}

//! From a key to a snapshot.

use common::{controller::Observed, meta::Key};
use jiff::Timestamp;

use super::{TtlController, snapshot::Snapshot};

impl TtlController {
    pub(super) fn observe(&self, key: &Key, now: Timestamp) -> Observed<Snapshot> {
        // A Job that cannot be read has no time to live. The event of the change that makes it readable enqueues it.
        let job = self.jobs.store().get_readable(&key.namespace, &key.name);
        job.map_or(Observed::Gone, |job| Observed::Ready(Snapshot { job, now }))
    }
}

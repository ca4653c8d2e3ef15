//! From a key to a snapshot.

use common::{controller::Observed, meta::Key};
use jiff::Timestamp;

use super::{TtlController, snapshot::Snapshot};

impl TtlController {
    pub(super) fn observe(&self, key: &Key, now: Timestamp) -> Observed<Snapshot> {
        // One that cannot be read can have no time: it comes back when it can.
        let job = self.jobs.store().get_readable(&key.namespace, &key.name);
        job.map_or(Observed::Gone, |job| Observed::Ready(Snapshot { job, now }))
    }
}

//! Reads the cache into a snapshot.

use common::{controller::Observed, meta::Key, store::Store};
use jiff::Timestamp;

use super::snapshot::Snapshot;
use crate::objects::Job;

/// Reads a Job. An unreadable Job is skipped: the event that makes it readable enqueues it.
pub(super) fn observe(jobs: &Store<Job>, key: &Key, now: Timestamp) -> Observed<Snapshot> {
    let job = jobs.get_readable(&key.namespace, &key.name);
    job.map_or(Observed::Gone, |job| Observed::Ready(Snapshot { job, now }))
}

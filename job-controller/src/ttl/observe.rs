//! Builds the snapshot of a Job from the cache.

use common::{controller::Observation, meta::NamespacedName, store::Store};
use jiff::Timestamp;

use super::snapshot::Snapshot;
use crate::objects::Job;

/// Reads a Job. A Job that cannot be decoded is skipped, and enqueued when the cache receives a version that can.
pub(super) fn observe(jobs: &Store<Job>, key: &NamespacedName, now: Timestamp) -> Observation<Snapshot> {
    let job = jobs.get_decoded(&key.namespace, &key.name);
    job.map_or(Observation::Gone, |job| Observation::Ready(Snapshot { job, now }))
}

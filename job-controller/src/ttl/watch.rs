//! Handlers that enqueue Jobs with a time to live.

use common::{
    controller::priority_of_origin,
    meta::NamespacedName,
    queue::Queue,
    store::{CacheEvent, ChangeOrigin},
};

use super::decide::{Expiry, decide_expiry};
use crate::objects::Job;

/// Enqueues a finished Job with a time to live.
pub(super) fn on_job(queue: &Queue<NamespacedName>, event: &CacheEvent<Job>, origin: ChangeOrigin) {
    if let CacheEvent::Added(job) | CacheEvent::Updated { new: job, .. } = event
        && decide_expiry(job) != Expiry::NeverExpires
    {
        queue.add(job.metadata.key(), priority_of_origin(origin));
    }
}

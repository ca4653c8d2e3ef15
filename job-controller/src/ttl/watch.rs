//! Handlers that enqueue Jobs with a time to live.

use common::{
    controller::priority,
    meta::Key,
    queue::Queue,
    store::{Event, Origin},
};

use super::decide::{Fate, fate};
use crate::objects::Job;

/// Enqueues a finished Job with a time to live.
pub(super) fn on_job(queue: &Queue<Key>, event: &Event<Job>, origin: Origin) {
    if let Event::Added(job) | Event::Updated { new: job, .. } = event
        && fate(job) != Fate::Stays
    {
        queue.add(job.metadata.key(), priority(origin));
    }
}

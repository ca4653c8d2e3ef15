//! The input of one sync of the loop that deletes finished Jobs.

use std::sync::Arc;

use jiff::Timestamp;

use crate::objects::Job;

/// The input of one sync: a Job and the current time.
#[derive(Clone, Debug)]
pub struct Snapshot {
    /// The Job as cached; the cache may be stale.
    pub job: Arc<Job>,
    /// The time at which the sync started.
    pub now: Timestamp,
}

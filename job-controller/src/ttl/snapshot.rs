//! The input of one sync.

use std::sync::Arc;

use jiff::Timestamp;

use crate::objects::Job;

/// A Job and the current time.
#[derive(Clone, Debug)]
pub struct Snapshot {
    /// The cached Job.
    pub job: Arc<Job>,
    /// The time at which the sync started.
    pub now: Timestamp,
}

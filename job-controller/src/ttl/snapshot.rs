//! Everything one sync may look at.

use std::sync::Arc;

use jiff::Timestamp;

use crate::objects::Job;

/// A Job and the time.
#[derive(Clone, Debug)]
pub struct Snapshot {
    /// The Job.
    pub job: Arc<Job>,
    /// The time.
    pub now: Timestamp,
}

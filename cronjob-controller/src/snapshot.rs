//! Everything one sync of a CronJob may look at.

use std::{collections::BTreeMap, sync::Arc};

use common::{intern::Text, refs::Owner};
use jiff::Timestamp;

use crate::objects::{CronJob, Job};

/// Whether a Job that is recorded as running and that the cache does not have is there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Presence {
    /// It is; the cache lags.
    There,
    /// It is not.
    Gone,
}

/// A CronJob, its Jobs, and the time.
#[derive(Clone, Debug)]
pub struct Snapshot {
    /// The CronJob.
    pub cron: Arc<CronJob>,
    /// The same as an owner.
    pub owner: Owner,
    /// Whether it was read live.
    pub is_live: bool,
    /// The Jobs it controls, by name.
    pub jobs: Vec<Arc<Job>>,
    /// What live reads told of other Jobs, by name.
    pub found: BTreeMap<Text, Presence>,
    /// The time.
    pub now: Timestamp,
}

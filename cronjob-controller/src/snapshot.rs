//! Everything one sync of a CronJob may look at.

use std::{collections::BTreeMap, sync::Arc};

use common::{intern::Text, refs::Owner};
use jiff::Timestamp;

use crate::objects::{CronJob, Job};

/// A CronJob, its Jobs, and the time.
#[derive(Clone, Debug)]
pub struct Snapshot {
    /// The CronJob.
    pub cron: Arc<CronJob>,
    /// The CronJob as an owner.
    pub owner: Owner,
    /// Whether the CronJob was read from the API server instead of the cache.
    pub is_live: bool,
    /// The cached Jobs that the CronJob controls, by name.
    pub jobs: Vec<Arc<Job>>,
    /// Answers of the API server about Jobs that are recorded as active and not cached: the Job of each name, if there is one.
    pub answers: BTreeMap<Text, Option<Arc<Job>>>,
    /// The time.
    pub now: Timestamp,
}

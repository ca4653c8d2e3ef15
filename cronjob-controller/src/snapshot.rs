//! The input of one sync of a CronJob.

use std::{collections::BTreeMap, sync::Arc};

use common::prelude::*;
use jiff::Timestamp;

use crate::objects::{CronJob, Job};

/// Everything that one sync reads, taken at one time: a CronJob and its Jobs.
#[derive(Clone, Debug)]
pub struct Snapshot {
    /// The CronJob, from the cache or from a live read.
    pub cron_job: Arc<CronJob>,
    /// The owner reference and deletion state of the CronJob.
    pub owner: Owner,
    /// Whether `cron_job` was read live in this sync; `false` if it comes from the cache.
    pub was_cron_job_read_live: bool,
    /// The cached Jobs that the CronJob controls, sorted by name.
    pub jobs: Vec<Arc<Job>>,
    /// Results of the live reads of Jobs that `status.active` lists and the cache does not hold. The key is the name of the
    /// Job; the value is `None` if no such Job exists.
    pub jobs_read_live: BTreeMap<Text, Option<Arc<Job>>>,
    /// Wall-clock time of the sync.
    pub now: Timestamp,
}

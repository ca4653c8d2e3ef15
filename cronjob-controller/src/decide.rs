//! Turns a snapshot into a plan, as a pure function, without I/O and clock.

mod create;
mod history;
mod record;
pub mod runs;

use std::{collections::BTreeSet, time::Duration};

use common::prelude::*;

pub use create::{parse_schedule_ignoring_unknown_time_zone, parse_schedule_with_time_zone};

use crate::plan::{Plan, Snapshot};

/// Delay of the next sync if `status.active` lists more Jobs than one sync may read live.
const LOOKUP_PAUSE: Duration = Duration::from_secs(1);

/// Plans the deletion of old Jobs, the status, the Job of the due run, and the time of the next sync.
///
/// Upstream: `pkg/controller/cronjob`, `syncCronJob` and `cleanupFinishedJobs`.
pub fn decide(snapshot: &Snapshot) -> Plan {
    let status = &snapshot.cron_job.status;
    let active: BTreeSet<&Uid> = status.active.iter().map(|reference| &reference.uid).collect();
    let mut plan = Plan { status: status.clone(), ..Plan::default() };
    let surplus = history::finished_jobs_beyond_history_limits(snapshot);
    for job in &surplus {
        plan.actions.push(history::plan_finished_job_deletion(job, active.contains(&job.metadata.uid)));
    }
    let surplus: BTreeSet<&Uid> = surplus.iter().map(|job| &job.metadata.uid).collect();
    let is_complete = record::plan_status(&mut plan, snapshot, &active, &surplus);
    plan.active_job_summary = match plan.status.active.len() {
        1 => "1 active Job".to_owned(),
        count => format!("{count} active Jobs"),
    };
    if !plan.live_reads.is_empty() {
        plan.actions.clear();
        plan.requeue_after = create::delay_to_next_firing(snapshot);
        return plan;
    }
    plan.is_status_changed = plan.status != *status;
    if !is_complete {
        plan.reasons_for_no_job.push("not all active Jobs have been looked up yet".to_owned());
        plan.requeue_after = Some(LOOKUP_PAUSE);
    } else if !snapshot.cron_job.metadata.is_deleting() {
        create::plan_due_job(&mut plan, snapshot);
    }
    plan
}

#[cfg(test)]
mod tests;

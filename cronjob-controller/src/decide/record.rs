//! Plans the new status: the active Jobs, and the times of the last run and the last success.

use std::collections::{BTreeMap, BTreeSet};

use common::prelude::*;

use super::runs::{saw_completed_job_event, unrecorded_run_of_job};
use crate::{
    objects::JobReference,
    plan::{Action, LiveRead, Plan, PlannedEvent, Snapshot},
};

/// Maximum number of Jobs that one sync reads live.
///
/// Normally few Jobs need a live read, because only the controller writes the status. A status with thousands of forged entries
/// is processed in several syncs.
const MAX_LOOKUPS: usize = 100;

/// Updates the planned status to match the existing Jobs.
///
/// `active` has the UIDs of the Jobs that the status lists; `surplus` has the UIDs of the Jobs that this plan deletes. Adds a
/// live read to the plan where the caches do not suffice. Returns whether every listed Job was found in the cache or read live.
pub(super) fn plan_status(
    plan: &mut Plan,
    snapshot: &Snapshot,
    active: &BTreeSet<&Uid>,
    surplus: &BTreeSet<&Uid>,
) -> bool {
    let mut finished: BTreeSet<&Uid> = BTreeSet::new();
    let mut found: Vec<JobReference> = Vec::new();
    for job in &snapshot.jobs {
        let uid = &job.metadata.uid;
        let unrecorded = unrecorded_run_of_job(snapshot, job);
        match job.status.outcome {
            None if active.contains(uid) => {}
            None if !snapshot.was_cron_job_read_live => {
                plan.live_reads.push(LiveRead::CronJob);
                continue;
            }
            None if unrecorded.is_some() => found.push(JobReference::from_job(&job.metadata)),
            None => {
                let name = &job.metadata.name;
                let message = format!("Saw a job that the controller did not create or forgot: {name}");
                plan.actions.push(Action::RecordEvent(PlannedEvent::warning("UnexpectedJob", message)));
            }
            Some(outcome) => {
                if active.contains(uid) && finished.insert(uid) && !surplus.contains(uid) {
                    plan.actions.push(Action::RecordEvent(saw_completed_job_event(job, outcome)));
                }
                plan.status.last_successful_time = plan.status.last_successful_time.max(job.completion_time());
            }
        }
        plan.status.last_schedule_time = plan.status.last_schedule_time.max(unrecorded);
    }
    plan.live_reads.dedup();
    let cached: BTreeSet<&Uid> = snapshot.jobs.iter().map(|job| &job.metadata.uid).collect();
    let mut unknown: BTreeMap<&str, LiveRead> = BTreeMap::new();
    plan.status.active.retain(|reference| {
        if cached.contains(&reference.uid) {
            return !finished.contains(&reference.uid);
        }
        match snapshot.jobs_read_live.get(&reference.name) {
            // A Job with the recorded name and another UID is not the recorded Job.
            Some(job) if job.as_ref().is_some_and(|job| job.metadata.uid == reference.uid) => true,
            Some(_) => {
                let message = format!("Active job went missing: {}", reference.name);
                plan.actions.push(Action::RecordEvent(PlannedEvent::normal("MissingJob", message)));
                false
            }
            None => true,
        }
    });
    plan.status.active.append(&mut found);
    for reference in plan.status.active.iter().filter(|reference| !cached.contains(&reference.uid)) {
        if !snapshot.jobs_read_live.contains_key(&reference.name) {
            unknown.insert(&reference.name, LiveRead::Job(reference.name.clone()));
        }
    }
    let lookups = MAX_LOOKUPS.saturating_sub(snapshot.jobs_read_live.len());
    let is_complete = unknown.is_empty();
    plan.live_reads.extend(unknown.into_values().take(lookups));
    is_complete
}

//! Sends the writes that count finished Pods, in the order that [`crate::jobs::decide::first_status`] describes.

use std::borrow::Cow;

use common::prelude::*;
use serde::Deserialize;

use super::finalizers::{FinalizerRemoval, remove_finalizers};
use crate::{
    jobs::{
        JobController,
        decide::second_status::decide_second_status,
        plan::{FirstStatusWrite, JobEnd, JobResult, PodSummary, SecondStatusWrite},
        snapshot::Snapshot,
    },
    objects::{JOBS, Job, JobStatus},
};

/// The server's answer to a status write, reduced to the field that this controller reads.
#[derive(Deserialize)]
struct Answer {
    #[serde(default)]
    status: Option<JobStatus>,
}

/// Writes the status that lists terminated Pods, removes the finalizers of these Pods, and writes the status that counts them.
/// Stops without an error if the Job has been deleted.
///
/// A failed write stops the sequence, and the next sync continues from the state on the server. Upstream: `pkg/controller/job`,
/// `flushUncountedAndRemoveFinalizers`.
pub(super) async fn write_statuses_and_remove_finalizers<'a>(
    Snapshot { job, owner, .. }: &Snapshot,
    pod_summary: &'a PodSummary,
    first_status_write: &FirstStatusWrite,
    io: Io<'_, JobController>,
) -> Result<FinalizerRemoval<'a>, SyncError> {
    let mut stored_status = StoredStatus { job, status: Cow::Borrowed(&job.status.declared) };
    if first_status_write.is_status_changed {
        let job_end = first_status_write.job_end_to_write.as_ref().filter(|job_end| job_end.is_newly_decided);
        let announce = |job_end: &JobEnd| format!("{} ({})", job_end.interim_condition_type(), job_end.reason);
        let write_reason = job_end.map_or_else(String::new, announce);
        match stored_status.write(&first_status_write.status, write_reason, io).await {
            Ok(()) => io.update_memory(|controller| {
                let failure_record = Some(pod_summary.failure_record);
                controller.memory.update_job_memory(&owner.uid, |memory| memory.failure_record = failure_record);
            }),
            Err(refusal) if refusal.class == RefusalClass::NotFound => return Ok(FinalizerRemoval::default()),
            Err(refusal) => {
                return Err(SyncError::from_refusal("tracking status: adding uncounted pods to status", &refusal));
            }
        }
    }

    if !first_status_write.pod_counts_by_policy_action.is_empty() {
        io.update_memory(|controller| {
            for (action, pod_count) in &first_status_write.pod_counts_by_policy_action {
                controller.watch.metrics.record_failure_policy_action(*action, *pod_count);
            }
        });
    }
    let pod_positions = &first_status_write.pod_positions_to_remove_finalizer_from;
    let pods = pod_positions.iter().map(|pod_position| &pod_summary.pods[*pod_position].pod).collect();
    let finalizer_removal = remove_finalizers(&owner.uid, pods, "", io).await;

    let pods_without_finalizer = &finalizer_removal.pods_without_finalizer;
    let SecondStatusWrite { status, write_reason, job_end, status_with_start_time, has_too_many_successes } =
        decide_second_status(job, first_status_write, &stored_status.status, pods_without_finalizer, io.now());
    if let Some(write_reason) = write_reason {
        let mut written = stored_status.write(&status, write_reason, io).await;
        if let (Err(refusal), Some(status_with_start_time)) = (&written, &status_with_start_time)
            && refusal.error.is_invalid()
            && refusal.error.has_invalid_field("status.startTime")
        {
            written = stored_status.write(status_with_start_time, String::new(), io).await;
        }
        match written {
            Ok(()) => {}
            Err(refusal) if refusal.class == RefusalClass::NotFound => return Ok(finalizer_removal),
            Err(refusal) => {
                return Err(SyncError::from_refusal("tracking status: removing uncounted pods from status", &refusal));
            }
        }
    }
    if let Some(job_end) = job_end {
        record_end_event(&job_end, has_too_many_successes, io);
        io.update_memory(|controller| {
            controller.memory.update_job_memory(&owner.uid, |memory| memory.has_written_job_end = true);
            controller.watch.metrics.record_finished_job(job, &job_end);
        });
    }
    finalizer_removal.record_denied_removal_event(io);
    let error = finalizer_removal.first_error("tracking status: removing the finalizer of pod");
    error.map_or(Ok(finalizer_removal), Err)
}

/// A Job and its status on the server: as cached until the first write, then as in the server's last answer.
struct StoredStatus<'a> {
    job: &'a Job,
    status: Cow<'a, JobStatus>,
}

impl<'a> StoredStatus<'a> {
    /// Writes a status. The precondition is the version after the last write of this sync, or else the cached version.
    async fn write(
        &mut self,
        status: &'a JobStatus,
        write_reason: String,
        io: Io<'_, JobController>,
    ) -> Result<(), Refusal> {
        let Job { metadata, status: cached_status, .. } = self.job;
        let body = io.encode_status::<Job>(metadata.replacement(), status, &cached_status.undeclared);
        let request = Request::replace_status(JOBS, metadata, body).with_object_answer::<Job>();
        let answer = io.send_and_decode::<Answer>(request.with_reason(write_reason)).await?;
        let status = answer.map_or(Cow::Borrowed(status), |answer| Cow::Owned(answer.status.unwrap_or_default()));
        let old_status = std::mem::replace(&mut self.status, status);
        io.update_memory(|controller| {
            controller.watch.metrics.record_counted_pods(self.job, &old_status, &self.status);
        });
        Ok(())
    }
}

fn record_end_event(job_end: &JobEnd, has_too_many_successes: bool, io: Io<'_, JobController>) {
    if job_end.job_result == JobResult::Failure {
        return io.record_event(EventType::Warning, job_end.reason.to_string(), job_end.message.to_string());
    }
    if has_too_many_successes {
        let message = "Too many succeeded pods running after completion count reached";
        io.record_event(EventType::Warning, "TooManySucceededPods", message);
    }
    io.record_event(EventType::Normal, "Completed", "Job completed");
}

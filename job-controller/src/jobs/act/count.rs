//! Sends the writes that count finished Pods, in the order that [`crate::jobs::decide::first_status`] describes.

use common::{
    api,
    events::EventType,
    io::{Refusal, RefusalClass, Request, SyncError},
};
use serde::Deserialize;
use serde_json::json;

use super::{
    finalizers::{FinalizerRemovalResult, remove_finalizers},
    note::{Io, Note},
};
use crate::{
    jobs::{
        decide::second_status,
        plan::{FirstStatusWrite, JobEnd, JobResult, PodCountsAfterScaling, PodSummary, SecondStatusWrite},
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
    snapshot: &Snapshot,
    situation: &'a PodSummary,
    managed: &PodCountsAfterScaling,
    tracked: &FirstStatusWrite,
    io: Io<'_>,
) -> Result<FinalizerRemovalResult<'a>, SyncError> {
    let job = &*snapshot.job;
    let mut stored = StoredStatus { job, status: job.status.clone() };
    if tracked.is_status_changed {
        let interim = managed.job_end_to_write.as_ref().filter(|end| end.is_newly_decided);
        let why = interim.map_or_else(String::new, |end| format!("{} ({})", end.interim_condition_type(), end.reason));
        match stored.write(&tracked.status, why, io).await {
            Ok(()) => io.apply_memory_note(Note::FailureRecordChanged(situation.failure_record)),
            Err(refusal) if refusal.class == RefusalClass::NotFound => return Ok(FinalizerRemovalResult::default()),
            Err(refusal) => {
                return Err(SyncError::from_refusal("tracking status: adding uncounted pods to status", &refusal));
            }
        }
    }

    if !tracked.pod_counts_by_policy_action.is_empty() {
        io.apply_memory_note(Note::PolicyActionsTaken(tracked.pod_counts_by_policy_action.clone()));
    }
    let pods =
        tracked.pod_positions_to_remove_finalizer_from.iter().map(|position| &situation.pods[*position].pod).collect();
    let untracked = remove_finalizers(pods, "", io).await;

    let SecondStatusWrite {
        status,
        write_reason: reason,
        job_end: end,
        status_with_start_time: with_start,
        has_too_many_successes: has_surplus,
    } = second_status::decide_second_status(
        snapshot,
        tracked,
        managed,
        &stored.status,
        &untracked.pods_without_finalizer,
        io.now(),
    );
    if let Some(reason) = reason {
        let mut written = stored.write(&status, reason, io).await;
        if let (Err(refusal), Some(with_start)) = (&written, &with_start)
            && requires_start_time(&refusal.error)
        {
            written = stored.write(with_start, String::new(), io).await;
        }
        match written {
            Ok(()) => {}
            Err(refusal) if refusal.class == RefusalClass::NotFound => return Ok(untracked),
            Err(refusal) => {
                return Err(SyncError::from_refusal("tracking status: removing uncounted pods from status", &refusal));
            }
        }
    }
    if let Some(end) = end {
        report_end(&end, has_surplus, io);
        io.apply_memory_note(Note::JobFinished(Box::new(end)));
    }
    untracked.record_denied_removal_event(io);
    untracked.first_error("tracking status: removing the finalizer of pod").map_or(Ok(untracked), Err)
}

/// A Job and its status on the server: as cached until the first write, then as in the server's last answer.
struct StoredStatus<'a> {
    job: &'a Job,
    status: JobStatus,
}

impl StoredStatus<'_> {
    /// Writes a status. The precondition is the version after the last write of this sync, or else the cached version.
    async fn write(&mut self, status: &JobStatus, why: String, io: Io<'_>) -> Result<(), Refusal> {
        let body = io.encode_body(|| json!({"status": status}));
        let request = Request::patch_status(JOBS, &self.job.metadata, body).with_reason(why);
        let answer = io.send_and_decode::<Answer>(request).await?;
        let written = answer.map_or_else(|| status.clone(), |answer| answer.status.unwrap_or_default());
        let before = std::mem::replace(&mut self.status, written);
        io.apply_memory_note(Note::StatusWritten(Box::new([before, self.status.clone()])));
        Ok(())
    }
}

fn report_end(end: &JobEnd, has_surplus: bool, io: Io<'_>) {
    if end.job_result == JobResult::Failure {
        return io.record_event(EventType::Warning, end.reason.to_string(), end.message.to_string());
    }
    if has_surplus {
        let message = "Too many succeeded pods running after completion count reached";
        io.record_event(EventType::Warning, "TooManySucceededPods", message);
    }
    io.record_event(EventType::Normal, "Completed", "Job completed");
}

fn requires_start_time(error: &api::Error) -> bool {
    error.is_invalid() && error.has_invalid_field("status.startTime")
}

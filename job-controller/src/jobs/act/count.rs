//! Sends the writes that count finished Pods, in the order of [`crate::jobs::decide::track`].

use common::{
    api,
    events::EventType,
    io::{Class, Failed, Refusal, Request},
};
use serde::Deserialize;
use serde_json::json;

use super::{
    finalizers::{Untracked, untrack_all},
    note::{Io, Note},
};
use crate::{
    jobs::{
        decide::settle,
        plan::{Conclusion, End, Managed, Situation, Tracked, Verdict},
        snapshot::Snapshot,
    },
    objects::{JOBS, Job, Status},
};

/// The part of the server's answer to a status write that this controller reads.
#[derive(Deserialize)]
struct Answer {
    #[serde(default)]
    status: Option<Status>,
}

/// Writes the status that lists terminated Pods, removes their finalizers, and writes the status that counts the Pods. Stops
/// without an error if the Job has been deleted.
///
/// A failed write stops the sequence, and the next sync continues from the state on the server. Upstream: `pkg/controller/job`,
/// `flushUncountedAndRemoveFinalizers`.
pub(super) async fn count<'a>(
    snapshot: &Snapshot,
    situation: &'a Situation,
    managed: &Managed,
    tracked: &Tracked,
    io: Io<'_>,
) -> Result<Untracked<'a>, Failed> {
    let job = &*snapshot.job;
    let mut stored = Stored { job, status: job.status.clone() };
    if tracked.writes {
        let interim = managed.end_to_write.as_ref().filter(|end| end.is_new);
        let why = interim.map_or_else(String::new, |end| format!("{} ({})", end.interim(), end.reason));
        match stored.write(&tracked.status, why, io).await {
            Ok(()) => io.note(Note::Backoff(situation.backoff)),
            Err(refusal) if refusal.class == Class::Gone => return Ok(Untracked::default()),
            Err(refusal) => return Err(Failed::request("tracking status: adding uncounted pods to status", &refusal)),
        }
    }

    if !tracked.actions.is_empty() {
        io.note(Note::Policy(tracked.actions.clone()));
    }
    let pods = tracked.untrack.iter().map(|position| &situation.pods[*position].pod).collect();
    let untracked = untrack_all(pods, "", io).await;

    let Conclusion { status, reason, end, with_start, has_surplus } =
        settle::conclude(snapshot, tracked, managed, &stored.status, &untracked.done, io.now());
    if let Some(reason) = reason {
        let mut written = stored.write(&status, reason, io).await;
        if let (Err(refusal), Some(with_start)) = (&written, &with_start)
            && wants_start(&refusal.error)
        {
            written = stored.write(with_start, String::new(), io).await;
        }
        match written {
            Ok(()) => {}
            Err(refusal) if refusal.class == Class::Gone => return Ok(untracked),
            Err(refusal) => {
                return Err(Failed::request("tracking status: removing uncounted pods from status", &refusal));
            }
        }
    }
    if let Some(end) = end {
        report_end(&end, has_surplus, io);
        io.note(Note::Finished(Box::new(end)));
    }
    untracked.report_denied(io);
    untracked.failure("tracking status: removing the finalizer of pod").map_or(Ok(untracked), Err)
}

/// The status on the server, as in the last answer of the server.
struct Stored<'a> {
    job: &'a Job,
    status: Status,
}

impl Stored<'_> {
    /// Writes a status, with a precondition on the version after the last write of this sync.
    async fn write(&mut self, status: &Status, why: String, io: Io<'_>) -> Result<(), Refusal> {
        let body = io.body(|| json!({"status": status}));
        let request = Request::status(JOBS, &self.job.metadata, body).because(why);
        let answer = io.send_and_read::<Answer>(request).await?;
        let written = answer.map_or_else(|| status.clone(), |answer| answer.status.unwrap_or_default());
        let before = std::mem::replace(&mut self.status, written);
        io.note(Note::Counted(Box::new([before, self.status.clone()])));
        Ok(())
    }
}

fn report_end(end: &End, has_surplus: bool, io: Io<'_>) {
    if end.verdict == Verdict::Failure {
        return io.event(EventType::Warning, end.reason.to_string(), end.message.to_string());
    }
    if has_surplus {
        let message = "Too many succeeded pods running after completion count reached";
        io.event(EventType::Warning, "TooManySucceededPods", message);
    }
    io.event(EventType::Normal, "Completed", "Job completed");
}

fn wants_start(error: &api::Error) -> bool {
    error.is_invalid() && error.names("status.startTime")
}

//! The writes that count what has ended, in their order; see [`crate::jobs::decide::track`].

use common::{
    api,
    events::EventType,
    io::{Class, Failed, Refusal, Request},
    meta::{Meta, Version},
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
        plan::{End, Situation, Tracked, Verdict},
        snapshot::Snapshot,
    },
    objects::{JOBS, Job, Status},
};

/// The part of an answer that is read of a Job whose status was written.
#[derive(Deserialize)]
struct Answer {
    metadata: Meta,
    #[serde(default)]
    status: Option<Status>,
}

/// Writes the status that names terminated Pods, removes their finalizers, writes the status that counts them. A Job that is gone needs
/// no status.
///
/// Whatever fails, nothing after it happens: the next sync finds all it needs on the server. Upstream: `pkg/controller/job`,
/// `flushUncountedAndRemoveFinalizers`.
pub(super) async fn count<'a>(
    snapshot: &Snapshot,
    situation: &'a Situation,
    tracked: &Tracked,
    io: Io<'_>,
) -> Result<Untracked<'a>, Failed> {
    let job = &*snapshot.job;
    let mut stored = Stored { job, status: job.status.clone(), version: job.metadata.resource_version };
    if tracked.writes {
        let interim = tracked.end.as_ref().filter(|end| end.is_new);
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
    let pods = tracked.release.iter().map(|at| &situation.pods[*at].pod).collect();
    let untracked = untrack_all(pods, "", io).await;

    let mut uncounted = tracked.uncounted.clone();
    for pod in &untracked.done {
        uncounted.remove(&pod.meta().uid);
    }
    let mut status = stored.status.clone();
    let counts = settle::settle(&mut status, &uncounted);
    let end = tracked.end.as_ref().filter(|end| {
        let is_all = untracked.is_complete() && !tracked.capped;
        is_all && settle::finish(job, &mut status, end, tracked.terminating, io.now())
    });
    if counts || end.is_some() {
        let why = match end {
            Some(end) => format!("{} ({})", end.terminal(), end.reason),
            None => "it counts Pods whose finalizers are gone".to_owned(),
        };
        let mut written = stored.write(&status, why, io).await;
        if let Err(refusal) = &written
            && end.is_some()
            && status.start_time.is_none()
            && wants_start(&refusal.error)
        {
            settle::start_at_end(&mut status);
            written = stored.write(&status, String::new(), io).await;
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
        report_end(job, &status, end, io);
        io.note(Note::Finished(Box::new(end.clone())));
    }
    untracked.report_denied(io);
    untracked.failure("tracking status: removing the finalizer of pod").map_or(Ok(untracked), Err)
}

/// The status that is stored, and the version of the Job with it.
struct Stored<'a> {
    job: &'a Job,
    status: Status,
    version: Version,
}

impl Stored<'_> {
    /// Writes a status onto the version it was computed from.
    async fn write(&mut self, status: &Status, why: String, io: Io<'_>) -> Result<(), Refusal> {
        let body = io.body(|| json!({"status": status}));
        let request = Request::status(JOBS, &self.job.metadata, body).at(Some(self.version)).because(why);
        let written = match io.send_and_read::<Answer>(request).await? {
            Some(Answer { metadata, status }) => {
                self.version = metadata.resource_version;
                status.unwrap_or_default()
            }
            None => status.clone(),
        };
        let before = std::mem::replace(&mut self.status, written);
        io.note(Note::Counted(Box::new([before, self.status.clone()])));
        Ok(())
    }
}

fn report_end(job: &Job, status: &Status, end: &End, io: Io<'_>) {
    if end.verdict == Verdict::Failure {
        return io.event(EventType::Warning, end.reason.to_string(), end.message.to_string());
    }
    if job.completions.is_some_and(|wanted| i64::from(status.succeeded) > i64::from(wanted)) {
        let message = "Too many succeeded pods running after completion count reached";
        io.event(EventType::Warning, "TooManySucceededPods", message);
    }
    io.event(EventType::Normal, "Completed", "Job completed");
}

fn wants_start(error: &api::Error) -> bool {
    error.is_invalid() && error.names("status.startTime")
}

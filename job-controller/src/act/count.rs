//! The writes that count what has ended, in their order; see [`crate::decide::track`].

use common::{
    api::{self, Patch, Target},
    batch::all,
    claim::WrittenVersions,
    events::EventType,
    meta::{Meta, Uid, Version},
};
use serde::{Deserialize, Serialize};

use super::delete::Untracked;
use crate::{
    JobController,
    decide::{End, PodRef, Situation, Snapshot, Verdict, settle, track::Tracked},
    error::Error,
    objects::{JOBS, Status},
};

/// What is read of a Job whose status was written.
#[derive(Deserialize)]
struct Answer {
    metadata: Meta,
    #[serde(default)]
    status: Option<Status>,
}

#[derive(Serialize)]
struct Body<'a> {
    metadata: Precondition<'a>,
    status: &'a Status,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Precondition<'a> {
    uid: &'a Uid,
    resource_version: Version,
}

/// A status that is stored, and the version it is stored under.
struct Stored {
    status: Status,
    version: Version,
}

impl JobController {
    /// Writes the status that names terminated Pods, removes their finalizers, writes the status that counts them.
    ///
    /// Whatever fails, nothing after it happens: the next sync finds all it needs on the server. Tells how many Pods keep their
    /// finalizer because they have changed since they were judged. Upstream: `pkg/controller/job`, `flushUncountedAndRemoveFinalizers`.
    pub(super) async fn count(
        &self,
        snapshot: &Snapshot,
        situation: &Situation,
        tracked: Tracked,
        versions: &WrittenVersions,
    ) -> Result<usize, Error> {
        let Tracked { status, writes, release, mut uncounted, capped, actions, end, terminating, .. } = tracked;
        let job = &*snapshot.job;
        let uid = &snapshot.owner.uid;
        let mut stored = Stored { status: job.status.clone(), version: job.metadata.resource_version };
        if writes {
            stored = match self.write_status(snapshot, &stored, &status).await {
                Ok(stored) => stored,
                Err(error) if error.is_not_found() => return Ok(0),
                Err(error) => return Err(Error::Name(error)),
            };
            self.memory.set_backoff(uid, situation.backoff);
        }
        for (action, pods) in actions {
            self.metrics.handled(action, pods);
        }
        let pods: Vec<&PodRef> = release.iter().map(|at| &situation.pods[*at].pod).collect();
        if !pods.is_empty() {
            self.memory.process(uid, pods.iter().map(|pod| pod.meta().uid.clone()));
        }
        let results = all(pods.iter().map(|pod| self.untrack(snapshot, pod, versions))).await;
        let (mut failed, mut changed_pods) = (None, 0);
        for (pod, result) in pods.iter().zip(results) {
            let pod_uid = &pod.meta().uid;
            match result {
                Ok(Untracked::Yes | Untracked::Gone) => {
                    uncounted.remove(pod_uid);
                }
                Ok(Untracked::Changed) => {
                    self.memory.unprocess(uid, pod_uid);
                    changed_pods += 1;
                }
                Err(error) => {
                    self.memory.unprocess(uid, pod_uid);
                    failed = failed.or_else(|| Some(Error::Finalizer(pod.meta().key().to_string(), error)));
                }
            }
        }
        let mut status = stored.status.clone();
        let mut changed = settle::settle(&mut status, &uncounted);
        let finished = end.filter(|end| {
            let now = self.context.clock.now();
            failed.is_none() && changed_pods == 0 && !capped && settle::finish(job, &mut status, end, terminating, now)
        });
        changed |= finished.is_some();
        if changed {
            let mut written = self.write_status(snapshot, &stored, &status).await;
            let refused = |error: &api::Error| error.is_invalid() && error.names("status.startTime");
            if finished.is_some() && status.start_time.is_none() && written.as_ref().is_err_and(refused) {
                settle::start_at_end(&mut status);
                written = self.write_status(snapshot, &stored, &status).await;
            }
            match written {
                Ok(_) => {}
                Err(error) if error.is_not_found() => return Ok(0),
                Err(error) => return Err(Error::Count(error)),
            }
        }
        if let Some(end) = finished {
            self.memory.finish(uid);
            self.tell(snapshot, &status, &end);
        }
        failed.map_or(Ok(changed_pods), Err)
    }

    /// Tells of the end of a Job.
    fn tell(&self, snapshot: &Snapshot, status: &Status, end: &End) {
        let job = &*snapshot.job;
        self.metrics.finished(job, end);
        let warn = |reason: &'static str, message: &str| {
            self.event(snapshot, EventType::Warning, reason, message.to_owned());
        };
        match end.verdict {
            Verdict::Success => {
                if job.completions.is_some_and(|wanted| i64::from(status.succeeded) > i64::from(wanted)) {
                    warn("TooManySucceededPods", "Too many succeeded pods running after completion count reached");
                }
                self.event(snapshot, EventType::Normal, "Completed", "Job completed".to_owned());
            }
            Verdict::Failure => {
                self.event(snapshot, EventType::Warning, end.reason.to_string(), end.message.to_string());
            }
        }
    }

    /// Writes the status onto the version it was computed from.
    async fn write_status(&self, snapshot: &Snapshot, onto: &Stored, status: &Status) -> Result<Stored, api::Error> {
        let meta = &snapshot.job.metadata;
        let body = Body { metadata: Precondition { uid: &meta.uid, resource_version: onto.version }, status };
        let target = Target::status(JOBS, &meta.namespace, &meta.name);
        let answer = self.context.api.patch(target, Patch::Merge, &body).await?;
        let answer: Answer = serde_json::from_slice(&answer)?;
        let version = answer.metadata.resource_version;
        self.ledger.wrote(&meta.uid, JOBS, version);
        let written = Stored { status: answer.status.unwrap_or_default(), version };
        self.metrics.counted(&snapshot.job, &onto.status, &written.status);
        Ok(written)
    }
}

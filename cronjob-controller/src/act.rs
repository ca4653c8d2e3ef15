//! From a plan to requests.
//!
//! A Job is created before it is recorded. Its name is derived from its scheduled time, so that the sync after a crash in between
//! finds the name taken and records the Job. The effects of a sync on the status are written even if a later step fails.

use std::{sync::Arc, time::Duration};

use common::{
    api::{self, Delete, Patch, Target, Written},
    conditions::seconds,
    controller::Requeue,
    events::ObjectRef,
    meta::{Meta, Uid, Version},
};
use jiff::Timestamp;
use serde_json::{Value, json};

use crate::{
    CronJobController, decide,
    error::Error,
    objects::{CRON_JOBS, CronJob, JOBS, Job, Reference, Status},
    plan::{Event, Plan, Question, Reason, Step},
    snapshot::Snapshot,
};

/// A sync whose plan is being executed.
struct Sync<'a> {
    controller: &'a CronJobController,
    snapshot: &'a Snapshot,
    status: Status,
    changed: bool,
    /// The error of a step that does not keep the steps after it from being taken.
    deferred: Option<Error>,
}

impl CronJobController {
    pub(crate) async fn act(&self, mut snapshot: Snapshot, mut plan: Plan) -> Result<Requeue, Error> {
        // Every answer settles a question, and the CronJob is read at most once.
        while !plan.questions.is_empty() {
            for question in &plan.questions {
                match question {
                    Question::CronJob => match self.read_cron_job(&snapshot).await? {
                        Some(live) => (snapshot.cron, snapshot.is_live) = (Arc::new(live), true),
                        None => return Ok(Requeue::No),
                    },
                    Question::Job(name) => {
                        let found = self.look_up(&snapshot, name).await?;
                        snapshot.answers.insert(name.clone(), found);
                    }
                }
            }
            plan = decide::decide(&snapshot);
        }
        let status = plan.status.clone();
        let mut sync = Sync { controller: self, snapshot: &snapshot, status, changed: plan.changed, deferred: None };
        let done = sync.take(&plan.steps).await;
        if sync.changed && !matches!(&done, Err(Error::Request { source: api::Error::NotLeader, .. })) {
            sync.write_status().await?;
        }
        done?;
        if let Some(error) = sync.deferred {
            return Err(error);
        }
        // The plan may have been decided anew, and requests take time: the delay counts from the snapshot.
        let taken = Duration::try_from(self.context.clock.now().duration_since(snapshot.now)).unwrap_or_default();
        Ok(plan.requeue_after.map_or(Requeue::No, |delay| Requeue::After(delay.saturating_sub(taken))))
    }

    /// The CronJob as the API server has it; nothing if it is gone or was created anew.
    async fn read_cron_job(&self, snapshot: &Snapshot) -> Result<Option<CronJob>, Error> {
        let meta = &snapshot.cron.metadata;
        let target = Target::object(CRON_JOBS, &meta.namespace, &meta.name);
        let body = match self.context.api.get(target).await {
            Ok(body) => body,
            Err(error) if error.is_not_found() => return Ok(None),
            Err(error) => return Err(Error::request("read the CronJob", error)),
        };
        let live: CronJob = serde_json::from_slice(&body).map_err(|error| Error::request("read the CronJob", error))?;
        Ok(Some(live).filter(|live| live.metadata.uid == meta.uid))
    }

    /// The uid of the Job of that name; nothing if there is no such Job.
    async fn look_up(&self, snapshot: &Snapshot, name: &str) -> Result<Option<Uid>, Error> {
        match self.read_job(snapshot, name).await {
            Ok(job) => Ok(Some(job.metadata.uid)),
            Err(error) if error.is_not_found() => Ok(None),
            Err(error) => Err(Error::request(format!("read Job {name}"), error)),
        }
    }

    async fn read_job(&self, snapshot: &Snapshot, name: &str) -> Result<Job, api::Error> {
        let target = Target::object(JOBS, &snapshot.cron.metadata.namespace, name);
        let body = self.context.api.get(target).await?;
        Ok(serde_json::from_slice(&body)?)
    }
}

impl Sync<'_> {
    fn api(&self) -> &api::Api {
        &self.controller.context.api
    }

    fn meta(&self) -> &Meta {
        &self.snapshot.cron.metadata
    }

    fn emit(&self, event: Event) {
        let object = ObjectRef::new(CRON_JOBS, self.meta());
        self.controller.context.recorder.event(&object, event.kind, event.reason, event.message);
    }

    async fn take(&mut self, steps: &[Step]) -> Result<(), Error> {
        for step in steps {
            match step {
                Step::Emit(event) => self.emit(event.clone()),
                Step::Delete { name, uid, version, reason, if_refused } => {
                    self.delete(name, (uid, *version), *reason, if_refused.as_ref()).await?;
                }
                Step::Create { name, body, scheduled } => self.create(name, body, *scheduled).await?,
            }
        }
        Ok(())
    }

    /// Deletes the Job that was judged: one that somebody has changed since may have been taken away from this CronJob.
    async fn delete(
        &mut self,
        name: &str,
        (uid, version): (&Uid, Option<Version>),
        reason: Reason,
        if_refused: Option<&Event>,
    ) -> Result<(), Error> {
        let namespace = &self.meta().namespace;
        let options = Delete { uid: Some(uid.clone()), version, propagation: Some("Background"), ..Delete::default() };
        match self.api().delete(Target::object(JOBS, namespace, name), &options).await {
            Ok(_) => {
                self.controller.ledger.deleted(&self.meta().uid, JOBS, namespace, name, uid);
                self.emit(Event::normal("SuccessfulDelete", format!("Deleted job {name}")));
            }
            Err(error) if error.is_not_found() => {}
            Err(error @ api::Error::NotLeader) => return Err(Error::request(format!("delete Job {name}"), error)),
            Err(error) => {
                // A conflict means that the Job has changed, or that another one has the name: the cache is about to show it.
                if !error.is_conflict() {
                    self.emit(Event::warning("FailedDelete", format!("Deleted job: {error}")));
                }
                if reason == Reason::Replaced {
                    return Err(Error::Replace(format!("{namespace}/{name}"), error));
                }
                if let Some(event) = if_refused {
                    self.emit(event.clone());
                }
                // The deletion is tried again. The other steps do not wait for it.
                self.deferred = Some(Error::request(format!("delete Job {name}"), error));
                return Ok(());
            }
        }
        self.changed |= self.status.remove_active(uid);
        Ok(())
    }

    async fn create(&mut self, name: &str, body: &Value, scheduled: Timestamp) -> Result<(), Error> {
        let what = || format!("create Job {name}");
        let target = Target::object(JOBS, &self.meta().namespace, "");
        let (created, run) = match self.api().create(target, body).await {
            Ok(answer) => {
                let created: Written = serde_json::from_slice(&answer).map_err(|e| Error::request(what(), e))?;
                let meta = created.metadata;
                if let Some(time) = meta.created {
                    self.controller.metrics.observe_skew(time.duration_since(scheduled));
                }
                self.emit(Event::normal("SuccessfulCreate", format!("Created job {name}")));
                (meta, scheduled)
            }
            Err(error) if error.is_already_exists() => {
                let existing = self.controller.read_job(self.snapshot, name).await;
                let existing = existing.map_err(|error| Error::request(format!("read Job {name}"), error))?;
                let Some(run) = decide::existing_run(self.snapshot, &existing, scheduled) else {
                    let message =
                        format!("Error creating job: the name {name} is taken by a Job that is no run of this CronJob");
                    self.emit(Event::warning("FailedCreate", message));
                    return Ok(());
                };
                (existing.metadata, run)
            }
            Err(error) => {
                if !error.is_namespace_terminating() && !matches!(error, api::Error::NotLeader) {
                    self.emit(Event::warning("FailedCreate", format!("Error creating job: {error}")));
                }
                return Err(Error::request(what(), error));
            }
        };
        self.controller.ledger.wrote(&self.meta().uid, JOBS, created.resource_version);
        self.status.active.push(Reference::to(&created));
        self.status.last_schedule_time = Some(run);
        self.changed = true;
        Ok(())
    }

    async fn write_status(&self) -> Result<(), Error> {
        let (meta, status) = (self.meta(), &self.status);
        let time = |at: Option<Timestamp>| at.map(seconds::text);
        let patch = json!({
            "metadata": {"resourceVersion": meta.resource_version, "uid": meta.uid},
            "status": {
                "active": if status.active.is_empty() { Value::Null } else { json!(status.active) },
                "lastScheduleTime": time(status.last_schedule_time),
                "lastSuccessfulTime": time(status.last_successful_time),
            },
        });
        let target = Target::status(CRON_JOBS, &meta.namespace, &meta.name);
        let failed = |error: api::Error| Error::request("write the status", error);
        match self.api().patch(target, Patch::Merge, &patch).await {
            Ok(body) => {
                let written: Written = serde_json::from_slice(&body).map_err(|error| failed(error.into()))?;
                self.controller.ledger.wrote(&meta.uid, CRON_JOBS, written.metadata.resource_version);
                Ok(())
            }
            Err(error) if error.is_not_found() => Ok(()),
            Err(error) => Err(failed(error)),
        }
    }
}

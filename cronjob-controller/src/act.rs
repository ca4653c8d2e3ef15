//! From a plan to requests.
//!
//! A Job is started before it is recorded: its name is its time, so that whoever comes after a crash in between meets the name
//! and finishes the record. What a sync has done to the status is written even if it fails later on.

use std::sync::Arc;

use common::{
    api::{self, Delete, Patch, Target, Written},
    conditions::seconds,
    controller::Requeue,
    events::ObjectRef,
    meta::{Meta, Uid},
};
use jiff::Timestamp;
use serde_json::{Value, json};

use crate::{
    CronJobController,
    decide::decide,
    error::Error,
    objects::{CRON_JOBS, CronJob, JOBS, Reference, Status},
    plan::{Event, Plan, Question, Reason, Step},
    snapshot::{Presence, Snapshot},
};

/// One sync being carried out.
struct Sync<'a> {
    controller: &'a CronJobController,
    snapshot: &'a Snapshot,
    status: Status,
    changed: bool,
    /// What has failed and is to be tried again, though the rest went on.
    undone: Option<Error>,
}

impl CronJobController {
    pub(crate) async fn carry_out(&self, mut snapshot: Snapshot, mut plan: Plan) -> Result<Requeue, Error> {
        // Every answer makes one question less, and a live CronJob is not read again.
        while !plan.questions.is_empty() {
            for question in &plan.questions {
                match question {
                    Question::CronJob => match self.read_live(&snapshot).await? {
                        Some(live) => (snapshot.cron, snapshot.is_live) = (Arc::new(live), true),
                        None => return Ok(Requeue::No),
                    },
                    Question::Job(name) => {
                        let presence = self.look_for(&snapshot, name).await?;
                        snapshot.found.insert(name.clone(), presence);
                    }
                }
            }
            plan = decide(&snapshot);
        }
        let status = plan.status.clone();
        let mut sync = Sync { controller: self, snapshot: &snapshot, status, changed: plan.changed, undone: None };
        let done = sync.take(&plan.steps).await;
        if sync.changed && !matches!(&done, Err(Error::Request { source: api::Error::NotLeader, .. })) {
            sync.write_status().await?;
        }
        done?;
        sync.undone.map_or(Ok(plan.requeue()), Err)
    }

    /// The CronJob as the server has it; nothing if it is gone.
    async fn read_live(&self, snapshot: &Snapshot) -> Result<Option<CronJob>, Error> {
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

    /// Whether a Job that is recorded as running is there.
    async fn look_for(&self, snapshot: &Snapshot, name: &str) -> Result<Presence, Error> {
        let what = || format!("read Job {name}");
        let job = match self.read_job(snapshot, name).await {
            Ok(job) => job,
            Err(error) if error.is_not_found() => return Ok(Presence::Gone),
            Err(error) => return Err(Error::request(what(), error)),
        };
        // Another one of its name is not it.
        Ok(if snapshot.cron.status.runs(&job.uid) { Presence::There } else { Presence::Gone })
    }

    async fn read_job(&self, snapshot: &Snapshot, name: &str) -> Result<Meta, api::Error> {
        let target = Target::object(JOBS, &snapshot.cron.metadata.namespace, name);
        let body = self.context.api.get(target).await?;
        Ok(serde_json::from_slice::<Written>(&body)?.metadata)
    }
}

impl Sync<'_> {
    fn api(&self) -> &api::Api {
        &self.controller.context.api
    }

    fn meta(&self) -> &Meta {
        &self.snapshot.cron.metadata
    }

    fn tell(&self, event: Event) {
        let object = ObjectRef::new(CRON_JOBS, self.meta());
        self.controller.context.recorder.event(&object, event.kind, event.reason, event.message);
    }

    async fn take(&mut self, steps: &[Step]) -> Result<(), Error> {
        for step in steps {
            match step {
                Step::Tell(event) => self.tell(event.clone()),
                Step::Delete { name, uid, reason } => self.delete(name, uid, *reason).await?,
                Step::Start { name, body, scheduled } => self.start(name, body, *scheduled).await?,
            }
        }
        Ok(())
    }

    async fn delete(&mut self, name: &str, uid: &Uid, reason: Reason) -> Result<(), Error> {
        let namespace = &self.meta().namespace;
        let options = Delete { uid: Some(uid.clone()), propagation: Some("Background"), ..Delete::default() };
        match self.api().delete(Target::object(JOBS, namespace, name), &options).await {
            Ok(_) => {
                self.controller.ledger.deleted(&self.meta().uid, JOBS, namespace, name, uid);
                self.tell(Event::normal("SuccessfulDelete", format!("Deleted job {name}")));
            }
            Err(error) if error.is_not_found() => {}
            Err(error @ api::Error::NotLeader) => return Err(Error::request(format!("delete Job {name}"), error)),
            Err(error) => {
                // A conflict may mean that another one has its name: the cache will tell.
                if !error.is_conflict() {
                    self.tell(Event::warning("FailedDelete", format!("Deleted job: {error}")));
                }
                if reason == Reason::Replaced {
                    return Err(Error::Replace(format!("{namespace}/{name}"), error));
                }
                // The others, and what else there is to do, do not wait for it.
                self.undone = Some(Error::request(format!("delete Job {name}"), error));
                return Ok(());
            }
        }
        self.changed |= self.status.strike(uid);
        Ok(())
    }

    async fn start(&mut self, name: &str, body: &Value, scheduled: Timestamp) -> Result<(), Error> {
        let what = || format!("create Job {name}");
        let target = Target::object(JOBS, &self.meta().namespace, "");
        let made = match self.api().create(target, body).await {
            Ok(answer) => {
                let made: Written = serde_json::from_slice(&answer).map_err(|e| Error::request(what(), e))?;
                if let Some(created) = made.metadata.created {
                    self.controller.metrics.started(created.duration_since(scheduled));
                }
                self.tell(Event::normal("SuccessfulCreate", format!("Created job {name}")));
                made.metadata
            }
            Err(error) if error.is_already_exists() => {
                let there = self.controller.read_job(self.snapshot, name).await;
                let there = there.map_err(|error| Error::request(format!("read Job {name}"), error))?;
                let ours = there.controller().is_some_and(|owner| owner.uid == self.meta().uid);
                if !ours || self.status.runs(&there.uid) {
                    tracing::info!(key = %self.meta().key(), job = name, "The Job of this run is there already, and another's");
                    return Ok(());
                }
                there
            }
            Err(error) => {
                if !error.is_namespace_terminating() && !matches!(error, api::Error::NotLeader) {
                    self.tell(Event::warning("FailedCreate", format!("Error creating job: {error}")));
                }
                return Err(Error::request(what(), error));
            }
        };
        self.controller.ledger.wrote(&self.meta().uid, JOBS, made.resource_version);
        self.status.active.push(Reference::to(&made));
        self.status.last_schedule_time = Some(scheduled);
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

//! The requests of one sync: the live reads that the plan asks for, then its steps, then the status.
//!
//! A Job is created before it is recorded. Its name is derived from its scheduled time, so that the sync after a crash in between
//! finds the name taken and records the Job. The effects of a sync on the status are written even if a later step fails.

use std::{borrow::Cow, sync::Arc, time::Duration};

use common::{
    conditions::seconds,
    controller::{Requeue, Retry},
    meta::{Meta, Version},
    sequence::{self, Class, Failed, Request, Role, Sequence, Steps, Turn, Verb},
};
use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};

use crate::{
    decide,
    objects::{CRON_JOBS, CronJob, JOBS, Job, Reference, Status},
    plan::{Event, Plan, Question, Reason, Step},
    snapshot::Snapshot,
};

/// A change of the controller's memory or metrics.
#[derive(Debug)]
pub enum Note {
    /// A Job was created that long after its scheduled time.
    Created(SignedDuration),
    /// A Job that was created before is recorded, as it was read live at that version.
    Recorded(Version),
}

impl sequence::Note for Note {
    type Question = ();
    type Fresh = ();
}

/// The state of one sync.
struct State<'a> {
    /// With the answers to the questions of the plan.
    snapshot: Cow<'a, Snapshot>,
    /// Decided again once the questions are answered.
    plan: Cow<'a, Plan>,
    /// The position of the next question, and after the questions that of the next step.
    at: usize,
    status: Status,
    changed: bool,
    /// The error of the step that was the last.
    failed: Option<Failed>,
    /// The error of a step that does not keep the steps after it from being taken.
    deferred: Option<Failed>,
}

/// The requests that carry out `plan`.
pub(crate) fn sequence<'a>(snapshot: &'a Snapshot, plan: &'a Plan) -> impl Sequence<Note> + 'a {
    let state = State {
        snapshot: Cow::Borrowed(snapshot),
        plan: Cow::Borrowed(plan),
        at: 0,
        status: Status::default(),
        changed: false,
        failed: None,
        deferred: None,
    };
    Steps::new(state, State::ask)
}

type Next<'a> = sequence::Step<State<'a>, Note>;

impl<'a> State<'a> {
    /// Asks the next question. Every answer settles one, and the CronJob is read at most once.
    fn ask(&mut self, turn: &mut Turn<Note>) -> Next<'a> {
        if self.plan.questions.is_empty() {
            self.status = self.plan.status.clone();
            self.changed = self.plan.changed;
            return self.take_steps(turn);
        }
        let Some(question) = self.plan.questions.get(self.at) else {
            self.plan = Cow::Owned(decide::decide(&self.snapshot));
            self.at = 0;
            return self.ask(turn);
        };
        let why = question.why();
        match question {
            Question::CronJob => {
                let meta = self.meta();
                let request = Request::get(CRON_JOBS, &meta.namespace, &meta.name);
                Next::Send(request.because(why), Self::read_cron_job)
            }
            Question::Job(name) => Next::Send(self.get_job(name).because(why), Self::look_up),
        }
    }

    /// Takes over the CronJob as the API server has it. One that is gone, or was created anew, needs no sync.
    fn read_cron_job(&mut self, turn: &mut Turn<Note>) -> Next<'a> {
        let live = match turn.read::<CronJob>() {
            Ok(live) => live,
            Err(refusal) if refusal.error.is_not_found() => return end(turn, Ok(Requeue::No)),
            Err(refusal) => return end(turn, Err(Failed::request("cannot read the CronJob", &refusal))),
        };
        if let Some(live) = live {
            let cached = self.meta();
            if live.metadata.uid != cached.uid {
                turn.deviates("the CronJob was deleted and created anew");
                return end(turn, Ok(Requeue::No));
            }
            if live.metadata.resource_version != cached.resource_version {
                turn.deviates("the CronJob has changed since the version in the cache");
            }
            self.snapshot.to_mut().cron = Arc::new(live);
        }
        self.snapshot.to_mut().is_live = true;
        self.at += 1;
        self.ask(turn)
    }

    /// Notes the Job of that name. A forecast expects no such Job, as in the cache.
    fn look_up(&mut self, turn: &mut Turn<Note>) -> Next<'a> {
        let Some(Question::Job(name)) = self.plan.questions.get(self.at) else { return self.ask(turn) };
        let found = match turn.read::<Job>() {
            Ok(found) => found.map(Arc::new),
            Err(refusal) if refusal.error.is_not_found() => None,
            Err(refusal) => return end(turn, Err(Failed::request(&format!("cannot read Job {name}"), &refusal))),
        };
        if found.is_some() {
            turn.deviates(format!("Job {name} exists, and the cache does not hold it"));
        }
        self.snapshot.to_mut().answers.insert(name.clone(), found);
        self.at += 1;
        self.ask(turn)
    }

    /// Takes the steps up to the next one that is a request.
    fn take_steps(&mut self, turn: &mut Turn<Note>) -> Next<'a> {
        while let Some(step) = self.plan.steps.get(self.at) {
            self.at += 1;
            match step {
                Step::Emit(event) => tell(turn, event.clone()),
                Step::Delete { name, uid, version, reason, .. } => {
                    let job = Meta {
                        namespace: self.meta().namespace.clone(),
                        name: Arc::from(&**name),
                        uid: uid.clone(),
                        resource_version: version.unwrap_or_default(),
                        ..Meta::default()
                    };
                    let verb = Verb::Delete(Some("Background"), None);
                    let request = Request { verb, ..Request::delete(JOBS, &job) };
                    return Next::Send(request.at(*version).because(reason.as_str()), Self::deleted);
                }
                Step::Create { name, body, scheduled } => {
                    let body = turn.body(|| body);
                    // The next sync waits for the created Job alone: its name keeps it from being created twice.
                    let request = Request::create(JOBS, &self.meta().namespace, &Arc::from(&**name), body);
                    let request = request.role(Role::Itself).because(format!("it is due since {scheduled}"));
                    return Next::Send(request, Self::created);
                }
            }
        }
        self.write_status(turn)
    }

    /// The step whose request was sent last.
    fn sent_step(&self) -> Option<&Step> {
        self.plan.steps.get(self.at.checked_sub(1)?)
    }

    fn deleted(&mut self, turn: &mut Turn<Note>) -> Next<'a> {
        let Some(Step::Delete { name, uid, reason, if_refused, .. }) = self.sent_step() else {
            return self.take_steps(turn);
        };
        match turn.written() {
            Ok(_) => tell(turn, Event::normal("SuccessfulDelete", format!("Deleted job {name}"))),
            Err(refusal) if refusal.error.is_not_found() => {}
            Err(refusal) => {
                // A conflict means that the Job has changed, or that another one has the name: the cache is about to show it.
                if !refusal.error.is_conflict() {
                    tell(turn, Event::warning("FailedDelete", format!("Deleted job: {}", refusal.error)));
                }
                if *reason == Reason::Replaced {
                    let what = format!("could not replace job {}/{name}", self.meta().namespace);
                    self.failed = Some(Failed::request(&what, &refusal));
                    return self.write_status(turn);
                }
                if let Some(event) = if_refused {
                    tell(turn, event.clone());
                }
                // The deletion is tried again. The other steps do not wait for it.
                self.deferred = Some(Failed::request(&format!("cannot delete Job {name}"), &refusal));
                return self.take_steps(turn);
            }
        }
        let uid = uid.clone();
        self.changed |= self.status.remove_active(&uid);
        self.take_steps(turn)
    }

    fn created(&mut self, turn: &mut Turn<Note>) -> Next<'a> {
        let Some(Step::Create { name, scheduled, .. }) = self.sent_step() else { return self.take_steps(turn) };
        let scheduled = *scheduled;
        match turn.metadata() {
            Ok(created) => {
                if let Some(time) = created.as_ref().and_then(|created| created.created) {
                    turn.note(Note::Created(time.duration_since(scheduled)));
                }
                tell(turn, Event::normal("SuccessfulCreate", format!("Created job {name}")));
                self.record(&created.unwrap_or_default(), scheduled);
                self.take_steps(turn)
            }
            Err(refusal) if refusal.class == Class::Taken => {
                Next::Send(self.get_job(name).because("its name is taken"), Self::read_existing)
            }
            Err(refusal) => {
                let failed = Failed::request(&format!("cannot create Job {name}"), &refusal);
                self.failed = Some(if refusal.class == Class::NamespaceTerminating {
                    failed.with_retry(Retry::Forget)
                } else {
                    tell(turn, failed_create(&refusal.error));
                    failed
                });
                self.write_status(turn)
            }
        }
    }

    /// Records the Job that has the name of the run, if it is the Job of the run.
    fn read_existing(&mut self, turn: &mut Turn<Note>) -> Next<'a> {
        let Some(Step::Create { name, scheduled, .. }) = self.sent_step() else { return self.take_steps(turn) };
        let scheduled = *scheduled;
        match turn.read::<Job>() {
            Ok(existing) => {
                let run = |job: &Job| decide::existing_run(&self.snapshot, job, scheduled);
                if let Some((job, run)) = existing.and_then(|job| run(&job).map(|run| (job, run))) {
                    turn.note(Note::Recorded(job.metadata.resource_version));
                    self.record(&job.metadata, run);
                } else {
                    let taken = format_args!("the name {name} is taken by a Job that is no run of this CronJob");
                    tell(turn, failed_create(&taken));
                }
            }
            Err(refusal) => self.failed = Some(Failed::request(&format!("cannot read Job {name}"), &refusal)),
        }
        self.write_status(turn)
    }

    fn record(&mut self, job: &Meta, run: Timestamp) {
        self.status.active.push(Reference::to(job));
        self.status.last_schedule_time = Some(run);
        self.changed = true;
    }

    fn write_status(&mut self, turn: &mut Turn<Note>) -> Next<'a> {
        if !self.changed {
            return self.finish(turn);
        }
        let status = &self.status;
        let time = |at: Option<Timestamp>| at.map(seconds::text);
        let body = turn.body(|| {
            json!({"status": {
                "active": if status.active.is_empty() { Value::Null } else { json!(status.active) },
                "lastScheduleTime": time(status.last_schedule_time),
                "lastSuccessfulTime": time(status.last_successful_time),
            }})
        });
        let request = Request::status(CRON_JOBS, self.meta(), body).because(self.plan.changes());
        Next::Send(request, |state, turn| match turn.written() {
            Err(refusal) if !refusal.error.is_not_found() => {
                end(turn, Err(Failed::request("cannot write the status", &refusal)))
            }
            Ok(_) | Err(_) => state.finish(turn),
        })
    }

    fn finish(&mut self, turn: &mut Turn<Note>) -> Next<'a> {
        if let Some(failed) = self.failed.take().or_else(|| self.deferred.take()) {
            return end(turn, Err(failed));
        }
        // The plan may have been decided anew, and requests take time: the delay counts from the snapshot.
        let taken = Duration::try_from(turn.now.duration_since(self.snapshot.now)).unwrap_or_default();
        let requeue = |delay: Duration| Requeue::After(delay.saturating_sub(taken));
        end(turn, Ok(self.plan.requeue_after.map_or(Requeue::No, requeue)))
    }

    fn meta(&self) -> &Meta {
        &self.snapshot.cron.metadata
    }

    fn get_job(&self, name: &str) -> Request {
        Request::get(JOBS, &self.meta().namespace, &Arc::from(name))
    }
}

fn failed_create(why: &dyn std::fmt::Display) -> Event {
    Event::warning("FailedCreate", format!("Error creating job: {why}"))
}

fn tell(turn: &mut Turn<Note>, event: Event) {
    let Event { kind, reason, message } = event;
    turn.tell(kind, reason, message);
}

fn end<'a>(turn: &mut Turn<Note>, outcome: Result<Requeue, Failed>) -> Next<'a> {
    turn.end(outcome);
    Next::Done
}

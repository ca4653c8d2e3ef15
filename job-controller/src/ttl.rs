//! Finished Jobs are removed when their time is over.
//!
//! Only a Job that has finished is removed, only the one that was looked at (by uid), and not before its time by this
//! machine's clock. Its Pods go first (foreground). Nobody's finalizer is touched. Upstream:
//! `pkg/controller/ttlafterfinished`.

use std::{sync::Arc, time::Duration};

use common::{
    api::{Delete, Target},
    conditions::seconds,
    controller::{Controller, Explain, Explanation, Loop, Observed, Requeue, priority},
    informer::AnyInformer,
    meta::Key,
    queue::{Backoff, Queue},
    runtime::{Context, Running},
    store::{Event, Origin},
};
use jiff::{SignedDuration, Timestamp};

use crate::{
    CONCURRENT_TTL_SYNCS,
    cache::JobCache,
    error::Error,
    job_cache,
    metrics::TtlMetrics,
    objects::{JOBS, Job},
};

/// What becomes of a Job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// It is not to be removed: it runs, it is going already, or nobody said when.
    Stays,
    /// It has finished, and nobody wrote when.
    Unknown,
    /// It is to be removed then.
    Expires(Timestamp),
}

/// Decides what becomes of a Job.
pub fn fate(job: &Job) -> Fate {
    let Some(ttl) = job.ttl_seconds_after_finished.filter(|_| !job.metadata.is_deleting()) else { return Fate::Stays };
    let Some(finished) = job.status.finished() else { return Fate::Stays };
    let Some(at) = finished.last_transition_time else { return Fate::Unknown };
    Fate::Expires(at.saturating_add(SignedDuration::from_secs(ttl)).unwrap_or(Timestamp::MAX))
}

/// Whether the Job has finished at a time that is yet to come: the clock of whoever wrote that is ahead.
pub fn is_ahead(job: &Job, now: Timestamp) -> bool {
    job.status.finished().and_then(|condition| condition.last_transition_time).is_some_and(|at| at > now)
}

/// A Job and the time.
#[derive(Clone, Debug)]
pub struct Snapshot {
    job: Arc<Job>,
    now: Timestamp,
}

/// What is done about a Job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Plan {
    /// Nothing.
    Nothing,
    /// Nothing can be done: it is not known when the Job finished.
    Unknown,
    /// It is too early, by that much.
    Wait(Duration),
    /// It is removed if the server agrees that it is time.
    Remove {
        /// For how long it has been time.
        late: Duration,
    },
}

/// Decides what is done about a Job at `now`.
pub fn decide(job: &Job, now: Timestamp) -> Plan {
    match fate(job) {
        Fate::Stays => Plan::Nothing,
        Fate::Unknown => Plan::Unknown,
        Fate::Expires(at) => match Duration::try_from(at.duration_since(now)) {
            Ok(left) if !left.is_zero() => Plan::Wait(left),
            _ => Plan::Remove { late: now.duration_since(at).unsigned_abs() },
        },
    }
}

impl Explain for Plan {
    fn explain(&self) -> Explanation {
        let (situation, waiting, actions) = match self {
            Self::Nothing => ("the Job is not to be removed", None, None),
            Self::Unknown => ("the Job has finished", Some("it is not known when the Job finished".to_owned()), None),
            Self::Wait(left) => {
                let left = left.as_secs() + u64::from(left.subsec_nanos() > 0);
                ("the Job has finished", Some(format!("it is removed in {left}s")), None)
            }
            Self::Remove { .. } => ("the Job has finished", None, Some("remove the Job: its time is over".to_owned())),
        };
        Explanation {
            situation: situation.to_owned(),
            waiting: waiting.into_iter().collect(),
            actions: actions.into_iter().collect(),
        }
    }

    fn acts(&self) -> bool {
        matches!(self, Self::Remove { .. })
    }

    fn requeue_after(&self) -> Option<Duration> {
        if let Self::Wait(left) = self { Some(*left) } else { None }
    }
}

/// The loop.
pub struct TtlController {
    context: Context,
    jobs: Arc<JobCache>,
    metrics: TtlMetrics,
}

/// Starts the loop.
pub(crate) fn start(name: &'static str, context: Context) -> Arc<dyn Running> {
    let queue: Queue<Key> = context.queue("ttl_jobs_to_delete", Backoff::default());
    let jobs = job_cache(&context);
    let keys = queue.clone();
    jobs.listen(Box::new(move |event, origin| on_job(&keys, event, origin)));
    let workers = context.settings.workers(&CONCURRENT_TTL_SYNCS);
    let metrics = TtlMetrics::new(&context.metrics);
    let controller = TtlController { context: context.clone(), jobs, metrics };
    Loop::start(name, context, Arc::new(controller), queue, workers)
}

/// Every Job that is to be removed some time comes to the queue, whenever something of it changes.
fn on_job(queue: &Queue<Key>, event: &Event<Job>, origin: Origin) {
    if let Event::Added(job) | Event::Updated { new: job, .. } = event
        && fate(job) != Fate::Stays
    {
        queue.add(job.metadata.key(), priority(origin));
    }
}

impl TtlController {
    async fn remove(&self, job: &Job) -> Result<Requeue, Error> {
        let meta = &job.metadata;
        let target = Target::object(JOBS, &meta.namespace, &meta.name);
        // The cache may be old: its time may have been changed, or it may be another one of that name.
        let live = match self.context.api.get(target).await {
            Ok(live) => live,
            Err(error) if error.is_not_found() => return Ok(Requeue::No),
            Err(error) => return Err(Error::Live(error)),
        };
        let live: Job = serde_json::from_slice(&live).map_err(|error| Error::Live(error.into()))?;
        let late = match decide(&live, self.context.clock.now()) {
            Plan::Nothing => return Ok(Requeue::No),
            Plan::Unknown => return Err(Error::NoFinishTime(meta.key().to_string())),
            Plan::Wait(left) => return Ok(Requeue::After(left)),
            Plan::Remove { late } => late,
        };
        // A time to live that is raised in between changes the version.
        let options = Delete {
            uid: Some(live.metadata.uid.clone()),
            version: Some(live.metadata.resource_version),
            propagation: Some("Foreground"),
            ..Delete::default()
        };
        self.context.api.delete(target, &options).await.map_err(Error::Remove)?;
        self.metrics.removed(late);
        tracing::info!(logger = "ttl-after-finished", key = %meta.key(), finished = ?live.status.finished().and_then(|c| c.last_transition_time).map(seconds::text), "Removed a finished Job");
        Ok(Requeue::No)
    }
}

impl Controller for TtlController {
    type Key = Key;
    type Snapshot = Snapshot;
    type Plan = Plan;
    type Error = Error;

    fn observe(&self, key: &Key, now: Timestamp) -> Result<Observed<Snapshot>, Error> {
        // One that cannot be read can have no time: it comes back when it can.
        let job = self.jobs.store().get_readable(&key.namespace, &key.name);
        Ok(job.map_or(Observed::Gone, |job| Observed::Ready(Snapshot { job, now })))
    }

    fn decide(snapshot: &Snapshot) -> Plan {
        decide(&snapshot.job, snapshot.now)
    }

    async fn act(&self, snapshot: Snapshot, plan: Plan) -> Result<Requeue, Error> {
        match plan {
            Plan::Nothing => Ok(Requeue::No),
            Plan::Unknown => Err(Error::NoFinishTime(snapshot.job.metadata.key().to_string())),
            Plan::Wait(_) => {
                if is_ahead(&snapshot.job, snapshot.now) {
                    tracing::warn!(logger = "ttl-after-finished", key = %snapshot.job.metadata.key(), "Found a Job that finished in the future; it is removed when its time has come");
                }
                Ok(Requeue::No)
            }
            Plan::Remove { .. } => self.remove(&snapshot.job).await,
        }
    }

    fn informers(&self) -> Vec<&dyn AnyInformer> {
        vec![self.jobs.informer()]
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::decide::world::{at, job};

    fn with(ttl: Value, conditions: Value) -> Job {
        let mut json = job("j").0;
        json["spec"]["ttlSecondsAfterFinished"] = ttl;
        json["status"]["conditions"] = conditions;
        serde_json::from_str(&json.to_string()).unwrap()
    }

    fn finished(kind: &str, second: i64) -> Value {
        json!({"type": kind, "status": "True", "lastTransitionTime": at(second).to_string()})
    }

    #[test]
    fn a_job_is_removed_when_its_time_is_over_and_not_before() {
        for (finish, ttl, now, plan) in [
            (0, 100, at(40), Plan::Wait(Duration::from_secs(60))),
            (0, 100, at(100), Plan::Remove { late: Duration::ZERO }),
            (0, 0, at(0) + Duration::from_millis(200), Plan::Remove { late: Duration::from_millis(200) }),
            (300, 0, at(0), Plan::Wait(Duration::from_secs(300))),
        ] {
            let job = with(json!(ttl), json!([finished("Complete", finish)]));
            assert_eq!(decide(&job, now), plan, "{finish} {ttl} {now}");
            assert_eq!(is_ahead(&job, now), finish == 300, "{finish} {now}");
        }
    }

    #[test]
    fn only_finished_jobs_with_a_time_that_are_not_going_are_removed() {
        let done = json!([finished("Failed", 0)]);
        assert_eq!(fate(&with(json!(null), done.clone())), Fate::Stays);
        assert_eq!(fate(&with(json!(5), json!([]))), Fate::Stays);
        assert_eq!(fate(&with(json!(5), json!([finished("SuccessCriteriaMet", 0)]))), Fate::Stays);
        assert_eq!(fate(&with(json!(5), done.clone())), Fate::Expires(at(5)));
        let mut going = with(json!(5), done);
        going.metadata.deleted = Some(at(1));
        assert_eq!(fate(&going), Fate::Stays);
    }

    #[test]
    fn the_first_condition_that_says_so_counts() {
        let both = json!([finished("Complete", 7), finished("Failed", 3)]);
        assert_eq!(fate(&with(json!(0), both)), Fate::Expires(at(7)));
        let timeless = json!([{"type": "Complete", "status": "True"}]);
        assert_eq!(fate(&with(json!(0), timeless)), Fate::Unknown);
    }
}

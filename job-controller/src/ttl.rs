//! Finished Jobs are removed when their time is over.
//!
//! Only a Job that has finished is removed, only the one that was looked at (by uid), and not before its time by this
//! machine's clock. Its Pods go first (foreground). Nobody's finalizer is touched. Upstream:
//! `pkg/controller/ttlafterfinished`.

use std::{sync::Arc, time::Duration};

use common::{
    conditions::seconds,
    controller::{Explain, Loop, Observed, Requeue, Sequenced, priority},
    events::ObjectRef,
    informer::{AnyInformer, SharedInformer},
    meta::{Key, Uid},
    queue::{Backoff, Queue},
    runtime::{Context, Running},
    sequence::{self, Class, Failed, Request, Sequence, Step, Steps, Turn, Verb},
    store::{Event, Origin},
};
use jiff::{SignedDuration, Timestamp};

use crate::{
    CONCURRENT_TTL_SYNCS,
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
    fn situation(&self) -> String {
        let is_to_stay = *self == Self::Nothing;
        if is_to_stay { "the Job is not to be removed" } else { "the Job has finished" }.to_owned()
    }

    fn waiting(&self) -> Vec<String> {
        match self {
            Self::Nothing | Self::Remove { .. } => Vec::new(),
            Self::Unknown => vec!["it is not known when the Job finished".to_owned()],
            Self::Wait(left) => {
                let left = left.as_secs() + u64::from(left.subsec_nanos() > 0);
                vec![format!("it is removed in {left}s")]
            }
        }
    }

    fn requeue_after(&self) -> Option<Duration> {
        if let Self::Wait(left) = self { Some(*left) } else { None }
    }
}

/// A change of memory or metrics.
#[derive(Debug)]
pub enum Note {
    /// The Job finished at a time that is yet to come.
    Ahead,
    /// The Job was removed so long after its time, which began when it finished.
    Removed(Duration, Option<Timestamp>),
}

impl sequence::Note for Note {
    type Question = ();
    type Fresh = ();
}

/// The state of one sync.
struct State<'a> {
    job: &'a Job,
    /// The Job as the server has it.
    live: Option<Job>,
    late: Duration,
}

/// The requests that carry out `plan`.
fn sequence<'a>(snapshot: &'a Snapshot, plan: &'a Plan) -> impl Sequence<Note> + 'a {
    let is_ahead = is_ahead(&snapshot.job, snapshot.now);
    let state = State { job: &snapshot.job, live: None, late: Duration::ZERO };
    match plan {
        Plan::Nothing => Steps::new(state, |_, _| Step::Done),
        Plan::Wait(_) if !is_ahead => Steps::new(state, |_, _| Step::Done),
        Plan::Wait(_) => Steps::new(state, |_, turn| {
            turn.note(Note::Ahead);
            Step::Done
        }),
        Plan::Unknown => Steps::new(state, State::no_finish_time),
        Plan::Remove { .. } => Steps::new(state, State::read),
    }
}

impl State<'_> {
    fn no_finish_time(&mut self, turn: &mut Turn<Note>) -> Step<Self, Note> {
        let text = format!("unable to find the time when the Job {} finished", self.job.metadata.key());
        turn.end(Err(Failed::new("no_finish_time", text)));
        Step::Done
    }

    /// Reads the Job live. The cache may be old: its time may have been changed, or it may be another one of that name.
    fn read(&mut self, _: &mut Turn<Note>) -> Step<Self, Note> {
        let meta = &self.job.metadata;
        let request = Request::get(JOBS, &meta.namespace, &meta.name);
        Step::Send(request.because("its time may have been changed"), Self::remove)
    }

    fn remove(&mut self, turn: &mut Turn<Note>) -> Step<Self, Note> {
        let live = match turn.read::<Job>() {
            Ok(live) => live,
            Err(refusal) if refusal.class == Class::Gone => return Step::Done,
            Err(refusal) => {
                turn.end(Err(Failed::request("reading the finished Job", &refusal)));
                return Step::Done;
            }
        };
        if let Some(live) = live {
            match decide(&live, turn.now) {
                Plan::Remove { late } => self.late = late,
                plan => {
                    turn.deviates("the Job is another one, or its time to live was changed");
                    return match plan {
                        Plan::Unknown => self.no_finish_time(turn),
                        Plan::Wait(left) => {
                            turn.end(Ok(Requeue::After(left)));
                            Step::Done
                        }
                        Plan::Nothing | Plan::Remove { .. } => Step::Done,
                    };
                }
            }
            self.live = Some(live);
        }
        // A time to live that is raised in between changes the version.
        let request = Request::delete(JOBS, &self.live.as_ref().unwrap_or(self.job).metadata);
        let request = Request { verb: Verb::Delete(Some("Foreground"), None), ..request };
        Step::Send(request.doing("remove").because("its time is over"), Self::removed)
    }

    fn removed(&mut self, turn: &mut Turn<Note>) -> Step<Self, Note> {
        match turn.written() {
            Ok(_) => {
                let finished = self.live.as_ref().unwrap_or(self.job).status.finished();
                turn.note(Note::Removed(self.late, finished.and_then(|condition| condition.last_transition_time)));
            }
            Err(refusal) => turn.end(Err(Failed::request("removing the finished Job", &refusal))),
        }
        Step::Done
    }
}

/// The loop.
pub struct TtlController {
    jobs: Arc<SharedInformer<Job>>,
    metrics: TtlMetrics,
}

/// Starts the loop.
pub(crate) fn start(name: &'static str, context: Context) -> Arc<dyn Running> {
    let queue: Queue<Key> = context.queue("ttl_jobs_to_delete", Backoff::default());
    let jobs = context.shared_informer::<Job>();
    let keys = queue.clone();
    jobs.add_handler(Box::new(move |event, origin| on_job(&keys, event, origin)));
    let workers = context.settings.workers(&CONCURRENT_TTL_SYNCS);
    let metrics = TtlMetrics::new(&context.metrics);
    let controller = TtlController { jobs, metrics };
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

impl Sequenced for TtlController {
    type Key = Key;
    type Snapshot = Snapshot;
    type Plan = Plan;
    type Note = Note;

    fn observe(&self, key: &Key, now: Timestamp) -> Result<Observed<Snapshot>, Failed> {
        // One that cannot be read can have no time: it comes back when it can.
        let job = self.jobs.store().get_readable(&key.namespace, &key.name);
        Ok(job.map_or(Observed::Gone, |job| Observed::Ready(Snapshot { job, now })))
    }

    fn decide(snapshot: &Snapshot) -> Plan {
        decide(&snapshot.job, snapshot.now)
    }

    fn sequence<'a>(snapshot: &'a Snapshot, plan: &'a Plan) -> impl Sequence<Note> + 'a {
        sequence(snapshot, plan)
    }

    fn object(snapshot: &Snapshot) -> (ObjectRef, Uid) {
        (ObjectRef::new(JOBS, &snapshot.job.metadata), snapshot.job.metadata.uid.clone())
    }

    fn note(&self, snapshot: &Snapshot, note: Note) {
        let key = snapshot.job.metadata.key();
        match note {
            Note::Ahead => {
                tracing::warn!(logger = "ttl-after-finished", key = %key, "Found a Job that finished in the future; it is removed when its time has come");
            }
            Note::Removed(late, finished) => {
                self.metrics.removed(late);
                tracing::info!(logger = "ttl-after-finished", key = %key, finished = ?finished.map(seconds::text), "Removed a finished Job");
            }
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

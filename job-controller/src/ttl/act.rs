//! Sends the requests of a plan: reads the Job from the server, then deletes it.

use std::time::Duration;

use common::{
    io::{self, RefusalClass, Request, Requeue, SyncError, Verb},
    meta::Meta,
};
use jiff::Timestamp;

use super::{
    decide::{decide, finish_time},
    plan::Plan,
    snapshot::Snapshot,
};
use crate::objects::{JOBS, Job};

/// A result of a sync that the controller logs or measures.
#[derive(Debug)]
pub enum Note {
    /// The finish time of the Job is in the future.
    FinishTimeInFuture,
    /// The Job was deleted: the time since the end of its time to live, and its finish time.
    JobDeleted(Duration, Option<Timestamp>),
}

impl io::MemoryNote for Note {
    type Query = ();
    type NewState = ();
}

type Io<'r> = io::Io<'r, Note>;

/// Deletes the Job if the plan says so, and returns the time of the Job's next sync.
pub(super) async fn act(snapshot: &Snapshot, plan: &Plan, io: Io<'_>) -> Result<Requeue, SyncError> {
    let job = &*snapshot.job;
    match plan {
        Plan::WaitForExpiry { is_finish_time_in_future: true, .. } => io.apply_memory_note(Note::FinishTimeInFuture),
        Plan::KeepJob | Plan::WaitForExpiry { .. } => {}
        Plan::NoFinishTime => return Err(no_finish_time(job)),
        Plan::DeleteJob { .. } => return remove(job, io).await,
    }
    Ok(Requeue::AfterPlannedDelay)
}

/// Reads a Job from the server, and deletes the Job if its time to live has ended in this version, too.
///
/// If the cache is stale, the time to live may have changed, or a new Job may have the same name.
async fn remove(job: &Job, io: Io<'_>) -> Result<Requeue, SyncError> {
    let Meta { namespace, name, .. } = &job.metadata;
    let read = Request::get(JOBS, namespace, name).with_reason("its time to live may have changed");
    let live = match io.send_and_decode::<Job>(read).await {
        Ok(live) => live,
        Err(refusal) if refusal.class == RefusalClass::NotFound => return Ok(Requeue::AfterPlannedDelay),
        Err(refusal) => return Err(SyncError::from_refusal("reading the finished Job", &refusal)),
    };
    // A forecast (a sync without requests) reads no object, and assumes that the Job is as cached.
    let live = live.as_ref().unwrap_or(job);
    let instead = match decide(live, io.now()) {
        Plan::DeleteJob { time_since_expiry: late } => return delete(live, late, io).await,
        Plan::NoFinishTime => Err(no_finish_time(job)),
        Plan::WaitForExpiry { time_to_expiry: left, .. } => Ok(Requeue::After(left)),
        Plan::KeepJob => Ok(Requeue::AfterPlannedDelay),
    };
    io.explain_deviation("the Job was recreated, or its time to live has changed");
    instead
}

async fn delete(live: &Job, late: Duration, io: Io<'_>) -> Result<Requeue, SyncError> {
    // If the time to live changes after the read, the version changes, too, and the precondition fails.
    let delete = Request { verb: Verb::Delete(Some("Foreground"), None), ..Request::delete(JOBS, &live.metadata) };
    let removed = io.send(delete.with_verb_text("remove").with_reason("its time to live has ended")).await;
    removed.map_err(|refusal| SyncError::from_refusal("removing the finished Job", &refusal))?;
    io.apply_memory_note(Note::JobDeleted(late, finish_time(live)));
    Ok(Requeue::AfterPlannedDelay)
}

fn no_finish_time(job: &Job) -> SyncError {
    let text = format!("unable to find the time when the Job {} finished", job.metadata.key());
    SyncError::new("no_finish_time", text)
}

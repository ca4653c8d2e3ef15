//! Sends the requests of a plan: a live read, then the deletion.

use std::time::Duration;

use common::{
    io::{self, Class, Failed, Request, Requeue, Verb},
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
    Ahead,
    /// The Job was deleted: the time since the end of its time to live, and its finish time.
    Removed(Duration, Option<Timestamp>),
}

impl io::Note for Note {
    type Question = ();
    type Fresh = ();
}

type Io<'r> = io::Io<'r, Note>;

/// Deletes the Job if the plan says so. Returns when the Job is synced again.
pub(super) async fn act(snapshot: &Snapshot, plan: &Plan, io: Io<'_>) -> Result<Requeue, Failed> {
    let job = &*snapshot.job;
    match plan {
        Plan::Wait { is_ahead: true, .. } => io.note(Note::Ahead),
        Plan::Nothing | Plan::Wait { .. } => {}
        Plan::Unknown => return Err(no_finish_time(job)),
        Plan::Remove { .. } => return remove(job, io).await,
    }
    Ok(Requeue::AsPlanned)
}

/// Reads a Job from the server and deletes it.
///
/// The cache may be stale: the time to live may have changed, or there may be a new Job with the same name.
async fn remove(job: &Job, io: Io<'_>) -> Result<Requeue, Failed> {
    let Meta { namespace, name, .. } = &job.metadata;
    let read = Request::get(JOBS, namespace, name).because("its time to live may have changed");
    let live = match io.send_and_read::<Job>(read).await {
        Ok(live) => live,
        Err(refusal) if refusal.class == Class::Gone => return Ok(Requeue::AsPlanned),
        Err(refusal) => return Err(Failed::request("reading the finished Job", &refusal)),
    };
    // A forecast (a sync without requests) reads no object, and assumes that the Job is as cached.
    let live = live.as_ref().unwrap_or(job);
    let instead = match decide(live, io.now()) {
        Plan::Remove { late } => return delete(live, late, io).await,
        Plan::Unknown => Err(no_finish_time(job)),
        Plan::Wait { left, .. } => Ok(Requeue::After(left)),
        Plan::Nothing => Ok(Requeue::AsPlanned),
    };
    io.deviate("the Job was recreated, or its time to live has changed");
    instead
}

async fn delete(live: &Job, late: Duration, io: Io<'_>) -> Result<Requeue, Failed> {
    // If the time to live changes after the read, the version changes, too, and the precondition fails.
    let delete = Request { verb: Verb::Delete(Some("Foreground"), None), ..Request::delete(JOBS, &live.metadata) };
    let removed = io.send(delete.doing("remove").because("its time to live has ended")).await;
    removed.map_err(|refusal| Failed::request("removing the finished Job", &refusal))?;
    io.note(Note::Removed(late, finish_time(live)));
    Ok(Requeue::AsPlanned)
}

fn no_finish_time(job: &Job) -> Failed {
    let text = format!("unable to find the time when the Job {} finished", job.metadata.key());
    Failed::new("no_finish_time", text)
}

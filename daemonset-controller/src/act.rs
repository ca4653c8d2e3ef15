//! The requests of a plan: revisions, claims, Pods, the history, the status.

mod body;
mod note;
mod pods;
mod refusals;
mod revisions;

use std::time::Duration;

use common::{
    events::EventType,
    io::{Failed, Request, Requeue},
};
use serde_json::json;

pub(crate) use self::note::Note;
use self::{note::Io, refusals::status_failed};
use crate::{
    objects::DAEMON_SETS,
    plan::{Plan, Problem, Scope},
    snapshot::Snapshot,
};

/// Sends the requests of a plan, and returns when the next sync is due.
pub(crate) async fn act(snapshot: &Snapshot, plan: &Plan, io: Io<'_>) -> Result<Requeue, Failed> {
    match (&plan.problem, plan.scope) {
        (Some(problem @ Problem::SelectsEverything), _) => {
            io.event(EventType::Warning, "SelectingAll", problem.to_string());
            Ok(Requeue::AsPlanned)
        }
        (Some(Problem::Selector(error)), _) => {
            io.note(Note::BrokenSelector(error.to_string()));
            Ok(Requeue::AsPlanned)
        }
        (None, Scope::Nothing) => Ok(Requeue::AsPlanned),
        (None, Scope::Status) => write_status(plan, io).await.map(|()| Requeue::AsPlanned),
        (None, Scope::Claims | Scope::Everything) => claim_and_manage(snapshot, plan, io).await,
    }
}

/// Writes revisions and claims Pods. Unless the plan is limited to that, also creates and deletes Pods and writes the status.
async fn claim_and_manage(snapshot: &Snapshot, plan: &Plan, io: Io<'_>) -> Result<Requeue, Failed> {
    // The first denied change that does not stop the sync. It becomes the failure of the sync at the end.
    let mut denied: Option<Failed> = None;
    if !revisions::claim(snapshot, &mut denied, io).await? {
        return Ok(Requeue::AsPlanned);
    }
    let relabelled = pods::relabel(snapshot, &mut denied, io).await?;
    revisions::delete_duplicates(snapshot, &relabelled.kept_hashes, &mut denied, io).await?;
    if !revisions::write_current(snapshot, io).await? {
        return Ok(Requeue::AsPlanned);
    }
    let adopted = pods::claim(snapshot, plan, &mut denied, io).await?;
    if plan.scope == Scope::Claims {
        return denied.map_or_else(|| Ok(again(adopted + relabelled.done)), Err);
    }

    let created = pods::create(snapshot, plan, io).await;
    // Pods are deleted even if some creations failed.
    let deleted = pods::delete(snapshot, plan, io).await;
    let managed = created.and_then(|created| Ok(created + deleted?));
    let forgotten = match &managed {
        Ok(_) => {
            let why = "the history is longer than its limit";
            revisions::delete(plan.forget.iter(), why, &mut denied, io).await
        }
        Err(_) => Ok(()),
    };
    let status_written = write_status(plan, io).await;
    let managed = managed?;
    forgotten.and(status_written)?;
    if let Some(denied) = denied {
        return Err(denied);
    }
    Ok(match (plan.deferred.total(), plan.orphans) {
        // A creation whose answer was lost has failed, and waiting for it is no success.
        (0, 0) => snapshot.lost_creates.values().min().map_or(Requeue::AsPlanned, |left| Requeue::Unfinished(*left)),
        (0, _) => Requeue::RateLimited,
        _ => again(managed),
    })
}

/// Writes the status if it differs, with the version of the set as a precondition. A deleted set is no error.
///
/// After a failure, upstream writes the same status onto the newer set, even if that is another set of the same name
/// (`pkg/controller/daemon`, `storeDaemonSetStatus`). Here the conflict fails the sync, and the next sync waits for the newer set
/// and computes its status.
async fn write_status(plan: &Plan, io: Io<'_>) -> Result<(), Failed> {
    if !plan.writes_status() {
        return Ok(());
    }
    let body = io.body(|| json!({"status": plan.status}));
    match io.send(Request::status(DAEMON_SETS, &plan.set.metadata, body)).await {
        Err(refusal) if !refusal.error.is_not_found() => Err(status_failed(&plan.set, &refusal)),
        _ => Ok(()),
    }
}

/// Returns when the next sync continues with the remaining work. `effective` is the number of requests that changed an object.
///
/// After a write, the next sync waits by itself until the caches show the write. If all requests found their Pods deleted, only
/// the back-off keeps the next syncs from sending the same requests until the cache shows the deletions.
fn again(effective: usize) -> Requeue {
    if effective > 0 { Requeue::After(Duration::ZERO) } else { Requeue::RateLimited }
}

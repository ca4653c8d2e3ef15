//! Carrying a plan out: revisions, claims, Pods, the history, the status.

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

/// Carries a plan out.
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

/// Writes revisions and claims Pods and, unless that changes whose Pods are whose, creates and deletes Pods.
async fn claim_and_manage(snapshot: &Snapshot, plan: &Plan, io: Io<'_>) -> Result<Requeue, Failed> {
    // The first denial of a change without which the sync goes on. It fails with it in the end.
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
    // Pods are deleted also if some could not be created.
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
        // A create whose answer was lost has failed; that it is waited for is no success.
        (0, 0) => snapshot.lost_creates.values().min().map_or(Requeue::AsPlanned, |left| Requeue::Unfinished(*left)),
        (0, _) => Requeue::RateLimited,
        _ => again(managed),
    })
}

/// Writes the status if it differs, onto the version of the set that it was computed for. A set that is gone is no error.
///
/// Upstream: `pkg/controller/daemon`, `storeDaemonSetStatus`, which after a failure writes the same status onto the newer set, also
/// if that is another set of the same name. Here the conflict fails the sync, and the next one computes the status of the newer
/// set, which it waits for.
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

/// When the next sync goes on with what this one has left, after so many requests that had an effect.
///
/// It waits by itself until the caches show what this one wrote. If nothing was written, because the server did not know any of the
/// Pods, nothing makes it wait: it would send the same requests until the cache shows that the Pods are gone.
fn again(effective: usize) -> Requeue {
    if effective > 0 { Requeue::After(Duration::ZERO) } else { Requeue::RateLimited }
}

//! Executing a plan: revisions, claims, Pods, history, status.

mod pods;
mod revisions;
mod status;

use std::{borrow::Cow, time::Duration};

use common::{
    claim::{self, Claiming, WrittenVersions},
    controller::Requeue,
    events::{EventType, ObjectRef},
    object::Resource,
    pods::PODS,
};

use crate::{
    DaemonSetController,
    error::Error,
    objects::DAEMON_SETS,
    plan::{Plan, Problem, Scope},
    snapshot::{Snapshot, Turn},
};

impl DaemonSetController {
    pub(crate) async fn execute(&self, snapshot: Snapshot, plan: Plan) -> Result<Requeue, Error> {
        let (key, uid) = (snapshot.set.metadata.key(), snapshot.owner.uid.clone());
        let result = self.execute_plan(snapshot, plan).await;
        // What was noted for a set that was deleted meanwhile would be kept for ever.
        self.watch.forget_if_gone(&key, &uid);
        result
    }

    async fn execute_plan(&self, snapshot: Snapshot, plan: Plan) -> Result<Requeue, Error> {
        if let Some(problem) = &plan.problem {
            self.tell_problem(&snapshot, problem);
            return Ok(Requeue::No);
        }
        let versions = WrittenVersions::default();
        let mut claimed = 0;
        if plan.claims() {
            claimed += self.write_revisions(&snapshot, &plan, &versions).await?;
            let adopted = self.claiming(&snapshot, PODS).carry_out(&plan.adopt, &plan.release).await;
            claimed += adopted.inspect_err(|error| self.adoption_failed(&snapshot, error)).map_err(Error::Pods)?.len();
        }
        match plan.scope {
            Scope::Nothing => Ok(Requeue::No),
            Scope::Status => self.write_status(&snapshot, &plan).await.map(|()| Requeue::No),
            Scope::Claims => Ok(again(claimed)),
            Scope::Everything => self.manage(&snapshot, &plan, &versions).await,
        }
    }

    /// Works on Pods, then writes the status, whatever became of the work.
    async fn manage(&self, snapshot: &Snapshot, plan: &Plan, versions: &WrittenVersions) -> Result<Requeue, Error> {
        let managed = self.work_on_pods(snapshot, plan).await;
        if managed.as_ref().is_err_and(Error::is_not_leader) || self.ends() {
            return managed.map(|_| Requeue::No);
        }
        let forgotten = if managed.is_ok() { self.forget(snapshot, &plan.forget, versions).await } else { Ok(()) };
        let written = self.write_status(snapshot, plan).await;
        let effective = managed?;
        forgotten.and(written)?;
        Ok(match (plan.deferred.total(), plan.orphans) {
            (0, 0) => Requeue::No,
            (0, _) => Requeue::RateLimited,
            _ => again(effective),
        })
    }

    /// A set that turned out to be deleted, or another one, manages no Pods in its next sync either.
    fn adoption_failed(&self, snapshot: &Snapshot, error: &claim::Error) {
        if matches!(error, claim::Error::NotOurs(_)) {
            self.rosters.with(&snapshot.set.metadata.key(), &snapshot.owner.uid, |record| record.turn = Turn::Adopts);
        }
    }

    fn tell_problem(&self, snapshot: &Snapshot, problem: &Problem) {
        match problem {
            Problem::SelectsEverything => {
                self.event(snapshot, EventType::Warning, "SelectingAll", problem.to_string());
            }
            Problem::Selector(error) => {
                let key = snapshot.set.metadata.key();
                tracing::error!(logger = "daemonset", key = %key, err = %error, "Error converting DaemonSet selector");
            }
        }
    }

    fn claiming<'a>(&'a self, snapshot: &'a Snapshot, children: Resource) -> Claiming<'a> {
        Claiming { api: &self.context.api, ledger: &self.ledger, owner: &snapshot.owner, children, finalizers: &[] }
    }

    /// Whether this process is shutting down. Its successor does the rest.
    fn ends(&self) -> bool {
        self.queue.is_closed()
    }

    /// Records an Event about the set.
    fn event(&self, snapshot: &Snapshot, kind: EventType, reason: impl Into<Cow<'static, str>>, message: String) {
        self.context.recorder.event(&ObjectRef::new(DAEMON_SETS, &snapshot.set.metadata), kind, reason, message);
    }
}

/// When the next sync goes on with what this one has left, after so many requests that had an effect.
///
/// It waits by itself until the caches show what this one wrote. If nothing was written, because the server did not know any of the
/// Pods, nothing makes it wait: it would send the same requests until the cache shows that the Pods are gone.
fn again(effective: usize) -> Requeue {
    if effective > 0 { Requeue::After(Duration::ZERO) } else { Requeue::RateLimited }
}

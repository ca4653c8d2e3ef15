//! Executing a plan: revisions, claims, Pods, history, status.

mod pods;
mod revisions;
mod status;

use std::{borrow::Cow, time::Duration};

use common::{
    api,
    claim::Claiming,
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
    snapshot::Snapshot,
};

impl DaemonSetController {
    pub(crate) async fn execute(&self, snapshot: Snapshot, plan: Plan) -> Result<Requeue, Error> {
        if let Some(problem) = &plan.problem {
            self.tell_problem(&snapshot, problem);
            return Ok(Requeue::No);
        }
        let mut claimed = 0;
        if plan.claims() {
            claimed += self.write_revisions(&snapshot, &plan).await?;
            let claiming = self.claiming(&snapshot, PODS);
            claimed += claiming.carry_out(&plan.adopt, &plan.release).await.map_err(Error::Pods)?.len();
        }
        match plan.scope {
            Scope::Nothing => Ok(Requeue::No),
            Scope::Status => self.write_status(&snapshot, &plan).await.map(|()| Requeue::No),
            Scope::Claims => Ok(again(claimed)),
            Scope::Everything => self.manage(&snapshot, &plan).await,
        }
    }

    /// Works on Pods, then writes the status, whatever became of the work.
    async fn manage(&self, snapshot: &Snapshot, plan: &Plan) -> Result<Requeue, Error> {
        let managed = self.work_on_pods(snapshot, plan).await;
        if managed.as_ref().is_err_and(Error::is_not_leader) || self.ends() {
            return managed.map(|_| Requeue::No);
        }
        let forgotten = if managed.is_ok() { self.forget(snapshot, &plan.forget).await } else { Ok(()) };
        let written = self.write_status(snapshot, plan).await;
        let effective = managed?;
        forgotten.and(written)?;
        Ok(if plan.deferred.total() > 0 { again(effective) } else { Requeue::No })
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
        Claiming {
            api: &self.context.api,
            ledger: &self.ledger,
            owner: &snapshot.owner,
            children,
            finalizers: &[],
            is_gone: api::Error::is_invalid,
        }
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

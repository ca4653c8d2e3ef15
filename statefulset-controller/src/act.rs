//! Executing a plan: claim, store the revision, work on Pods phase by phase, write the status, truncate the history.

mod claims;
mod pods;
mod revisions;
mod status;

use std::{borrow::Cow, time::Duration};

use common::{
    batch,
    claim::Claiming,
    controller::Requeue,
    events::{EventType, ObjectRef},
    object::Resource,
    pods::PODS,
    revision::CONTROLLER_REVISIONS,
};

use pods::PodSources;

use crate::{
    StatefulSetController,
    decide::{self, history, revisions::Revisions, status::next_check},
    error::Error,
    objects::STATEFUL_SETS,
    plan::{Pace, Phase, Plan, Problem, Reconcile},
    snapshot::{PodRef, Snapshot},
};

/// The outcome of the work on Pods.
#[derive(Default)]
struct Outcome {
    /// How many Pods of the current revision were deleted.
    lowered: i32,
    /// The first error, after which no further work was begun.
    error: Option<Error>,
}

impl StatefulSetController {
    pub(crate) async fn execute(&self, snapshot: Snapshot, plan: Plan) -> Result<Requeue, Error> {
        if let Some(problem) = &plan.problem {
            let key = snapshot.set.metadata.key();
            match problem {
                Problem::Selector(error) => {
                    tracing::error!(logger = "statefulset", key = %key, err = %error, "Error converting StatefulSet selector");
                }
                Problem::TooManyClaims { .. } => {
                    tracing::warn!(logger = "statefulset", key = %key, err = %problem, "StatefulSet is not managed");
                    self.event(&snapshot, EventType::Warning, "TooManyClaims", problem.to_string());
                }
            }
            return Ok(Requeue::No);
        }
        let set = &snapshot.set;
        self.adopt_revisions(&snapshot, &plan).await?;
        let adopted = self.claiming(&snapshot, PODS).carry_out(&plan.adopt, &plan.release).await;
        let adopted: Vec<PodRef> = adopted.map_err(Error::Pods)?;
        let mut replan = adopted.len() != plan.adopt.len();
        let claimed: Vec<PodRef> = snapshot.pods.keep.iter().chain(&adopted).cloned().collect();
        let expected = plan.revisions.update.name.clone();
        let revisions = self.store(&snapshot, plan.revisions).await?;
        replan |= revisions.update.name != expected;
        // The plan assumes that every adoption succeeds, and the name of the new revision.
        let reconcile = if replan { decide::reconcile(&snapshot, &claimed, &revisions) } else { plan.reconcile };
        let outcome = self.work(&snapshot, &revisions, &reconcile).await;
        if let Some(error) = outcome.error.as_ref().filter(|error| error.is_not_leader()) {
            tracing::debug!(logger = "statefulset", key = %set.metadata.key(), err = %error, "Stopped");
            return outcome.error.map_or(Ok(Requeue::No), Err);
        }
        self.metrics.rollout(set, reconcile.unavailable);
        self.await_claims(&snapshot, &reconcile);
        let status = decide::status::lowered(&reconcile.counted, outcome.lowered);
        let status = decide::status::complete(set, &status);
        let written = self.write_status(&snapshot, &status).await;
        let forgotten = self.forget(&snapshot, &history::forget(set, &revisions, &claimed)).await;
        outcome.error.map_or(Ok(()), Err).and(written).and(forgotten)?;
        // The next sync goes on with the Pods that this one left. It waits by itself until the caches show what this one created.
        if reconcile.deferred > 0 {
            return Ok(Requeue::After(Duration::ZERO));
        }
        let now = self.context.clock.now();
        Ok(next_check(set, &claimed, &status, snapshot.now, now).map_or(Requeue::No, Requeue::After))
    }

    fn claiming<'a>(&'a self, snapshot: &'a Snapshot, children: Resource) -> Claiming<'a> {
        Claiming { api: &self.context.api, ledger: &self.ledger, owner: &snapshot.owner, children, finalizers: &[] }
    }

    async fn adopt_revisions(&self, snapshot: &Snapshot, plan: &Plan) -> Result<(), Error> {
        let adopt = &plan.adopt_revisions;
        let adopted = self.claiming(snapshot, CONTROLLER_REVISIONS).carry_out(adopt, &[]).await;
        let adopted = adopted.map_err(Error::Revisions)?;
        // The plan was made with a revision that is gone: the next sync decides without it.
        let gone = adopt.iter().find(|one| adopted.iter().all(|other| other.meta.uid != one.meta.uid));
        gone.map_or(Ok(()), |gone| Err(Error::Gone(gone.meta.name.to_string())))
    }

    /// Works on Pods until everything is done or something fails.
    async fn work(&self, snapshot: &Snapshot, revisions: &Revisions, plan: &Reconcile) -> Outcome {
        let mut outcome = Outcome::default();
        let sources = PodSources::new(revisions);
        for phase in &plan.phases {
            self.phase(snapshot, &sources, phase, &mut outcome).await;
            if outcome.error.is_some() || self.ends() {
                break;
            }
        }
        outcome
    }

    async fn phase(&self, snapshot: &Snapshot, sources: &PodSources<'_>, phase: &Phase, outcome: &mut Outcome) {
        let mut rest = &phase.work[..];
        let in_order = || vec![1; phase.work.len()];
        let sizes = match phase.pace {
            Pace::InOrder => in_order(),
            Pace::Batches => batch::slow_start(phase.work.len()).at_most(MAX_BATCH_SIZE).collect(),
        };
        for size in sizes {
            let (now, later) = rest.split_at(size.min(rest.len()));
            rest = later;
            let results = batch::all(now.iter().map(|work| self.work_on(snapshot, sources, work))).await;
            for result in results {
                match result {
                    Ok(lowered) => outcome.lowered += i32::from(lowered),
                    Err(error) => outcome.error = outcome.error.take().or(Some(error)),
                }
            }
            if outcome.error.is_some() || self.ends() {
                return;
            }
        }
    }

    /// Whether this process is shutting down. Its successor does the rest.
    fn ends(&self) -> bool {
        self.queue.is_closed()
    }

    /// Records an Event about the set.
    fn event(&self, snapshot: &Snapshot, kind: EventType, reason: impl Into<Cow<'static, str>>, message: String) {
        self.context.recorder.event(&ObjectRef::new(STATEFUL_SETS, &snapshot.set.metadata), kind, reason, message);
    }
}

/// The largest batch of Pods. Upstream: `MaxBatchSize`.
const MAX_BATCH_SIZE: usize = 500;

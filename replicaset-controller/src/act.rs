//! Carrying a plan out: claim, then create or delete, then write the status.

mod claim;
mod create;
mod delete;
mod status;

use std::time::Duration;

use common::{claim::WrittenVersions, controller::Requeue, events::ObjectRef, refs::Claims};

use crate::{
    ReplicaController,
    decide::{self, FailureReason, Manage, Managed, Plan, PodRef, Snapshot},
    error::Error,
    kind::Kind,
};

impl<K: Kind> ReplicaController<K> {
    pub(crate) async fn carry_out(&self, mut snapshot: Snapshot, plan: Plan) -> Result<Requeue, Error> {
        if let Some(problem) = plan.set.selector.problem() {
            tracing::error!(logger = K::QUEUE, key = %plan.set.metadata.key(), err = %problem, "Error converting pod selector");
            return Ok(Requeue::No);
        }
        let Claims { keep, adopt, release } = std::mem::take(&mut snapshot.claims);
        let versions = WrittenVersions::default();
        let adopted = match self.claim(&snapshot, &adopt, &release, &versions).await {
            Err(Error::Claim(error)) if error.is_conflict() => return Ok(Requeue::After(Duration::ZERO)),
            other => other?,
        };
        // The plan counts on every adoption; a Pod that was gone before it was adopted makes it another plan.
        let replan = adopted.len() != adopt.len();
        let claimed: Vec<&PodRef> = keep.iter().chain(&adopted).collect();
        let manage = if replan { decide::manage::manage(&snapshot, &claimed) } else { plan.manage };
        let allowed = decide::timer::requeue_after(&snapshot, &manage, None);
        let (managed, error) = self.manage(&snapshot, manage, &versions).await;
        let error = match error {
            Some(error) if error.is_not_leader() => return Err(error),
            other => other,
        };
        let at = self.context.clock.now();
        let status = decide::status::status(&snapshot, &claimed, &managed, at);
        self.write_status(&snapshot, &status).await?;
        if let Some(error) = error {
            return Err(error);
        }
        let now = self.context.clock.now();
        let check = decide::timer::next_check(&snapshot, &claimed, &status, at, now);
        if managed == Managed::Changed {
            // The next sync waits until the cache shows the Pods that have changed.
            return Ok(Requeue::After(Duration::ZERO));
        }
        Ok(check.into_iter().chain(allowed).min().map_or(Requeue::No, Requeue::After))
    }

    async fn manage(
        &self,
        snapshot: &Snapshot,
        manage: Manage,
        versions: &WrittenVersions,
    ) -> (Managed, Option<Error>) {
        let (reason, result) = match manage {
            Manage::Nothing => return (Managed::Done, None),
            Manage::NotAllowed(_) | Manage::Later(_) => return (Managed::NotAllowed, None),
            Manage::Impossible(problem) => (FailureReason::Create, Err(Error::Template(problem))),
            Manage::Create { count, .. } => (FailureReason::Create, self.create_pods(snapshot, count).await),
            Manage::Delete { victims, age_ratios, .. } => {
                self.metrics.deletes(&age_ratios);
                match self.delete_pods(snapshot, &victims, versions).await {
                    Ok(0) => (FailureReason::Delete, Ok(())),
                    Ok(_) => return (Managed::Changed, None),
                    Err(error) => (FailureReason::Delete, Err(error)),
                }
            }
        };
        match result {
            Ok(()) => (Managed::Done, None),
            Err(error) => (Managed::Failed { reason, message: error.to_string() }, Some(error)),
        }
    }

    /// The set, as its Events name it.
    fn reference(snapshot: &Snapshot) -> ObjectRef {
        ObjectRef::new(K::RESOURCE, &snapshot.set.metadata)
    }
}

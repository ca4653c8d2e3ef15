//! Carrying a plan out: claim, then create or delete, then count in the order in which nothing is lost.

mod claim;
mod count;
mod create;
mod delete;
mod ensure;

use std::{borrow::Cow, time::Duration};

use common::{
    claim::WrittenVersions, clock::Instant, controller::Requeue, events::EventType, events::ObjectRef, intern::Text,
    queue::Priority,
};

use crate::{
    JobController,
    decide::{self, LeftAlone, Manage, Outcome, Plan, PodRef, Situation, Snapshot, gang, manage, situation, track},
    error::Error,
    metrics::CreationReason,
    objects::JOBS,
    orphans::Orphan,
};

/// One sync: what it looks at, and since when.
#[derive(Clone, Debug)]
pub struct Sync {
    /// What it looks at.
    pub snapshot: Snapshot,
    /// When it began, to be measured.
    pub began: Instant,
}

impl JobController {
    pub(crate) async fn carry_out(&self, sync: Sync, plan: Plan) -> Result<Requeue, Error> {
        let Sync { snapshot, began } = sync;
        if let Some(why) = &plan.left_alone {
            self.leave_alone(&snapshot, why);
            return Ok(Requeue::No);
        }
        let mut action = "reconciling";
        let result = self.sync(&snapshot, plan, &mut action).await;
        let took = self.context.clock.instant().saturating_duration_since(began);
        self.metrics.synced(&snapshot.job, result.is_ok(), action, took);
        self.tidy(&snapshot);
        result
    }

    fn leave_alone(&self, snapshot: &Snapshot, why: &LeftAlone) {
        let key = snapshot.job.metadata.key();
        match why {
            LeftAlone::Finished | LeftAlone::ManagedBy(_) => {}
            LeftAlone::UnknownCompletionMode => self.event(
                snapshot,
                EventType::Warning,
                "UnknownCompletionMode",
                "Skipped Job sync because completion mode is unknown".to_owned(),
            ),
            LeftAlone::Selector(problem) => {
                tracing::error!(logger = "job", key = %key, err = %problem, "couldn't convert Job selector");
            }
        }
    }

    async fn sync(&self, snapshot: &Snapshot, plan: Plan, action: &mut &'static str) -> Result<Requeue, Error> {
        let versions = WrittenVersions::default();
        let adopted = match self.claim(snapshot, &plan.adopt, &plan.release, &versions).await {
            Err(Error::Claim(error)) if error.is_conflict() => return Ok(Requeue::After(Duration::ZERO)),
            other => other?,
        };
        // The plan counts on every adoption; a Pod that was gone before it was adopted makes it another plan.
        let (situation, gang, manage) = if adopted.len() == plan.adopt.len() {
            (plan.situation, plan.gang, plan.manage)
        } else {
            let situation = Situation::new(snapshot, situation::claimed(snapshot, &adopted));
            let gang = gang::gang(snapshot, &situation, snapshot.scheduling.as_ref());
            let manage = manage::manage(snapshot, &situation);
            (situation, gang, manage)
        };
        // Before any Pod: it names its group from the start.
        let group = self.ensure_gang(snapshot, &situation, gang).await?;
        *action = manage.label();
        let (outcome, failed) = self.manage(snapshot, &situation, &manage, group.as_ref(), &versions).await;
        let failed = match failed {
            Some(error) if error.is_not_leader() => return Err(error),
            other => other,
        };
        let managed = manage::managed(snapshot, &situation, &manage, &outcome);
        let tracked = track::track(snapshot, &situation, &managed, self.context.clock.now());
        if let Some(suspension) = tracked.suspension {
            self.event(snapshot, EventType::Normal, suspension.as_str(), suspension.message().to_owned());
        }
        let more = tracked.capped || goes_on(snapshot, &manage, &outcome);
        let changed = outcome.changed + self.count(snapshot, &situation, tracked, &versions).await?;
        if let Some(error) = failed {
            return Err(error);
        }
        // After a conflict, the next sync waits until the cache shows the Pods that have changed.
        if more || changed > 0 {
            return Ok(Requeue::After(Duration::ZERO));
        }
        // The loop knows when the plan is due; what replaced a part of the plan may be due earlier.
        Ok(decide::requeue_after(snapshot, &situation, &manage).map_or(Requeue::No, Requeue::After))
    }

    async fn manage(
        &self,
        snapshot: &Snapshot,
        situation: &Situation,
        manage: &Manage,
        group: Option<&Text>,
        versions: &WrittenVersions,
    ) -> (Outcome, Option<Error>) {
        let pods = |victims: &[manage::Victim]| -> Vec<&decide::Claimed> {
            victims.iter().map(|victim| &situation.pods[victim.at]).collect()
        };
        match manage {
            Manage::Nothing
            | Manage::NotAllowed(_)
            | Manage::Deleting
            | Manage::NoIndexLeft { .. }
            | Manage::Postpone { .. } => (Outcome::default(), None),
            Manage::End(victims) => {
                self.delete_pods(snapshot, &pods(victims), delete::Finalizer::Stays, versions).await
            }
            Manage::Spare(victims) | Manage::Suspend(victims) | Manage::Remove(victims) => {
                self.delete_pods(snapshot, &pods(victims), delete::Finalizer::GoesFirst, versions).await
            }
            Manage::Create { pods, .. } => {
                let (created, refused, error) = self.create_pods(snapshot, pods, group).await;
                let reason = CreationReason::of(&snapshot.job, situation.failed, situation.terminating);
                self.metrics.created(reason, created, refused);
                (Outcome { created, ..Outcome::default() }, error)
            }
        }
    }

    /// A Job that was over, or gone, before its last sync ended may have been forgotten already: once more, then.
    fn tidy(&self, snapshot: &Snapshot) {
        let meta = &snapshot.job.metadata;
        let lives = |job: &crate::objects::Job| job.metadata.uid == meta.uid && !job.is_finished();
        let lives = self.jobs.store().get(&meta.namespace, &meta.name).map(|job| job.is_some_and(|job| lives(&job)));
        if matches!(lives, Ok(false)) {
            self.orphans.add(Orphan::job(&meta.namespace, &meta.name, &meta.uid), Priority::Normal);
        }
    }

    /// Records an Event about the Job.
    fn event(&self, snapshot: &Snapshot, kind: EventType, reason: impl Into<Cow<'static, str>>, message: String) {
        self.context.recorder.event(&ObjectRef::new(JOBS, &snapshot.job.metadata), kind, reason, message);
    }

    /// Whether this process ends: whoever comes next goes on.
    fn ends(&self) -> bool {
        self.queue.is_closed()
    }
}

/// Whether the number of Pods is not yet what it is to be only because one sync does not do everything.
fn goes_on(snapshot: &Snapshot, manage: &Manage, outcome: &Outcome) -> bool {
    match manage {
        Manage::Create { pods, missing, .. } => {
            outcome.created == pods.len() && pods.len() == snapshot.limits.pods && *missing > pods.len()
        }
        Manage::Remove(victims) => outcome.removed == victims.len() && victims.len() == snapshot.limits.pods,
        _ => false,
    }
}

/// The name of a Pod, as errors and Events have it.
fn pod_name(pod: &PodRef) -> &str {
    &pod.meta().name
}

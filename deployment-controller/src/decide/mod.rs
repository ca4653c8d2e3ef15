//! From a snapshot to a plan: pure, one file per concern.
//!
//! Steps are planned on a [`draft::Draft`], a copy of the world that shows each ReplicaSet as it will be once the steps
//! before have been carried out. What a sync does after a write therefore depends on the write alone, never on a cache that
//! may or may not have seen it.

pub mod cleanup;
pub mod conditions;
pub mod create;
pub mod draft;
pub mod limits;
pub mod pause;
pub mod progress;
pub mod proportional;
pub mod recreate;
pub mod revision;
pub mod rollback;
pub mod rolling;
pub mod scale;
pub mod situation;
pub mod status;

#[cfg(test)]
mod properties;
#[cfg(test)]
pub(crate) mod world;

use std::time::Duration;

use common::controller::Requeue;

use crate::{
    objects::StrategyType,
    plan::{Action, Event, OnFailure, Plan, Step},
    snapshot::Snapshot,
};

use self::{
    draft::Draft,
    situation::{Situation, Why},
};

/// Decides what one sync of a Deployment does.
///
/// Upstream: `pkg/controller/deployment`, `syncDeployment`.
pub fn decide(snapshot: &Snapshot) -> Plan {
    if snapshot.deployment.spec.selector.compiled.is_empty() {
        return refuse_to_select_all(snapshot);
    }
    let mut draft = Draft::new(snapshot);
    claim(&mut draft);
    if !snapshot.claims.adopt.is_empty() {
        // What was adopted is looked at once the cache shows it.
        draft.look_again(Requeue::After(Duration::ZERO));
        return draft.finish();
    }
    if snapshot.owner.deleting {
        revision::sync(&mut draft);
        status::write(&mut draft);
        return draft.finish();
    }
    pause::note(&mut draft);
    revision_and_rollout(&mut draft);
    draft.finish()
}

fn revision_and_rollout(draft: &mut Draft<'_>) {
    revision::sync(draft);
    if draft.spec().paused {
        return scale_only(draft);
    }
    if let Some(revision) = rollback::requested(draft.snapshot) {
        return rollback::roll_back(draft, revision);
    }
    if scale::is_scaling_event(draft) {
        return scale_only(draft);
    }
    match draft.spec().strategy.kind.clone() {
        StrategyType::RollingUpdate => rolling::roll_out(draft),
        StrategyType::Recreate => recreate::roll_out(draft),
        StrategyType::Other(kind) => draft.fail(format!("unexpected deployment strategy type: {kind}")),
    }
}

/// Follows `spec.replicas` without moving replicas from old to new.
fn scale_only(draft: &mut Draft<'_>) {
    scale::scale(draft);
    if draft.spec().paused && rollback::requested(draft.snapshot).is_none() {
        cleanup::clean_up(draft);
    }
    status::write(draft);
}

/// A selector without any requirement would take every ReplicaSet of the namespace: nothing is done but saying so.
fn refuse_to_select_all(snapshot: &Snapshot) -> Plan {
    let event =
        Event::warning("SelectingAll", "This deployment is selecting all pods. A non-empty selector is required.");
    let mut steps = vec![Step::new(Action::Tell, "the selector is empty").telling(event)];
    let deployment = &snapshot.deployment;
    if deployment.status.observed_generation < deployment.metadata.generation {
        let mut status = Box::new(deployment.status.clone());
        status.observed_generation = deployment.metadata.generation;
        let write = Action::WriteStatus { status, revision: None };
        steps.push(Step::new(write, "this generation has been looked at").on_failure(OnFailure::Ignore));
    }
    let waiting = vec![Why::SelectsAll];
    Plan { steps, requeue: Requeue::No, failure: None, situation: Situation::default(), waiting }
}

/// Adopts and releases. What is released is out of the plan.
fn claim(draft: &mut Draft<'_>) {
    let claims = &draft.snapshot.claims;
    let adopt = claims.adopt.iter().map(|set| {
        let action = Action::Adopt { set: set.metadata.name.clone(), uid: set.metadata.uid.clone() };
        Step::new(action, "it has no controller and matches the selector")
    });
    let release = claims.release.iter().map(|set| {
        let action = Action::Release { set: set.metadata.name.clone(), uid: set.metadata.uid.clone() };
        Step::new(action, "it does not match the selector any more")
    });
    for step in adopt.chain(release) {
        draft.push(step.on_failure(OnFailure::TryOthers));
    }
}

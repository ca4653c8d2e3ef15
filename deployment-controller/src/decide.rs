//! Turns a snapshot into a plan. Pure code, with one file for each concern.
//!
//! Steps are planned on a [`draft::PlanDraft`], a working copy that shows each ReplicaSet as it will be after all planned steps.
//! Later decisions of a sync therefore depend on the planned writes, and not on whether the cache already shows these writes.

pub mod cleanup;
pub mod conditions;
pub mod create;
pub mod draft;
pub mod pause;
pub mod progress;
pub mod proportional;
pub mod recreate;
pub mod revision;
pub mod rollback;
pub mod rolling;
pub mod scale;
pub mod status;
mod waiting;

#[cfg(test)]
mod properties;

use std::{sync::Arc, time::Duration};

use common::prelude::*;

use crate::{
    objects::{ReplicaSet, StrategyType},
    plan::{Action, Event, OnFailure, Plan, PodCounts, ReplicaSetNameAndUid, Step, WaitReason},
    snapshot::Snapshot,
};

use self::draft::PlanDraft;

/// Longest wait for the first list of a Deployment's Pods. Normally the end of that list enqueues the Deployment earlier.
const MAX_WAIT_FOR_PODS: Duration = Duration::from_secs(30);

/// Decides what one sync of a Deployment does. Upstream: `pkg/controller/deployment`, `syncDeployment`.
pub fn decide(snapshot: &Snapshot) -> Plan {
    let mut draft = PlanDraft::new(snapshot);
    if snapshot.unfinished_pod_counts.is_none() {
        draft.requeue = Requeue::After(MAX_WAIT_FOR_PODS);
        let pod_counts = waiting::pod_counts(&draft);
        return draft.into_plan(pod_counts, vec![WaitReason::PodsNotRead]);
    }
    if snapshot.deployment.spec.selector.compiled.is_empty() {
        return refuse_to_select_all(snapshot);
    }
    plan_steps(&mut draft);
    let (pod_counts, reasons_to_wait) = (waiting::pod_counts(&draft), waiting::wait_reasons(&draft));
    draft.into_plan(pod_counts, reasons_to_wait)
}

fn plan_steps(draft: &mut PlanDraft<'_>) {
    plan_claims(draft);
    if !draft.snapshot.claims.to_adopt.is_empty() {
        // The next sync processes the adopted ReplicaSets, after the cache shows the adoption.
        draft.requeue = Requeue::After(Duration::ZERO);
        return;
    }
    if draft.snapshot.owner.is_deleting {
        revision::plan_new_set_update(draft);
        return status::plan_status_write(draft);
    }
    pause::plan_pause_condition(draft);
    revision::plan_new_set_update(draft);
    if draft.spec().paused {
        return scale_only(draft);
    }
    if let Some(revision) = rollback::requested_rollback_revision(draft.snapshot) {
        return rollback::plan_rollback(draft, revision);
    }
    if scale::has_desired_size_changed(draft) {
        return scale_only(draft);
    }
    match draft.spec().strategy.kind.clone() {
        StrategyType::RollingUpdate => rolling::plan_rolling_update(draft),
        StrategyType::Recreate => recreate::plan_recreate(draft),
        StrategyType::Other(kind) => {
            draft.failure = Some(format!("unexpected deployment strategy type: {kind}"));
        }
    }
}

/// Follows `spec.replicas` without moving replicas from old ReplicaSets to the new one.
fn scale_only(draft: &mut PlanDraft<'_>) {
    scale::plan_scaling(draft);
    if draft.spec().paused && rollback::requested_rollback_revision(draft.snapshot).is_none() {
        cleanup::plan_history_cleanup(draft);
    }
    status::plan_status_write(draft);
}

/// Plans only a Warning Event and the observed generation, because an empty selector would match every ReplicaSet of the
/// namespace.
fn refuse_to_select_all(snapshot: &Snapshot) -> Plan {
    let event =
        Event::warning("SelectingAll", "This deployment is selecting all pods. A non-empty selector is required.");
    let mut steps = vec![Step::new(Action::OnlyRecordEvent, "the selector is empty").with_event(event)];
    let deployment = &snapshot.deployment;
    if deployment.status.observed_generation < deployment.metadata.generation {
        let mut status = Box::new(deployment.status.declared.clone());
        status.observed_generation = deployment.metadata.generation;
        let write = Action::WriteStatus { status, revision: None };
        steps.push(Step::new(write, "this generation was observed").with_on_failure(OnFailure::Ignore));
    }
    let reasons_to_wait = vec![WaitReason::EmptySelector];
    let (requeue, pod_counts) = (Requeue::AfterPlannedDelay, PodCounts::default());
    Plan { steps, requeue, failure: None, pod_counts, reasons_to_wait }
}

/// Plans the adoptions and releases. Released ReplicaSets are not part of the draft.
fn plan_claims(draft: &mut PlanDraft<'_>) {
    let DependentClaims { to_adopt, to_release, .. } = &draft.snapshot.claims;
    let step = |action: fn(ReplicaSetNameAndUid) -> Action, set: &Arc<ReplicaSet>, why: &str| {
        let step = Step::new(action(ReplicaSetNameAndUid::from_meta(&set.metadata)), why);
        step.with_on_failure(OnFailure::RunOnlyStepsWithSameOnFailure)
    };
    let adopt = |set| step(Action::Adopt, set, "it has no controller and matches the selector");
    let release = |set| step(Action::Release, set, "it does not match the selector any more");
    draft.steps.extend(to_adopt.iter().map(adopt).chain(to_release.iter().map(release)));
}

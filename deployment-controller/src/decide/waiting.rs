//! The Pod counts for `/debug/explain`, and the reasons why a rollout does not continue.

use std::sync::Arc;

use crate::{
    decide::{
        conditions::{self, PROGRESS_DEADLINE_EXCEEDED},
        draft::{DraftReplicaSet, PlanDraft},
    },
    objects::{REPLICA_FAILURE, StrategyType},
    plan::{PodCounts, WaitReason},
};

/// Sums the counts in the statuses of the ReplicaSets.
pub(super) fn pod_counts(draft: &PlanDraft<'_>) -> PodCounts {
    PodCounts {
        limits: draft.snapshot.rollout_limits,
        updated: draft.new_set().map_or(0, DraftReplicaSet::status_replicas),
        old: draft.old_sets().map(DraftReplicaSet::status_replicas).sum(),
        ready: draft.sets.iter().map(|set| i64::from(set.status().ready_replicas)).sum(),
        available: draft.sets.iter().map(DraftReplicaSet::available_replicas).sum(),
    }
}

/// Returns the reasons why the rollout does not continue after the steps of the draft.
pub(super) fn wait_reasons(draft: &PlanDraft<'_>) -> Vec<WaitReason> {
    let mut out = Vec::new();
    if draft.snapshot.owner.is_deleting {
        out.push(WaitReason::DeploymentDeleting);
        return out;
    }
    let pending = draft.new_set_index.is_none() || draft.old_sets().any(|set| set.replicas > 0);
    if draft.spec().paused {
        out.push(WaitReason::Paused { is_rollout_pending: pending });
    }
    let progressing = conditions::find_progressing_condition(&draft.status);
    if let Some(condition) = progressing.filter(|condition| condition.reason == PROGRESS_DEADLINE_EXCEEDED) {
        let since = condition.last_transition_time.unwrap_or(draft.snapshot.now);
        let seconds_since_report = draft.snapshot.now.duration_since(since).as_secs();
        out.push(WaitReason::DeadlineExceeded { seconds_since_report });
    }
    if let Some(new) = draft.new_set().filter(|new| new.cached.is_some_and(|source| source.metadata.is_deleting())) {
        out.push(WaitReason::NewReplicaSetDeleting(Arc::clone(&new.name)));
    }
    for set in &draft.sets {
        if let Some(failure) = common::conditions::get(&set.status().conditions, REPLICA_FAILURE) {
            out.push(WaitReason::ReplicaFailure { set: Arc::clone(&set.name), message: failure.message.clone() });
        }
    }
    for set in draft.old_sets() {
        let count = set.status_replicas().max(draft.unfinished_pod_count(set) as i64);
        if draft.spec().strategy.kind == StrategyType::Recreate && !draft.spec().paused {
            if count > 0 {
                out.push(WaitReason::OldPodsUnfinished { set: Arc::clone(&set.name), count });
            }
        } else if set.status_replicas() > set.replicas {
            let count = set.status_replicas() - set.replicas;
            out.push(WaitReason::SurplusPods { set: Arc::clone(&set.name), count });
        }
    }
    let Some(new) = draft.new_set() else { return out };
    if new.status_replicas() < new.replicas {
        let set = Arc::clone(&new.name);
        out.push(WaitReason::PodsMissing { set, actual: new.status_replicas(), desired: new.replicas });
    }
    let count = new.replicas - new.available_replicas_within_size();
    if count > 0 {
        let available_pods = draft.sets.iter().map(DraftReplicaSet::available_replicas).sum();
        out.push(WaitReason::PodsNotAvailable { count, available_pods, limits: draft.snapshot.rollout_limits });
    }
    out
}

#[cfg(test)]
mod tests {
    use jiff::SignedDuration;
    use serde_json::json;

    use crate::{decide::conditions::*, world::DeploymentBuilder};

    fn waiting(world: &DeploymentBuilder) -> Vec<String> {
        world.explain().waiting
    }

    /// DEPLOYMENT-73.
    #[test]
    fn an_explanation_shows_the_counts_of_pods_and_the_limits() {
        let world = DeploymentBuilder::new(10).with_set("old", 9, 9).with_new_set("new", 4, 1);
        let explanation = world.explain();
        assert_eq!(
            explanation.situation,
            "10 desired, 4 updated, 9 old, 10 ready, 10 available; at most 13 (maxSurge 3), at least 8 available (maxUnavailable 2)"
        );
        assert_eq!(explanation.actions[0], "scale ReplicaSet old: from 9 to 7, enough others are available");
        let world = DeploymentBuilder::new(10).with_set("old", 8, 8).with_new_set("new", 5, 0);
        assert_eq!(
            waiting(&world),
            ["5 new Pods are not available yet (minimum available 8, 8 available now; maxUnavailable 2)"]
        );
    }

    /// DEPLOYMENT-73.
    #[test]
    fn every_problem_is_named() {
        let mut world = DeploymentBuilder::new(4).with_set("old", 3, 3).with_new_set("new", 2, 0);
        world.apply_until_settled();
        world = world.with_condition(PROGRESSING, PROGRESS_DEADLINE_EXCEEDED);
        world.now += SignedDuration::from_secs(40);
        world.sets[1]["status"]["replicas"] = json!(0);
        world.sets[1]["metadata"]["deletionTimestamp"] = json!("2026-11-21T09:00:00Z");
        world.sets[1]["status"]["conditions"] = json!([{"type": "ReplicaFailure", "status": "True",
            "reason": "FailedCreate", "message": "exceeded quota: small"}]);
        assert_eq!(
            waiting(&world),
            [
                "progress deadline exceeded 40s ago",
                "ReplicaSet new has the current template and is being deleted; a replacement follows once it is gone",
                "ReplicaSet new cannot create or delete Pods: exceeded quota: small",
                "ReplicaSet new has 0 of 2 Pods",
                "2 new Pods are not available yet (minimum available 3, 3 available now; maxUnavailable 1)",
            ]
        );
    }

    /// DEPLOYMENT-73.
    #[test]
    fn a_pause_is_named_and_a_settled_deployment_has_nothing_to_wait_for() {
        let mut world = DeploymentBuilder::new(3).with_new_set("a", 3, 3).with_complete_status();
        assert_eq!(waiting(&world), Vec::<String>::new());
        world.spec["paused"] = json!(true);
        assert_eq!(waiting(&world), ["paused"]);
        world.spec["template"]["metadata"]["annotations"] = json!({"new": "template"});
        assert_eq!(waiting(&world), ["paused: the template is not rolled out"]);
    }

    /// DEPLOYMENT-39.
    #[test]
    fn an_unknown_strategy_fails_with_a_one_line_error() {
        let mut world = DeploymentBuilder::new(3).with_new_set("a", 3, 3).with_complete_status();
        world.spec["strategy"] = json!({"type": "BlueGreen"});
        assert_eq!(waiting(&world), ["unexpected deployment strategy type: BlueGreen"]);
    }
}

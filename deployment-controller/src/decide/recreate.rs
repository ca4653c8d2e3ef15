//! The strategy `Recreate`: no new Pod starts before every old Pod has finished or is deleted.

use std::sync::Arc;

use crate::{
    decide::{cleanup, create, draft::PlanDraft, progress, scale},
    objects::{Deployment, ReplicaSet, StrategyType},
};

/// Whether the next step depends on old Pods, which is so under `Recreate` until the new ReplicaSet has its full size.
pub fn needs_pods(deployment: &Deployment, sets: &[Arc<ReplicaSet>]) -> bool {
    let spec = &deployment.spec;
    if spec.strategy.kind != StrategyType::Recreate || spec.paused || deployment.metadata.is_deleting() {
        return false;
    }
    let new = sets.iter().find(|set| set.spec.template.is_digest_of(&spec.template));
    let is_full = new.is_some_and(|new| new.spec.replicas == spec.replicas);
    !is_full && sets.len() > usize::from(new.is_some())
}

/// Plans the next step of a rollout: scale old ReplicaSets to 0, wait until they have no unfinished Pod, then give the new
/// ReplicaSet its full size. Upstream: `rolloutRecreate`.
pub fn plan_recreate(draft: &mut PlanDraft<'_>) {
    let mut scaled = false;
    for at in draft.old_set_indexes() {
        scaled |= scale::plan_resize(draft, at, 0, "old Pods are removed first");
    }
    if scaled || old_pods_run(draft) {
        return progress::plan_status_with_progress(draft);
    }
    if draft.new_set_index.is_none() {
        create::plan_new_replica_set(draft);
    }
    if draft.failure.is_some() {
        return;
    }
    if let Some(at) = draft.new_set_index {
        let wanted = draft.snapshot.rollout_limits.replicas;
        scale::plan_resize(draft, at, wanted, "no old Pod runs any more");
    }
    if progress::is_rollout_complete(draft, &draft.status) {
        cleanup::plan_history_cleanup(draft);
    }
    progress::plan_status_with_progress(draft);
}

fn old_pods_run(draft: &PlanDraft<'_>) -> bool {
    draft.old_sets().any(|set| set.status_replicas() > 0 || draft.unfinished_pod_count(set) > 0)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use common::io::Requeue;
    use serde_json::json;

    use crate::{decide::conditions::*, world::DeploymentBuilder};

    fn recreate(replicas: i64) -> DeploymentBuilder {
        let mut world = DeploymentBuilder::new(replicas);
        world.spec["strategy"] = json!({"type": "Recreate"});
        world
    }

    /// DEPLOYMENT-35.
    #[test]
    fn all_old_sets_go_to_zero_first() {
        let plan = recreate(3).with_set("a", 2, 2).with_set("b", 3, 3).plan();
        assert_eq!(plan.size_changes(), [("a".to_owned(), 2, 0), ("b".to_owned(), 3, 0)]);
        assert_eq!(plan.created_set_name_and_body(), None);
    }

    /// DEPLOYMENT-35.
    #[test]
    fn the_new_set_waits_for_the_old_status_and_for_unfinished_old_pods() {
        let world = recreate(3).with_set("a", 0, 0);
        assert_eq!(world.plan().created_set_name_and_body().unwrap().1["spec"]["replicas"], 3);
        let mut counted = recreate(3).with_set("a", 0, 0);
        counted.sets[0]["status"]["replicas"] = json!(1);
        assert_eq!(counted.plan().created_set_name_and_body(), None);
        let plan = recreate(3).with_set("a", 0, 0).with_unfinished_pods("a", 1).plan();
        assert_eq!((plan.created_set_name_and_body(), plan.size_changes()), (None, vec![]));
        assert_eq!(
            plan.reasons_to_wait.iter().map(ToString::to_string).collect::<Vec<_>>(),
            ["old Pods of a still run (Recreate): 1"]
        );
    }

    /// DEPLOYMENT-35, DEPLOYMENT-82.
    #[test]
    fn nothing_is_planned_before_the_pods_are_read() {
        let mut world = recreate(3).with_set("a", 2, 2);
        world.unfinished_pod_counts = None;
        let plan = world.plan();
        assert_eq!((plan.steps.len(), plan.requeue), (0, Requeue::After(Duration::from_secs(30))));
        assert_eq!(world.explain().waiting, ["the Pods, which the strategy Recreate needs, have not been read yet"]);
    }

    /// DEPLOYMENT-36.
    #[test]
    fn the_new_set_does_not_wait_for_its_own_pods() {
        let world = recreate(3).with_set("a", 0, 0).with_new_set("b", 0, 0).with_unfinished_pods("b", 2);
        assert_eq!(world.plan().size_changes(), [("b".to_owned(), 0, 3)]);
    }

    #[test]
    fn progress_without_a_new_set_names_the_deployment() {
        let mut world = recreate(4)
            .with_set("a", 0, 0)
            .with_unfinished_pods("a", 4)
            .with_condition(PROGRESSING, DEPLOYMENT_RESUMED);
        world.status["replicas"] = json!(4);
        let plan = world.plan();
        assert_eq!(
            plan.last_progressing_condition(),
            (REPLICA_SET_UPDATED, "True", "Deployment \"web\" is progressing.")
        );
    }
}

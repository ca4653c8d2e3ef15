//! The strategy `RollingUpdate`: replaces Pods step by step, within maxSurge and maxUnavailable.

use crate::{
    decide::{
        cleanup, create,
        draft::PlanDraft,
        progress,
        scale::{self, WriteIfChanged},
    },
    plan::OnFailure,
};

/// Plans the next step of a rollout: scales up the new ReplicaSet, or else scales down the old ones. Upstream:
/// `rolloutRolling`.
pub fn plan_rolling_update(draft: &mut PlanDraft<'_>) {
    if draft.new_set_index.is_none() {
        create::plan_new_replica_set(draft);
    }
    if draft.failure.is_some() {
        return;
    }
    if !grow(draft) && !shrink(draft) && progress::is_rollout_complete(draft, &draft.status) {
        cleanup::plan_history_cleanup(draft);
    }
    progress::plan_status_with_progress(draft);
}

/// Scales the new ReplicaSet as far as maxSurge allows. Returns whether its size changes.
fn grow(draft: &mut PlanDraft<'_>) -> bool {
    let Some(at) = draft.new_set_index else { return false };
    let (limits, current) = (draft.snapshot.rollout_limits, draft.sets[at].replicas);
    let (to, why) = if current > limits.replicas {
        (limits.replicas, "it has more replicas than wanted")
    } else {
        (limits.new_set_size(draft.total_replicas(), current), "maxSurge leaves room")
    };
    scale::plan_resize(draft, at, to, why)
}

/// Scales down the old ReplicaSets as far as maxUnavailable allows, unavailable replicas first. Returns whether a size changes.
///
/// Available replicas are always capped at the size of their ReplicaSet, because a status may still count Pods that are about
/// to be deleted. Upstream's `reconcileOldReplicaSets` counts such Pods in some places and aborts in others.
fn shrink(draft: &mut PlanDraft<'_>) -> bool {
    let active: Vec<usize> = draft.old_set_indexes().into_iter().filter(|at| draft.sets[*at].replicas > 0).collect();
    if active.is_empty() {
        return false;
    }
    let min_available = draft.snapshot.rollout_limits.min_available_pods();
    let new_unavailable = draft.new_set().map_or(0, |new| new.replicas - new.available_replicas_within_size());
    let mut budget = draft.total_replicas() - min_available - new_unavailable;
    if budget <= 0 {
        return false;
    }
    let mut shrunk = false;
    let mut cut = |draft: &mut PlanDraft<'_>, at: usize, by: i64, why: &str| {
        let to = draft.sets[at].replicas - by;
        shrunk |= scale::plan_size(draft, at, to, WriteIfChanged::Size, OnFailure::SkipStepsWithSameOnFailure, why);
    };
    for &at in &active {
        let set = &draft.sets[at];
        let unhealthy = (set.replicas - set.available_replicas_within_size()).min(budget);
        if unhealthy > 0 {
            cut(draft, at, unhealthy, "its unavailable replicas do not count towards the minimum");
            budget -= unhealthy;
        }
    }
    let indexes = active.iter().copied().chain(draft.new_set_index);
    let available: i64 = indexes.map(|at| draft.sets[at].available_replicas_within_size()).sum();
    let mut spare = available - min_available;
    for &at in &active {
        let by = draft.sets[at].replicas.min(spare);
        if by > 0 {
            cut(draft, at, by, "enough others are available");
            spare -= by;
        }
    }
    shrunk
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::world::DeploymentBuilder;

    fn moves(world: &DeploymentBuilder) -> Vec<(String, i64, i64)> {
        world.plan().size_changes()
    }

    fn to(name: &str, from: i64, to: i64) -> (String, i64, i64) {
        (name.to_owned(), from, to)
    }

    /// DEPLOYMENT-28.
    #[test]
    fn the_first_step_uses_max_surge_and_max_unavailable() {
        let world = DeploymentBuilder::new(8).with_set("old", 8, 8);
        let plan = world.plan();
        let (_, body) = plan.created_set_name_and_body().unwrap();
        assert_eq!(body["spec"]["replicas"], 2);
        assert_eq!(plan.size_changes(), [to("old", 8, 6)]);
        let last = plan.last_written_status();
        assert_eq!((last.replicas, last.updated_replicas, last.unavailable_replicas), (8, 0, 2));
    }

    /// DEPLOYMENT-28, DEPLOYMENT-29, DEPLOYMENT-30, DEPLOYMENT-31, DEPLOYMENT-78.
    #[test]
    fn each_state_has_its_next_step() {
        for (sets, want) in [
            (vec![("old", 6, 6), ("new", 2, 0)], vec![to("new", 2, 4)]),
            (vec![("old", 6, 6), ("new", 4, 0)], vec![]),
            (vec![("old", 6, 6), ("new", 4, 3)], vec![to("old", 6, 3)]),
            (vec![("old", 6, 6), ("new", 4, 4)], vec![to("old", 6, 2)]),
            (vec![("old", 2, 2), ("new", 4, 4)], vec![to("new", 4, 8)]),
            (vec![("a", 3, 0), ("b", 3, 3), ("new", 4, 1)], vec![to("a", 3, 2)]),
            (vec![("bad", 4, 0), ("new", 6, 6)], vec![to("bad", 4, 0)]),
            (vec![("new", 6, 6)], vec![to("new", 6, 8)]),
            // Upstream aborts if a status counts more Pods than the size; this controller ignores the surplus.
            (vec![("old", 6, 8), ("new", 4, 4)], vec![to("old", 6, 2)]),
            (vec![("old", 6, 8), ("new", 4, 0)], vec![]),
            (vec![("new", 9, 8)], vec![to("new", 9, 8)]),
        ] {
            let mut world = DeploymentBuilder::new(8);
            for (name, size, available) in &sets {
                world = world.with_set(name, *size, *available);
            }
            assert_eq!(moves(&world.with_current_template("new")), want, "{sets:?}");
        }
    }

    /// DEPLOYMENT-32.
    #[test]
    fn a_rollout_during_a_failed_one_first_removes_the_failed_pods() {
        let world = DeploymentBuilder::new(8).with_set("good", 6, 6).with_set("bad", 4, 0);
        let plan = world.plan();
        let (name, body) = plan.created_set_name_and_body().unwrap();
        assert_eq!(body["spec"]["replicas"], 0);
        assert_eq!(plan.size_changes(), [to("bad", 4, 0)]);
        let world = DeploymentBuilder::new(8).with_set("good", 6, 6).with_set("bad", 0, 0).with_new_set(&name, 0, 0);
        assert_eq!(moves(&world), [to(&name, 0, 4)]);
    }

    /// DEPLOYMENT-32.
    #[test]
    fn a_rollback_first_removes_the_failed_pods() {
        let world =
            DeploymentBuilder::new(8).with_set("good", 6, 6).with_set("bad", 4, 0).with_current_template("good");
        assert_eq!(moves(&world), [to("bad", 4, 0)]);
        let world =
            DeploymentBuilder::new(8).with_set("good", 6, 6).with_set("bad", 0, 0).with_current_template("good");
        assert_eq!(moves(&world), [to("good", 6, 8)]);
    }

    /// DEPLOYMENT-78.
    #[test]
    fn surplus_available_pods_of_the_new_set_do_not_raise_the_budget() {
        // The new ReplicaSet was just scaled from 8 to 4: four of its eight available Pods are about to be deleted.
        let world = DeploymentBuilder::new(8).with_set("old", 6, 6).with_new_set("new", 4, 8);
        assert_eq!(moves(&world), [to("old", 6, 2)]);
    }

    /// DEPLOYMENT-79.
    #[test]
    fn a_failed_scale_down_skips_the_others_and_fails_the_sync_after_the_status() {
        let plan = DeploymentBuilder::new(8).with_set("a", 3, 3).with_set("b", 3, 3).with_new_set("new", 4, 4).plan();
        let cuts: Vec<OnFailure> = plan.steps.iter().map(|step| step.on_failure).collect();
        assert_eq!(
            cuts,
            [OnFailure::SkipStepsWithSameOnFailure, OnFailure::SkipStepsWithSameOnFailure, OnFailure::EndSync]
        );
    }
}

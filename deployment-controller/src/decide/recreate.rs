//! The strategy `Recreate`: no new Pod starts before the last old Pod has ended.

use crate::{
    decide::{
        cleanup, create,
        draft::Draft,
        progress,
        scale::{self, Write},
    },
    plan::OnFailure,
};

/// Plans the next step of a rollout: scale old ReplicaSets to 0, wait for the end of their Pods, then give the new ReplicaSet its
/// full size.
///
/// Upstream: `rolloutRecreate`.
pub fn roll_out(draft: &mut Draft<'_>) {
    let mut scaled = false;
    for at in draft.old_indexes() {
        scaled |= scale::resize(draft, at, 0, Write::Size, OnFailure::End, "old Pods are removed first");
    }
    if scaled || old_pods_run(draft) {
        return progress::write(draft);
    }
    if draft.new.is_none() {
        create::create(draft);
    }
    if draft.fails() {
        return;
    }
    if let Some(at) = draft.new {
        let wanted = draft.limits().replicas;
        scale::resize(draft, at, wanted, Write::Size, OnFailure::End, "no old Pod runs any more");
    }
    if progress::is_complete(draft, &draft.status) {
        cleanup::clean_up(draft);
    }
    progress::write(draft);
}

fn old_pods_run(draft: &Draft<'_>) -> bool {
    draft.old_sets().any(|set| set.actual() > 0 || draft.running_pods(set) > 0)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use crate::{decide::conditions::*, world::World};

    fn recreate(replicas: i64) -> World {
        let mut world = World::new(replicas);
        world.spec["strategy"] = json!({"type": "Recreate"});
        world
    }

    /// DEPLOYMENT-35.
    #[test]
    fn all_old_sets_go_to_zero_first() {
        let plan = recreate(3).set("a", 2, 2).set("b", 3, 3).plan();
        assert_eq!(plan.sizes(), [("a".to_owned(), 2, 0), ("b".to_owned(), 3, 0)]);
        assert_eq!(plan.created(), None);
    }

    /// DEPLOYMENT-35.
    #[test]
    fn the_new_set_waits_for_the_old_status_and_for_unfinished_old_pods() {
        let world = recreate(3).set("a", 0, 0);
        assert_eq!(world.plan().created().unwrap().1["spec"]["replicas"], 3);
        let mut counted = recreate(3).set("a", 0, 0);
        counted.sets[0]["status"]["replicas"] = json!(1);
        assert_eq!(counted.plan().created(), None);
        let plan = recreate(3).set("a", 0, 0).running("a", 1).plan();
        assert_eq!((plan.created(), plan.sizes()), (None, vec![]));
        assert_eq!(
            plan.waiting.iter().map(ToString::to_string).collect::<Vec<_>>(),
            ["old Pods of a still run (Recreate): 1"]
        );
    }

    /// DEPLOYMENT-36.
    #[test]
    fn the_new_set_does_not_wait_for_its_own_pods() {
        let world = recreate(3).set("a", 0, 0).set("b", 0, 0).current("b").running("b", 2);
        assert_eq!(world.plan().sizes(), [("b".to_owned(), 0, 3)]);
    }

    #[test]
    fn progress_without_a_new_set_names_the_deployment() {
        let mut world = recreate(4).set("a", 0, 0).running("a", 4).condition(PROGRESSING, RESUMED);
        world.status["replicas"] = json!(4);
        let plan = world.plan();
        assert_eq!(plan.progress(), (REPLICA_SET_UPDATED, "True", "Deployment \"web\" is progressing."));
    }
}

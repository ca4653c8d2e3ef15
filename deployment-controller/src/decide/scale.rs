//! Writes sizes of ReplicaSets, and lets them follow `spec.replicas` outside of a rollout.

use std::collections::BTreeMap;

use crate::{
    decide::{
        draft::{Draft, Set},
        proportional,
    },
    limits::Limits,
    objects::{DESIRED_REPLICAS, MAX_REPLICAS, StrategyType},
    plan::{Event, OnFailure, SetChange, Step},
};

/// Whether stale annotations alone, with an unchanged size, cause a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Write {
    /// A request is sent only if the size changes.
    Size,
    /// A request is sent if the size or an annotation changes.
    SizeOrAnnotations,
}

/// Returns the annotations that are written with every size: the desired and the maximum number of Pods.
pub fn annotations(limits: Limits) -> BTreeMap<String, String> {
    BTreeMap::from([
        (DESIRED_REPLICAS.to_owned(), limits.replicas.to_string()),
        (MAX_REPLICAS.to_owned(), limits.most().to_string()),
    ])
}

/// Plans a change of a ReplicaSet's size, with its annotations and its Event. Returns whether the size changes.
///
/// Upstream: `scaleReplicaSet`.
pub fn resize(draft: &mut Draft<'_>, at: usize, to: i64, write: Write, on_failure: OnFailure, why: &str) -> bool {
    let set = &draft.sets[at];
    let (from, name) = (set.replicas, set.name.clone());
    let annotations = annotations(draft.limits());
    let stale = annotations.iter().any(|(key, value)| set.annotation(key) != Some(value));
    if from == to && !(stale && write == Write::SizeOrAnnotations) {
        return false;
    }
    let change = SetChange { size: (from != to).then_some((from, to)), annotations, min_ready_seconds: None };
    draft.change(at, change, |action| {
        let step = Step::new(action, why).on_failure(on_failure);
        if from == to {
            return step;
        }
        let direction = if from < to { "up" } else { "down" };
        let message = format!("Scaled {direction} replica set {name} from {from} to {to}");
        step.telling(Event::normal("ScalingReplicaSet", message))
    });
    from != to
}

/// Returns whether `spec.replicas` has changed since the size of a ReplicaSet with Pods was last written.
///
/// Upstream: `isScalingEvent`.
pub fn is_scaling_event(draft: &Draft<'_>) -> bool {
    let wanted = draft.limits().replicas;
    draft.sets.iter().any(|set| set.replicas > 0 && has_other_desired(set, wanted))
}

fn has_other_desired(set: &Set<'_>, wanted: i64) -> bool {
    set.replicas_annotation(DESIRED_REPLICAS).is_some_and(|desired| desired != wanted)
}

/// Plans the sizes that follow `spec.replicas`.
///
/// If the only active ReplicaSet has the right size and stale annotations, only the annotations are written. Upstream's `scale`
/// leaves them stale, so that the Deployment stays in a scaling event for ever.
pub fn scale(draft: &mut Draft<'_>) {
    let wanted = draft.limits().replicas;
    let active: Vec<usize> = (0..draft.sets.len()).filter(|at| draft.sets[*at].replicas > 0).collect();
    if active.len() <= 1 {
        let latest = || draft.new.or_else(|| draft.old_indexes().last().copied());
        if let Some(target) = active.first().copied().or_else(latest) {
            return scale_one(draft, target);
        }
    }
    if draft.new_set().is_some_and(|new| is_saturated(new, wanted)) {
        for at in draft.old_indexes().into_iter().rev().filter(|at| active.contains(at)) {
            resize(draft, at, 0, Write::Size, OnFailure::End, "the newest ReplicaSet has all replicas");
        }
        return;
    }
    match draft.spec().strategy.kind {
        StrategyType::RollingUpdate => {
            for (at, size) in proportional::sizes(draft, &active) {
                let why = "the Deployment was scaled during a rollout: each ReplicaSet gets its share";
                resize(draft, at, size, Write::SizeOrAnnotations, OnFailure::End, why);
            }
        }
        StrategyType::Recreate if !draft.spec().paused => {
            for at in active {
                let size = draft.sets[at].replicas;
                let why = "the Deployment was scaled; the rollout changes the sizes afterwards";
                resize(draft, at, size, Write::SizeOrAnnotations, OnFailure::End, why);
            }
        }
        StrategyType::Recreate | StrategyType::Other(_) => {}
    }
}

fn scale_one(draft: &mut Draft<'_>, at: usize) {
    let wanted = draft.limits().replicas;
    let write = if has_other_desired(&draft.sets[at], wanted) { Write::SizeOrAnnotations } else { Write::Size };
    resize(draft, at, wanted, write, OnFailure::End, "the Deployment was scaled");
}

fn is_saturated(set: &Set<'_>, wanted: i64) -> bool {
    let desired = set.replicas_annotation(DESIRED_REPLICAS);
    set.replicas == wanted && desired == Some(wanted) && set.available() == wanted
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::world::World;

    fn desired(world: World, desired: &str, max: &str) -> World {
        world.annotate(DESIRED_REPLICAS, desired).annotate(MAX_REPLICAS, max)
    }

    /// DEPLOYMENT-26, DEPLOYMENT-41, DEPLOYMENT-53.
    #[test]
    fn the_only_set_with_pods_gets_all_replicas() {
        let world = desired(World::new(6).set("a", 4, 4).current("a"), "4", "5");
        let plan = world.plan();
        assert_eq!(plan.sizes(), [("a".to_owned(), 4, 6)]);
        assert_eq!(plan.events(), ["Scaled up replica set a from 4 to 6"]);
        assert_eq!(plan.annotations("a"), annotations(Limits { replicas: 6, surge: 2, unavailable: 1 }));
        assert_eq!(plan.last_status().unavailable_replicas, 0, "the status does not count sizes written in this sync");
    }

    /// DEPLOYMENT-41.
    #[test]
    fn without_pods_the_newest_set_gets_them() {
        let mut world = World::new(3).set("a", 0, 0).set("b", 0, 0);
        world.spec["paused"] = json!(true);
        assert_eq!(world.plan().sizes(), [("b".to_owned(), 0, 3)]);
        let world = world.current("a");
        assert_eq!(world.plan().sizes(), [("a".to_owned(), 0, 3)]);
    }

    /// DEPLOYMENT-41.
    #[test]
    fn nothing_is_scaled_without_any_set() {
        let mut world = World::new(3);
        world.spec["paused"] = json!(true);
        assert_eq!(world.plan().sizes(), []);
    }

    /// DEPLOYMENT-27, DEPLOYMENT-40, DEPLOYMENT-80.
    #[test]
    fn stale_annotations_alone_are_written_once() {
        // A user has scaled the ReplicaSet to the desired size: upstream stays in a scaling event for ever.
        let world = desired(World::new(4).set("a", 4, 4).current("a"), "9", "12");
        let plan = world.plan();
        assert_eq!((plan.sizes(), plan.events()), (vec![], vec![]));
        assert_eq!(plan.annotations("a").get(DESIRED_REPLICAS).unwrap(), "4");
        // An annotation that is not a number causes neither a scaling event nor a write.
        let world = desired(World::new(4).set("a", 4, 4).current("a"), "+9", "12");
        assert!(world.plan().changes("a").is_empty());
    }

    /// DEPLOYMENT-42.
    #[test]
    fn a_saturated_new_set_scales_others_to_zero_newest_first() {
        let world = desired(World::new(4).set("a", 1, 1), "9", "9").set("b", 2, 2).set("c", 4, 4).current("c");
        assert_eq!(world.plan().sizes(), [("b".to_owned(), 2, 0), ("a".to_owned(), 1, 0)]);
    }

    /// DEPLOYMENT-80.
    #[test]
    fn recreate_with_two_active_sets_leaves_the_scaling_event() {
        let mut world = desired(desired(World::new(5).set("a", 3, 3), "4", "5").set("b", 1, 0), "4", "5").current("b");
        world.spec["strategy"] = json!({"type": "Recreate"});
        let plan = world.plan();
        assert_eq!(plan.sizes(), []);
        for set in ["a", "b"] {
            assert_eq!(plan.annotations(set).get(DESIRED_REPLICAS).unwrap(), "5");
        }
        world.spec["paused"] = json!(true);
        assert!(world.plan().changes("a").is_empty());
    }

    /// DEPLOYMENT-40.
    #[test]
    fn no_scaling_event_for_sets_without_pods_or_without_the_annotation() {
        let world = desired(World::new(4).set("a", 0, 0), "9", "9").set("b", 4, 4).current("b");
        assert!(world.plan().changes("a").is_empty());
        let mut world = World::new(4).set("a", 4, 4).current("a");
        world.sets[0]["metadata"]["annotations"] = json!({"deployment.kubernetes.io/revision": "1"});
        assert!(world.plan().changes("a").is_empty());
    }
}

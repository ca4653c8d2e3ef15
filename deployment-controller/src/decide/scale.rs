//! Writes sizes of ReplicaSets, and lets them follow `spec.replicas` outside of a rollout.

use std::collections::BTreeMap;

use crate::{
    decide::{
        draft::{DraftReplicaSet, PlanDraft},
        proportional,
    },
    limits::RolloutLimits,
    objects::{DESIRED_REPLICAS_ANNOTATION, MAX_REPLICAS_ANNOTATION, StrategyType},
    plan::{Event, OnFailure, ReplicaSetChange, Step},
};

/// Whether stale annotations alone, with an unchanged size, cause a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WriteIfChanged {
    /// A request is sent only if the size changes.
    Size,
    /// A request is sent if the size or an annotation changes.
    SizeOrAnnotations,
}

/// Returns the annotations that are written with every size: the desired and the maximum number of Pods.
pub fn size_annotations(limits: RolloutLimits) -> BTreeMap<String, String> {
    BTreeMap::from([
        (DESIRED_REPLICAS_ANNOTATION.to_owned(), limits.replicas.to_string()),
        (MAX_REPLICAS_ANNOTATION.to_owned(), limits.max_pods().to_string()),
    ])
}

/// Plans a change of a ReplicaSet's size. If the step fails, the sync ends. Returns whether the size changes.
pub fn plan_resize(draft: &mut PlanDraft<'_>, at: usize, to: i64, why: &str) -> bool {
    plan_size(draft, at, to, WriteIfChanged::Size, OnFailure::EndSync, why)
}

/// Plans a change of a ReplicaSet's size, with its annotations and its Event. Returns whether the size changes.
/// Upstream: `scaleReplicaSet`.
pub fn plan_size(
    draft: &mut PlanDraft<'_>,
    at: usize,
    to: i64,
    write: WriteIfChanged,
    on_failure: OnFailure,
    why: &str,
) -> bool {
    let set = &draft.sets[at];
    let (from, name) = (set.replicas, set.name.clone());
    let annotations = size_annotations(draft.snapshot.rollout_limits);
    let stale = annotations.iter().any(|(key, value)| set.annotation(key) != Some(value));
    if from == to && !(stale && write == WriteIfChanged::SizeOrAnnotations) {
        return false;
    }
    let change = ReplicaSetChange {
        size_before_and_after: (from != to).then_some((from, to)),
        annotations,
        min_ready_seconds: None,
    };
    draft.push_set_change(at, change, |action| {
        let step = Step::new(action, why).with_on_failure(on_failure);
        if from == to {
            return step;
        }
        let direction = if from < to { "up" } else { "down" };
        let message = format!("Scaled {direction} replica set {name} from {from} to {to}");
        step.with_event(Event::normal("ScalingReplicaSet", message))
    });
    from != to
}

/// Whether `spec.replicas` has changed since the size of a ReplicaSet with Pods was last written. Upstream:
/// `isScalingEvent`.
pub fn has_desired_size_changed(draft: &PlanDraft<'_>) -> bool {
    let wanted = draft.snapshot.rollout_limits.replicas;
    draft.sets.iter().any(|set| set.replicas > 0 && has_stale_desired_replicas(set, wanted))
}

fn has_stale_desired_replicas(set: &DraftReplicaSet<'_>, wanted: i64) -> bool {
    set.parse_replicas_annotation(DESIRED_REPLICAS_ANNOTATION).is_some_and(|desired| desired != wanted)
}

/// Plans the sizes that follow `spec.replicas`.
///
/// If the only active ReplicaSet has the right size and stale annotations, only the annotations are written. Upstream's `scale`
/// leaves the annotations stale, so that it treats every later sync as a scaling event.
pub fn plan_scaling(draft: &mut PlanDraft<'_>) {
    let wanted = draft.snapshot.rollout_limits.replicas;
    let active: Vec<usize> = (0..draft.sets.len()).filter(|at| draft.sets[*at].replicas > 0).collect();
    if active.len() <= 1 {
        let latest = || draft.new_set_index.or_else(|| draft.old_set_indexes().last().copied());
        if let Some(target) = active.first().copied().or_else(latest) {
            return scale_one(draft, target);
        }
    }
    if draft.new_set().is_some_and(|new| is_saturated(new, wanted)) {
        for at in draft.old_set_indexes().into_iter().rev().filter(|at| active.contains(at)) {
            plan_resize(draft, at, 0, "the newest ReplicaSet has all replicas");
        }
        return;
    }
    match draft.spec().strategy.kind {
        StrategyType::RollingUpdate => {
            for (at, size) in proportional::proportional_sizes(draft, &active) {
                let why = "the Deployment was scaled during a rollout: each ReplicaSet gets its share";
                plan_size(draft, at, size, WriteIfChanged::SizeOrAnnotations, OnFailure::EndSync, why);
            }
        }
        StrategyType::Recreate if !draft.spec().paused => {
            for at in active {
                let size = draft.sets[at].replicas;
                let why = "the Deployment was scaled; the rollout changes the sizes afterwards";
                plan_size(draft, at, size, WriteIfChanged::SizeOrAnnotations, OnFailure::EndSync, why);
            }
        }
        StrategyType::Recreate | StrategyType::Other(_) => {}
    }
}

fn scale_one(draft: &mut PlanDraft<'_>, at: usize) {
    let wanted = draft.snapshot.rollout_limits.replicas;
    let write = if has_stale_desired_replicas(&draft.sets[at], wanted) {
        WriteIfChanged::SizeOrAnnotations
    } else {
        WriteIfChanged::Size
    };
    plan_size(draft, at, wanted, write, OnFailure::EndSync, "the Deployment was scaled");
}

fn is_saturated(set: &DraftReplicaSet<'_>, wanted: i64) -> bool {
    let desired = set.parse_replicas_annotation(DESIRED_REPLICAS_ANNOTATION);
    set.replicas == wanted && desired == Some(wanted) && set.available_replicas() == wanted
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::world::DeploymentBuilder;

    fn desired(world: DeploymentBuilder, desired: &str, max: &str) -> DeploymentBuilder {
        world.with_annotation(DESIRED_REPLICAS_ANNOTATION, desired).with_annotation(MAX_REPLICAS_ANNOTATION, max)
    }

    /// DEPLOYMENT-26, DEPLOYMENT-41, DEPLOYMENT-53.
    #[test]
    fn the_only_set_with_pods_gets_all_replicas() {
        let world = desired(DeploymentBuilder::new(6).with_new_set("a", 4, 4), "4", "5");
        let plan = world.plan();
        assert_eq!(plan.size_changes(), [("a".to_owned(), 4, 6)]);
        assert_eq!(plan.event_messages(), ["Scaled up replica set a from 4 to 6"]);
        assert_eq!(
            plan.annotations_of_set("a"),
            size_annotations(RolloutLimits { replicas: 6, max_surge: 2, max_unavailable: 1 })
        );
        assert_eq!(
            plan.last_written_status().unavailable_replicas,
            0,
            "the status does not count sizes written in this sync"
        );
    }

    /// DEPLOYMENT-41.
    #[test]
    fn without_pods_the_newest_set_gets_them() {
        let mut world = DeploymentBuilder::new(3).with_set("a", 0, 0).with_set("b", 0, 0);
        world.spec["paused"] = json!(true);
        assert_eq!(world.plan().size_changes(), [("b".to_owned(), 0, 3)]);
        let world = world.with_current_template("a");
        assert_eq!(world.plan().size_changes(), [("a".to_owned(), 0, 3)]);
    }

    /// DEPLOYMENT-41.
    #[test]
    fn nothing_is_scaled_without_any_set() {
        let mut world = DeploymentBuilder::new(3);
        world.spec["paused"] = json!(true);
        assert_eq!(world.plan().size_changes(), []);
    }

    /// DEPLOYMENT-27, DEPLOYMENT-40, DEPLOYMENT-80.
    #[test]
    fn stale_annotations_alone_are_written_once() {
        // A user has scaled the ReplicaSet to the desired size. Upstream would treat every later sync as a scaling event.
        let world = desired(DeploymentBuilder::new(4).with_new_set("a", 4, 4), "9", "12");
        let plan = world.plan();
        assert_eq!((plan.size_changes(), plan.event_messages()), (vec![], vec![]));
        assert_eq!(plan.annotations_of_set("a").get(DESIRED_REPLICAS_ANNOTATION).unwrap(), "4");
        // An annotation that is not a number causes neither a scaling event nor a write.
        let world = desired(DeploymentBuilder::new(4).with_new_set("a", 4, 4), "+9", "12");
        assert!(world.plan().changes_of_set("a").is_empty());
    }

    /// DEPLOYMENT-42.
    #[test]
    fn a_saturated_new_set_scales_others_to_zero_newest_first() {
        let world = desired(DeploymentBuilder::new(4).with_set("a", 1, 1), "9", "9")
            .with_set("b", 2, 2)
            .with_new_set("c", 4, 4);
        assert_eq!(world.plan().size_changes(), [("b".to_owned(), 2, 0), ("a".to_owned(), 1, 0)]);
    }

    /// DEPLOYMENT-80.
    #[test]
    fn recreate_with_two_active_sets_leaves_the_scaling_event() {
        let mut world =
            desired(desired(DeploymentBuilder::new(5).with_set("a", 3, 3), "4", "5").with_set("b", 1, 0), "4", "5")
                .with_current_template("b");
        world.spec["strategy"] = json!({"type": "Recreate"});
        let plan = world.plan();
        assert_eq!(plan.size_changes(), []);
        for set in ["a", "b"] {
            assert_eq!(plan.annotations_of_set(set).get(DESIRED_REPLICAS_ANNOTATION).unwrap(), "5");
        }
        world.spec["paused"] = json!(true);
        assert!(world.plan().changes_of_set("a").is_empty());
    }

    /// DEPLOYMENT-40.
    #[test]
    fn no_scaling_event_for_sets_without_pods_or_without_the_annotation() {
        let world = desired(DeploymentBuilder::new(4).with_set("a", 0, 0), "9", "9").with_new_set("b", 4, 4);
        assert!(world.plan().changes_of_set("a").is_empty());
        let mut world = DeploymentBuilder::new(4).with_new_set("a", 4, 4);
        world.sets[0]["metadata"]["annotations"] = json!({"deployment.kubernetes.io/revision": "1"});
        assert!(world.plan().changes_of_set("a").is_empty());
    }
}

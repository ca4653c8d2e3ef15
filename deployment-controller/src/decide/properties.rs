//! Checks invariants of every plan after random changes by users, by the ReplicaSet controller and by the passage of time.

use std::{collections::BTreeMap, sync::Arc};

use jiff::SignedDuration;
use proptest::prelude::*;
use serde_json::{Value, json};

use super::conditions::*;
use crate::{
    objects::{REVISION_ANNOTATION, ReplicaSet, StrategyType},
    plan::{Action, Plan},
    world::DeploymentBuilder,
};

#[derive(Clone, Debug)]
enum Happening {
    /// The ReplicaSet controller syncs a ReplicaSet: all its Pods exist, and up to `available` of them are available.
    Look {
        set: usize,
        available: i64,
    },
    /// The user selects one of four templates.
    Template(u8),
    Scale(i64),
    Pause(bool),
    Strategy(bool),
    Limits {
        surge: i64,
        unavailable: i64,
    },
    Wait(i64),
    ByHand {
        set: usize,
        size: i64,
    },
    Linger {
        set: usize,
        count: usize,
    },
}

fn happening() -> impl Strategy<Value = Happening> {
    prop_oneof![
        8 => (0..6usize, 0..12i64).prop_map(|(set, available)| Happening::Look { set, available }),
        2 => (0..4u8).prop_map(Happening::Template),
        2 => (0..12i64).prop_map(Happening::Scale),
        1 => any::<bool>().prop_map(Happening::Pause),
        1 => any::<bool>().prop_map(Happening::Strategy),
        1 => (0..5i64, 0..5i64).prop_map(|(surge, unavailable)| Happening::Limits { surge, unavailable }),
        2 => (0..700i64).prop_map(Happening::Wait),
        1 => (0..6usize, 0..9i64).prop_map(|(set, size)| Happening::ByHand { set, size }),
        1 => (0..6usize, 0..3usize).prop_map(|(set, count)| Happening::Linger { set, count }),
    ]
}

fn happen(world: &mut DeploymentBuilder, happening: &Happening) {
    let user = |world: &mut DeploymentBuilder, pointer: &str, value: Value| {
        *world.spec.pointer_mut(pointer).unwrap() = value;
        world.generation += 1;
    };
    match *happening {
        Happening::Look { set, available } => {
            let Some(set) = pick(world, set) else { return };
            let size = set["spec"]["replicas"].as_i64().unwrap();
            let available = available.min(size);
            set["status"] = json!({"replicas": size, "readyReplicas": available, "availableReplicas": available,
                "observedGeneration": set["metadata"]["generation"], "terminatingReplicas": 0});
        }
        Happening::Template(n) => {
            let containers = json!([{"name": "web", "image": format!("web:{n}")}]);
            user(world, "/template/spec/containers", containers);
        }
        Happening::Scale(n) => user(world, "/replicas", json!(n)),
        Happening::Pause(paused) => {
            world.spec["paused"] = json!(paused);
            world.generation += 1;
        }
        Happening::Strategy(recreate) => {
            user(world, "/strategy/type", json!(if recreate { "Recreate" } else { "RollingUpdate" }));
        }
        Happening::Limits { surge, unavailable } => {
            let limits = json!({"maxSurge": surge, "maxUnavailable": unavailable});
            user(world, "/strategy/rollingUpdate", limits);
        }
        Happening::Wait(seconds) => world.now += SignedDuration::from_secs(seconds),
        Happening::ByHand { set, size } => {
            let Some(set) = pick(world, set) else { return };
            set["spec"]["replicas"] = json!(size);
            let generation = set["metadata"]["generation"].as_i64().unwrap();
            set["metadata"]["generation"] = json!(generation + 1);
        }
        Happening::Linger { set, count } => {
            let Some(set) = pick(world, set) else { return };
            let uid = common::meta::Uid::new(set["metadata"]["uid"].as_str().unwrap());
            world.unfinished_pod_counts.get_or_insert_default().insert(uid, count);
        }
    }
}

fn pick(world: &mut DeploymentBuilder, at: usize) -> Option<&mut Value> {
    let count = world.sets.len();
    (count > 0).then(|| &mut world.sets[at % count])
}

fn number(set: &Value, pointer: &str) -> i64 {
    set.pointer(pointer).and_then(Value::as_i64).unwrap_or(0)
}

/// Checks the invariants of one plan, and returns the objects after its writes.
fn check(before: &DeploymentBuilder, plan: &Plan) -> Result<DeploymentBuilder, TestCaseError> {
    let snapshot = before.snapshot();
    let (limits, spec) = (snapshot.rollout_limits, &snapshot.deployment.spec);
    let rolling = spec.strategy.kind == StrategyType::RollingUpdate;
    let new = snapshot.claims.to_keep.iter().find(|set| set.spec.template.is_digest_of(&spec.template));
    let new = new.map(|set| set.metadata.name.to_string());
    let total = |world: &DeploymentBuilder| world.sets.iter().map(|set| number(set, "/spec/replicas")).sum::<i64>();

    // Invariants 1 to 3, after every write: few surplus Pods, enough available Pods, and no new beside old Pods (`Recreate`).
    let mut world = before.clone();
    for step in &plan.steps {
        let was = world.clone();
        world.apply_plan(&Plan { steps: vec![step.clone()], ..plan.clone() });
        if rolling && !spec.paused {
            prop_assert!(total(&world) <= total(&was).max(limits.max_pods()), "too many replicas: {step:?}");
        }
        if let Action::ChangeReplicaSet { name, change } = &step.action
            && let Some((from, to)) = change.size_before_and_after
            && rolling
            && to < from
            && new.as_deref() != Some(&**name)
            && step.on_failure == crate::plan::OnFailure::SkipStepsWithSameOnFailure
        {
            let available_within_size = |world: &DeploymentBuilder| {
                let each = |set: &Value| number(set, "/status/availableReplicas").min(number(set, "/spec/replicas"));
                world.sets.iter().map(each).sum::<i64>()
            };
            prop_assert!(
                available_within_size(&world) >= limits.min_available_pods().min(available_within_size(&was)),
                "too few available: {step:?}"
            );
        }
        let enlarges = match &step.action {
            Action::CreateReplicaSet { .. } => true,
            // A size that follows `spec.replicas` is not part of a rollout.
            Action::ChangeReplicaSet { change, .. } => {
                change.size_before_and_after.is_some_and(|(from, to)| to > from)
                    && step.why == "no old Pod runs any more"
            }
            _ => false,
        };
        if enlarges && spec.strategy.kind == StrategyType::Recreate {
            for set in &snapshot.claims.to_keep {
                let old = new.as_deref() != Some(&*set.metadata.name);
                let unfinished_pod_counts = snapshot.unfinished_pod_counts.as_ref().unwrap();
                let runs = unfinished_pod_counts.get(&set.metadata.uid).is_some_and(|count| *count > 0);
                prop_assert!(!(old && runs), "old Pods of {} have not finished: {step:?}", set.metadata.name);
            }
        }
    }
    // Invariant 6: a deleted ReplicaSet is idle and never the new one.
    for name in plan.deleted_sets() {
        let set = before.sets.iter().find(|set| set["metadata"]["name"] == *name).unwrap();
        prop_assert_ne!(Some(&name), new.as_ref());
        prop_assert_eq!(number(set, "/spec/replicas") + number(set, "/status/replicas"), 0);
        prop_assert!(number(set, "/metadata/generation") <= number(set, "/status/observedGeneration"));
    }
    // Invariant 5: revisions only grow, and the new ReplicaSet has the highest revision.
    let revision =
        |set: &Value| set["metadata"]["annotations"][REVISION_ANNOTATION].as_str().unwrap().parse::<i64>().unwrap();
    for set in &world.sets {
        let was = before.sets.iter().find(|s| s["metadata"]["name"] == set["metadata"]["name"]);
        prop_assert!(was.is_none_or(|was| revision(was) <= revision(set)));
    }
    let kept = world.snapshot().claims.to_keep;
    if let Some(newest) = kept.iter().position(|set| set.spec.template.is_digest_of(&spec.template)) {
        let revision = |set: &Arc<ReplicaSet>| set.metadata.annotations.get(REVISION_ANNOTATION).unwrap().parse();
        let revisions: Vec<i64> = kept.iter().map(|set| revision(set).unwrap()).collect();
        for (at, other) in revisions.iter().enumerate() {
            prop_assert!(at == newest || *other < revisions[newest], "{revisions:?} {newest}");
        }
    }
    // Invariant 9: no ReplicaSet is created during a pause.
    prop_assert!(!spec.paused || plan.created_set_name_and_body().is_none());
    // Invariant 11: every Event about a size belongs to one change of a size.
    let told = plan.event_messages().iter().filter(|event| event.starts_with("Scaled")).count();
    let created = plan.created_set_name_and_body().is_some_and(|(_, body)| body["spec"]["replicas"] != 0);
    prop_assert_eq!(told, plan.size_changes().len() + usize::from(created));
    // Invariant 12: an exceeded deadline is not reported during a pause or after a complete rollout.
    let stored =
        find_progressing_condition(&snapshot.deployment.status).map(|c| c.reason.to_string()).unwrap_or_default();
    let exceeded = plan
        .revision_and_progress_of_status_writes()
        .iter()
        .any(|(_, (reason, _))| reason == PROGRESS_DEADLINE_EXCEEDED);
    if exceeded && stored != PROGRESS_DEADLINE_EXCEEDED {
        prop_assert!(!spec.paused && stored != NEW_REPLICA_SET_AVAILABLE);
    }
    Ok(world)
}

/// Makes all Pods of every ReplicaSet available, and removes all surplus Pods.
fn heal(world: &mut DeploymentBuilder) {
    world.unfinished_pod_counts = Some(BTreeMap::new());
    for at in 0..world.sets.len() {
        happen(world, &Happening::Look { set: at, available: i64::MAX });
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 128, ..ProptestConfig::default() })]

    /// DEPLOYMENT-17, DEPLOYMENT-27, DEPLOYMENT-29, DEPLOYMENT-31, DEPLOYMENT-34, DEPLOYMENT-35, DEPLOYMENT-44, DEPLOYMENT-51,
    /// DEPLOYMENT-81.
    #[test]
    fn invariants_hold_whatever_happens(
        replicas in 0..10i64,
        happenings in prop::collection::vec(happening(), 1..40),
    ) {
        let mut world = DeploymentBuilder::new(replicas);
        world.annotations = json!({});
        for happening in &happenings {
            happen(&mut world, happening);
            let plan = world.plan();
            world = check(&world, &plan)?;
        }
        // If Pods start and end as they should, the rollout completes, and then the plan is empty.
        world.spec["paused"] = json!(false);
        let mut left = 100;
        heal(&mut world);
        while !world.plan().is_idle() && left > 0 {
            let plan = world.plan();
            world = check(&world, &plan)?;
            heal(&mut world);
            world.now += SignedDuration::from_secs(1);
            left -= 1;
        }
        prop_assert!(world.plan().is_idle(), "still has steps after 100 syncs: {:#?}", world.plan());
        let snapshot = world.snapshot();
        for set in &snapshot.claims.to_keep {
            let newest = set.spec.template.is_digest_of(&snapshot.deployment.spec.template);
            prop_assert_eq!(i64::from(set.spec.replicas), if newest { snapshot.rollout_limits.replicas } else { 0 });
        }
        let status = &snapshot.deployment.status;
        prop_assert!(has_progressing_reason(status, NEW_REPLICA_SET_AVAILABLE), "{status:?}");
        prop_assert_eq!(status.updated_replicas, snapshot.rollout_limits.replicas);
    }

    #[test]
    fn the_same_snapshot_gives_the_same_plan(happenings in prop::collection::vec(happening(), 1..20)) {
        let mut world = DeploymentBuilder::new(4);
        for happening in &happenings {
            happen(&mut world, happening);
            let snapshot = world.snapshot();
            prop_assert_eq!(super::decide(&snapshot), super::decide(&snapshot));
            world.apply_plan(&world.plan());
        }
    }
}

mod options;

use std::{collections::BTreeMap, time::Duration};

use common::{
    controller::{Decision, Explanation},
    intern::Text,
};
use proptest::prelude::*;
use serde_json::json;

use super::*;
use crate::{
    ReplicaController,
    kind::ReplicaSets,
    plan::{Manage, Why},
    snapshot::{Failing, Limits},
    world::{PodBuilder, World, ago, now, pod, pods, world},
};

fn plan(world: &World) -> Plan {
    decide(&world.snapshot())
}

/// Returns whether the status is the only write of the plan.
fn writes_status(world: &World) -> bool {
    explained(world).actions == ["write the status"]
}

/// Returns the explanation of the plan, including its forecast requests.
fn explained(world: &World) -> Explanation {
    let snapshot = world.snapshot();
    Decision::<ReplicaController<ReplicaSets>>::with_forecast(&snapshot, snapshot.now).explain()
}

/// Returns a short text for the decision about the number of Pods.
fn deed(world: &World) -> String {
    match plan(world).manage {
        Manage::Nothing => "nothing".to_owned(),
        Manage::NotAllowed(_) => "not allowed".to_owned(),
        Manage::Impossible(problem) => problem.to_owned(),
        Manage::Later(failing) => format!("later: {}", failing.left.as_secs()),
        Manage::Create { count, missing } => format!("create {count} of {missing}"),
        Manage::Delete { victims, surplus, .. } => format!("delete {} of {surplus}", victims.len()),
    }
}

fn victims(world: &World) -> Vec<String> {
    match plan(world).manage {
        Manage::Delete { victims, .. } => victims.iter().map(|v| v.pod.meta().name.to_string()).collect(),
        other => panic!("{other:?}"),
    }
}

fn whys(world: &World) -> Vec<String> {
    match plan(world).manage {
        Manage::Delete { victims, .. } => victims.iter().map(|v| format!("{}: {}", v.pod.meta().name, v.why)).collect(),
        other => panic!("{other:?}"),
    }
}

/// REPLICASET-17.
#[test]
fn missing_pods_are_created_and_surplus_pods_are_deleted() {
    for (active, wanted, want) in [
        (0, 3, "create 3 of 3"),
        (0, 1200, "create 500 of 1200"),
        (500, 1200, "create 500 of 700"),
        (1000, 1200, "create 200 of 200"),
        (10, 4, "delete 6 of 6"),
        (900, 0, "delete 500 of 900"),
        (400, 0, "delete 400 of 400"),
        (5, 5, "nothing"),
        (0, 0, "nothing"),
    ] {
        assert_eq!(deed(&world(wanted, pods(active))), want, "{active} of {wanted}");
    }
}

/// REPLICASET-21.
#[test]
fn a_blocked_or_deleted_set_neither_creates_nor_deletes() {
    for (active, wanted) in [(0, 3), (3, 0), (3, 1), (3, 3)] {
        assert_eq!(deed(&world(wanted, pods(active)).blocked()), "not allowed");
        assert_eq!(deed(&world(wanted, pods(active)).deleting()), "not allowed");
    }
}

/// REPLICASET-39, REPLICASET-80.
#[test]
fn no_pod_is_created_that_the_selector_would_not_match() {
    let mut unlabelled = world(1, []);
    unlabelled.set["spec"]["template"]["metadata"]["labels"] = json!({});
    assert_eq!(deed(&unlabelled), "no labels");
    let mut stranger = world(1, []);
    stranger.set["spec"]["template"]["metadata"]["labels"] = json!({"app": "other"});
    assert_eq!(deed(&stranger), "the selector does not match the labels of the template");
    stranger.set["spec"]["replicas"] = json!(0);
    assert_eq!(deed(&stranger), "nothing");
}

/// REPLICASET-49.
#[test]
fn a_set_with_an_invalid_selector_is_left_alone() {
    let mut broken = world(3, pods(1));
    broken.set["spec"]["selector"] = json!({"matchExpressions": [{"key": "a", "operator": "Gt", "values": ["1"]}]});
    let plan = plan(&broken);
    assert!(plan.set.selector.problem().is_some() && plan.adopt.is_empty() && plan.release.is_empty());
    let told = explained(&broken);
    assert!(told.actions.is_empty());
    assert_eq!(told.waiting, ["selector: \"Gt\" is not a valid label selector operator"]);
}

/// REPLICASET-20.
#[test]
fn finished_and_terminating_pods_do_not_count() {
    let found =
        [pod("a"), pod("b").deleting(), pod("c").phase("Failed"), pod("d").phase("Succeeded"), pod("e").phase("")];
    assert_eq!(deed(&world(3, found)), "create 1 of 1");
}

/// REPLICASET-8, REPLICASET-9, REPLICASET-10.
#[test]
fn an_adopted_pod_counts_and_a_released_one_does_not() {
    let found = [pod("a"), pod("b").orphan(), pod("c").labels(json!({"app": "other"}))];
    let plan = plan(&world(3, found));
    let names = |pods: &[PodRef]| pods.iter().map(|p| p.meta().name.to_string()).collect::<Vec<_>>();
    assert_eq!((names(&plan.adopt), names(&plan.release)), (vec!["b".to_owned()], vec!["c".to_owned()]));
    assert!(matches!(plan.manage, Manage::Create { count: 1, .. }));
    assert_eq!(plan.status.replicas, 2);
}

/// REPLICASET-23.
#[test]
fn pods_are_deleted_in_the_order_of_the_rules() {
    let found = [
        pod("g"),
        pod("f").cost("-1"),
        pod("e").unready(),
        pod("d").phase("Unknown"),
        pod("c").phase("Pending"),
        pod("b").node(""),
        pod("a").node("").phase("Pending"),
    ];
    assert_eq!(victims(&world(1, found.clone())), ["a", "b", "c", "d", "e", "f"]);
    assert_eq!(
        whys(&world(1, found)),
        [
            "a: it is not assigned to a node",
            "b: it is not assigned to a node",
            "c: its phase is Pending",
            "d: its phase is Unknown",
            "e: it is not ready",
            "f: its deletion cost is -1"
        ]
    );
}

/// REPLICASET-25.
#[test]
fn deletion_costs_count_only_with_their_gate() {
    let found = [pod("a").cost("5"), pod("b").cost("-5"), pod("c").cost("+10")];
    let mut world = world(1, found);
    assert_eq!(victims(&world), ["b", "c"]);
    world.limits.deletion_cost = false;
    // All times of the Pods are equal, so the UIDs decide.
    assert_eq!(victims(&world), ["a", "b"]);
}

/// REPLICASET-23.
#[test]
fn the_fullest_node_is_emptied() {
    let found = (0..5).map(|n| pod(&format!("{n}")).node(if n < 3 { "A" } else { "B" }).ready(30 + n).created(30 + n));
    let mut world = world(2, found);
    world.colocated = BTreeMap::from([("A".into(), 3), ("B".into(), 2)]);
    let mut names = victims(&world);
    names.sort();
    assert_eq!(names, ["0", "1", "2"]);
    assert!(whys(&world)[0].ends_with("its node has 3 Pods of the same owner"));
}

/// REPLICASET-24.
#[test]
fn younger_magnitudes_are_deleted_first_and_uids_break_ties() {
    for (a, b, first) in [
        (pod("a").ready(40), pod("b").ready(30), "b"),
        (pod("b").ready(40), pod("a").ready(60), "a"),
        (pod("a").ready(30).created(172_800), pod("b").ready(30).created(3600), "b"),
        (pod("a").ready(10), pod("b").ready_since_ever(), "b"),
    ] {
        assert_eq!(victims(&world(1, [a, b])), [first]);
    }
}

/// REPLICASET-27.
#[test]
fn deleting_all_pods_needs_no_ranking() {
    let found = [pod("b"), pod("a").node("")];
    let plan = plan(&world(0, found));
    let Manage::Delete { victims, age_ratios, .. } = plan.manage else { panic!() };
    assert!(victims.iter().all(|v| v.why == Why::NoneWanted) && age_ratios.is_empty());
}

/// REPLICASET-71.
#[test]
fn ages_of_deleted_pods_are_multiples_of_the_youngest() {
    let ratios = |found: Vec<PodBuilder>, wanted| match plan(&world(wanted, found)).manage {
        Manage::Delete { age_ratios, .. } => age_ratios,
        other => panic!("{other:?}"),
    };
    // Pod `a` has the lowest cost and is three times as old as Pod `b`. The unready Pod `c` does not count.
    let found = vec![pod("a").created(100).cost("-1"), pod("b").created(30), pod("c").created(5).unready()];
    assert_eq!(ratios(found, 1), [3]);
    // Ages of zero, or in the future, count as a millisecond, so that nothing is divided by zero.
    assert_eq!(ratios(vec![pod("a").created(0).cost("-1"), pod("b").created(0)], 1), [0]);
    assert_eq!(ratios(vec![pod("a").created(2).cost("-1"), pod("b").created(-7)], 1), [2000]);
}

/// REPLICASET-30, REPLICASET-31.
#[test]
fn the_status_counts_pods_by_class() {
    let mut world = world(
        6,
        [
            pod("a"),
            pod("b").ready(10),
            pod("c").unready(),
            pod("d").labels(json!({"app": "web", "tier": "front"})),
            pod("e").deleting(),
            pod("f").deleting().phase("Failed"),
            pod("g").deleting().labels(json!({"app": "other"})),
            pod("h").deleting().orphan(),
        ],
    )
    .min_ready(30);
    world.set["spec"]["template"]["metadata"]["labels"] = json!({"app": "web", "tier": "front"});
    world.set["metadata"]["generation"] = json!(7);
    let status = plan(&world).status;
    assert_eq!((status.replicas, status.fully_labeled_replicas, status.ready_replicas), (4, 1, 3));
    assert_eq!((status.available_replicas, status.terminating_replicas, status.observed_generation), (2, Some(1), 7));
    world.limits.counts_terminating = false;
    assert_eq!(plan(&world).status.terminating_replicas, None);
}

/// REPLICASET-63.
#[test]
fn a_count_that_the_server_drops_does_not_cause_a_write() {
    let stored = json!({"replicas": 1, "fullyLabeledReplicas": 1, "readyReplicas": 1, "availableReplicas": 1,
        "observedGeneration": 1});
    let mut world = world(1, pods(1)).stored(stored.clone());
    assert!(writes_status(&world));
    world.limits.terminating_dropped = true;
    assert!(!writes_status(&world));
    let mut other = stored;
    other["readyReplicas"] = json!(0);
    let world = world.stored(other);
    assert!(writes_status(&world));
    assert_eq!(plan(&world).status.terminating_replicas, Some(0), "the count is written with other changes");
}

/// REPLICASET-33.
#[test]
fn a_status_is_written_only_if_something_changed() {
    let stored = json!({"replicas": 1, "fullyLabeledReplicas": 1, "readyReplicas": 1, "availableReplicas": 1,
        "terminatingReplicas": 0, "observedGeneration": 1});
    let settled = world(1, pods(1)).stored(stored.clone());
    assert!(explained(&settled).actions.is_empty());
    for (field, value) in [
        ("replicas", json!(2)),
        ("fullyLabeledReplicas", json!(0)),
        ("readyReplicas", json!(0)),
        ("availableReplicas", json!(0)),
        ("terminatingReplicas", json!(null)),
        ("terminatingReplicas", json!(1)),
        ("observedGeneration", json!(0)),
        ("conditions", json!([{"type": "ReplicaFailure", "status": "True"}])),
    ] {
        let mut stored = stored.clone();
        stored[field] = value.clone();
        assert!(writes_status(&world(1, pods(1)).stored(stored)), "{field} = {value}");
    }
}

/// REPLICASET-77.
#[test]
fn the_failure_condition_is_removed_only_after_managing() {
    let failing = json!({"conditions": [{"type": "ReplicaFailure", "status": "True", "reason": "FailedCreate"}]});
    let conditions = |world: World| plan(&world).status.conditions.len();
    assert_eq!(conditions(world(1, pods(1)).stored(failing.clone())), 0);
    assert_eq!(conditions(world(1, pods(1)).stored(failing.clone()).blocked()), 1);
    assert_eq!(conditions(world(1, pods(1)).stored(failing).deleting()), 1);
}

/// REPLICASET-36.
#[test]
fn the_next_check_is_due_when_a_pod_becomes_available() {
    let check = |found: &[PodBuilder], min_ready, late: i64| {
        let snapshot = world(found.len(), found.iter().cloned()).min_ready(min_ready).snapshot();
        let claimed: Vec<&PodRef> = snapshot.claims.keep.iter().collect();
        let status = status::status(&snapshot, &claimed, &Managed::Done, now());
        let available = status.available_replicas;
        let wait = timer::next_check(&snapshot, &claimed, &status, now(), ago(-late));
        (available, wait.map(|d| d.as_secs()))
    };
    let three = [pod("a").ready(10), pod("b").ready(25), pod("c").ready(40)];
    assert_eq!(check(&three, 30, 0), (1, Some(5)));
    assert_eq!(check(&three, 30, 3), (1, Some(2)));
    assert_eq!(check(&three, 30, 9), (1, Some(0)));
    assert_eq!(check(&three, 0, 0), (3, None));
    assert_eq!(check(&[pod("a").ready(30)], 30, 0), (1, None));
    assert_eq!(check(&[pod("a").ready_since_ever()], 30, 0), (0, Some(30)));
    assert_eq!(check(&[pod("a").unready()], 30, 0), (0, None));
}

/// REPLICASET-56.
#[test]
fn an_explanation_gives_reasons() {
    let found = [pod("a").ready(10), pod("b").unready(), pod("c").orphan(), pod("d").deleting()];
    let told = explained(&world(4, found).min_ready(30));
    assert_eq!(told.situation, "4 Pods wanted: 3 active, 2 ready, 1 available, 1 terminating");
    assert_eq!(told.waiting, ["1 of 3 Pods are not ready: b", "1 ready Pods are not available yet, the next in 20s"]);
    assert_eq!(
        told.actions,
        ["adopt Pod c: the selector matches it and it has no controller", "create 1 Pod", "write the status"]
    );
    let told = explained(&world(3, pods(1)).blocked());
    assert_eq!(told.waiting, ["Pods are neither created nor deleted: 2 deleted pods"]);
    let told = explained(&world(0, pods(40)));
    assert_eq!(told.actions.len(), 11);
    assert_eq!(told.actions[10], "... and 31 more");
}

fn any_pod() -> impl Strategy<Value = PodBuilder> {
    let phases =
        prop::sample::select(vec!["Running", "Running", "Pending", "Unknown", "Failed", "Succeeded", "", "Odd"]);
    let ages = prop::sample::select(vec![-5i64, 0, 1, 5, 40, 41, 60, 3600, 90_000]);
    let of = prop::sample::select(vec!["own", "own", "own", "orphan", "other", "strange"]);
    (phases, ages, 0..4u8, of, 0..8u8, any::<bool>(), -2..3i32).prop_map(
        |(phase, age, ready, of, going, assigned, cost)| {
            let pod = pod("").created(age).phase(phase).cost(&cost.to_string());
            let pod = match ready {
                0 => pod.unready(),
                1 => pod.ready_since_ever(),
                _ => pod.ready(age),
            };
            let pod = match of {
                "orphan" => pod.orphan(),
                "other" => pod.owner("ReplicaSet", "web", "u-other"),
                "strange" => pod.labels(json!({"app": "other"})),
                _ => pod,
            };
            let pod = if going == 0 { pod.deleting() } else { pod };
            if !assigned {
                pod.node("")
            } else if age == 40 {
                pod.node("node-2")
            } else {
                pod
            }
        },
    )
}

/// Returns the values of deletion rules 1 to 3: assigned to a node, phase, ready.
fn class(pod: &PodRef) -> (bool, u8, bool) {
    let phase = match pod.phase {
        common::pods::Phase::Running => 2,
        common::pods::Phase::Unknown => 1,
        _ => 0,
    };
    (!pod.node.is_empty(), phase, pod.is_ready())
}

fn any_world() -> impl Strategy<Value = World> {
    let flags = (0..12u8, 0..6u8, 0..6u8, 0..60i32);
    // Options of the operator, with their default or another value.
    let options = (any::<bool>(), prop::option::of(1..60u64), (0..9usize, 0..9usize));
    (0..12usize, prop::collection::vec(any_pod(), 0..14), 1..6usize, flags, options).prop_map(
        |(wanted, mut found, burst, (deleting, blocked, cost, min_ready), (reranks, failing, counts))| {
            for (at, pod) in found.iter_mut().enumerate() {
                pod.0["metadata"]["name"] = json!(format!("p{at:02}"));
                pod.0["metadata"]["uid"] = json!(format!("{:02}", (at * 5) % 14));
            }
            let mut world = world(wanted, found).min_ready(min_ready);
            world.limits = Limits { burst, deletion_cost: cost > 0, reranks, ..world.limits };
            world.failing = failing.map(|left| Failing { pods: 2, left: Duration::from_secs(left) });
            world.colocated = BTreeMap::from([("node-1".into(), counts.0), ("node-2".into(), counts.1)]);
            world.terminating_namespace = deleting == 1;
            let world = if deleting == 0 { world.deleting() } else { world };
            if blocked == 0 { world.blocked() } else { world }
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1000))]

    /// REPLICASET-12, REPLICASET-13, REPLICASET-17, REPLICASET-23.
    #[test]
    fn invariants(world in any_world()) {
        let snapshot = world.snapshot();
        let plan = decide(&snapshot);
        let claimed: Vec<&PodRef> = snapshot.claims.keep.iter().chain(&snapshot.claims.adopt).collect();
        let (active, wanted, burst) = (claimed.len(), snapshot.set.replicas, snapshot.limits.burst);
        match &plan.manage {
            Manage::Later(_) => prop_assert!(snapshot.failing.is_some() && active < wanted),
            Manage::Create { count, missing } => {
                prop_assert!(snapshot.failing.is_none() && !snapshot.terminating_namespace);
                prop_assert_eq!(*missing, wanted - active);
                prop_assert_eq!(*count, burst.min(*missing));
            }
            Manage::Delete { victims, surplus, .. } => {
                prop_assert_eq!(*surplus, active - wanted);
                prop_assert_eq!(victims.len(), burst.min(*surplus));
                let own = |pod: &PodRef| claimed.iter().any(|c| Arc::ptr_eq(c, pod));
                prop_assert!(victims.iter().all(|v| own(&v.pod) && v.pod.is_active()));
                // No Pod is deleted while a Pod stays that the rules rank before it.
                let gone = |pod: &PodRef| victims.iter().any(|v| Arc::ptr_eq(&v.pod, pod));
                let worst_kept = claimed.iter().filter(|c| !gone(c)).map(|c| class(c)).min();
                if let Some(kept) = worst_kept {
                    prop_assert!(victims.iter().all(|v| class(&v.pod) <= kept));
                }
            }
            Manage::Nothing => prop_assert_eq!(active, wanted),
            Manage::NotAllowed(_) => {
                let refused = snapshot.terminating_namespace && active < wanted;
                prop_assert!(snapshot.owner.deleting || snapshot.blocked.is_some() || refused);
            }
            Manage::Impossible(_) => prop_assert!(false),
        }
        if snapshot.owner.deleting {
            prop_assert!(plan.adopt.is_empty() && plan.release.is_empty());
        }
        for pod in plan.adopt.iter().chain(&plan.release) {
            prop_assert!(pod.is_active());
            prop_assert!(pod.meta().controller().is_none_or(|c| c.uid == snapshot.owner.uid));
        }
        let s = &plan.status;
        prop_assert!(0 <= s.available_replicas && s.available_replicas <= s.ready_replicas);
        prop_assert!(s.ready_replicas <= s.replicas && s.fully_labeled_replicas <= s.replicas);
        let _ = explained(&world);
    }

    /// REPLICASET-81.
    #[test]
    fn a_plan_does_not_depend_on_the_order_of_pods(
        (world, shuffled) in any_world().prop_flat_map(|w| {
            let pods = Just(w.pods.clone()).prop_shuffle();
            (Just(w), pods)
        }),
    ) {
        let other = World { pods: shuffled, ..world.clone() };
        let (a, b) = (plan(&world), plan(&other));
        prop_assert_eq!(&a.status, &b.status);
        let names = |manage: &Manage| match manage {
            Manage::Delete { victims, .. } => {
                let mut names: Vec<String> = victims.iter().map(|v| v.pod.meta().name.to_string()).collect();
                names.sort();
                format!("delete {names:?}")
            }
            other => format!("{other:?}"),
        };
        prop_assert_eq!(names(&a.manage), names(&b.manage));
    }
}

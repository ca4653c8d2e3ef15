mod options;

use std::{collections::BTreeMap, time::Duration};

use common::{
    controller::{Decision, Explanation},
    intern::Text,
    pod_creation_pauses::{PauseReason, PodCreationPause},
};
use proptest::prelude::*;
use serde_json::json;

use super::*;
use crate::{
    ReplicaController,
    kind::ReplicaSets,
    plan::{DeletionReason, PodChanges},
    snapshot::{DecisionSettings, FailedPodBackoff},
    world::{PodBuilder, SnapshotBuilder, pod_builder, ready_pods, set_with_pods, time_before_now},
};

fn plan(world: &SnapshotBuilder) -> Plan {
    decide(&world.build_snapshot())
}

/// Whether the status is the only write of the plan.
fn writes_status(world: &SnapshotBuilder) -> bool {
    explained(world).actions == ["write the status"]
}

/// Returns the explanation of the plan, including its forecast requests.
fn explained(world: &SnapshotBuilder) -> Explanation {
    let snapshot = world.build_snapshot();
    Decision::<ReplicaController<ReplicaSets>>::with_forecast(&snapshot, snapshot.now).explain()
}

/// Returns a short text for the planned creations or deletions.
fn deed(world: &SnapshotBuilder) -> String {
    match plan(world).pod_changes {
        PodChanges::NoChange => "nothing".to_owned(),
        PodChanges::NotAllowed(_) => "not allowed".to_owned(),
        PodChanges::CreationPaused(pause) => format!("paused: {:?}", pause.reason),
        PodChanges::UnusableTemplate(problem) => problem.to_owned(),
        PodChanges::DelayedAfterFailures(failing) => format!("later: {}", failing.remaining_delay.as_secs()),
        PodChanges::Create { pods_to_create_count: count, missing_pod_count: missing } => {
            format!("create {count} of {missing}")
        }
        PodChanges::Delete { pod_deletions: victims, surplus_pod_count: surplus, .. } => {
            format!("delete {} of {surplus}", victims.len())
        }
    }
}

fn victims(world: &SnapshotBuilder) -> Vec<String> {
    match plan(world).pod_changes {
        PodChanges::Delete { pod_deletions: victims, .. } => {
            victims.iter().map(|v| v.pod.meta().name.to_string()).collect()
        }
        other => panic!("{other:?}"),
    }
}

fn whys(world: &SnapshotBuilder) -> Vec<String> {
    match plan(world).pod_changes {
        PodChanges::Delete { pod_deletions: victims, .. } => {
            victims.iter().map(|v| format!("{}: {}", v.pod.meta().name, v.deletion_reason)).collect()
        }
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
        assert_eq!(deed(&set_with_pods(wanted, ready_pods(active))), want, "{active} of {wanted}");
    }
}

/// REPLICASET-21.
#[test]
fn a_blocked_or_deleted_set_neither_creates_nor_deletes() {
    for (active, wanted) in [(0, 3), (3, 0), (3, 1), (3, 3)] {
        assert_eq!(deed(&set_with_pods(wanted, ready_pods(active)).with_pending_writes()), "not allowed");
        assert_eq!(deed(&set_with_pods(wanted, ready_pods(active)).with_terminating_set()), "not allowed");
    }
}

/// REPLICASET-39, REPLICASET-80.
#[test]
fn no_pod_is_created_that_the_selector_would_not_match() {
    let mut unlabelled = set_with_pods(1, []);
    unlabelled.set["spec"]["template"]["metadata"]["labels"] = json!({});
    assert_eq!(deed(&unlabelled), "no labels");
    let mut stranger = set_with_pods(1, []);
    stranger.set["spec"]["template"]["metadata"]["labels"] = json!({"app": "other"});
    assert_eq!(deed(&stranger), "the selector does not match the labels of the template");
    stranger.set["spec"]["replicas"] = json!(0);
    assert_eq!(deed(&stranger), "nothing");
}

/// REPLICASET-79, REPLICASET-88.
#[test]
fn a_pause_holds_back_creations_only_and_is_explained() {
    for (reason, deed_in_pause, why, requeue_after) in [
        (PauseReason::NamespaceTerminating, "paused: NamespaceTerminating", "the namespace is terminating", None),
        (
            PauseReason::PodsChangedByAdmission,
            "paused: PodsChangedByAdmission",
            "admission changes them so that they do not belong to their owner, the next attempt is in 8s",
            Some(Duration::from_millis(7500)),
        ),
    ] {
        let pause = PodCreationPause { reason, remaining: Duration::from_millis(7500) };
        for (active, wanted, expected) in [(2, 3, deed_in_pause), (3, 3, "nothing"), (3, 1, "delete 2 of 2")] {
            let mut world = set_with_pods(wanted, ready_pods(active));
            world.pod_creation_pause = Some(pause);
            assert_eq!(deed(&world), expected, "{active} of {wanted}");
            let is_paused = active < wanted;
            assert_eq!(plan(&world).requeue_after, requeue_after.filter(|_| is_paused));
            let waiting = is_paused.then(|| format!("no Pods are created: {why}"));
            assert_eq!(explained(&world).waiting, Vec::from_iter(waiting));
        }
    }
}

/// REPLICASET-49.
#[test]
fn a_set_with_an_invalid_selector_is_left_alone() {
    let mut broken = set_with_pods(3, ready_pods(1));
    broken.set["spec"]["selector"] = json!({"matchExpressions": [{"key": "a", "operator": "Gt", "values": ["1"]}]});
    let claims = broken.build_snapshot().claims;
    assert!(
        plan(&broken).set.selector.validation_error().is_some()
            && claims.to_adopt.is_empty()
            && claims.to_release.is_empty()
    );
    let told = explained(&broken);
    assert!(told.actions.is_empty());
    assert_eq!(told.waiting, ["selector: \"Gt\" is not a valid label selector operator"]);
}

/// REPLICASET-20.
#[test]
fn finished_and_terminating_pods_do_not_count() {
    let found = [
        pod_builder("a"),
        pod_builder("b").terminating(),
        pod_builder("c").phase("Failed"),
        pod_builder("d").phase("Succeeded"),
        pod_builder("e").phase(""),
    ];
    assert_eq!(deed(&set_with_pods(3, found)), "create 1 of 1");
}

/// REPLICASET-8, REPLICASET-9, REPLICASET-10.
#[test]
fn an_adopted_pod_counts_and_a_released_one_does_not() {
    let found = [pod_builder("a"), pod_builder("b").into_orphan(), pod_builder("c").labels(json!({"app": "other"}))];
    let world = set_with_pods(3, found);
    let (plan, claims) = (plan(&world), world.build_snapshot().claims);
    let names = |pods: &[SharedPod]| pods.iter().map(|p| p.meta().name.to_string()).collect::<Vec<_>>();
    assert_eq!((names(&claims.to_adopt), names(&claims.to_release)), (vec!["b".to_owned()], vec!["c".to_owned()]));
    assert!(matches!(plan.pod_changes, PodChanges::Create { pods_to_create_count: 1, .. }));
    assert_eq!(plan.status.replicas, 2);
    let surplus = set_with_pods(1, [pod_builder("a"), pod_builder("b").into_orphan().unready()]);
    assert_eq!(victims(&surplus), ["b"]);
}

/// REPLICASET-23.
#[test]
fn pods_are_deleted_in_the_order_of_the_rules() {
    let found = [
        pod_builder("g"),
        pod_builder("f").deletion_cost("-1"),
        pod_builder("e").unready(),
        pod_builder("d").phase("Unknown"),
        pod_builder("c").phase("Pending"),
        pod_builder("b").node(""),
        pod_builder("a").node("").phase("Pending"),
    ];
    assert_eq!(victims(&set_with_pods(1, found.clone())), ["a", "b", "c", "d", "e", "f"]);
    assert_eq!(
        whys(&set_with_pods(1, found)),
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
    let found = [
        pod_builder("a").deletion_cost("5"),
        pod_builder("b").deletion_cost("-5"),
        pod_builder("c").deletion_cost("+10"),
    ];
    let mut world = set_with_pods(1, found);
    assert_eq!(victims(&world), ["b", "c"]);
    world.decision_settings.uses_deletion_cost = false;
    // All times of the Pods are equal, so the UIDs decide.
    assert_eq!(victims(&world), ["a", "b"]);
}

/// REPLICASET-23.
#[test]
fn the_fullest_node_is_emptied() {
    let found = (0..5).map(|n| {
        pod_builder(&format!("{n}"))
            .node(if n < 3 { "A" } else { "B" })
            .ready_for_seconds(30 + n)
            .created_seconds_ago(30 + n)
    });
    let mut world = set_with_pods(2, found);
    world.colocated_pod_counts_by_node = BTreeMap::from([("A".into(), 3), ("B".into(), 2)]);
    let mut names = victims(&world);
    names.sort();
    assert_eq!(names, ["0", "1", "2"]);
    assert!(whys(&world)[0].ends_with("its node has 3 Pods of the same owner"));
}

/// REPLICASET-24.
#[test]
fn younger_magnitudes_are_deleted_first_and_uids_break_ties() {
    for (a, b, first) in [
        (pod_builder("a").ready_for_seconds(40), pod_builder("b").ready_for_seconds(30), "b"),
        (pod_builder("b").ready_for_seconds(40), pod_builder("a").ready_for_seconds(60), "a"),
        (
            pod_builder("a").ready_for_seconds(30).created_seconds_ago(172_800),
            pod_builder("b").ready_for_seconds(30).created_seconds_ago(3600),
            "b",
        ),
        (pod_builder("a").ready_for_seconds(10), pod_builder("b").ready_without_transition_time(), "b"),
    ] {
        assert_eq!(victims(&set_with_pods(1, [a, b])), [first]);
    }
}

/// REPLICASET-27.
#[test]
fn deleting_all_pods_needs_no_ranking() {
    let found = [pod_builder("b"), pod_builder("a").node("")];
    let plan = plan(&set_with_pods(0, found));
    let PodChanges::Delete { pod_deletions: victims, age_ratios, .. } = plan.pod_changes else { panic!() };
    assert!(victims.iter().all(|v| v.deletion_reason == DeletionReason::AllPodsDeleted) && age_ratios.is_empty());
}

/// REPLICASET-71.
#[test]
fn ages_of_deleted_pods_are_multiples_of_the_youngest() {
    let ratios = |found: Vec<PodBuilder>, wanted| match plan(&set_with_pods(wanted, found)).pod_changes {
        PodChanges::Delete { age_ratios, .. } => age_ratios,
        other => panic!("{other:?}"),
    };
    // Pod `a` has the lowest cost and is three times as old as Pod `b`. The unready Pod `c` does not count.
    let found = vec![
        pod_builder("a").created_seconds_ago(100).deletion_cost("-1"),
        pod_builder("b").created_seconds_ago(30),
        pod_builder("c").created_seconds_ago(5).unready(),
    ];
    assert_eq!(ratios(found, 1), [3]);
    // Ages of zero, or in the future, count as a millisecond, so that nothing is divided by zero.
    assert_eq!(
        ratios(
            vec![pod_builder("a").created_seconds_ago(0).deletion_cost("-1"), pod_builder("b").created_seconds_ago(0)],
            1
        ),
        [0]
    );
    assert_eq!(
        ratios(
            vec![pod_builder("a").created_seconds_ago(2).deletion_cost("-1"), pod_builder("b").created_seconds_ago(-7)],
            1
        ),
        [2000]
    );
}

/// REPLICASET-30, REPLICASET-31.
#[test]
fn the_status_counts_pods_by_class() {
    let mut world = set_with_pods(
        6,
        [
            pod_builder("a"),
            pod_builder("b").ready_for_seconds(10),
            pod_builder("c").unready(),
            pod_builder("d").labels(json!({"app": "web", "tier": "front"})),
            pod_builder("e").terminating(),
            pod_builder("f").terminating().phase("Failed"),
            pod_builder("g").terminating().labels(json!({"app": "other"})),
            pod_builder("h").terminating().into_orphan(),
        ],
    )
    .with_min_ready_seconds(30);
    world.set["spec"]["template"]["metadata"]["labels"] = json!({"app": "web", "tier": "front"});
    world.set["metadata"]["generation"] = json!(7);
    let status = plan(&world).status;
    assert_eq!((status.replicas, status.fully_labeled_replicas, status.ready_replicas), (4, 1, 3));
    assert_eq!((status.available_replicas, status.terminating_replicas, status.observed_generation), (2, Some(1), 7));
    world.decision_settings.counts_terminating_pods = false;
    assert_eq!(plan(&world).status.terminating_replicas, None);
}

/// REPLICASET-63.
#[test]
fn a_count_that_the_server_drops_does_not_cause_a_write() {
    let stored = json!({"replicas": 1, "fullyLabeledReplicas": 1, "readyReplicas": 1, "availableReplicas": 1,
        "observedGeneration": 1});
    let mut world = set_with_pods(1, ready_pods(1)).with_stored_status(stored.clone());
    assert!(writes_status(&world));
    world.decision_settings.drops_terminating_replicas = true;
    assert!(!writes_status(&world));
    let mut other = stored;
    other["readyReplicas"] = json!(0);
    let world = world.with_stored_status(other);
    assert!(writes_status(&world));
    assert_eq!(plan(&world).status.terminating_replicas, Some(0), "the count is written with other changes");
}

/// REPLICASET-33.
#[test]
fn a_status_is_written_only_if_something_changed() {
    let stored = json!({"replicas": 1, "fullyLabeledReplicas": 1, "readyReplicas": 1, "availableReplicas": 1,
        "terminatingReplicas": 0, "observedGeneration": 1});
    let settled = set_with_pods(1, ready_pods(1)).with_stored_status(stored.clone());
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
        assert!(writes_status(&set_with_pods(1, ready_pods(1)).with_stored_status(stored)), "{field} = {value}");
    }
}

/// REPLICASET-77.
#[test]
fn the_failure_condition_is_removed_only_after_managing() {
    let failing = json!({"conditions": [{"type": "ReplicaFailure", "status": "True", "reason": "FailedCreate"}]});
    let conditions = |world: SnapshotBuilder| plan(&world).status.conditions.len();
    assert_eq!(conditions(set_with_pods(1, ready_pods(1)).with_stored_status(failing.clone())), 0);
    assert_eq!(
        conditions(set_with_pods(1, ready_pods(1)).with_stored_status(failing.clone()).with_pending_writes()),
        1
    );
    assert_eq!(conditions(set_with_pods(1, ready_pods(1)).with_stored_status(failing).with_terminating_set()), 1);
}

/// REPLICASET-36.
#[test]
fn the_next_check_is_due_when_a_pod_becomes_available() {
    let check = |found: &[PodBuilder], min_ready, late: i64| {
        let snapshot =
            set_with_pods(found.len(), found.iter().cloned()).with_min_ready_seconds(min_ready).build_snapshot();
        let claimed: Vec<&SharedPod> = snapshot.claims.to_keep.iter().collect();
        let status = status::compute_status(&snapshot, &claimed, &PodChangesOutcome::Done);
        let available = status.available_replicas;
        let wait = timer::time_until_next_available(&snapshot, &claimed, &status, time_before_now(-late));
        (available, wait.map(|d| d.as_secs()))
    };
    let three = [
        pod_builder("a").ready_for_seconds(10),
        pod_builder("b").ready_for_seconds(25),
        pod_builder("c").ready_for_seconds(40),
    ];
    assert_eq!(check(&three, 30, 0), (1, Some(5)));
    assert_eq!(check(&three, 30, 3), (1, Some(2)));
    assert_eq!(check(&three, 30, 9), (1, Some(0)));
    assert_eq!(check(&three, 0, 0), (3, None));
    assert_eq!(check(&[pod_builder("a").ready_for_seconds(30)], 30, 0), (1, None));
    assert_eq!(check(&[pod_builder("a").ready_without_transition_time()], 30, 0), (0, Some(30)));
    assert_eq!(check(&[pod_builder("a").unready()], 30, 0), (0, None));
}

/// REPLICASET-56.
#[test]
fn an_explanation_gives_reasons() {
    let found = [
        pod_builder("a").ready_for_seconds(10),
        pod_builder("b").unready(),
        pod_builder("c").into_orphan(),
        pod_builder("d").terminating(),
    ];
    let told = explained(&set_with_pods(4, found).with_min_ready_seconds(30));
    assert_eq!(told.situation, "4 Pods wanted: 3 active, 2 ready, 1 available, 1 terminating");
    assert_eq!(told.waiting, ["1 of 3 Pods are not ready: b", "1 ready Pods are not available yet, the next in 20s"]);
    assert_eq!(
        told.actions,
        ["adopt Pod c: the selector matches it and it has no controller", "create 1 Pod", "write the status"]
    );
    let told = explained(&set_with_pods(3, ready_pods(1)).with_pending_writes());
    assert_eq!(told.waiting, ["Pods are neither created nor deleted: 2 deleted pods"]);
    let told = explained(&set_with_pods(0, ready_pods(40)));
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
            let pod = pod_builder("").created_seconds_ago(age).phase(phase).deletion_cost(&cost.to_string());
            let pod = match ready {
                0 => pod.unready(),
                1 => pod.ready_without_transition_time(),
                _ => pod.ready_for_seconds(age),
            };
            let pod = match of {
                "orphan" => pod.into_orphan(),
                "other" => pod.owner("ReplicaSet", "web", "u-other"),
                "strange" => pod.labels(json!({"app": "other"})),
                _ => pod,
            };
            let pod = if going == 0 { pod.terminating() } else { pod };
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
fn class(pod: &SharedPod) -> (bool, u8, bool) {
    let phase = match pod.phase {
        common::pods::Phase::Running => 2,
        common::pods::Phase::Unknown => 1,
        _ => 0,
    };
    (!pod.node_name.is_empty(), phase, pod.is_ready())
}

fn any_world() -> impl Strategy<Value = SnapshotBuilder> {
    let flags = (0..12u8, 0..6u8, 0..6u8, 0..60i32);
    // Options of the operator, with their default or another value.
    let options = (any::<bool>(), prop::option::of(1..60u64), (0..9usize, 0..9usize));
    (0..12usize, prop::collection::vec(any_pod(), 0..14), 1..6usize, flags, options).prop_map(
        |(wanted, mut found, burst, (deleting, blocked, cost, min_ready), (reranks, failing, counts))| {
            for (at, pod) in found.iter_mut().enumerate() {
                pod.0["metadata"]["name"] = json!(format!("p{at:02}"));
                pod.0["metadata"]["uid"] = json!(format!("{:02}", (at * 5) % 14));
            }
            let mut world = set_with_pods(wanted, found).with_min_ready_seconds(min_ready);
            world.decision_settings = DecisionSettings {
                burst_replicas: burst,
                uses_deletion_cost: cost > 0,
                reranks_remaining_pods: reranks,
                ..world.decision_settings
            };
            world.failed_pod_backoff = failing
                .map(|left| FailedPodBackoff { failed_pod_count: 2, remaining_delay: Duration::from_secs(left) });
            world.colocated_pod_counts_by_node =
                BTreeMap::from([("node-1".into(), counts.0), ("node-2".into(), counts.1)]);
            world.pod_creation_pause = (deleting == 1).then_some(PodCreationPause {
                reason: PauseReason::PodsChangedByAdmission,
                remaining: Duration::from_secs(1),
            });
            let world = if deleting == 0 { world.with_terminating_set() } else { world };
            if blocked == 0 { world.with_pending_writes() } else { world }
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1000))]

    /// REPLICASET-12, REPLICASET-13, REPLICASET-17, REPLICASET-23.
    #[test]
    fn invariants(world in any_world()) {
        let snapshot = world.build_snapshot();
        let plan = decide(&snapshot);
        let claimed: Vec<&SharedPod> = snapshot.claims.to_keep.iter().chain(&snapshot.claims.to_adopt).collect();
        let (active, wanted, burst) = (claimed.len(), snapshot.set.replicas, snapshot.decision_settings.burst_replicas);
        match &plan.pod_changes {
            PodChanges::DelayedAfterFailures(_) => prop_assert!(snapshot.failed_pod_backoff.is_some() && active < wanted),
            PodChanges::Create { pods_to_create_count: count, missing_pod_count: missing } => {
                prop_assert!(snapshot.failed_pod_backoff.is_none() && snapshot.pod_creation_pause.is_none());
                prop_assert_eq!(*missing, wanted - active);
                prop_assert_eq!(*count, burst.min(*missing));
            }
            PodChanges::Delete { pod_deletions: victims, surplus_pod_count: surplus, .. } => {
                prop_assert_eq!(*surplus, active - wanted);
                prop_assert_eq!(victims.len(), burst.min(*surplus));
                let own = |pod: &SharedPod| claimed.iter().any(|c| Arc::ptr_eq(c, pod));
                prop_assert!(victims.iter().all(|v| own(&v.pod) && v.pod.is_active()));
                // The rules rank no kept Pod before a deleted Pod.
                let gone = |pod: &SharedPod| victims.iter().any(|v| Arc::ptr_eq(&v.pod, pod));
                let worst_kept = claimed.iter().filter(|c| !gone(c)).map(|c| class(c)).min();
                if let Some(kept) = worst_kept {
                    prop_assert!(victims.iter().all(|v| class(&v.pod) <= kept));
                }
            }
            PodChanges::NoChange => prop_assert_eq!(active, wanted),
            PodChanges::NotAllowed(_) => {
                prop_assert!(snapshot.owner.is_deleting || snapshot.pending_writes.is_some());
            }
            PodChanges::CreationPaused(_) => prop_assert!(snapshot.pod_creation_pause.is_some() && active < wanted),
            PodChanges::UnusableTemplate(_) => prop_assert!(false),
        }
        if snapshot.owner.is_deleting {
            prop_assert!(snapshot.claims.to_adopt.is_empty() && snapshot.claims.to_release.is_empty());
        }
        for pod in snapshot.claims.to_adopt.iter().chain(&snapshot.claims.to_release) {
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
        let other = SnapshotBuilder { pods: shuffled, ..world.clone() };
        let (a, b) = (plan(&world), plan(&other));
        prop_assert_eq!(&a.status, &b.status);
        let names = |manage: &PodChanges| match manage {
            PodChanges::Delete { pod_deletions: victims, .. } => {
                let mut names: Vec<String> = victims.iter().map(|v| v.pod.meta().name.to_string()).collect();
                names.sort();
                format!("delete {names:?}")
            }
            other => format!("{other:?}"),
        };
        prop_assert_eq!(names(&a.pod_changes), names(&b.pod_changes));
    }
}

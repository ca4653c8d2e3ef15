use std::cmp::Ordering;

use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;
use crate::meta::{Annotations, Uid};

fn now() -> Timestamp {
    Timestamp::from_second(1_800_000_000).unwrap()
}

fn ago(seconds: i64) -> Option<Timestamp> {
    Timestamp::from_second(now().as_second() - seconds).ok()
}

/// Creates a running Pod that became ready `ready` seconds ago and was created `created` seconds ago.
fn ready(uid: &str, ready: i64, created: i64) -> Pod {
    Pod {
        meta: Meta { uid: Uid::new(uid), name: uid.into(), creation_timestamp: ago(created), ..Meta::default() },
        node_name: "n".into(),
        phase: Phase::Running,
        readiness: Readiness::Ready { since: ago(ready) },
        restart_counts: RestartCounts::default(),
    }
}

fn order(pods: &[Pod]) -> Vec<&str> {
    let candidates: Vec<_> = pods
        .iter()
        .map(|pod| DeletionCandidate { pod, deletion_cost: pod.deletion_cost(), colocated_pod_count: 0 })
        .collect();
    rank_for_deletion(&candidates, now()).into_iter().map(|at| &*pods[at].meta.name).collect()
}

fn plain(pods: &[Pod]) -> Vec<&str> {
    let refs: Vec<&Pod> = pods.iter().collect();
    deletion_order_without_ranks(&refs).into_iter().map(|at| &*pods[at].meta.name).collect()
}

#[test]
fn phase_and_deletion_decide_which_pods_are_active_and_terminating() {
    for (phase, deleting, active, terminating) in [
        (Phase::Running, false, true, false),
        (Phase::Pending, false, true, false),
        (Phase::Unknown, false, true, false),
        (Phase::Other, false, true, false),
        (Phase::Succeeded, false, false, false),
        (Phase::Failed, false, false, false),
        (Phase::Running, true, false, true),
        (Phase::Other, true, false, true),
        (Phase::Succeeded, true, false, false),
        (Phase::Failed, true, false, false),
    ] {
        let meta = Meta { deletion_timestamp: deleting.then(now), ..Meta::default() };
        let pod = Pod { meta, phase, ..Pod::default() };
        assert_eq!((pod.is_active(), pod.is_terminating()), (active, terminating), "{phase:?} {deleting}");
    }
}

#[test]
fn a_pod_is_available_after_min_ready_seconds() {
    for (since, min_ready, available) in [
        (Readiness::NotReady, 0, false),
        (Readiness::NotReady, 5, false),
        (Readiness::Ready { since: None }, 0, true),
        (Readiness::Ready { since: None }, 5, false),
        (Readiness::Ready { since: ago(0) }, 0, true),
        (Readiness::Ready { since: ago(29) }, 30, false),
        (Readiness::Ready { since: ago(30) }, 30, true),
        (Readiness::Ready { since: ago(-5) }, 1, false),
    ] {
        let pod = Pod { readiness: since, ..Pod::default() };
        assert_eq!(pod.is_available(min_ready, now()), available, "{since:?} {min_ready}");
    }
}

#[test]
fn the_next_check_is_when_the_first_pod_becomes_available() {
    let unset = Pod { readiness: Readiness::Ready { since: None }, ..Pod::default() };
    let unready = Pod::default();
    let check = |pods: &[Pod], min_ready| time_until_next_available_pod(pods, min_ready, now()).map(|d| d.as_secs());
    let pods = [ready("a", 10, 99), ready("b", 25, 99), ready("c", 40, 99), unset.clone(), unready];
    assert_eq!(check(&pods, 30), Some(5));
    assert_eq!(pods.iter().filter(|p| p.is_available(30, now())).count(), 1);
    assert_eq!(check(&[ready("a", 30, 99)], 30), None);
    assert!(ready("a", 30, 99).is_available(30, now()));
    assert_eq!(check(&[unset], 30), None);
    assert_eq!(check(&pods, 0), None);
}

#[test]
fn deletion_costs_are_parsed_like_upstream() {
    for (text, cost) in [
        ("0", 0),
        ("10", 10),
        ("-5", -5),
        ("-05", -5),
        ("2147483647", i32::MAX),
        ("-2147483648", i32::MIN),
        ("2147483648", 0),
        ("", 0),
        ("+10", 0),
        ("008", 0),
        ("00", 0),
        ("0x1", 0),
        ("1e3", 0),
        ("-", 0),
        (" 1", 0),
        ("10 ", 0),
    ] {
        assert_eq!(parse_deletion_cost(text), cost, "{text:?}");
    }
}

#[test]
fn magnitudes_of_ages_match_the_specification() {
    const HOUR: i64 = 3600;
    for (age, bucket) in [
        (1, 29),
        (2, 30),
        (5, 32),
        (8, 32),
        (9, 33),
        (10, 33),
        (17, 33),
        (18, 34),
        (30, 34),
        (35, 35),
        (40, 35),
        (60, 35),
        (69, 36),
        (300, 38),
        (600, 39),
        (HOUR, 41),
        (2 * HOUR, 42),
        (24 * HOUR, 46),
        (48 * HOUR, 47),
        (7 * 24 * HOUR, 49),
        (0, -1),
        (-10, -1),
        (2199, 40),
        (2200, 41),
        (70_368, 45),
        (70_369, 46),
    ] {
        assert_eq!(log2_of_age(ago(age).unwrap(), now()), bucket, "{age} s");
    }
}

#[test]
fn pairs_are_ordered_as_in_the_specification() {
    assert_eq!(order(&[ready("a", 40, 99), ready("b", 30, 99)]), ["b", "a"]);
    assert_eq!(order(&[ready("b", 40, 99), ready("a", 60, 99)]), ["a", "b"]);
    let restarted = Pod {
        restart_counts: RestartCounts { max_of_regular_containers: 3, max_of_restartable_init_containers: 0 },
        ..ready("b", 30, 99)
    };
    assert_eq!(order(&[ready("a", 30, 99), restarted]), ["b", "a"]);
    assert_eq!(order(&[ready("a", 30, 172_800), ready("b", 30, 3600)]), ["b", "a"]);
    let unset = Pod { readiness: Readiness::Ready { since: None }, ..ready("b", 0, 99) };
    assert_eq!(order(&[ready("a", 10, 99), unset]), ["b", "a"]);
}

#[test]
fn the_first_rules_apply_in_their_order() {
    let unassigned = |pod: Pod| Pod { node_name: Text::default(), ..pod };
    let phase = |pod: Pod, phase| Pod { phase, ..pod };
    let not_ready = |pod: Pod| Pod { readiness: Readiness::NotReady, ..pod };
    let cost = |pod: Pod, cost: &str| {
        let annotations = Annotations::from_pairs([(POD_DELETION_COST, cost)]);
        Pod { meta: Meta { annotations, ..pod.meta }, ..pod }
    };
    let pods = [
        ready("g", 10, 10),
        cost(ready("f", 1000, 1000), "-1"),
        cost(ready("h", 10, 10), "7"),
        not_ready(cost(ready("e", 10, 10), "7")),
        phase(ready("d", 10, 10), Phase::Unknown),
        phase(ready("c", 10, 10), Phase::Other),
        unassigned(ready("b", 10, 10)),
        unassigned(phase(ready("a", 10, 10), Phase::Pending)),
    ];
    assert_eq!(order(&pods), ["a", "b", "c", "d", "e", "f", "g", "h"]);
    assert_eq!(plain(&pods)[..5], ["a", "b", "c", "d", "e"]);
}

#[test]
fn pods_with_more_siblings_on_their_node_are_deleted_first() {
    let pods = [ready("a", 10, 10), ready("b", 5000, 5000), ready("c", 10, 10)];
    let candidates: Vec<_> = pods
        .iter()
        .zip([1, 3, 2])
        .map(|(pod, colocated)| DeletionCandidate { pod, deletion_cost: 0, colocated_pod_count: colocated })
        .collect();
    assert_eq!(rank_for_deletion(&candidates, now()), [1, 2, 0]);
}

#[test]
fn without_ranks_the_latest_pods_are_deleted_first() {
    let restarted = |pod: Pod| Pod {
        restart_counts: RestartCounts { max_of_regular_containers: 0, max_of_restartable_init_containers: 1 },
        ..pod
    };
    let pods = [
        ready("e", 60, 60),
        ready("d", 40, 200),
        ready("c", 40, 100),
        restarted(ready("b", 40, 300)),
        Pod { readiness: Readiness::Ready { since: None }, ..ready("a", 0, 100) },
    ];
    assert_eq!(plain(&pods), ["a", "b", "c", "d", "e"]);
}

#[test]
fn pods_with_the_same_time_form_groups_that_are_ordered_by_their_smallest_uid() {
    // "z" and "a" became ready in the same second, and "m" in another second of the same magnitude.
    let pods = [
        ready("m", 40, 100),
        Pod {
            restart_counts: RestartCounts { max_of_regular_containers: 1, max_of_restartable_init_containers: 0 },
            ..ready("z", 50, 100)
        },
        ready("a", 50, 100),
    ];
    assert_eq!(order(&pods), ["z", "a", "m"]);
}

#[test]
fn reads_a_pod_as_a_server_sends_it() {
    let json = json!({
        "kind": "Pod", "apiVersion": "v1",
        "metadata": {"name": "web-1", "namespace": "shop", "uid": "2ff731ae-b0d1-491c-a286-da4a1c1a8b15",
            "resourceVersion": "7", "managedFields": [{"manager": "kubelet"}],
            "annotations": {"a": "b", POD_DELETION_COST: "5"}},
        "spec": {"nodeName": "n1", "containers": [{"name": "c"}],
            "initContainers": [{"name": "once"}, {"name": "side\u{e9}\"", "restartPolicy": "Always"}]},
        "status": {"phase": "Running",
            "conditions": [{"type": "PodScheduled", "status": "True", "lastTransitionTime": null},
                {"type": "Ready", "status": "True", "lastProbeTime": null, "lastTransitionTime": "2026-11-21T09:50:29Z"}],
            "containerStatuses": [{"name": "c", "restartCount": 2, "state": {"running": {}}}, {"name": "d"}],
            "initContainerStatuses": [{"name": "once", "restartCount": 9}, {"name": "side\u{e9}\"", "restartCount": 4}]},
    });
    let mut pod: Pod = serde_json::from_str(&json.to_string()).unwrap();
    assert_eq!(pod, serde_json::from_value(json).unwrap());
    pod.drop_unneeded_fields();
    assert_eq!(pod.meta.key().to_string(), "shop/web-1");
    assert_eq!((pod.node_name.as_str(), pod.phase), ("n1", Phase::Running));
    assert_eq!(pod.readiness, Readiness::Ready { since: "2026-11-21T09:50:29Z".parse().ok() });
    assert_eq!(
        pod.restart_counts,
        RestartCounts { max_of_regular_containers: 2, max_of_restartable_init_containers: 4 }
    );
    assert_eq!((pod.deletion_cost(), pod.meta.annotations.get("a")), (5, None));
}

#[test]
fn reads_missing_and_unusual_fields() {
    for (spec, status, phase, ready) in [
        (Value::Null, Value::Null, Phase::Other, false),
        (json!({}), json!({}), Phase::Other, false),
        (
            json!({"nodeName": null, "initContainers": null}),
            json!({"phase": "Melted", "conditions": null}),
            Phase::Other,
            false,
        ),
        (
            json!({}),
            json!({"phase": null, "conditions": [{"type": "Ready", "status": "Unknown"}]}),
            Phase::Other,
            false,
        ),
        (
            json!({}),
            json!({"phase": "Failed", "conditions": [{"type": "Ready", "status": "True"}]}),
            Phase::Failed,
            true,
        ),
    ] {
        let pod: Pod =
            serde_json::from_value(json!({"metadata": {"name": "p"}, "spec": spec, "status": status})).unwrap();
        assert_eq!((pod.phase, pod.is_ready(), pod.ready_since()), (phase, ready, None), "{status}");
        assert!(pod.node_name.is_empty());
    }
    for broken in [json!({"spec": {}}), json!({"metadata": {"name": "p"}, "status": {"conditions": 3}})] {
        assert!(serde_json::from_value::<Pod>(broken).is_err());
    }
}

/// Compares two times as upstream does; `None` if the times are equal.
fn by_age(a: (Option<Timestamp>, &Uid), b: (Option<Timestamp>, &Uid)) -> Option<Ordering> {
    match (a.0, b.0) {
        (x, y) if x == y => None,
        (None, _) => Some(Ordering::Less),
        (_, None) => Some(Ordering::Greater),
        (Some(x), Some(y)) => Some(log2_of_age(x, now()).cmp(&log2_of_age(y, now())).then_with(|| a.1.cmp(b.1))),
    }
}

/// Compares two Pods by upstream's rules 1 to 5, which come before the rules about times.
fn before_times(a: &DeletionCandidate<'_>, b: &DeletionCandidate<'_>) -> Ordering {
    let phase = |pod: &Pod| match pod.phase {
        Phase::Running => 2,
        Phase::Unknown => 1,
        _ => 0,
    };
    let unassigned = |pod: &Pod| pod.node_name.is_empty();
    (unassigned(b.pod).cmp(&unassigned(a.pod)))
        .then(phase(a.pod).cmp(&phase(b.pod)))
        .then(a.pod.is_ready().cmp(&b.pod.is_ready()))
        .then(a.deletion_cost.cmp(&b.deletion_cost))
        .then(b.colocated_pod_count.cmp(&a.colocated_pod_count))
}

/// Compares two Pods by all of upstream's rules, in their order.
fn upstream(a: &DeletionCandidate<'_>, b: &DeletionCandidate<'_>) -> Ordering {
    let first = before_times(a, b);
    if first.is_ne() {
        return first;
    }
    let (p, q) = (a.pod, b.pod);
    if p.is_ready()
        && q.is_ready()
        && let Some(order) = by_age((p.ready_since(), &p.meta.uid), (q.ready_since(), &q.meta.uid))
    {
        return order;
    }
    (q.restart_counts.max_of_regular_containers.cmp(&p.restart_counts.max_of_regular_containers))
        .then(
            q.restart_counts
                .max_of_restartable_init_containers
                .cmp(&p.restart_counts.max_of_restartable_init_containers),
        )
        .then_with(|| {
            by_age((p.meta.creation_timestamp, &p.meta.uid), (q.meta.creation_timestamp, &q.meta.uid))
                .unwrap_or(Ordering::Equal)
        })
}

/// Compares two Pods by the rules that do not depend on UIDs. In a sorted list, every pair must agree with the result.
fn decisive(a: &DeletionCandidate<'_>, b: &DeletionCandidate<'_>) -> Ordering {
    let magnitude = |time: Option<Timestamp>| time.map(|time| log2_of_age(time, now()));
    let (p, q) = (a.pod, b.pod);
    let ready = magnitude(p.ready_since()).cmp(&magnitude(q.ready_since()));
    let order = before_times(a, b).then(ready);
    if order.is_ne() || p.ready_since() != q.ready_since() {
        return order;
    }
    q.restart_counts
        .cmp(&p.restart_counts)
        .then(magnitude(p.meta.creation_timestamp).cmp(&magnitude(q.meta.creation_timestamp)))
}

fn times() -> impl Strategy<Value = Option<Timestamp>> {
    prop::sample::select(vec![None, Some(-3), Some(5), Some(40), Some(50), Some(51), Some(60), Some(4000)])
        .prop_map(|age| age.and_then(ago))
}

fn any_pod() -> impl Strategy<Value = (Pod, usize)> {
    let phases = prop::sample::select(vec![
        Phase::Running,
        Phase::Running,
        Phase::Running,
        Phase::Pending,
        Phase::Unknown,
        Phase::Failed,
        Phase::Other,
    ]);
    let readiness = prop_oneof![
        1 => Just(Readiness::NotReady),
        5 => times().prop_map(|since| Readiness::Ready { since }),
    ];
    let restarts = (0..2, 0..2).prop_map(|(regular, restartable_init)| RestartCounts {
        max_of_regular_containers: regular,
        max_of_restartable_init_containers: restartable_init,
    });
    (0..8u8, phases, readiness, restarts, times(), -1..2i32, 1..3usize).prop_map(
        |(node, phase, readiness, restarts, created, cost, colocated)| {
            let annotations = Annotations::from_pairs([(POD_DELETION_COST, &*cost.to_string())]);
            let node = if node == 0 { "" } else { "n" };
            let meta = Meta { creation_timestamp: created, annotations, ..Meta::default() };
            (Pod { meta, node_name: node.into(), phase, readiness, restart_counts: restarts }, colocated)
        },
    )
}

/// Generates 2 to `most` Pods with distinct UIDs in random order.
fn any_pods(most: usize) -> impl Strategy<Value = Vec<(Pod, usize)>> {
    (prop::collection::vec(any_pod(), 2..=most), Just((0..most).collect::<Vec<_>>()).prop_shuffle()).prop_map(
        |(mut pods, uids)| {
            for ((pod, _), uid) in pods.iter_mut().zip(uids) {
                pod.meta.uid = Uid::new(&format!("{uid:02}"));
            }
            pods
        },
    )
}

fn candidates(pods: &[(Pod, usize)]) -> Vec<DeletionCandidate<'_>> {
    pods.iter()
        .map(|(pod, colocated)| DeletionCandidate {
            pod,
            deletion_cost: pod.deletion_cost(),
            colocated_pod_count: *colocated,
        })
        .collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn two_pods_are_ordered_exactly_as_upstream_orders_them(pods in any_pods(2)) {
        let two = candidates(&pods);
        let order = rank_for_deletion(&two, now());
        prop_assert_ne!(upstream(&two[order[0]], &two[order[1]]), Ordering::Greater);
    }

    #[test]
    fn the_order_honours_every_pair_that_is_decided_without_uids(pods in any_pods(12)) {
        let many = candidates(&pods);
        let order = rank_for_deletion(&many, now());
        for (at, first) in order.iter().enumerate() {
            for second in &order[at + 1..] {
                prop_assert_ne!(decisive(&many[*first], &many[*second]), Ordering::Greater);
            }
        }
    }

    #[test]
    fn the_order_does_not_depend_on_the_positions_of_the_pods(
        (pods, shuffled) in any_pods(12).prop_flat_map(|pods| (Just(pods.clone()), Just(pods).prop_shuffle())),
    ) {
        let uids = |pods: &[(Pod, usize)], order: Vec<usize>| -> Vec<Uid> {
            order.into_iter().map(|at| pods[at].0.meta.uid.clone()).collect()
        };
        let ranked = uids(&pods, rank_for_deletion(&candidates(&pods), now()));
        prop_assert_eq!(&ranked, &uids(&shuffled, rank_for_deletion(&candidates(&shuffled), now())));
        let mut all = ranked;
        all.sort();
        all.dedup();
        prop_assert_eq!(all.len(), pods.len());
        let plain = |pods: &[(Pod, usize)]| {
            let refs: Vec<&Pod> = pods.iter().map(|(pod, _)| pod).collect();
            uids(pods, deletion_order_without_ranks(&refs))
        };
        prop_assert_eq!(plain(&pods), plain(&shuffled));
    }

    #[test]
    fn pods_that_are_not_ready_are_deleted_before_ready_ones(pods in any_pods(12)) {
        let refs: Vec<&Pod> = pods.iter().map(|(pod, _)| pod).collect();
        for order in [deletion_order_without_ranks(&refs), rank_for_deletion(&candidates(&pods), now())] {
            let sorted: Vec<&Pod> = order.into_iter().map(|at| refs[at]).collect();
            for (at, first) in sorted.iter().enumerate() {
                let alike = |pod: &&&Pod| pod.node_name == first.node_name && pod.phase == first.phase;
                prop_assert!(sorted[at..].iter().filter(alike).all(|second| first.is_ready() <= second.is_ready()));
            }
        }
    }

    #[test]
    fn unusual_values_do_not_panic(value in "\\PC{0,20}", count in any::<i64>()) {
        let _ = parse_deletion_cost(&value);
        let json = json!({"metadata": {"name": value}, "status": {"phase": value, "containerStatuses": [{"restartCount": count}]}});
        let _ = serde_json::from_value::<Pod>(json);
    }
}

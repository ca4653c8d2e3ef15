//! The memory cost of decisions about sets with numbers and lists at their limits or beyond.

use std::{collections::BTreeMap, sync::Arc};

use common::{
    controller::Decision,
    refs::{self, Owner},
};
use proptest::prelude::*;
use replicaset_controller::{
    ReplicaController,
    decide::decide,
    kind::{ReplicaSets, SetKind as _},
    objects::CachedSet,
    plan::PodChanges,
    snapshot::{DecisionSettings, SharedPod, Snapshot},
};
use serde_json::{Value, json};
use testkit::bounds::{any_number, any_of};

use crate::METER;

/// Bytes in use at one time that a decision may need for each byte of the set and its Pods.
const EACH_BYTE: usize = 32;
/// Bytes in use at one time that a decision may need in addition to [`EACH_BYTE`].
const BESIDES: usize = 256 << 10;
/// Bytes, including freed ones, that decoding, deciding and explaining may allocate for each byte of the set and its Pods. Work
/// in proportion to a number in a spec would exceed this limit.
const TOTAL_EACH_BYTE: usize = 40;
/// Bytes that decoding, deciding and explaining may allocate in addition to [`TOTAL_EACH_BYTE`].
const TOTAL_BESIDES: usize = 320 << 10;

const BURST: usize = 500;

/// Whether API servers accept the number as `replicas` or `minReadySeconds`.
fn is_valid(number: &Value) -> bool {
    number.as_i64().is_some_and(|n| (0..=i64::from(i32::MAX)).contains(&n))
}

fn selector() -> impl Strategy<Value = Value> {
    let many: serde_json::Map<String, Value> = (0..20_000).map(|i| (format!("k{i}"), json!("v"))).collect();
    let values: Vec<String> = (0..20_000).map(|i| format!("v{i}")).collect();
    prop_oneof![
        4 => Just(json!({"matchLabels": {"app": "bad"}})),
        1 => Just(json!({"matchLabels": many})),
        1 => Just(json!({"matchExpressions": [{"key": "app", "operator": "NotIn", "values": values}]})),
        1 => Just(json!({"matchExpressions": vec![json!({"key": "app", "operator": "Exists"}); 10_000]})),
    ]
}

fn set() -> impl Strategy<Value = Value> {
    let counted = any_of(&[0, i32::MAX, i32::MIN]);
    let status = (counted, any::<i64>(), 0..2_000usize);
    (any_number(), any_number(), selector(), status).prop_map(|(replicas, seconds, selector, (counted, observed, conditions))| {
        let condition = json!({"type": "ReplicaFailure", "status": "True", "reason": "FailedCreate", "message": "m"});
        json!({
            "metadata": {"name": "bad", "namespace": "shop", "uid": "u-bad", "generation": 1, "resourceVersion": "5"},
            "spec": {"replicas": replicas, "minReadySeconds": seconds, "selector": selector,
                "template": {"metadata": {"labels": {"app": "bad"}}, "spec": {"terminationGracePeriodSeconds": i64::MAX}}},
            "status": {"replicas": counted, "observedGeneration": observed, "conditions": vec![condition; conditions]},
        })
    })
}

fn pods() -> impl Strategy<Value = Vec<Value>> {
    let cost = any_of(&["0", "2147483647", "-2147483648", "99999999999", "x"]);
    let time = any_of(&["0001-01-01T00:00:00Z", "2026-11-21T09:00:00Z", "9999-12-30T22:00:00Z"]);
    let pod = (cost, time, any::<bool>()).prop_map(|(cost, time, ready)| {
        json!({
            "metadata": {"namespace": "shop", "labels": {"app": "bad"}, "resourceVersion": "7", "creationTimestamp": time,
                "annotations": {"controller.kubernetes.io/pod-deletion-cost": cost},
                "ownerReferences": [{"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "bad", "uid": "u-bad", "controller": true}]},
            "spec": {"nodeName": "node-1"},
            "status": {"phase": "Running", "containerStatuses": [{"name": "c", "restartCount": i32::MAX}],
                "conditions": [{"type": "Ready", "status": if ready { "True" } else { "False" }, "lastTransitionTime": time}]},
        })
    });
    prop::collection::vec(pod, 0..12).prop_map(|mut pods| {
        for (at, pod) in pods.iter_mut().enumerate() {
            pod["metadata"]["name"] = json!(format!("bad-{at}"));
            pod["metadata"]["uid"] = json!(format!("u-{at}"));
        }
        pods
    })
}

fn snapshot(set: &CachedSet<ReplicaSets>, pods: &[Value]) -> Snapshot {
    let (set, now) = (Arc::clone(&set.replica_set), "2026-11-21T09:00:00Z".parse().unwrap());
    let owner = Owner::new(ReplicaSets::RESOURCE, &set.metadata);
    let pods = pods.iter().map(|pod| -> SharedPod { Arc::new(serde_json::from_str(&pod.to_string()).unwrap()) });
    let pods: Vec<SharedPod> = pods.filter(|pod| pod.is_active()).collect();
    assert!(pods.iter().all(|pod| !pod.meta().name.is_empty()));
    let claims = refs::claim_dependents(&owner, &set.selector, pods, |_| true).unwrap_or_default();
    let limits = DecisionSettings {
        burst_replicas: BURST,
        uses_deletion_cost: true,
        counts_terminating_pods: true,
        drops_terminating_replicas: false,
        waits_for_own_writes: true,
        reranks_remaining_pods: true,
    };
    Snapshot {
        set,
        owner,
        claims,
        terminating_pod_count: usize::MAX,
        pod_creation_pause: None,
        colocated_pod_counts_by_node: BTreeMap::new(),
        pending_writes: None,
        failed_pod_backoff: None,
        decision_settings: limits,
        now,
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]

    fn any_the_cost_of_a_set_depends_on_the_length_of_its_objects(set in set(), pods in pods()) {
        let text = set.to_string();
        let size = text.len() + pods.iter().map(|pod| pod.to_string().len()).sum::<usize>();
        let decide = || {
            let set = serde_json::from_str::<CachedSet<ReplicaSets>>(&text).ok()?;
            let snapshot = snapshot(&set, &pods);
            let plan = decide(&snapshot);
            let explained = Decision::<ReplicaController<ReplicaSets>>::with_forecast(&snapshot, snapshot.now).explain();
            Some((plan, explained))
        };
        let (plan, total) = METER.total(|| METER.limited(size * EACH_BYTE + BESIDES, decide));
        prop_assert!(total <= size * TOTAL_EACH_BYTE + TOTAL_BESIDES, "{total} bytes in all for {size}");
        let Some((plan, explained)) = plan else {
            prop_assert!(!is_valid(&set["spec"]["replicas"]) || !is_valid(&set["spec"]["minReadySeconds"]));
            return Ok(());
        };
        match &plan.pod_changes {
            PodChanges::Create { pods_to_create_count, .. } => prop_assert!(*pods_to_create_count <= BURST),
            PodChanges::Delete { pod_deletions, .. } => prop_assert!(pod_deletions.len() <= pods.len()),
            _ => {}
        }
        prop_assert!(explained.actions.iter().chain(&explained.waiting).all(|line| line.len() < 4096));
    }
}

/// REPLICASET-57.
#[test]
fn the_cost_of_a_set_depends_on_the_length_of_its_objects() {
    // Generated values take memory, too.
    let _alone = METER.alone();
    any_the_cost_of_a_set_depends_on_the_length_of_its_objects();
}

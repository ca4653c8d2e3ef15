use std::time::Duration;

use common::{
    clock::Clock,
    meta::ResourceVersion,
    pods::PODS,
    queue::{BackoffSettings, Queue},
    settings::{OperatorSettings, TunableValue},
};
use serde_json::{Value, json};
use testkit::context_without_server;

use super::*;
use crate::{
    decide, decision_settings,
    kind::{ReplicaSets, ReplicationControllers},
    objects::CachedSet,
    plan::PodChanges,
    snapshot::Snapshot,
    world::{PodBuilder, now, pod_builder, web_set_json},
};

fn controller<K: SetKind>(settings: OperatorSettings) -> ReplicaController<K> {
    let clock = Clock::simulated(now(), 0);
    let context = context_without_server(&clock, settings);
    ReplicaController::new(context, Queue::new(clock, BackoffSettings::default(), None))
}

impl<K: SetKind> ReplicaController<K> {
    fn know(&self, sets: &[Value], pods: &[PodBuilder], version: u64) {
        let version = ResourceVersion::parse(&version.to_string());
        let sets: Vec<CachedSet<K>> = sets.iter().map(|set| serde_json::from_str(&set.to_string()).unwrap()).collect();
        // The stores are emptied first, because a store skips an object with a version that it already has.
        self.watch.replica_set_store.replace_objects_for_tests(Vec::new(), version);
        self.pods.replace_objects_for_tests(Vec::new(), version);
        self.watch.replica_set_store.replace_objects_for_tests(sets, version);
        self.pods.replace_objects_for_tests(pods.iter().map(PodBuilder::build).collect(), version);
    }

    fn ready(&self) -> Snapshot {
        match self.observe(&NamespacedName::new("shop", "web"), now()) {
            Ok(snapshot) => snapshot,
            Err(reason) => panic!("{reason:?}"),
        }
    }

    fn waits_for(&self) -> Option<String> {
        match self.observe(&NamespacedName::new("shop", "web"), now()) {
            Err(NoSnapshot::Waiting { why, .. }) => Some(why),
            _ => None,
        }
    }
}

fn names(pods: &[SharedPod]) -> Vec<&str> {
    pods.iter().map(|pod| &*pod.meta().name).collect()
}

/// Returns a set with this name that selects Pods with `app=<label>`.
fn sibling(name: &str, label: &str) -> Value {
    let mut set = web_set_json(1);
    set["metadata"]["name"] = json!(name);
    set["metadata"]["uid"] = json!(format!("u-{name}"));
    set["spec"]["selector"] = json!({"matchLabels": {"app": label}});
    set["spec"]["template"]["metadata"]["labels"] = json!({"app": label});
    set
}

fn owned(mut set: Value) -> Value {
    set["metadata"]["ownerReferences"] =
        json!([{"apiVersion": "apps/v1", "kind": "Deployment", "name": "d", "uid": "u-d", "controller": true}]);
    set
}

/// REPLICASET-8, REPLICASET-13, REPLICASET-31.
#[tokio::test(start_paused = true)]
async fn a_snapshot_contains_own_pods_and_orphans_of_the_namespace() {
    let controller = controller::<ReplicaSets>(OperatorSettings::new());
    let elsewhere = |mut pod: PodBuilder| {
        pod.0["metadata"]["namespace"] = json!("other");
        pod
    };
    let found = [
        pod_builder("a"),
        pod_builder("b").into_orphan(),
        pod_builder("c").into_orphan().labels(json!({"app": "db"})),
        pod_builder("d").owner("ReplicaSet", "web", "u-other"),
        pod_builder("e").terminating(),
        pod_builder("f").labels(json!({"app": "db"})),
        pod_builder("g").into_orphan().phase("Succeeded"),
        pod_builder("h").into_orphan().terminating(),
        elsewhere(pod_builder("i").into_orphan()),
        elsewhere(pod_builder("j")),
    ];
    controller.know(&[web_set_json(3)], &found, 9);
    let snapshot = controller.ready();
    assert_eq!(names(&snapshot.claims.to_keep), ["a"]);
    assert_eq!(names(&snapshot.claims.to_adopt), ["b"]);
    assert_eq!(names(&snapshot.claims.to_release), ["f"]);
    assert_eq!((snapshot.terminating_pod_count, snapshot.pending_writes), (1, None));
}

#[tokio::test(start_paused = true)]
async fn a_missing_set_is_reported_as_gone() {
    let controller = controller::<ReplicaSets>(OperatorSettings::new());
    assert!(matches!(controller.observe(&NamespacedName::new("shop", "web"), now()), Err(NoSnapshot::Gone)));
}

/// REPLICASET-40, REPLICASET-72.
#[tokio::test(start_paused = true)]
async fn a_sync_waits_until_own_writes_are_seen() {
    let controller = controller::<ReplicaSets>(OperatorSettings::new());
    controller.know(&[web_set_json(3)], &[pod_builder("a")], 9);
    let uid = Uid::new("u-web");
    controller.watch.ledger.record_creation(&uid, PODS, &Uid::new("b"), ResourceVersion::parse("10"));
    assert_eq!(
        controller.waits_for().as_deref(),
        Some("read version: 9 is not as new as written version: 10 for group resource pods")
    );
    let key = NamespacedName::new("shop", "web");
    let Err(NoSnapshot::Waiting { stale_resource: stale, .. }) = controller.observe(&key, now()) else {
        panic!("the sync does not wait")
    };
    assert_eq!(stale, Some(PODS), "the skipped sync is counted by resource");
    controller.know(&[web_set_json(3)], &[pod_builder("a"), pod_builder("b")], 10);
    assert_eq!(names(&controller.ready().claims.to_keep), ["a", "b"]);
}

/// REPLICASET-60, REPLICASET-64.
#[tokio::test(start_paused = true)]
async fn stale_caches_block_only_managing_without_the_gate_and_for_replication_controllers() {
    let off = controller::<ReplicaSets>(
        OperatorSettings::new().with_feature_gate("StaleControllerConsistencyReplicaSet", false),
    );
    let fifo = controller::<ReplicaSets>(OperatorSettings::new().with_feature_gate("AtomicFIFO", false));
    for controller in [off, fifo] {
        controller.know(&[web_set_json(3)], &[pod_builder("a")], 9);
        controller.watch.ledger.record_creation(&Uid::new("u-web"), PODS, &Uid::new("b"), ResourceVersion::parse("10"));
        let snapshot = controller.ready();
        assert!(snapshot.pending_writes.is_some());
        let pod_changes = decide::decide(&snapshot).pod_changes;
        assert!(!matches!(pod_changes, PodChanges::Create { .. } | PodChanges::Delete { .. }));
    }
    let rc = controller::<ReplicationControllers>(OperatorSettings::new());
    let mut object = web_set_json(3);
    object["spec"]["selector"] = json!({"app": "web"});
    rc.know(&[object], &[], 9);
    rc.watch.ledger.record_creation(&Uid::new("u-web"), PODS, &Uid::new("b"), ResourceVersion::parse("10"));
    assert!(rc.ready().pending_writes.is_some());
}

/// REPLICASET-41.
#[tokio::test(start_paused = true)]
async fn unseen_deletions_and_lost_creations_block_only_managing() {
    let controller = controller::<ReplicaSets>(OperatorSettings::new());
    controller.know(&[web_set_json(3)], &[pod_builder("a"), pod_builder("b")], 9);
    let uid = Uid::new("u-web");
    controller.watch.ledger.record_deletion(&uid, PODS, "shop", "a", &Uid::new("a"));
    let blocked = controller.ready().pending_writes.unwrap();
    assert_eq!(blocked.description, "1 deleted pods are not terminating in the cache yet");
    controller.know(&[web_set_json(3)], &[pod_builder("a").terminating(), pod_builder("b")], 9);
    assert_eq!(controller.ready().pending_writes, None);
    let before = controller.owned_pods(&"shop".into(), &uid);
    controller
        .watch
        .ledger
        .record_unanswered_creation(&uid, PODS, || before.iter().map(|p| p.meta().uid.clone()).collect());
    let blocked = controller.ready().pending_writes.unwrap();
    assert_eq!(blocked.description, "1 pods may have been created by requests that were not answered");
    controller.know(&[web_set_json(3)], &[pod_builder("b"), pod_builder("c")], 9);
    assert_eq!(controller.ready().pending_writes, None);
}

/// REPLICASET-26.
#[tokio::test(start_paused = true)]
async fn pods_of_siblings_are_counted_by_node() {
    let controller = controller::<ReplicaSets>(OperatorSettings::new());
    let of_db = |name: &str| pod_builder(name).owner("ReplicaSet", "db", "u-db").labels(json!({"app": "db"}));
    let found = [
        pod_builder("a").node("A"),
        pod_builder("b").node("A"),
        of_db("c").node("A"),
        of_db("d").node("B"),
        of_db("e").node("B").terminating(),
        pod_builder("f").node("B").into_orphan().labels(json!({"app": "db"})),
        pod_builder("g").node("A").owner("ReplicaSet", "alone", "u-alone"),
    ];
    let sets = [owned(web_set_json(1)), owned(sibling("db", "db")), sibling("alone", "web")];
    controller.know(&sets, &found, 9);
    let on = |pairs: &[(&str, usize)]| pairs.iter().map(|(n, c)| (Text::new(n), *c)).collect::<BTreeMap<_, _>>();
    assert_eq!(controller.ready().colocated_pod_counts_by_node, on(&[("A", 3), ("B", 2)]));
    // Without an owner there are no siblings, and without surplus Pods nothing is counted.
    controller.know(&[web_set_json(1)], &found, 9);
    assert!(controller.ready().colocated_pod_counts_by_node.is_empty());
    controller.know(&[owned(web_set_json(2))], &found, 9);
    assert!(controller.ready().colocated_pod_counts_by_node.is_empty());
}

/// Returns the counts by node for a set with surplus Pods. `on` is the value of `rank-by-own-pods`.
fn counts<K: SetKind>(on: bool, set: &Value, found: &[PodBuilder]) -> BTreeMap<Text, usize> {
    let controller =
        controller::<K>(OperatorSettings::new().with_tunable("rank-by-own-pods", TunableValue::Switch(on)));
    controller.know(std::slice::from_ref(set), found, 9);
    controller.ready().colocated_pod_counts_by_node
}

/// REPLICASET-26, REPLICASET-70.
#[tokio::test(start_paused = true)]
async fn own_pods_are_counted_for_sets_without_siblings_if_enabled() {
    let found = [
        pod_builder("a").node("A"),
        pod_builder("b").node("A").into_orphan(),
        pod_builder("c").node("B"),
        pod_builder("d").node("B").terminating(),
    ];
    let own = BTreeMap::from([(Text::new("A"), 2), (Text::new("B"), 1)]);
    assert_eq!(counts::<ReplicaSets>(true, &web_set_json(1), &found), own);
    assert_eq!(counts::<ReplicaSets>(false, &web_set_json(1), &found), BTreeMap::new());
    assert_eq!(
        counts::<ReplicaSets>(true, &web_set_json(3), &found),
        BTreeMap::new(),
        "without surplus Pods nothing is counted"
    );
    // For a set with an owner, the option `rank-by-own-pods` makes no difference.
    assert_eq!(counts::<ReplicaSets>(true, &owned(web_set_json(1)), &found), own);
    assert_eq!(counts::<ReplicaSets>(false, &owned(web_set_json(1)), &found), own);
    let of_rc: Vec<PodBuilder> =
        found.into_iter().map(|pod| pod.owner("ReplicationController", "web", "u-web")).collect();
    for mut rc in [web_set_json(1), owned(web_set_json(1))] {
        rc["spec"]["selector"] = json!({"app": "web"});
        assert_eq!(counts::<ReplicationControllers>(true, &rc, &of_rc), own);
        assert_eq!(counts::<ReplicationControllers>(false, &rc, &of_rc), BTreeMap::new());
    }
}

/// REPLICASET-59, REPLICASET-63, REPLICASET-69.
#[test]
fn settings_and_the_kind_decide_on_terminating_counts_and_reranking() {
    let no_count = OperatorSettings::new().with_feature_gate("DeploymentReplicaSetTerminatingReplicas", false);
    let rerank = OperatorSettings::new().with_tunable("rerank-as-pods-are-chosen", TunableValue::Switch(true));
    let of_replica_set = decision_settings::<ReplicaSets>;
    for (settings, counts_terminating_pods, reranks_remaining_pods) in [
        (of_replica_set(&OperatorSettings::new()), true, false),
        (of_replica_set(&no_count), false, false),
        (of_replica_set(&rerank), true, true),
        (decision_settings::<ReplicationControllers>(&rerank), false, true),
    ] {
        let found = (settings.counts_terminating_pods, settings.reranks_remaining_pods);
        assert_eq!(found, (counts_terminating_pods, reranks_remaining_pods), "{settings:?}");
    }
}

/// REPLICASET-63.
#[tokio::test(start_paused = true)]
async fn a_dropped_count_is_remembered_for_ten_minutes() {
    let controller = controller::<ReplicaSets>(OperatorSettings::new());
    controller.know(&[web_set_json(0)], &[], 9);
    assert!(!controller.ready().decision_settings.drops_terminating_replicas);
    controller.record_terminating_replicas_kept(false);
    assert!(controller.ready().decision_settings.drops_terminating_replicas);
    let mut kept = web_set_json(0);
    kept["status"] = json!({"replicas": 0, "terminatingReplicas": 0});
    controller.know(&[kept], &[], 9);
    assert!(!controller.ready().decision_settings.drops_terminating_replicas);
    controller.know(&[web_set_json(0)], &[], 9);
    controller.context.clock.sleep(crate::TERMINATING_REPLICAS_RETRY_PERIOD).await;
    assert!(!controller.ready().decision_settings.drops_terminating_replicas);
}

/// Returns the time of 200 observations and decisions, the shortest of ten measurements.
fn cost(controller: &ReplicaController<ReplicaSets>) -> Duration {
    let clock = Clock::system();
    let once = || {
        let start = clock.monotonic_now();
        for _ in 0..200 {
            let plan = decide::decide(&controller.ready());
            assert_eq!(plan.status.replicas, 5);
        }
        start.elapsed()
    };
    (0..10).map(|_| once()).min().unwrap_or_default()
}

/// A scan of all ten thousand sets, or of their Pods, would take thousands of times as long as the sync of one set.
/// REPLICASET-57.
#[tokio::test]
async fn a_sync_among_ten_thousand_sets_costs_as_much_as_alone() {
    let own: Vec<PodBuilder> = (0..5).map(|n| pod_builder(&format!("own-{n}"))).collect();
    let alone = controller::<ReplicaSets>(OperatorSettings::new());
    alone.know(&[owned(web_set_json(4))], &own, 9);
    let crowded = controller::<ReplicaSets>(OperatorSettings::new());
    let others = (0..10_000).map(|n| sibling(&format!("s{n}"), &format!("s{n}")));
    let sets: Vec<Value> = std::iter::once(owned(web_set_json(4))).chain(others).collect();
    let strangers = (0..10_000).map(|n| {
        pod_builder(&format!("p{n}"))
            .owner("ReplicaSet", &format!("s{n}"), &format!("u-s{n}"))
            .labels(json!({"app": format!("s{n}")}))
    });
    let pods: Vec<PodBuilder> = own.iter().cloned().chain(strangers).collect();
    crowded.know(&sets, &pods, 9);
    let (alone, crowded) = (cost(&alone), cost(&crowded));
    assert!(crowded < alone * 5 + Duration::from_millis(5), "{alone:?} alone, {crowded:?} among others");
}

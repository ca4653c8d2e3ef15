use common::{
    api::Api,
    clock::Clock,
    events::Recorder,
    gate::gate,
    meta::Version,
    metrics::Metrics,
    pods::PODS,
    queue::{Backoff, Queue},
    runtime::Context,
    settings::{Settings, TuneValue},
};
use serde_json::{Value, json};

use super::*;
use crate::{
    decide,
    kind::{ReplicaSets, ReplicationControllers},
    objects::Set,
    world::{PodBuilder, now, pod, web},
};

/// Returns a controller with an API server that never answers; tests fill its caches directly.
fn controller<K: Kind>(settings: Settings) -> ReplicaController<K> {
    let silent = tower::service_fn(|_: http::Request<kube::client::Body>| {
        std::future::pending::<Result<http::Response<kube::client::Body>, std::convert::Infallible>>()
    });
    let clock = Clock::simulated(now(), 0);
    let (_, gate) = gate(clock.clone());
    let client = kube::Client::new(silent, "default");
    let context = Context {
        api: Api::new(client, clock.clone(), gate.clone(), "test"),
        recorder: Recorder::silent("test", clock.clone()),
        settings: Arc::new(settings),
        metrics: Metrics::new(),
        accounts: None,
        sampler: None,
        shared: common::runtime::Shared::default(),
        clock: clock.clone(),
        gate,
    };
    ReplicaController::new(context, Queue::new(clock, Backoff::default(), None))
}

impl<K: Kind> ReplicaController<K> {
    fn know(&self, sets: &[Value], pods: &[PodBuilder], version: u64) {
        let version = Version::parse(&version.to_string());
        let sets: Vec<Set<K>> = sets.iter().map(|set| serde_json::from_str(&set.to_string()).unwrap()).collect();
        // The stores are emptied first, because an object at a known version would be skipped.
        self.sets.store().fill(Vec::new(), version);
        self.pods.store().fill(Vec::new(), version);
        self.sets.store().fill(sets, version);
        self.pods.store().fill(pods.iter().map(PodBuilder::build).collect(), version);
    }

    fn ready(&self) -> Snapshot {
        match self.observe(&Key::new("shop", "web"), now()) {
            Ok(Observed::Ready(snapshot)) => snapshot,
            Ok(Observed::Waiting { why, .. }) => panic!("waiting: {why}"),
            Ok(Observed::Gone) => panic!("gone"),
            Err(error) => panic!("{error}"),
        }
    }

    fn waits_for(&self) -> Option<String> {
        match self.observe(&Key::new("shop", "web"), now()) {
            Ok(Observed::Waiting { why, .. }) => Some(why),
            _ => None,
        }
    }
}

fn names(pods: &[PodRef]) -> Vec<&str> {
    pods.iter().map(|pod| &*pod.meta().name).collect()
}

/// Returns a set with this name that selects `app=<label>`.
fn sibling(name: &str, label: &str) -> Value {
    let mut set = web(1);
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

/// REPLICASET-8.
#[tokio::test(start_paused = true)]
async fn a_snapshot_contains_own_pods_and_orphans_of_the_namespace() {
    let controller = controller::<ReplicaSets>(Settings::new());
    let mut elsewhere = pod("elsewhere").orphan();
    elsewhere.0["metadata"]["namespace"] = json!("other");
    let found = [
        pod("a"),
        pod("b").orphan(),
        pod("c").orphan().labels(json!({"app": "db"})),
        pod("d").owner("ReplicaSet", "web", "u-other"),
        pod("e").deleting(),
        pod("f").labels(json!({"app": "db"})),
        elsewhere,
    ];
    controller.know(&[web(3)], &found, 9);
    let snapshot = controller.ready();
    assert_eq!(names(&snapshot.claims.keep), ["a"]);
    assert_eq!(names(&snapshot.claims.adopt), ["b"]);
    assert_eq!(names(&snapshot.claims.release), ["f"]);
    assert_eq!((snapshot.terminating, snapshot.blocked), (1, None));
}

#[tokio::test(start_paused = true)]
async fn a_missing_set_is_reported_as_gone() {
    let controller = controller::<ReplicaSets>(Settings::new());
    assert!(matches!(controller.observe(&Key::new("shop", "web"), now()), Ok(Observed::Gone)));
}

/// REPLICASET-40, REPLICASET-72.
#[tokio::test(start_paused = true)]
async fn a_sync_waits_until_own_writes_are_seen() {
    let controller = controller::<ReplicaSets>(Settings::new());
    controller.know(&[web(3)], &[pod("a")], 9);
    let uid = Uid::new("u-web");
    controller.ledger.created(&uid, PODS, &Uid::new("b"), Version::parse("10"));
    assert_eq!(
        controller.waits_for().as_deref(),
        Some("read version: 9 is not as new as written version: 10 for group resource pods")
    );
    let key = Key::new("shop", "web");
    let Ok(Observed::Waiting { stale, .. }) = controller.observe(&key, now()) else { panic!("the sync does not wait") };
    assert_eq!(stale, Some(PODS), "the skipped sync is counted by resource");
    controller.know(&[web(3)], &[pod("a"), pod("b")], 10);
    assert_eq!(names(&controller.ready().claims.keep), ["a", "b"]);
}

/// REPLICASET-60, REPLICASET-64.
#[tokio::test(start_paused = true)]
async fn stale_caches_block_only_managing_without_the_gate_and_for_replication_controllers() {
    let off = controller::<ReplicaSets>(Settings::new().with_gate("StaleControllerConsistencyReplicaSet", false));
    let fifo = controller::<ReplicaSets>(Settings::new().with_gate("AtomicFIFO", false));
    for controller in [off, fifo] {
        controller.know(&[web(3)], &[pod("a")], 9);
        controller.ledger.created(&Uid::new("u-web"), PODS, &Uid::new("b"), Version::parse("10"));
        let snapshot = controller.ready();
        assert!(snapshot.blocked.is_some());
        assert!(!decide::decide(&snapshot).manage.acts());
    }
    let rc = controller::<ReplicationControllers>(Settings::new());
    let mut object = web(3);
    object["spec"]["selector"] = json!({"app": "web"});
    rc.know(&[object], &[], 9);
    rc.ledger.created(&Uid::new("u-web"), PODS, &Uid::new("b"), Version::parse("10"));
    assert!(rc.ready().blocked.is_some());
}

/// REPLICASET-41.
#[tokio::test(start_paused = true)]
async fn unseen_deletions_and_lost_creations_block_only_managing() {
    let controller = controller::<ReplicaSets>(Settings::new());
    controller.know(&[web(3)], &[pod("a"), pod("b")], 9);
    let uid = Uid::new("u-web");
    controller.ledger.deleted(&uid, PODS, "shop", "a", &Uid::new("a"));
    let blocked = controller.ready().blocked.unwrap();
    assert_eq!(blocked.why, "1 deleted pods are not terminating in the cache yet");
    controller.know(&[web(3)], &[pod("a").deleting(), pod("b")], 9);
    assert_eq!(controller.ready().blocked, None);
    let before = controller.children(&"shop".into(), &uid);
    controller.ledger.lost_create(&uid, PODS, || before.iter().map(|p| p.meta().uid.clone()).collect());
    let blocked = controller.ready().blocked.unwrap();
    assert_eq!(blocked.why, "1 pods may have been created by requests that were not answered");
    controller.know(&[web(3)], &[pod("b"), pod("c")], 9);
    assert_eq!(controller.ready().blocked, None);
}

/// REPLICASET-26.
#[tokio::test(start_paused = true)]
async fn pods_of_siblings_are_counted_by_node() {
    let controller = controller::<ReplicaSets>(Settings::new());
    let of_db = |name: &str| pod(name).owner("ReplicaSet", "db", "u-db").labels(json!({"app": "db"}));
    let found = [
        pod("a").node("A"),
        pod("b").node("A"),
        of_db("c").node("A"),
        of_db("d").node("B"),
        of_db("e").node("B").deleting(),
        pod("f").node("B").orphan().labels(json!({"app": "db"})),
        pod("g").node("A").owner("ReplicaSet", "alone", "u-alone"),
    ];
    let sets = [owned(web(1)), owned(sibling("db", "db")), sibling("alone", "web")];
    controller.know(&sets, &found, 9);
    let on = |pairs: &[(&str, usize)]| pairs.iter().map(|(n, c)| (Text::new(n), *c)).collect::<BTreeMap<_, _>>();
    assert_eq!(controller.ready().colocated, on(&[("A", 3), ("B", 2)]));
    // Without an owner there are no siblings, and without surplus Pods nothing is counted.
    controller.know(&[web(1)], &found, 9);
    assert!(controller.ready().colocated.is_empty());
    controller.know(&[owned(web(2))], &found, 9);
    assert!(controller.ready().colocated.is_empty());
}

/// Returns the counts by node for a set with surplus Pods. `on` is the value of `rank-by-own-pods`.
fn counts<K: Kind>(on: bool, set: &Value, found: &[PodBuilder]) -> BTreeMap<Text, usize> {
    let controller = controller::<K>(Settings::new().with_tune("rank-by-own-pods", TuneValue::Switch(on)));
    controller.know(std::slice::from_ref(set), found, 9);
    controller.ready().colocated
}

/// REPLICASET-26, REPLICASET-70.
#[tokio::test(start_paused = true)]
async fn own_pods_are_counted_for_sets_without_siblings_if_enabled() {
    let found = [pod("a").node("A"), pod("b").node("A").orphan(), pod("c").node("B"), pod("d").node("B").deleting()];
    let own = BTreeMap::from([(Text::new("A"), 2), (Text::new("B"), 1)]);
    assert_eq!(counts::<ReplicaSets>(true, &web(1), &found), own);
    assert_eq!(counts::<ReplicaSets>(false, &web(1), &found), BTreeMap::new());
    assert_eq!(
        counts::<ReplicaSets>(true, &web(3), &found),
        BTreeMap::new(),
        "without surplus Pods nothing is counted"
    );
    // For a set with an owner, the option `rank-by-own-pods` makes no difference.
    assert_eq!(counts::<ReplicaSets>(true, &owned(web(1)), &found), own);
    assert_eq!(counts::<ReplicaSets>(false, &owned(web(1)), &found), own);
    let of_rc: Vec<PodBuilder> =
        found.into_iter().map(|pod| pod.owner("ReplicationController", "web", "u-web")).collect();
    for mut rc in [web(1), owned(web(1))] {
        rc["spec"]["selector"] = json!({"app": "web"});
        assert_eq!(counts::<ReplicationControllers>(true, &rc, &of_rc), own);
        assert_eq!(counts::<ReplicationControllers>(false, &rc, &of_rc), BTreeMap::new());
    }
}

/// REPLICASET-63.
#[tokio::test(start_paused = true)]
async fn a_dropped_count_is_remembered_for_ten_minutes() {
    let controller = controller::<ReplicaSets>(Settings::new());
    controller.know(&[web(0)], &[], 9);
    assert!(!controller.ready().limits.terminating_dropped);
    controller.note_terminating(false);
    assert!(controller.ready().limits.terminating_dropped);
    let mut kept = web(0);
    kept["status"] = json!({"replicas": 0, "terminatingReplicas": 0});
    controller.know(&[kept], &[], 9);
    assert!(!controller.ready().limits.terminating_dropped);
    controller.know(&[web(0)], &[], 9);
    controller.context.clock.sleep(crate::TERMINATING_UNKNOWN).await;
    assert!(!controller.ready().limits.terminating_dropped);
}

/// Returns the time of 200 observations and decisions, the shortest of ten measurements.
fn cost(controller: &ReplicaController<ReplicaSets>) -> Duration {
    let clock = Clock::system();
    let once = || {
        let start = clock.instant();
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
    let own: Vec<PodBuilder> = (0..5).map(|n| pod(&format!("own-{n}"))).collect();
    let alone = controller::<ReplicaSets>(Settings::new());
    alone.know(&[owned(web(4))], &own, 9);
    let crowded = controller::<ReplicaSets>(Settings::new());
    let others = (0..10_000).map(|n| sibling(&format!("s{n}"), &format!("s{n}")));
    let sets: Vec<Value> = std::iter::once(owned(web(4))).chain(others).collect();
    let strangers = (0..10_000).map(|n| {
        pod(&format!("p{n}"))
            .owner("ReplicaSet", &format!("s{n}"), &format!("u-s{n}"))
            .labels(json!({"app": format!("s{n}")}))
    });
    let pods: Vec<PodBuilder> = own.iter().cloned().chain(strangers).collect();
    crowded.know(&sets, &pods, 9);
    let (alone, crowded) = (cost(&alone), cost(&crowded));
    assert!(crowded < alone * 5 + Duration::from_millis(5), "{alone:?} alone, {crowded:?} among others");
}

use common::{
    clock::Clock,
    meta::{Uid, Version},
    object::Malformed,
    queue::Backoff,
};
use serde_json::{Value, json};

use super::*;
use crate::{
    kind::ReplicaSets,
    world::{PodBuilder, pod, web},
};

struct Fixture {
    watch: Watch<ReplicaSets>,
}

fn set(name: &str, uid: &str, selector: &Value, min_ready: i32) -> Set<ReplicaSets> {
    let mut object = web(1);
    object["metadata"]["name"] = json!(name);
    object["metadata"]["uid"] = json!(uid);
    object["spec"]["selector"] = selector.clone();
    object["spec"]["minReadySeconds"] = json!(min_ready);
    serde_json::from_str(&object.to_string()).unwrap()
}

/// Returns handlers with three sets: `web` and `slow` select `app=web`, `db` selects `app=db`. `slow` has `minReadySeconds` 30.
fn fixture() -> Fixture {
    let clock = Clock::simulated(crate::world::now(), 0);
    let sets: Arc<Store<Set<ReplicaSets>>> = Arc::default();
    let app = |app: &str| json!({"matchLabels": {"app": app}});
    sets.fill(
        vec![
            set("web", "u-web", &app("web"), 0),
            set("slow", "u-slow", &app("web"), 30),
            set("db", "u-db", &app("db"), 0),
        ],
        Version::parse("9"),
    );
    let ledger = Ledger::new(clock.clone(), Duration::from_mins(5));
    Fixture {
        watch: Watch {
            refused: TerminatingNamespaces::new(clock.clone(), Duration::from_mins(5)),
            queue: Queue::new(clock.clone(), Backoff::default(), None),
            sets,
            ledger,
            batch: Duration::from_secs(3),
            backoff: Some(PodBackoff::new(clock)),
        },
    }
}

impl Fixture {
    /// Returns the keys that are due now, and the delayed keys with their seconds.
    fn queued(&self) -> Vec<String> {
        let state = self.watch.queue.state(10);
        let later = state.delayed.iter().map(|(key, seconds)| format!("{key} in {seconds}"));
        state.waiting.into_iter().map(|key| key.replace("shop/", "")).chain(later).collect()
    }
}

fn added(pod: &PodBuilder) -> Vec<String> {
    told(&Event::Added(Arc::new(pod.build())))
}

fn deleted(pod: &PodBuilder) -> Vec<String> {
    told(&Event::Deleted(Arc::new(pod.build())))
}

fn updated(old: &PodBuilder, new: &PodBuilder) -> Vec<String> {
    let new = new.clone().version(2);
    told(&Event::Updated { old: Arc::new(old.build()), new: Arc::new(new.build()) })
}

fn told(event: &Event<CachedPod>) -> Vec<String> {
    let fixture = fixture();
    fixture.watch.on_pod(event, Origin::Watch);
    fixture.queued()
}

const NONE: [&str; 0] = [];

/// REPLICASET-4, REPLICASET-78.
#[tokio::test(start_paused = true)]
async fn a_pod_enqueues_the_set_that_controls_it() {
    assert_eq!(added(&pod("a")), ["web"]);
    assert_eq!(added(&pod("a").deleting()), ["web"]);
    assert_eq!(deleted(&pod("a")), ["web"]);
    assert_eq!(updated(&pod("a"), &pod("a")), ["shop/web in 3"], "a change without effect on counts is debounced");
    assert_eq!(updated(&pod("a"), &pod("a").deleting()), ["web"]);
    assert_eq!(deleted(&pod("a").deleting()), ["web"]);
}

/// Returns the set `web` with this `spec.replicas` and `status.replicas`.
fn sized(replicas: usize, counted: i32, version: &str, generation: i64) -> Set<ReplicaSets> {
    let mut object = web(replicas);
    object["metadata"]["uid"] = json!("u-web");
    object["metadata"]["resourceVersion"] = json!(version);
    object["metadata"]["generation"] = json!(generation);
    object["status"]["replicas"] = json!(counted);
    serde_json::from_str(&object.to_string()).unwrap()
}

/// REPLICASET-78.
#[tokio::test(start_paused = true)]
async fn a_status_and_the_end_of_a_terminating_pod_are_debounced_in_a_large_set_only() {
    let status = |pods: usize, generation: i64, version: &str, origin| {
        let fixture = fixture();
        let (old, new) = (sized(pods, 0, "10", 1), sized(pods, 0, version, generation));
        fixture.watch.on_set(&Event::Updated { old: Arc::new(old), new: Arc::new(new) }, origin);
        fixture.queued()
    };
    assert_eq!(status(99, 1, "11", Origin::Watch), ["web"]);
    assert_eq!(status(100, 1, "11", Origin::Watch), ["shop/web in 3"]);
    assert_eq!(status(100, 2, "11", Origin::Watch), ["web"], "the spec has changed");
    assert_eq!(status(100, 1, "10", Origin::Resync), ["web"]);
    let ended = |pods: usize, pod: &PodBuilder| {
        let fixture = fixture();
        fixture.watch.sets.fill(vec![sized(pods, 0, "10", 1)], Version::parse("10"));
        fixture.watch.on_pod(&Event::Deleted(Arc::new(pod.build())), Origin::Watch);
        fixture.queued()
    };
    assert_eq!(ended(99, &pod("a").deleting()), ["web"]);
    assert_eq!(ended(100, &pod("a").deleting()), ["shop/web in 3"]);
    assert_eq!(ended(100, &pod("a")), ["web"], "the number of active Pods has changed");
}

/// REPLICASET-78.
#[tokio::test(start_paused = true)]
async fn the_debounce_grows_with_the_size_of_the_set() {
    for (wanted, counted, seconds) in [(1, 1, 3), (199, 1, 3), (200, 0, 6), (1, 450, 12), (5000, 5000, 30)] {
        let fixture = fixture();
        let large = sized(wanted, counted, "10", 1);
        fixture.watch.sets.fill(vec![large], Version::parse("10"));
        let (old, new) = (pod("a"), pod("a").version(2));
        fixture.watch.on_pod(&Event::Updated { old: Arc::new(old.build()), new: Arc::new(new.build()) }, Origin::Watch);
        assert_eq!(fixture.queued(), [format!("shop/web in {seconds}")], "{wanted} wanted, {counted} counted");
    }
}

/// REPLICASET-4.
#[tokio::test(start_paused = true)]
async fn an_unresolved_owner_reference_enqueues_nothing() {
    for stranger in [
        pod("a").owner("ReplicationController", "web", "u-web"),
        pod("a").owner("ReplicaSet", "web", "u-other"),
        pod("a").owner("ReplicaSet", "gone", "u-web"),
    ] {
        assert_eq!(added(&stranger), NONE);
        assert_eq!(deleted(&stranger), NONE);
        assert_eq!(updated(&stranger, &stranger), NONE);
    }
}

/// REPLICASET-5.
#[tokio::test(start_paused = true)]
async fn an_orphan_enqueues_every_set_that_selects_it() {
    assert_eq!(added(&pod("a").orphan()), ["slow", "web"]);
    assert_eq!(added(&pod("a").orphan().labels(json!({}))), NONE);
    assert_eq!(added(&pod("a").orphan().labels(json!({"app": "other"}))), NONE);
    assert_eq!(added(&pod("a").orphan().deleting()), NONE);
    assert_eq!(deleted(&pod("a").orphan()), NONE);
}

/// REPLICASET-5.
#[tokio::test(start_paused = true)]
async fn a_changed_orphan_enqueues_sets_only_if_its_labels_changed() {
    let orphan = pod("a").orphan();
    assert_eq!(updated(&orphan, &orphan.clone().unready()), NONE);
    assert_eq!(updated(&orphan, &orphan.clone().labels(json!({"app": "db"}))), ["db"]);
    assert_eq!(updated(&orphan, &orphan.clone().labels(json!({"app": "db"})).deleting()), NONE);
}

/// REPLICASET-4.
#[tokio::test(start_paused = true)]
async fn a_pod_with_a_new_owner_enqueues_both_owners() {
    let (mine, theirs) = (pod("a"), pod("a").owner("ReplicaSet", "db", "u-db"));
    assert_eq!(updated(&mine, &theirs), ["db", "web"]);
    assert_eq!(updated(&mine, &theirs.deleting()), ["db", "web"]);
    assert_eq!(updated(&mine, &mine.clone().orphan()), ["slow", "web"]);
    let released = mine.clone().orphan().labels(json!({"app": "db"}));
    assert_eq!(updated(&mine, &released), ["db", "web"]);
    assert_eq!(updated(&released, &mine), ["web"]);
}

/// REPLICASET-6.
#[tokio::test(start_paused = true)]
async fn an_update_without_a_new_version_enqueues_nothing() {
    let same = Arc::new(pod("a").build());
    assert_eq!(told(&Event::Updated { old: Arc::clone(&same), new: same }), NONE);
}

/// REPLICASET-7.
#[tokio::test(start_paused = true)]
async fn a_pod_that_becomes_ready_enqueues_its_set_again_when_available() {
    let slow = pod("a").owner("ReplicaSet", "slow", "u-slow");
    assert_eq!(updated(&slow.clone().unready(), &slow), ["slow", "shop/slow in 30"]);
    assert_eq!(updated(&slow, &slow), ["shop/slow in 3"]);
    assert_eq!(updated(&slow, &slow.clone().unready()), ["shop/slow in 3"]);
    assert_eq!(updated(&pod("a").unready(), &pod("a")), ["shop/web in 3"]);
}

/// REPLICASET-4.
#[tokio::test(start_paused = true)]
async fn an_unreadable_pod_enqueues_its_set() {
    let meta = pod("a").build().meta().clone();
    assert_eq!(told(&Event::Unreadable(Arc::new(Malformed { meta, error: "no".to_owned() }))), ["web"]);
}

/// REPLICASET-6.
#[tokio::test(start_paused = true)]
async fn the_initial_list_of_pods_enqueues_nothing() {
    let fixture = fixture();
    fixture.watch.on_pod(&Event::Added(Arc::new(pod("a").build())), Origin::Initial);
    assert_eq!(fixture.queued(), NONE);
}

/// REPLICASET-3, REPLICASET-44.
#[tokio::test(start_paused = true)]
async fn every_event_of_a_set_enqueues_it_and_its_deletion_clears_the_ledger() {
    let fixture = fixture();
    let set = Arc::new(set("web", "u-web", &json!({"matchLabels": {"app": "web"}}), 0));
    let uid = &set.set().metadata.uid;
    for event in [Event::Added(Arc::clone(&set)), Event::Updated { old: Arc::clone(&set), new: Arc::clone(&set) }] {
        fixture.watch.on_set(&event, Origin::Resync);
        assert_eq!(fixture.queued(), ["web"]);
        let key = fixture.watch.queue.next().await.unwrap();
        fixture.watch.queue.done(&key);
    }
    fixture.watch.ledger.wrote(uid, common::pods::PODS, Version::parse("99"));
    fixture.watch.on_set(&Event::Deleted(set), Origin::Watch);
    assert_eq!(fixture.queued(), ["web"]);
    assert!(fixture.watch.ledger.is_empty());
}

/// Lets Pod `a` fail and its replacement `b` appear, calls `happens` with `b`, and returns whether the set is in back-off then.
fn waits(happens: impl FnOnce(&Fixture, &PodBuilder)) -> bool {
    let fixture = fixture();
    let backoff = fixture.watch.backoff.clone().unwrap();
    let tell = |event| fixture.watch.on_pod(&event, Origin::Watch);
    tell(Event::Deleted(Arc::new(pod("a").unready().build())));
    backoff.replacing(&Uid::new("u-web"));
    let replacement = pod("b").unready();
    tell(Event::Added(Arc::new(replacement.build())));
    happens(&fixture, &replacement);
    backoff.failing(&Uid::new("u-web")).is_some()
}

fn gone(pod: PodBuilder) -> impl FnOnce(&Fixture, &PodBuilder) {
    move |fixture, _| fixture.watch.on_pod(&Event::Deleted(Arc::new(pod.build())), Origin::Watch)
}

/// REPLICASET-67.
#[tokio::test(start_paused = true)]
async fn a_pod_that_disappears_unready_from_its_node_has_failed() {
    for (pod, failed) in [
        (pod("b").unready(), true),
        (pod("b").phase("Pending").unready(), true),
        (pod("b"), false),
        (pod("b").unready().deleting(), false),
        (pod("b").unready().node(""), false),
        (pod("b").unready().orphan(), false),
        (pod("b").unready().owner("ReplicaSet", "db", "u-db"), false),
        (pod("c").unready(), false),
    ] {
        assert_eq!(waits(gone(pod.clone())), failed, "{pod:?}");
    }
}

/// REPLICASET-67.
#[tokio::test(start_paused = true)]
async fn a_pod_missing_from_a_later_list_has_not_failed() {
    assert!(!waits(|fixture, pod| {
        fixture.watch.on_pod(&Event::Deleted(Arc::new(pod.build())), Origin::Relist);
    }));
}

/// REPLICASET-66.
#[tokio::test(start_paused = true)]
async fn a_ready_pod_or_the_deletion_of_the_set_ends_the_back_off() {
    let fail = |fixture: &Fixture, pod: &PodBuilder| gone(pod.clone())(fixture, pod);
    let ready = || Arc::new(pod("c").version(2).build());
    let update = |old: PodBuilder| Event::Updated { old: Arc::new(old.build()), new: ready() };
    assert!(waits(|fixture, pod| {
        fail(fixture, pod);
        fixture.watch.on_pod(&update(crate::world::pod("c")), Origin::Watch);
    }));
    for event in [update(pod("c").unready()), Event::Added(ready())] {
        assert!(!waits(|fixture, pod| {
            fail(fixture, pod);
            fixture.watch.on_pod(&event, Origin::Watch);
        }));
    }
    assert!(!waits(|fixture, pod| {
        fail(fixture, pod);
        let web = set("web", "u-web", &json!({"matchLabels": {"app": "web"}}), 0);
        fixture.watch.on_set(&Event::Deleted(Arc::new(web)), Origin::Watch);
    }));
}

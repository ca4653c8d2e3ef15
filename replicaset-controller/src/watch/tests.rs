use common::{
    clock::Clock,
    meta::{ResourceVersion, Uid},
    object::MalformedObject,
    queue::BackoffSettings,
};
use serde_json::{Value, json};

use super::*;
use crate::{
    kind::ReplicaSets,
    world::{PodBuilder, pod_builder, web_set_json},
};

struct Fixture {
    watch: EventHandlers<ReplicaSets>,
}

fn set(name: &str, uid: &str, selector: &Value, min_ready: i32) -> CachedSet<ReplicaSets> {
    let mut object = web_set_json(1);
    object["metadata"]["name"] = json!(name);
    object["metadata"]["uid"] = json!(uid);
    object["spec"]["selector"] = selector.clone();
    object["spec"]["minReadySeconds"] = json!(min_ready);
    serde_json::from_str(&object.to_string()).unwrap()
}

/// Returns handlers with three sets: `web` and `slow` select `app=web`, `db` selects `app=db`. `slow` has `minReadySeconds` 30.
fn fixture() -> Fixture {
    let clock = Clock::simulated(crate::world::now(), 0);
    let sets: Arc<Store<CachedSet<ReplicaSets>>> = Arc::default();
    let app = |app: &str| json!({"matchLabels": {"app": app}});
    sets.replace_objects_for_tests(
        vec![
            set("web", "u-web", &app("web"), 0),
            set("slow", "u-slow", &app("web"), 30),
            set("db", "u-db", &app("db"), 0),
        ],
        ResourceVersion::parse("9"),
    );
    let ledger = Ledger::new(clock.clone(), Duration::from_mins(5));
    Fixture {
        watch: EventHandlers {
            pod_creation_pauses: PodCreationPauses::new(clock.clone(), Duration::from_mins(5)),
            queue: Queue::new(clock.clone(), BackoffSettings::default(), None),
            replica_set_store: sets,
            ledger,
            min_debounce_period: Duration::from_secs(3),
            failed_pod_backoffs: Some(FailedPodBackoffs::new(clock)),
        },
    }
}

impl Fixture {
    /// Returns the keys that are ready for a sync now, and the delayed keys with their delays in seconds.
    fn queued(&self) -> Vec<String> {
        let state = self.watch.queue.debug_state(10);
        let later = state.delayed.iter().map(|(key, seconds)| format!("{key} in {seconds}"));
        state.waiting.into_iter().map(|key| key.replace("shop/", "")).chain(later).collect()
    }
}

fn added(pod: &PodBuilder) -> Vec<String> {
    told(&CacheEvent::Added(Arc::new(pod.build())))
}

fn deleted(pod: &PodBuilder) -> Vec<String> {
    told(&CacheEvent::Deleted(Arc::new(pod.build())))
}

fn updated(old: &PodBuilder, new: &PodBuilder) -> Vec<String> {
    let new = new.clone().resource_version(2);
    told(&CacheEvent::Updated { old: Arc::new(old.build()), new: Arc::new(new.build()) })
}

fn told(event: &CacheEvent<CachedPod>) -> Vec<String> {
    let fixture = fixture();
    fixture.watch.on_pod_event(event, ChangeOrigin::Watch);
    fixture.queued()
}

const NONE: [&str; 0] = [];

/// REPLICASET-4, REPLICASET-78.
#[tokio::test(start_paused = true)]
async fn a_pod_enqueues_the_set_that_controls_it() {
    assert_eq!(added(&pod_builder("a")), ["web"]);
    assert_eq!(added(&pod_builder("a").terminating()), ["web"]);
    assert_eq!(deleted(&pod_builder("a")), ["web"]);
    assert_eq!(
        updated(&pod_builder("a"), &pod_builder("a")),
        ["shop/web in 3"],
        "a change without effect on counts is debounced"
    );
    assert_eq!(updated(&pod_builder("a"), &pod_builder("a").terminating()), ["web"]);
    assert_eq!(deleted(&pod_builder("a").terminating()), ["web"]);
}

/// Returns the set `web` with this `spec.replicas` and `status.replicas`.
fn sized(replicas: usize, counted: i32, version: &str, generation: i64) -> CachedSet<ReplicaSets> {
    let mut object = web_set_json(replicas);
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
        fixture.watch.on_set_event(&CacheEvent::Updated { old: Arc::new(old), new: Arc::new(new) }, origin);
        fixture.queued()
    };
    assert_eq!(status(99, 1, "11", ChangeOrigin::Watch), ["web"]);
    assert_eq!(status(100, 1, "11", ChangeOrigin::Watch), ["shop/web in 3"]);
    assert_eq!(status(100, 2, "11", ChangeOrigin::Watch), ["web"], "the spec has changed");
    assert_eq!(status(100, 1, "10", ChangeOrigin::Resync), ["web"]);
    let ended = |pods: usize, pod: &PodBuilder| {
        let fixture = fixture();
        fixture
            .watch
            .replica_set_store
            .replace_objects_for_tests(vec![sized(pods, 0, "10", 1)], ResourceVersion::parse("10"));
        fixture.watch.on_pod_event(&CacheEvent::Deleted(Arc::new(pod.build())), ChangeOrigin::Watch);
        fixture.queued()
    };
    assert_eq!(ended(99, &pod_builder("a").terminating()), ["web"]);
    assert_eq!(ended(100, &pod_builder("a").terminating()), ["shop/web in 3"]);
    assert_eq!(ended(100, &pod_builder("a")), ["web"], "the number of active Pods has changed");
}

/// REPLICASET-78.
#[tokio::test(start_paused = true)]
async fn the_debounce_grows_with_the_size_of_the_set() {
    for (wanted, counted, seconds) in [(1, 1, 3), (199, 1, 3), (200, 0, 6), (1, 450, 12), (5000, 5000, 30)] {
        let fixture = fixture();
        let large = sized(wanted, counted, "10", 1);
        fixture.watch.replica_set_store.replace_objects_for_tests(vec![large], ResourceVersion::parse("10"));
        let (old, new) = (pod_builder("a"), pod_builder("a").resource_version(2));
        fixture.watch.on_pod_event(
            &CacheEvent::Updated { old: Arc::new(old.build()), new: Arc::new(new.build()) },
            ChangeOrigin::Watch,
        );
        assert_eq!(fixture.queued(), [format!("shop/web in {seconds}")], "{wanted} wanted, {counted} counted");
    }
}

/// REPLICASET-4.
#[tokio::test(start_paused = true)]
async fn an_unresolved_owner_reference_enqueues_nothing() {
    for stranger in [
        pod_builder("a").owner("ReplicationController", "web", "u-web"),
        pod_builder("a").owner("ReplicaSet", "web", "u-other"),
        pod_builder("a").owner("ReplicaSet", "gone", "u-web"),
    ] {
        assert_eq!(added(&stranger), NONE);
        assert_eq!(deleted(&stranger), NONE);
        assert_eq!(updated(&stranger, &stranger), NONE);
    }
}

/// REPLICASET-5.
#[tokio::test(start_paused = true)]
async fn an_orphan_enqueues_every_set_that_selects_it() {
    assert_eq!(added(&pod_builder("a").into_orphan()), ["slow", "web"]);
    assert_eq!(added(&pod_builder("a").into_orphan().labels(json!({}))), NONE);
    assert_eq!(added(&pod_builder("a").into_orphan().labels(json!({"app": "other"}))), NONE);
    assert_eq!(added(&pod_builder("a").into_orphan().terminating()), NONE);
    assert_eq!(deleted(&pod_builder("a").into_orphan()), NONE);
}

/// REPLICASET-5.
#[tokio::test(start_paused = true)]
async fn a_changed_orphan_enqueues_sets_only_if_its_labels_changed() {
    let orphan = pod_builder("a").into_orphan();
    assert_eq!(updated(&orphan, &orphan.clone().unready()), NONE);
    assert_eq!(updated(&orphan, &orphan.clone().labels(json!({"app": "db"}))), ["db"]);
    assert_eq!(updated(&orphan, &orphan.clone().labels(json!({"app": "db"})).terminating()), NONE);
}

/// REPLICASET-4.
#[tokio::test(start_paused = true)]
async fn a_pod_with_a_new_owner_enqueues_both_owners() {
    let (mine, theirs) = (pod_builder("a"), pod_builder("a").owner("ReplicaSet", "db", "u-db"));
    assert_eq!(updated(&mine, &theirs), ["db", "web"]);
    assert_eq!(updated(&mine, &theirs.terminating()), ["db", "web"]);
    assert_eq!(updated(&mine, &mine.clone().into_orphan()), ["slow", "web"]);
    let released = mine.clone().into_orphan().labels(json!({"app": "db"}));
    assert_eq!(updated(&mine, &released), ["db", "web"]);
    assert_eq!(updated(&released, &mine), ["web"]);
}

/// REPLICASET-6.
#[tokio::test(start_paused = true)]
async fn an_update_without_a_new_version_enqueues_nothing() {
    let same = Arc::new(pod_builder("a").build());
    assert_eq!(told(&CacheEvent::Updated { old: Arc::clone(&same), new: same }), NONE);
}

/// REPLICASET-7.
#[tokio::test(start_paused = true)]
async fn a_pod_that_becomes_ready_enqueues_its_set_again_when_available() {
    let slow = pod_builder("a").owner("ReplicaSet", "slow", "u-slow");
    assert_eq!(updated(&slow.clone().unready(), &slow), ["slow", "shop/slow in 30"]);
    assert_eq!(updated(&slow, &slow), ["shop/slow in 3"]);
    assert_eq!(updated(&slow, &slow.clone().unready()), ["shop/slow in 3"]);
    assert_eq!(updated(&pod_builder("a").unready(), &pod_builder("a")), ["shop/web in 3"]);
}

/// REPLICASET-4.
#[tokio::test(start_paused = true)]
async fn an_unreadable_pod_enqueues_its_set() {
    let meta = pod_builder("a").build().meta().clone();
    assert_eq!(told(&CacheEvent::Unreadable(Arc::new(MalformedObject { meta, error: "no".to_owned() }))), ["web"]);
}

/// REPLICASET-6.
#[tokio::test(start_paused = true)]
async fn the_initial_list_of_pods_enqueues_nothing() {
    let fixture = fixture();
    fixture.watch.on_pod_event(&CacheEvent::Added(Arc::new(pod_builder("a").build())), ChangeOrigin::Initial);
    assert_eq!(fixture.queued(), NONE);
}

/// REPLICASET-3, REPLICASET-44.
#[tokio::test(start_paused = true)]
async fn every_event_of_a_set_enqueues_it_and_its_deletion_clears_the_ledger() {
    let fixture = fixture();
    let set = Arc::new(set("web", "u-web", &json!({"matchLabels": {"app": "web"}}), 0));
    let uid = &set.replica_set.metadata.uid;
    for event in
        [CacheEvent::Added(Arc::clone(&set)), CacheEvent::Updated { old: Arc::clone(&set), new: Arc::clone(&set) }]
    {
        fixture.watch.on_set_event(&event, ChangeOrigin::Resync);
        assert_eq!(fixture.queued(), ["web"]);
        let key = fixture.watch.queue.next_key().await.unwrap();
        fixture.watch.queue.mark_processed(&key);
    }
    fixture.watch.ledger.record_write(uid, common::pods::PODS, ResourceVersion::parse("99"));
    fixture.watch.on_set_event(&CacheEvent::Deleted(set), ChangeOrigin::Watch);
    assert_eq!(fixture.queued(), ["web"]);
    assert!(fixture.watch.ledger.is_empty());
}

/// Lets Pod `a` fail and its replacement `b` appear, calls `happens` with `b`, and returns whether the set is then in back-off.
fn waits(happens: impl FnOnce(&Fixture, &PodBuilder)) -> bool {
    let fixture = fixture();
    let backoff = fixture.watch.failed_pod_backoffs.clone().unwrap();
    let tell = |event| fixture.watch.on_pod_event(&event, ChangeOrigin::Watch);
    tell(CacheEvent::Deleted(Arc::new(pod_builder("a").unready().build())));
    backoff.record_pod_creation(&Uid::new("u-web"));
    let replacement = pod_builder("b").unready();
    tell(CacheEvent::Added(Arc::new(replacement.build())));
    happens(&fixture, &replacement);
    backoff.backoff_of_set(&Uid::new("u-web")).is_some()
}

fn gone(pod: PodBuilder) -> impl FnOnce(&Fixture, &PodBuilder) {
    move |fixture, _| fixture.watch.on_pod_event(&CacheEvent::Deleted(Arc::new(pod.build())), ChangeOrigin::Watch)
}

/// REPLICASET-67.
#[tokio::test(start_paused = true)]
async fn a_pod_that_disappears_unready_from_its_node_has_failed() {
    for (pod, failed) in [
        (pod_builder("b").unready(), true),
        (pod_builder("b").phase("Pending").unready(), true),
        (pod_builder("b"), false),
        (pod_builder("b").unready().terminating(), false),
        (pod_builder("b").unready().node(""), false),
        (pod_builder("b").unready().into_orphan(), false),
        (pod_builder("b").unready().owner("ReplicaSet", "db", "u-db"), false),
        (pod_builder("c").unready(), false),
    ] {
        assert_eq!(waits(gone(pod.clone())), failed, "{pod:?}");
    }
}

/// REPLICASET-67.
#[tokio::test(start_paused = true)]
async fn a_pod_missing_from_a_later_list_has_not_failed() {
    assert!(!waits(|fixture, pod| {
        fixture.watch.on_pod_event(&CacheEvent::Deleted(Arc::new(pod.build())), ChangeOrigin::Relist);
    }));
}

/// REPLICASET-66.
#[tokio::test(start_paused = true)]
async fn a_ready_pod_or_the_deletion_of_the_set_ends_the_back_off() {
    let fail = |fixture: &Fixture, pod: &PodBuilder| gone(pod.clone())(fixture, pod);
    let ready = || Arc::new(pod_builder("c").resource_version(2).build());
    let update = |old: PodBuilder| CacheEvent::Updated { old: Arc::new(old.build()), new: ready() };
    assert!(waits(|fixture, pod| {
        fail(fixture, pod);
        fixture.watch.on_pod_event(&update(crate::world::pod_builder("c")), ChangeOrigin::Watch);
    }));
    for event in [update(pod_builder("c").unready()), CacheEvent::Added(ready())] {
        assert!(!waits(|fixture, pod| {
            fail(fixture, pod);
            fixture.watch.on_pod_event(&event, ChangeOrigin::Watch);
        }));
    }
    assert!(!waits(|fixture, pod| {
        fail(fixture, pod);
        let web = set("web", "u-web", &json!({"matchLabels": {"app": "web"}}), 0);
        fixture.watch.on_set_event(&CacheEvent::Deleted(Arc::new(web)), ChangeOrigin::Watch);
    }));
}

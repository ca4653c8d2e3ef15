use common::{metrics::Metrics, object::Object};
use serde_json::json;

use super::*;
use crate::world::{PodBuilder, pod, world};

struct Ground {
    watch: EventHandlers,
    clock: Clock,
}

fn read<T: Object>(value: &serde_json::Value) -> T {
    serde_json::from_str(&value.to_string()).unwrap()
}

fn ground(min_ready_seconds: i32) -> Ground {
    let clock = Clock::simulated(crate::world::sync_time(), 1);
    let sets: Arc<Store<StatefulSet>> = Arc::default();
    sets.replace_objects_for_tests(
        vec![read(&world(3).spec("minReadySeconds", json!(min_ready_seconds)).set)],
        ResourceVersion::parse("9"),
    );
    let watch = EventHandlers {
        queue: Queue::new(clock.clone(), BackoffSettings::default(), None),
        stateful_set_store: sets,
        ledger: Ledger::new(clock.clone(), Duration::from_secs(300)),
        metrics: ControllerMetrics::new(&Metrics::new()),
        awaited_volume_claims: AwaitedVolumeClaims::default(),
        report_times: ReportTimes::default(),
        template_cache: ParseCache::default(),
    };
    Ground { watch, clock }
}

fn cached(pod: &PodBuilder, version: u64) -> Arc<CachedPod> {
    let mut json = pod.0.clone();
    json["metadata"]["resourceVersion"] = json!(version.to_string());
    Arc::new(read(&json))
}

impl Ground {
    fn brings(&self, event: &CacheEvent<CachedPod>) -> usize {
        self.watch.on_pod(event, ChangeOrigin::Watch);
        self.watch.queue.len()
    }
}

/// STATEFULSET-3.
#[tokio::test(start_paused = true)]
async fn a_pod_event_enqueues_its_set() {
    for (event, keys) in [
        (CacheEvent::Added(cached(&pod(0), 1)), 1),
        (CacheEvent::Deleted(cached(&pod(0), 1)), 1),
        (CacheEvent::Added(cached(&pod(0).orphan(), 1)), 1),
        (CacheEvent::Deleted(cached(&pod(0).orphan(), 1)), 0),
        (CacheEvent::Updated { old: cached(&pod(0), 1), new: cached(&pod(0), 1) }, 0),
        (CacheEvent::Updated { old: cached(&pod(0), 1), new: cached(&pod(0), 2) }, 1),
        (CacheEvent::Updated { old: cached(&pod(0), 1), new: cached(&pod(0).orphan(), 2) }, 1),
        (CacheEvent::Updated { old: cached(&pod(0).orphan(), 1), new: cached(&pod(0).orphan(), 2) }, 0),
    ] {
        assert_eq!(ground(0).brings(&event), keys);
    }
    let ground = ground(0);
    ground.watch.on_pod(&CacheEvent::Added(cached(&pod(0), 1)), ChangeOrigin::Initial);
    assert!(ground.watch.queue.is_empty(), "the first list of sets enqueues every set");
}

/// STATEFULSET-4.
#[tokio::test(start_paused = true)]
async fn a_pod_that_became_ready_enqueues_its_set_again_when_it_becomes_available() {
    let ground = ground(10);
    let change = CacheEvent::Updated { old: cached(&pod(0).unready(), 1), new: cached(&pod(0).ready_for(0), 2) };
    assert_eq!(ground.brings(&change), 1);
    let key = ground.watch.queue.next_key().await.unwrap();
    ground.watch.queue.mark_processed(&key);
    ground.clock.sleep(Duration::from_millis(9900)).await;
    assert!(ground.watch.queue.is_empty());
    ground.clock.sleep(Duration::from_millis(200)).await;
    assert_eq!(ground.watch.queue.next_key().await, Some(key));
}

/// STATEFULSET-5, STATEFULSET-80.
#[tokio::test(start_paused = true)]
async fn the_deletion_of_a_claim_enqueues_the_sets_that_wait_for_it() {
    let ground = ground(0);
    let claim: Arc<CachedVolumeClaim> =
        Arc::new(read(&json!({"metadata": {"name": "data-web-0", "namespace": "shop"}})));
    ground.watch.on_volume_claim(&CacheEvent::Deleted(Arc::clone(&claim)), ChangeOrigin::Watch);
    assert!(ground.watch.queue.is_empty());
    ground
        .watch
        .awaited_volume_claims
        .replace_claims_of_set(&NamespacedName::new("shop", "web"), vec![claim.metadata.key()]);
    ground.watch.on_volume_claim(&CacheEvent::Added(Arc::clone(&claim)), ChangeOrigin::Watch);
    assert!(ground.watch.queue.is_empty());
    ground.watch.on_volume_claim(&CacheEvent::Deleted(Arc::clone(&claim)), ChangeOrigin::Watch);
    ground.watch.on_volume_claim(&CacheEvent::Deleted(claim), ChangeOrigin::Watch);
    assert_eq!(ground.watch.queue.len(), 1);
}

/// STATEFULSET-5, STATEFULSET-41.
#[tokio::test(start_paused = true)]
async fn the_deletion_of_a_claim_enqueues_the_set_that_its_name_contains() {
    for (name, keys) in
        [("shop-data-web-0", 1), ("shop-data-web-12", 1), ("data-web-0", 0), ("shop-data-db-0", 0), ("x", 0)]
    {
        let ground = ground(0);
        let templates =
            json!([{"metadata": {"name": "shop-data"}, "spec": {"resources": {"requests": {"storage": "1Gi"}}}}]);
        let set = world(3).spec("volumeClaimTemplates", templates).set;
        let version = ResourceVersion::parse("10");
        ground.watch.stateful_set_store.replace_objects_for_tests(Vec::new(), version);
        ground.watch.stateful_set_store.replace_objects_for_tests(vec![read(&set)], version);
        let claim = read(&json!({"metadata": {"name": name, "namespace": "shop"}}));
        ground.watch.on_volume_claim(&CacheEvent::Deleted(Arc::new(claim)), ChangeOrigin::Watch);
        assert_eq!(ground.watch.queue.len(), keys, "{name}");
    }
}

#[tokio::test(start_paused = true)]
async fn entries_of_a_deleted_set_are_removed() {
    let ground = ground(0);
    let set = ground.watch.stateful_set_store.get("shop", "web").unwrap().unwrap();
    ground
        .watch
        .awaited_volume_claims
        .replace_claims_of_set(&set.metadata.key(), vec![NamespacedName::new("shop", "data-web-0")]);
    let templates = &ground.watch.template_cache;
    let parse = |raw: &common::wire::RawMessage| {
        PodTemplateWithRevisionData::new(raw.clone(), common::revision::NumberEncoding::Doubles)
    };
    let parsed = templates.get_or_parse(&set.metadata.uid, &set.template, parse).unwrap();
    ground.watch.stateful_set_store.replace_objects_for_tests(Vec::new(), ResourceVersion::parse("10"));
    ground.watch.on_set(&CacheEvent::Deleted(Arc::clone(&set)), ChangeOrigin::Watch);
    assert_eq!(ground.watch.awaited_volume_claims.len(), 0);
    assert!(!Arc::ptr_eq(&parsed, &templates.get_or_parse(&set.metadata.uid, &set.template, parse).unwrap()));
}

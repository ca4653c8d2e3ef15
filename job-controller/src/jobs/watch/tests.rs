use common::prelude::*;
use serde_json::json;

use super::*;
use crate::world::{PodBuilder, job, pod, sync_time_plus_seconds};

struct Fixture {
    watch: EventHandlers,
}

fn named(name: &str, uid: &str, labels: &serde_json::Value, finished: bool) -> Job {
    let mut builder = job(name).spec_field("selector", json!({ "matchLabels": labels }));
    builder.0["metadata"]["uid"] = json!(uid);
    if finished {
        builder = builder.condition("Complete", "True", "", "");
    }
    builder.build_job()
}

/// Builds handlers and a cache with three Jobs that select the label `job=j`: `j`, which controls the Pods of these tests,
/// `other`, and `done`, which has finished.
fn fixture() -> Fixture {
    let clock = Clock::simulated(sync_time_plus_seconds(0), 0);
    let labels = json!({"job": "j"});
    let jobs: Arc<Store<Job>> = Arc::default();
    jobs.replace_objects_for_tests(
        vec![
            named("j", "u-job", &labels, false),
            named("other", "u-other", &labels, false),
            named("done", "u-done", &labels, true),
        ],
        ResourceVersion::parse("9"),
    );
    let queue = || Queue::new(clock.clone(), BackoffSettings::default(), None);
    let orphans = Queue::new(clock.clone(), BackoffSettings::default(), None);
    let metrics = JobMetrics::new(&common::metrics::Metrics::new());
    let pods: Arc<Store<CachedPod>> = Arc::default();
    let ledger = Ledger::new(clock.clone(), Duration::from_secs(300));
    ledger.add_cache(pods.clone());
    Fixture {
        watch: EventHandlers {
            job_queue: queue(),
            orphan_queue: orphans,
            job_store: jobs,
            pod_store: pods,
            ledger,
            metrics,
            sync_batch_period: Duration::from_secs(1),
        },
    }
}

impl Fixture {
    /// Returns the keys in both queues: waiting Jobs, delayed Jobs with their delay in seconds, and possible orphans.
    fn queued(&self) -> Vec<String> {
        let state = self.watch.job_queue.debug_state(10);
        let later = state.delayed.iter().map(|(key, seconds)| format!("{key} in {seconds}"));
        let orphans = self.watch.orphan_queue.debug_state(10).waiting.into_iter().map(|key| format!("orphan {key}"));
        state.waiting.into_iter().chain(later).chain(orphans).map(|key| key.replace("shop/", "")).collect()
    }

    fn queued_after(&self, event: &CacheEvent<CachedPod>) -> Vec<String> {
        self.watch.on_pod(event, ChangeOrigin::Watch);
        self.queued()
    }
}

fn version(pod: &PodBuilder, version: u64) -> PodBuilder {
    let mut pod = pod.clone();
    pod.0["metadata"]["resourceVersion"] = json!(version.to_string());
    pod
}

fn owner(pod: &PodBuilder, name: &str, uid: &str) -> PodBuilder {
    let mut pod = pod.clone();
    pod.0["metadata"]["ownerReferences"][0]["name"] = json!(name);
    pod.0["metadata"]["ownerReferences"][0]["uid"] = json!(uid);
    pod
}

fn added(pod: &PodBuilder) -> Vec<String> {
    fixture().queued_after(&CacheEvent::Added(pod.build()))
}

fn updated(old: &PodBuilder, new: &PodBuilder) -> Vec<String> {
    fixture().queued_after(&CacheEvent::Updated { old: old.build(), new: version(new, 2).build() })
}

/// JOB-7.
#[tokio::test(start_paused = true)]
async fn a_new_pod_enqueues_its_job_debounced() {
    assert_eq!(added(&pod("p")), ["j in 1"]);
    assert_eq!(added(&owner(&pod("p"), "j", "u-before")), [""; 0], "a recreated Job");
    assert_eq!(added(&pod("p").orphan()), ["j in 1", "other in 1"], "Jobs that may adopt it");
    assert_eq!(added(&pod("p").orphan().labels(json!({}))), [""; 0]);
}

/// JOB-61.
#[tokio::test(start_paused = true)]
async fn an_uncontrolled_pod_with_the_finalizer_is_enqueued_as_an_orphan() {
    let mut orphan = pod("p").labels(json!({}));
    orphan.0["metadata"]["ownerReferences"] = json!([]);
    assert_eq!(added(&orphan), ["orphan p"]);
    assert_eq!(updated(&pod("p"), &orphan), ["j in 1", "orphan p"]);
}

#[tokio::test(start_paused = true)]
async fn a_terminating_pod_enqueues_its_job_or_itself_as_an_orphan() {
    assert_eq!(added(&pod("p").deleting()), ["j in 1"]);
    assert_eq!(added(&owner(&pod("p").deleting(), "done", "u-done")), ["orphan p"]);
    assert_eq!(added(&owner(&pod("p").deleting(), "gone", "u-gone")), ["orphan p"]);
    assert_eq!(added(&owner(&pod("p").deleting().without_finalizer(), "gone", "u-gone")), [""; 0]);
    assert_eq!(updated(&pod("p"), &pod("p").deleting()), ["j in 1"]);
}

/// JOB-7.
#[tokio::test(start_paused = true)]
async fn an_update_enqueues_the_old_and_the_new_owner() {
    assert_eq!(updated(&pod("p"), &pod("p").succeeded()), ["j in 1"]);
    assert_eq!(updated(&owner(&pod("p"), "other", "u-other"), &pod("p")), ["j in 1", "other in 1"]);
    let stray = pod("p").orphan();
    assert_eq!(updated(&stray, &stray.clone().phase("Failed")), [""; 0]);
    assert_eq!(updated(&stray.clone().labels(json!({})), &stray), ["j in 1", "other in 1"]);
    let same = CacheEvent::Updated { old: pod("p").build(), new: pod("p").build() };
    assert_eq!(fixture().queued_after(&same), [""; 0], "a resync changes nothing");
}

/// JOB-7.
#[tokio::test(start_paused = true)]
async fn a_deleted_pod_enqueues_its_job() {
    assert_eq!(fixture().queued_after(&CacheEvent::Deleted(pod("p").build())), ["j in 1"]);
    assert_eq!(fixture().queued_after(&CacheEvent::Deleted(owner(&pod("p"), "gone", "u").build())), [""; 0]);
}

/// JOB-82.
#[tokio::test(start_paused = true)]
async fn the_first_list_of_pods_enqueues_possible_orphans() {
    let fixture = fixture();
    for pod in [pod("a"), pod("b"), pod("c").without_finalizer()] {
        fixture.watch.on_pod(&CacheEvent::Added(pod.build()), ChangeOrigin::Initial);
    }
    let mut lost = pod("d");
    lost.0["metadata"]["ownerReferences"] = json!([]);
    fixture.watch.on_pod(&CacheEvent::Added(lost.build()), ChangeOrigin::Initial);
    assert_eq!(fixture.queued(), ["orphan d", "orphan j/u-job"]);
}

/// JOB-7.
#[tokio::test(start_paused = true)]
async fn a_job_is_enqueued_at_once_unless_only_its_status_changed() {
    let read = |change: &dyn Fn(&mut serde_json::Value)| {
        let mut builder = job("j");
        change(&mut builder.0);
        Arc::new(builder.build_job())
    };
    let told = |event: CacheEvent<Job>| {
        let fixture = fixture();
        fixture.watch.on_job(&event, ChangeOrigin::Watch);
        fixture.queued()
    };
    let old = || read(&|_| {});
    let finished = || read(&|job| job["status"]["conditions"] = json!([{"type": "Failed", "status": "True"}]));
    assert_eq!(told(CacheEvent::Added(old())), ["j"]);
    assert_eq!(told(CacheEvent::Added(finished())), ["j", "orphan j/u-job"]);
    let newer = read(&|job| job["metadata"]["generation"] = json!(2));
    assert_eq!(told(CacheEvent::Updated { old: old(), new: newer }), ["j"]);
    let counted = read(&|job| job["status"]["succeeded"] = json!(2));
    assert_eq!(told(CacheEvent::Updated { old: old(), new: counted }), ["j in 1"]);
    assert_eq!(told(CacheEvent::Updated { old: old(), new: finished() }), ["orphan j/u-job"]);
    assert_eq!(told(CacheEvent::Deleted(old())), ["j", "orphan j/u-job"]);
}

/// JOB-9.
#[tokio::test(start_paused = true)]
async fn a_job_that_waits_for_own_writes_is_enqueued_when_the_cache_shows_them() {
    let fixture = fixture();
    let job = Uid::new("u-job");
    fixture.watch.pod_store.replace_objects_for_tests(vec![], ResourceVersion::parse("19"));
    fixture.watch.ledger.record_write(&job, CachedPod::RESOURCE, ResourceVersion::parse("20"));
    let key = NamespacedName::new("shop", "j");
    assert!(fixture.watch.ledger.check(&job, &key, WaitPolicy::WrittenVersions, HashSet::default).is_err());
    assert_eq!(fixture.queued_after(&CacheEvent::Added(pod("p").build())), ["j in 1"]);
    fixture.watch.pod_store.replace_objects_for_tests(vec![], ResourceVersion::parse("20"));
    assert_eq!(fixture.queued_after(&CacheEvent::Added(pod("p").build())), ["j", "j in 1"]);
}

/// JOB-68.
#[tokio::test(start_paused = true)]
async fn terminated_pods_with_the_finalizer_are_counted() {
    let fixture = fixture();
    let metrics = common::metrics::Metrics::new();
    let watch = EventHandlers { metrics: JobMetrics::new(&metrics), ..fixture.watch };
    let tell = |event: CacheEvent<CachedPod>| watch.on_pod(&event, ChangeOrigin::Watch);
    tell(CacheEvent::Added(pod("a").succeeded().build()));
    tell(CacheEvent::Added(pod("b").build()));
    tell(CacheEvent::Updated { old: pod("b").build(), new: version(&pod("b").failed(), 2).build() });
    tell(CacheEvent::Updated {
        old: pod("b").failed().build(),
        new: version(&pod("b").failed().without_finalizer(), 3).build(),
    });
    tell(CacheEvent::Deleted(pod("c").build()));
    let text = metrics.render_prometheus();
    for (event, count) in [("add", 2), ("delete", 1)] {
        let line = format!(r#"terminated_pods_tracking_finalizer_total{{event="{event}"}} {count}"#);
        assert!(text.contains(&line), "{text}");
    }
}

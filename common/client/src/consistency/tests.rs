//! Tests of the ledger.

use super::*;
use crate::store::CacheEntry;

const PODS: Resource = Resource::namespaced("", "v1", "pods", "Pod");

struct Fake {
    version: Mutex<ResourceVersion>,
    live: Mutex<Vec<Uid>>,
}

impl Fake {
    fn at(ledger: &Ledger, version: &str, live: &[&str]) -> Arc<Self> {
        let cache = Arc::new(Self {
            version: Mutex::new(ResourceVersion::parse(version)),
            live: Mutex::new(live.iter().map(|u| Uid::new(u)).collect()),
        });
        ledger.add_cache(cache.clone());
        cache
    }
    fn children(&self) -> HashSet<Uid> {
        self.live.lock().iter().cloned().collect()
    }
}

impl LedgerCache for Fake {
    fn resource(&self) -> Resource {
        PODS
    }
    fn version(&self) -> ResourceVersion {
        *self.version.lock()
    }
    fn shows_not_terminating(&self, _: &str, _: &str, uid: &Uid) -> bool {
        self.live.lock().contains(uid)
    }
    fn shows_version(&self, _: &str, _: &str, uid: &Uid, version: ResourceVersion) -> bool {
        self.live.lock().contains(uid) && *self.version.lock() == version
    }
}

fn ledger() -> (Ledger, Clock, Uid) {
    let clock = Clock::simulated(jiff::Timestamp::UNIX_EPOCH, 0);
    (Ledger::new(clock.clone(), Duration::from_secs(300)), clock, Uid::new("owner"))
}

/// COMMON-35.
#[tokio::test(start_paused = true)]
async fn an_owner_waits_until_the_cache_has_reached_its_writes() {
    let (ledger, _, owner) = ledger();
    let cache = Fake::at(&ledger, "5", &[]);
    ledger.record_write(&owner, PODS, ResourceVersion::parse("10"));
    ledger.record_write(&owner, PODS, ResourceVersion::parse("9"));
    let behind = ledger.first_unseen_write(&owner, || cache.children()).unwrap().0;
    assert_eq!(behind.to_string(), "read version: 5 is not as new as written version: 10 for group resource pods");
    assert!(ledger.may_have_unseen_write(&owner, &PODS) && !ledger.may_have_unseen_write(&Uid::new("other"), &PODS));
    *cache.version.lock() = ResourceVersion::parse("10");
    assert_eq!(ledger.first_unseen_write(&owner, || cache.children()), None);
    assert!(ledger.is_empty() && !ledger.may_have_unseen_write(&owner, &PODS));
}

/// COMMON-35.
#[tokio::test(start_paused = true)]
async fn a_deletion_seen_before_its_answer_does_not_block() {
    let (ledger, _, owner) = ledger();
    let cache = Fake::at(&ledger, "5", &["a"]);
    for pod in ["a", "b"] {
        ledger.record_deletion(&owner, PODS, "ns", pod, &Uid::new(pod));
    }
    let behind = ledger.first_unseen_write(&owner, || cache.children()).unwrap().0;
    assert_eq!(behind, UnseenWrite::DeletionsNotShown { resource: PODS, count: 1 });
    ledger.cancel_deletion(&owner, &Uid::new("a"));
    assert_eq!(ledger.first_unseen_write(&owner, || cache.children()), None);
}

/// COMMON-36.
#[tokio::test(start_paused = true)]
async fn a_lost_create_counts_until_an_unknown_child_appears_or_its_time_has_passed() {
    let (ledger, clock, owner) = ledger();
    let cache = Fake::at(&ledger, "20", &["old"]);
    ledger.record_creation(&owner, PODS, &Uid::new("new"), ResourceVersion::parse("10"));
    ledger.record_unanswered_creation(&owner, PODS, || cache.children());
    cache.live.lock().push(Uid::new("new"));
    let behind = |l: &Ledger| l.first_unseen_write(&owner, || cache.children()).map(|(b, _)| b);
    assert_eq!(behind(&ledger), Some(UnseenWrite::UnansweredCreations { resource: PODS, count: 1 }));
    cache.live.lock().push(Uid::new("stranger"));
    assert_eq!(behind(&ledger), None);
    ledger.record_unanswered_creation(&owner, PODS, || cache.children());
    assert!(behind(&ledger).is_some());
    clock.sleep(Duration::from_secs(66)).await;
    assert_eq!(behind(&ledger), None);
}

/// COMMON-37.
#[tokio::test(start_paused = true)]
async fn an_owner_waits_for_the_newer_version_of_a_child_after_a_conflict() {
    let (ledger, clock, owner) = ledger();
    let cache = Fake::at(&ledger, "5", &["a", "b"]);
    let child = |name: &str| Meta {
        name: name.into(),
        uid: Uid::new(name),
        resource_version: ResourceVersion::parse("5"),
        ..Meta::default()
    };
    let behind = || ledger.first_unseen_write(&owner, || cache.children());
    for name in ["a", "a", "b", "gone"] {
        ledger.record_conflict(&owner, PODS, &child(name));
    }
    let (conflicts, left) = behind().unwrap();
    assert_eq!(conflicts, UnseenWrite::Conflicts { resource: PODS, count: 2 });
    assert_eq!(conflicts.to_string(), "2 pods have changed or are gone since the version in the cache");
    assert_eq!(left, CONFLICT_CHECK);
    *cache.version.lock() = ResourceVersion::parse("6");
    assert_eq!(behind(), None);
    assert!(ledger.is_empty());

    // If the conflict had another cause, no newer version appears, and the wait ends after its timeout.
    ledger.record_conflict(&owner, PODS, &Meta { resource_version: ResourceVersion::parse("6"), ..child("a") });
    assert!(behind().is_some());
    clock.sleep(CONFLICT).await;
    assert_eq!(behind(), None);
}

/// COMMON-37.
#[tokio::test(start_paused = true)]
async fn a_deleted_owner_waits_until_its_cache_shows_the_deletion() {
    let (ledger, clock, _) = ledger();
    let cache = Fake::at(&ledger, "5", &["a"]);
    let owner = Uid::new("a");
    let behind = || ledger.first_unseen_write(&owner, || cache.children());
    ledger.record_missing_owner(&owner, PODS, &"shop".into(), &"a".into());
    *cache.version.lock() = ResourceVersion::parse("6");
    assert_eq!(behind().unwrap().0, UnseenWrite::Conflicts { resource: PODS, count: 1 }, "every version is stale");
    let live = std::mem::take(&mut *cache.live.lock());
    assert_eq!(behind(), None);
    assert!(ledger.is_empty());

    // If the server's answer was wrong, the cache still shows the owner, and the wait ends after its timeout.
    *cache.live.lock() = live;
    ledger.record_missing_owner(&owner, PODS, &"shop".into(), &"a".into());
    assert!(behind().is_some());
    clock.sleep(GONE).await;
    assert_eq!(behind(), None);
}

/// COMMON-38.
#[tokio::test(start_paused = true)]
async fn every_wait_ends_with_the_timeout() {
    let (ledger, clock, owner) = ledger();
    let cache = Fake::at(&ledger, "5", &[]);
    ledger.record_write(&owner, PODS, ResourceVersion::parse("10"));
    clock.sleep(Duration::from_secs(299)).await;
    assert!(ledger.first_unseen_write(&owner, || cache.children()).is_some());
    clock.sleep(Duration::from_secs(1)).await;
    assert_eq!(ledger.first_unseen_write(&owner, || cache.children()), None);
}

/// COMMON-38.
#[tokio::test(start_paused = true)]
async fn a_cache_of_unknown_version_does_not_block() {
    let (ledger, _, owner) = ledger();
    let cache = Fake::at(&ledger, "", &[]);
    ledger.record_write(&owner, PODS, ResourceVersion::parse("10"));
    assert_eq!(ledger.first_unseen_write(&owner, || cache.children()), None);
}

/// COMMON-35.
#[tokio::test(start_paused = true)]
async fn a_key_is_woken_by_the_awaited_version_of_the_awaited_resource() {
    const JOBS: Resource = Resource::namespaced("batch", "v1", "jobs", "Job");
    let (ledger, _, owner) = ledger();
    let cache = Fake::at(&ledger, "5", &[]);
    let key = NamespacedName::new("ns", "web");
    let check = || ledger.check(&owner, &key, WaitPolicy::AllWrites, HashSet::default);
    ledger.record_write(&owner, PODS, ResourceVersion::parse("7"));
    assert!(matches!(check(), Err(ReadError::Pending(pending)) if pending.stale_resource == Some(PODS)));
    let is_awaited =
        |resource: &Resource, version: &str| ledger.is_awaited(&key, resource, ResourceVersion::parse(version));
    assert!(!is_awaited(&PODS, "6"), "an older version");
    assert!(!is_awaited(&JOBS, "9"), "another resource");
    assert!(is_awaited(&PODS, "7"));
    *cache.version.lock() = ResourceVersion::parse("7");
    assert_eq!(check().unwrap(), None);
    assert!(!is_awaited(&PODS, "9"), "the key no longer waits");
}

#[derive(serde::Deserialize)]
struct Pod {
    metadata: Meta,
}

impl Object for Pod {
    const RESOURCE: Resource = PODS;
    type Indexes = ();
    fn meta(&self) -> &Meta {
        &self.metadata
    }
}

/// A cache that receives another version during each check, as the informer of another thread can with `--threads` above 1.
struct CacheChangedDuringCheck {
    store: Arc<Store<Pod>>,
    versions: Mutex<Vec<(&'static str, &'static str)>>,
}

impl CacheChangedDuringCheck {
    fn receive_next_version(&self) {
        let Some((uid, version)) = self.versions.lock().pop() else { return };
        let metadata = serde_json::json!({"namespace": "ns", "name": "web", "uid": uid, "resourceVersion": version});
        let pod = serde_json::from_value(serde_json::json!({ "metadata": metadata })).unwrap();
        self.store.put_entry(CacheEntry::Decoded(Arc::new(pod)), &mut Vec::new());
    }
}

impl LedgerCache for CacheChangedDuringCheck {
    fn resource(&self) -> Resource {
        PODS
    }
    fn version(&self) -> ResourceVersion {
        self.receive_next_version();
        self.store.version()
    }
    fn shows_not_terminating(&self, namespace: &str, name: &str, uid: &Uid) -> bool {
        self.store.shows_not_terminating(namespace, name, uid)
    }
    fn shows_version(&self, namespace: &str, name: &str, uid: &Uid, version: ResourceVersion) -> bool {
        self.store.shows_version(namespace, name, uid, version)
    }
}

/// COMMON-35.
#[tokio::test(start_paused = true)]
async fn an_object_that_changes_during_the_read_is_not_older_than_the_write_that_was_awaited() {
    for (versions, expected) in [
        (&[("a", "5"), ("a", "9")][..], ("a", "9")),
        // Another object with the same name replaces the checked one.
        (&[("a", "5"), ("b", "12")][..], ("b", "12")),
    ] {
        let (ledger, ..) = ledger();
        let store: Arc<Store<Pod>> = Arc::default();
        let versions = Mutex::new(versions.iter().rev().copied().collect());
        let cache = Arc::new(CacheChangedDuringCheck { store: Arc::clone(&store), versions });
        cache.receive_next_version();
        ledger.add_cache(cache);
        ledger.record_write(&Uid::new("a"), PODS, ResourceVersion::parse("9"));
        let key = NamespacedName::new("ns", "web");
        let (pod, pending) = ledger.read(&store, &key, WaitPolicy::AllWrites, |_| HashSet::default()).unwrap();
        assert_eq!(
            (&*pod.metadata.uid.to_string(), pod.metadata.resource_version),
            (expected.0, ResourceVersion::parse(expected.1))
        );
        assert_eq!(pending, None);
    }
}

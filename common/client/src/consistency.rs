//! Read your own writes: a sync never decides on a cache that lacks a previous write of this process.
//!
//! After each write, the record of the owner lists what the cache must show: the version of the write, the disappearance of a
//! deleted object, and, if an answer was lost, the appearance of an unknown child. While something is missing, the sync of the
//! owner waits ([`UnseenWrite`]). Every wait ends, because each list, bookmark or event of the resource advances the cache, a
//! deletion is checked in the cache itself (its event may arrive before the answer), and the record is dropped after a timeout.
//!
//! Upstream has two mechanisms: expectations (counts, which an unrelated Pod can satisfy) and, since 1.36, the consistency
//! store of four controllers. The [`Ledger`] replaces both mechanisms, and identifies each object. Upstream:
//! `pkg/controller/util/consistency`, `ControllerExpectations`.

use std::{sync::Arc, time::Duration};

use parking_lot::Mutex;

use crate::{
    clock::{Clock, Instant},
    intern::Text,
    map::{HashMap, HashSet},
    meta::{Meta, NamespacedName, ResourceVersion, Uid},
    object::{Object, Resource},
    store::Store,
};

/// Time for which a creation may still take effect after its answer was lost, because a server ends requests after a minute.
const UNANSWERED_CREATION_TIMEOUT: Duration = Duration::from_secs(65);
/// Maximum wait of a sync for the newer version of a child after the server refused a write with a conflict. The version
/// usually arrives within milliseconds. The full time passes only if the watch lags, or if the conflict had another cause.
const CONFLICT: Duration = Duration::from_secs(5);
/// Maximum wait of the syncs of a deleted owner for the cache to show the deletion that the server has reported. Without the
/// wait, syncs would create children again and again, which the garbage collector deletes.
const GONE: Duration = Duration::from_secs(60);
/// Interval at which the caches are checked for an owner with conflicts. There may be no event for the owner, because the
/// event of a child that another owner has adopted enqueues only the new owner.
const CONFLICT_CHECK: Duration = Duration::from_millis(200);

/// A cache that a [`Ledger`] checks for the writes of this process.
pub trait LedgerCache {
    /// Returns the resource of the cached objects.
    fn resource(&self) -> Resource;
    /// Returns the newest version that the cache has reached.
    fn version(&self) -> ResourceVersion;
    /// Whether the cache shows the object with this UID, and the object is not terminating.
    fn shows_not_terminating(&self, namespace: &str, name: &str, uid: &Uid) -> bool;
    /// Whether the cache shows the object with this UID at exactly this version.
    fn shows_version(&self, namespace: &str, name: &str, uid: &Uid, version: ResourceVersion) -> bool;
}

impl<K: Object> LedgerCache for Store<K> {
    fn resource(&self) -> Resource {
        K::RESOURCE
    }

    fn version(&self) -> ResourceVersion {
        Store::version(self)
    }

    fn shows_not_terminating(&self, namespace: &str, name: &str, uid: &Uid) -> bool {
        self.with_metadata(namespace, name, |meta| meta.uid == *uid && !meta.is_deleting()).unwrap_or(false)
    }

    fn shows_version(&self, namespace: &str, name: &str, uid: &Uid, version: ResourceVersion) -> bool {
        self.with_metadata(namespace, name, |meta| meta.uid == *uid && meta.resource_version == version)
            .unwrap_or(false)
    }
}

/// A write of this process that the caches do not show yet, so that the sync of the owner has to wait.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum UnseenWrite {
    /// The cache has not reached the version of a write.
    #[error("read version: {read} is not as new as written version: {written} for group resource {resource}")]
    VersionNotReached {
        /// Resource of the written object.
        resource: Resource,
        /// `resourceVersion` that the write produced.
        written: ResourceVersion,
        /// `resourceVersion` that the cache has reached.
        read: ResourceVersion,
    },
    /// The server refused writes to stale children, or no longer has the owner itself.
    #[error("{count} {resource} have changed or are gone since the version in the cache")]
    Conflicts {
        /// Resource of the stale objects.
        resource: Resource,
        /// Number of objects with a stale state in the cache.
        count: usize,
    },
    /// The cache shows deleted children as not terminating.
    #[error("{count} deleted {resource} are not terminating in the cache yet")]
    DeletionsNotShown {
        /// Resource of the deleted children.
        resource: Resource,
        /// Number of deleted children that the cache shows as not terminating.
        count: usize,
    },
    /// Children may still appear, because the answers to create requests were lost.
    #[error("{count} {resource} may have been created by requests that were not answered")]
    UnansweredCreations {
        /// Resource of the children that may still appear.
        resource: Resource,
        /// Number of children that may still appear.
        count: usize,
    },
}

/// The writes of this process that its caches do not show yet, by the UID of the owner. Clones share the records.
#[derive(Clone)]
pub struct Ledger {
    records: Arc<Mutex<HashMap<Uid, Record>>>,
    clock: Clock,
    timeout: Duration,
}

#[derive(Default)]
struct Record {
    written: Vec<(Resource, ResourceVersion)>,
    /// Objects with a refused write, each with the latest time to which a sync waits for a newer state of the object.
    conflicts: Vec<(StaleObject, Instant)>,
    /// Objects with a refused write whose stale state the cache still showed at the end of the wait, each with whether a further
    /// refusal was reported.
    unresolved_conflicts: Vec<(StaleObject, bool)>,
    deleted: Vec<StaleObject>,
    created: Vec<Uid>,
    lost: Option<UnansweredCreationRecord>,
    at: Option<Instant>,
}

/// A stale state of an object. The cache must show another state before the next sync of the owner.
struct StaleObject {
    resource: Resource,
    namespace: Text,
    name: Arc<str>,
    uid: Uid,
    /// The stale version; `None` if the object was deleted, so that every version is stale.
    version: Option<ResourceVersion>,
}

impl StaleObject {
    fn is_same_state(&self, other: &Self) -> bool {
        self.uid == other.uid && self.version == other.version
    }

    /// Whether a cache still shows the object in this state.
    fn is_shown(&self, caches: &[&dyn LedgerCache]) -> bool {
        let Self { resource, namespace, name, uid, version } = self;
        cache_of(caches, resource).is_some_and(|cache| match version {
            Some(version) => cache.shows_version(namespace, name, uid, *version),
            None => cache.shows_not_terminating(namespace, name, uid),
        })
    }
}

fn cache_of<'a>(caches: &[&'a dyn LedgerCache], resource: &Resource) -> Option<&'a dyn LedgerCache> {
    caches.iter().copied().find(|cache| cache.resource() == *resource)
}

/// Returns the resource of the first element, and the number of elements with that resource.
fn count_first<'a>(shown: impl Iterator<Item = &'a StaleObject> + Clone) -> Option<(Resource, usize)> {
    let resource = &shown.clone().next()?.resource;
    Some((resource.clone(), shown.filter(|shown| shown.resource == *resource).count()))
}

struct UnansweredCreationRecord {
    resource: Resource,
    count: usize,
    known: HashSet<Uid>,
    until: Instant,
}

impl Ledger {
    /// Creates an empty ledger. A record is dropped `timeout` after its last write, even if the caches do not show all writes.
    pub fn new(clock: Clock, timeout: Duration) -> Self {
        Self { records: Arc::default(), clock, timeout }
    }

    fn record(&self, owner: &Uid, note: impl FnOnce(&mut Record)) {
        let mut records = self.records.lock();
        let record = records.entry(owner.clone()).or_default();
        record.at = Some(self.clock.monotonic_now());
        note(record);
    }

    /// Records an update, a patch or a status write, by the version that it produced.
    pub fn record_write(&self, owner: &Uid, resource: Resource, version: ResourceVersion) {
        self.record(owner, |record| raise_written_version(record, resource, version));
    }

    /// Records the creation or adoption of a child, which produced `version`.
    pub fn record_creation(&self, owner: &Uid, resource: Resource, child: &Uid, version: ResourceVersion) {
        self.record(owner, |record| {
            raise_written_version(record, resource, version);
            record.created.push(child.clone());
        });
    }

    /// Returns the time for which a creation may take effect after its answer was lost; at most the timeout of the ledger.
    pub fn unanswered_creation_timeout(&self) -> Duration {
        UNANSWERED_CREATION_TIMEOUT.min(self.timeout)
    }

    /// Records that a creation was not answered, so that an unknown child may appear.
    ///
    /// `before` returns the UIDs of the children in the cache at the beginning of the sync. A new child is neither among these
    /// children nor among the children recorded as created.
    pub fn record_unanswered_creation(&self, owner: &Uid, resource: Resource, before: impl FnOnce() -> HashSet<Uid>) {
        let until = self.clock.monotonic_now() + self.unanswered_creation_timeout();
        self.record(owner, |record| {
            let lost = record.lost.get_or_insert_with(|| UnansweredCreationRecord {
                resource,
                count: 0,
                known: before(),
                until,
            });
            lost.count += 1;
            lost.until = until;
        });
    }

    /// Records the deletion of a child, before or after the request. A failed deletion must be undone with
    /// [`Ledger::cancel_deletion`].
    pub fn record_deletion(&self, owner: &Uid, resource: Resource, namespace: &str, name: &str, child: &Uid) {
        let NamespacedName { namespace, name } = NamespacedName::new(namespace, name);
        let deleted = StaleObject { resource, namespace, name, uid: child.clone(), version: None };
        self.record(owner, |record| record.deleted.push(deleted));
    }

    /// Removes the record of a deletion that failed.
    pub fn cancel_deletion(&self, owner: &Uid, child: &Uid) {
        if let Some(record) = self.records.lock().get_mut(owner) {
            record.deleted.retain(|d| d.uid != *child);
        }
    }

    /// Records that the server refused a write to a child because the version in `child` is stale. Returns true for the
    /// first refusal after the syncs of the owner have waited in vain for another version of the child.
    ///
    /// The syncs of the owner wait until the cache shows another version of the child, or no child. A sync before that would
    /// decide on the same state of the child, and its write would be refused.
    pub fn record_conflict(&self, owner: &Uid, resource: Resource, child: &Meta) -> bool {
        let NamespacedName { namespace, name } = child.key();
        let (uid, version) = (child.uid.clone(), Some(child.resource_version));
        self.conflict(owner, StaleObject { resource, namespace, name, uid, version }, CONFLICT)
    }

    /// Records that the server no longer has the owner itself, or has another object with the owner's name. Returns true for
    /// the first such answer after the syncs of the owner have waited in vain for the deletion.
    ///
    /// The syncs of the owner wait until the cache shows the deletion, for at most a minute.
    pub fn record_missing_owner(&self, owner: &Uid, resource: Resource, namespace: &Text, name: &Arc<str>) -> bool {
        let (namespace, name, uid) = (namespace.clone(), Arc::clone(name), owner.clone());
        self.conflict(owner, StaleObject { resource, namespace, name, uid, version: None }, GONE)
    }

    fn conflict(&self, owner: &Uid, refused: StaleObject, wait: Duration) -> bool {
        let until = self.clock.monotonic_now() + wait.min(self.timeout);
        let mut has_waited_in_vain = false;
        self.record(owner, |record| {
            let mut unresolved = record.unresolved_conflicts.iter_mut();
            if let Some((_, is_reported)) = unresolved.find(|(known, _)| known.is_same_state(&refused)) {
                has_waited_in_vain = !std::mem::replace(is_reported, true);
            }
            record.conflicts.retain(|(known, _)| known.uid != refused.uid);
            record.conflicts.push((refused, until));
        });
        has_waited_in_vain
    }

    /// Whether the syncs of the owner may have to wait for a cache to show a write to `resource`.
    ///
    /// Event handlers enqueue the owner only in this case, for example after the event of a child that this process created.
    pub fn may_have_unseen_write(&self, owner: &Uid, resource: &Resource) -> bool {
        let records = self.records.lock();
        records.get(owner).is_some_and(|record| record.written.iter().any(|(written, _)| written == resource))
    }

    /// Drops the record of a deleted owner.
    pub fn forget_owner(&self, owner: &Uid) {
        self.records.lock().remove(owner);
    }

    /// Returns the first kind of write that the caches do not show yet, with the longest time to wait for it; `None` if the
    /// sync need not wait. `children` returns the UIDs of the owner's children in the cache, and is called only if an answer
    /// was lost.
    ///
    /// Drops the record when the caches show all its writes, or after the timeout. Conflicts are reported first, because no
    /// sync may begin before they end. Written versions, unanswered creations and deletions follow.
    pub fn first_unseen_write(
        &self,
        owner: &Uid,
        caches: &[&dyn LedgerCache],
        children: impl FnOnce() -> HashSet<Uid>,
    ) -> Option<(UnseenWrite, Duration)> {
        let now = self.clock.monotonic_now();
        let mut records = self.records.lock();
        let record = records.get_mut(owner)?;
        let age = record.at.map_or(Duration::ZERO, |at| now.saturating_duration_since(at));
        if age >= self.timeout {
            tracing::warn!(owner = %owner, age = age.as_secs(), "The cache did not show own writes in time, syncing anyway");
            records.remove(owner);
            return None;
        }
        let left = self.timeout.saturating_sub(age);
        record.conflicts.retain(|(refused, _)| refused.is_shown(caches));
        record.unresolved_conflicts.retain(|(refused, _)| refused.is_shown(caches));
        for (refused, _) in record.conflicts.extract_if(.., |(_, until)| *until <= now) {
            if !record.unresolved_conflicts.iter().any(|(known, _)| known.is_same_state(&refused)) {
                record.unresolved_conflicts.push((refused, false));
            }
        }
        if let Some((resource, count)) = count_first(record.conflicts.iter().map(|(refused, _)| refused)) {
            let last = record.conflicts.iter().map(|(_, until)| *until).max().unwrap_or(now);
            let wait = last.saturating_duration_since(now).min(left).min(CONFLICT_CHECK);
            return Some((UnseenWrite::Conflicts { resource, count }, wait));
        }
        let read =
            |resource: &Resource| cache_of(caches, resource).map_or(ResourceVersion::UNKNOWN, LedgerCache::version);
        record.written.retain(|(resource, written)| read(resource).is_known() && read(resource) < *written);
        if let Some((resource, written)) = record.written.first().cloned() {
            let read = read(&resource);
            return Some((UnseenWrite::VersionNotReached { resource, written, read }, left));
        }
        if let Some(lost) = record.lost.as_ref().filter(|lost| lost.until > now) {
            let unknown = |uid: &&Uid| !lost.known.contains(*uid) && !record.created.contains(*uid);
            let count = lost.count.saturating_sub(children().iter().filter(unknown).count());
            if count > 0 {
                return Some((
                    UnseenWrite::UnansweredCreations { resource: lost.resource.clone(), count },
                    lost.until - now,
                ));
            }
        }
        record.lost = None;
        record.created.clear();
        record.deleted.retain(|deleted| deleted.is_shown(caches));
        if let Some((resource, count)) = count_first(record.deleted.iter()) {
            return Some((UnseenWrite::DeletionsNotShown { resource, count }, left));
        }
        if record.unresolved_conflicts.is_empty() {
            records.remove(owner);
        }
        None
    }

    /// Returns the number of owners that have a record.
    pub fn len(&self) -> usize {
        self.records.lock().len()
    }

    /// Whether no owner has a record.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

fn raise_written_version(record: &mut Record, resource: Resource, version: ResourceVersion) {
    if !version.is_known() {
        return;
    }
    match record.written.iter_mut().find(|(r, _)| *r == resource) {
        Some((_, known)) => *known = version.max(*known),
        None => record.written.push((resource, version)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::RefCell;

    const PODS: Resource = Resource::namespaced("", "v1", "pods", "Pod");

    struct Fake {
        version: RefCell<ResourceVersion>,
        live: RefCell<Vec<Uid>>,
    }

    impl Fake {
        fn at(version: &str, live: &[&str]) -> Self {
            Self {
                version: RefCell::new(ResourceVersion::parse(version)),
                live: RefCell::new(live.iter().map(|u| Uid::new(u)).collect()),
            }
        }
        fn children(&self) -> HashSet<Uid> {
            self.live.borrow().iter().cloned().collect()
        }
    }

    impl LedgerCache for Fake {
        fn resource(&self) -> Resource {
            PODS
        }
        fn version(&self) -> ResourceVersion {
            *self.version.borrow()
        }
        fn shows_not_terminating(&self, _: &str, _: &str, uid: &Uid) -> bool {
            self.live.borrow().contains(uid)
        }
        fn shows_version(&self, _: &str, _: &str, uid: &Uid, version: ResourceVersion) -> bool {
            self.live.borrow().contains(uid) && *self.version.borrow() == version
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
        let cache = Fake::at("5", &[]);
        ledger.record_write(&owner, PODS, ResourceVersion::parse("10"));
        ledger.record_write(&owner, PODS, ResourceVersion::parse("9"));
        let behind = ledger.first_unseen_write(&owner, &[&cache], || cache.children()).unwrap().0;
        assert_eq!(behind.to_string(), "read version: 5 is not as new as written version: 10 for group resource pods");
        assert!(
            ledger.may_have_unseen_write(&owner, &PODS) && !ledger.may_have_unseen_write(&Uid::new("other"), &PODS)
        );
        *cache.version.borrow_mut() = ResourceVersion::parse("10");
        assert_eq!(ledger.first_unseen_write(&owner, &[&cache], || cache.children()), None);
        assert!(ledger.is_empty() && !ledger.may_have_unseen_write(&owner, &PODS));
    }

    /// COMMON-35.
    #[tokio::test(start_paused = true)]
    async fn a_deletion_seen_before_its_answer_does_not_block() {
        let (ledger, _, owner) = ledger();
        let cache = Fake::at("5", &["a"]);
        for pod in ["a", "b"] {
            ledger.record_deletion(&owner, PODS, "ns", pod, &Uid::new(pod));
        }
        let behind = ledger.first_unseen_write(&owner, &[&cache], || cache.children()).unwrap().0;
        assert_eq!(behind, UnseenWrite::DeletionsNotShown { resource: PODS, count: 1 });
        ledger.cancel_deletion(&owner, &Uid::new("a"));
        assert_eq!(ledger.first_unseen_write(&owner, &[&cache], || cache.children()), None);
    }

    /// COMMON-36.
    #[tokio::test(start_paused = true)]
    async fn a_lost_create_counts_until_an_unknown_child_appears_or_its_time_has_passed() {
        let (ledger, clock, owner) = ledger();
        let cache = Fake::at("20", &["old"]);
        ledger.record_creation(&owner, PODS, &Uid::new("new"), ResourceVersion::parse("10"));
        ledger.record_unanswered_creation(&owner, PODS, || cache.children());
        cache.live.borrow_mut().push(Uid::new("new"));
        let behind = |l: &Ledger| l.first_unseen_write(&owner, &[&cache], || cache.children()).map(|(b, _)| b);
        assert_eq!(behind(&ledger), Some(UnseenWrite::UnansweredCreations { resource: PODS, count: 1 }));
        cache.live.borrow_mut().push(Uid::new("stranger"));
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
        let cache = Fake::at("5", &["a", "b"]);
        let child = |name: &str| Meta {
            name: name.into(),
            uid: Uid::new(name),
            resource_version: ResourceVersion::parse("5"),
            ..Meta::default()
        };
        let behind = || ledger.first_unseen_write(&owner, &[&cache], || cache.children());
        for name in ["a", "a", "b", "gone"] {
            ledger.record_conflict(&owner, PODS, &child(name));
        }
        let (conflicts, left) = behind().unwrap();
        assert_eq!(conflicts, UnseenWrite::Conflicts { resource: PODS, count: 2 });
        assert_eq!(conflicts.to_string(), "2 pods have changed or are gone since the version in the cache");
        assert_eq!(left, CONFLICT_CHECK);
        *cache.version.borrow_mut() = ResourceVersion::parse("6");
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
        let cache = Fake::at("5", &["a"]);
        let owner = Uid::new("a");
        let behind = || ledger.first_unseen_write(&owner, &[&cache], || cache.children());
        ledger.record_missing_owner(&owner, PODS, &"shop".into(), &"a".into());
        *cache.version.borrow_mut() = ResourceVersion::parse("6");
        assert_eq!(behind().unwrap().0, UnseenWrite::Conflicts { resource: PODS, count: 1 }, "every version is stale");
        let live = cache.live.take();
        assert_eq!(behind(), None);
        assert!(ledger.is_empty());

        // If the server's answer was wrong, the cache still shows the owner, and the wait ends after its timeout.
        *cache.live.borrow_mut() = live;
        ledger.record_missing_owner(&owner, PODS, &"shop".into(), &"a".into());
        assert!(behind().is_some());
        clock.sleep(GONE).await;
        assert_eq!(behind(), None);
    }

    /// COMMON-38.
    #[tokio::test(start_paused = true)]
    async fn every_wait_ends_with_the_timeout() {
        let (ledger, clock, owner) = ledger();
        let cache = Fake::at("5", &[]);
        ledger.record_write(&owner, PODS, ResourceVersion::parse("10"));
        clock.sleep(Duration::from_secs(299)).await;
        assert!(ledger.first_unseen_write(&owner, &[&cache], || cache.children()).is_some());
        clock.sleep(Duration::from_secs(1)).await;
        assert_eq!(ledger.first_unseen_write(&owner, &[&cache], || cache.children()), None);
    }

    /// COMMON-38.
    #[tokio::test(start_paused = true)]
    async fn a_cache_of_unknown_version_does_not_block() {
        let (ledger, _, owner) = ledger();
        let cache = Fake::at("", &[]);
        ledger.record_write(&owner, PODS, ResourceVersion::parse("10"));
        assert_eq!(ledger.first_unseen_write(&owner, &[&cache], || cache.children()), None);
    }
}

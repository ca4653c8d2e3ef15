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

mod pending;
#[cfg(test)]
mod tests;

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use parking_lot::{Mutex, RwLock};

pub use pending::{LedgerOwner, PendingWrites, ReadError, UnseenWrite, WaitPolicy};

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

/// The longest delay between two checks of the caches by a sync that waits for them to show this process's writes.
pub const STALE_CACHE_RECHECK_INTERVAL: Duration = Duration::from_secs(2);

/// The caches of one loop. Clones share the list, so a cache that is added later is known to each holder.
pub type LedgerCaches = Arc<RwLock<Vec<Arc<dyn LedgerCache>>>>;

/// A cache that a [`Ledger`] checks for the writes of this process.
pub trait LedgerCache: Send + Sync {
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

/// The writes of this process that its caches do not show yet, by owner. Clones share the records.
///
/// # Flow
///
/// The executor of a sync records each request and its answer under the owner of the sync. [`Ledger::read`] begins the next sync:
/// it compares the record with the caches, and returns the object only if the sync need not wait.
///
/// # Guarantees
///
/// - Unless the policy is [`WaitPolicy::ConflictsOnly`], the object that [`Ledger::read`] returns is not older than any write in
///   its record, also if the caches change during the call: the record is checked before the object is read, and both belong to
///   the same UID.
/// - Every wait ends: with the awaited state in the caches, or after the timeout of the ledger.
///
/// # Assumptions
///
/// The ledger knows every cache in which its controller looks for written objects ([`Ledger::add_cache`]). A write to a resource
/// without such a cache is not awaited.
///
/// # Errors
///
/// A record is never an error. A record that the caches do not confirm before the timeout is dropped with a warning.
///
/// # Example
///
/// ```
/// # use std::{sync::Arc, time::Duration};
/// # use nonet_client::consistency::{Ledger, ReadError, WaitPolicy};
/// # use nonet_objects::{map::HashSet, meta::{NamespacedName, ResourceVersion, Uid}, object::Object as _};
/// # use nonet_client::store::{CacheEntry, Store};
/// # #[derive(serde::Deserialize)]
/// # struct Pod { metadata: nonet_objects::meta::Meta }
/// # impl nonet_objects::object::Object for Pod {
/// #     const RESOURCE: nonet_objects::object::Resource = nonet_objects::pods::PODS;
/// #     type Indexes = ();
/// #     fn meta(&self) -> &nonet_objects::meta::Meta { &self.metadata }
/// # }
/// # let at_version = |version: &str| {
/// #     let json = serde_json::json!({"metadata": {"namespace": "shop", "name": "web", "uid": "u", "resourceVersion": version}});
/// #     CacheEntry::Decoded(Arc::new(serde_json::from_value::<Pod>(json).unwrap()))
/// # };
/// # let clock = nonet_platform::clock::Clock::simulated("2026-11-21T09:00:00Z".parse().unwrap(), 1);
/// let ledger = Ledger::new(clock, Duration::from_secs(300));
/// let pods: Arc<Store<Pod>> = Arc::default();
/// ledger.add_cache(pods.clone());
/// pods.put_entry(at_version("5"), &mut Vec::new());
/// let key = NamespacedName::new("shop", "web");
/// let read = || ledger.read(&pods, &key, WaitPolicy::AllWrites, |_| HashSet::default());
///
/// ledger.record_write(&Uid::new("u"), Pod::RESOURCE, ResourceVersion::parse("7"));
/// assert!(matches!(read(), Err(ReadError::Pending(_))), "the cache is older than the write");
/// pods.put_entry(at_version("7"), &mut Vec::new());
/// assert!(read().is_ok());
/// ```
#[derive(Clone)]
pub struct Ledger {
    records: Arc<Mutex<HashMap<LedgerOwner, Record>>>,
    /// The keys whose syncs wait, each with the resource and the version that a cache must reach. The version is unknown if any
    /// change of the resource may end the wait.
    awaiting: Arc<Mutex<BTreeMap<NamespacedName, (Resource, ResourceVersion)>>>,
    caches: LedgerCaches,
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
    fn is_shown(&self, caches: &[Arc<dyn LedgerCache>]) -> bool {
        let Self { resource, namespace, name, uid, version } = self;
        cache_of(caches, resource).is_some_and(|cache| match version {
            Some(version) => cache.shows_version(namespace, name, uid, *version),
            None => cache.shows_not_terminating(namespace, name, uid),
        })
    }
}

fn cache_of<'a>(caches: &'a [Arc<dyn LedgerCache>], resource: &Resource) -> Option<&'a dyn LedgerCache> {
    caches.iter().map(|cache| &**cache).find(|cache| cache.resource() == *resource)
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
        Self::with_caches(clock, timeout, LedgerCaches::default())
    }

    /// Creates an empty ledger that checks these caches, to which caches may be added later.
    pub fn with_caches(clock: Clock, timeout: Duration, caches: LedgerCaches) -> Self {
        Self { records: Arc::default(), awaiting: Arc::default(), caches, clock, timeout }
    }

    /// Adds a cache in which the writes of the controller appear.
    pub fn add_cache(&self, cache: Arc<dyn LedgerCache>) {
        self.caches.write().push(cache);
    }

    /// Reads an object that is not older than the writes in its record, with the writes that the caches do not show yet.
    ///
    /// `children` returns the UIDs of the object's children in the cache, and is called only if an answer was lost. If the sync
    /// has to wait, the ledger remembers its key for [`Self::take_keys_awaiting`] and [`Self::is_awaited`].
    ///
    /// # Errors
    /// If the object does not exist or cannot be decoded, or if the sync has to wait.
    pub fn read<K: Object>(
        &self,
        store: &Store<K>,
        key: &NamespacedName,
        policy: WaitPolicy,
        children: impl Fn(&Uid) -> HashSet<Uid>,
    ) -> Result<(Arc<K>, Option<PendingWrites>), ReadError> {
        loop {
            let uid = store.with_metadata(&key.namespace, &key.name, |meta| meta.uid.clone());
            let pending = match &uid {
                Some(uid) => self.check(uid, key, policy, || children(uid))?,
                None => None,
            };
            // The object is read after its record, so that it is not older than a write that the record counts as seen. An object
            // with another UID has replaced the checked one and is checked, too.
            let object = store.get(&key.namespace, &key.name).map_err(ReadError::Unreadable)?;
            let Some(object) = object else {
                self.remember_awaiting(key, None);
                return Err(ReadError::Gone);
            };
            if uid.as_ref() == Some(&object.meta().uid) {
                return Ok((object, pending));
            }
        }
    }

    /// Checks the record of an owner for a sync of `key` that reads its objects itself, after this call. [`Self::read`] does both.
    ///
    /// # Errors
    /// [`ReadError::Pending`] if the sync has to wait.
    pub fn check(
        &self,
        owner: impl Into<LedgerOwner>,
        key: &NamespacedName,
        policy: WaitPolicy,
        children: impl Fn() -> HashSet<Uid>,
    ) -> Result<Option<PendingWrites>, ReadError> {
        let owner = owner.into();
        loop {
            let unseen = self.first_unseen_write(&owner, &children);
            // If the awaited event came before the key was remembered, it enqueued nothing, so the caches are checked again.
            let is_remembered = self.remember_awaiting(key, unseen.as_ref().map(|(unseen, _)| unseen));
            let Some((unseen, left)) = unseen else { return Ok(None) };
            if !policy.waits_for(&unseen) {
                return Ok(Some(PendingWrites::new(&unseen, left)));
            }
            if !is_remembered {
                let pending = PendingWrites::new(&unseen, left.min(STALE_CACHE_RECHECK_INTERVAL));
                return Err(ReadError::Pending(pending));
            }
        }
    }

    /// Remembers the version that the sync of a key awaits, and forgets the previous one. Returns true if the version is new.
    fn remember_awaiting(&self, key: &NamespacedName, unseen: Option<&UnseenWrite>) -> bool {
        let mut awaiting = self.awaiting.lock();
        let awaited = match unseen {
            Some(UnseenWrite::VersionNotReached { resource, written, .. }) => (resource.clone(), *written),
            Some(UnseenWrite::Conflicts { resource, .. }) => (resource.clone(), ResourceVersion::UNKNOWN),
            _ if awaiting.is_empty() => return false,
            _ => {
                awaiting.remove(key);
                return false;
            }
        };
        awaiting.insert(key.clone(), awaited.clone()) != Some(awaited)
    }

    /// Removes and returns the keys in the namespace of `object` with syncs that await its version, or an older one, in `resource`.
    pub fn take_keys_awaiting(&self, resource: &Resource, object: &Meta) -> Vec<NamespacedName> {
        let mut awaiting = self.awaiting.lock();
        let is_reached = |key: &NamespacedName, (awaited, version): &(Resource, ResourceVersion)| {
            awaited == resource
                && version.is_known()
                && *version <= object.resource_version
                && key.namespace == object.namespace
        };
        let reached: Vec<NamespacedName> =
            awaiting.iter().filter(|(key, awaited)| is_reached(key, awaited)).map(|(key, _)| key.clone()).collect();
        for key in &reached {
            awaiting.remove(key);
        }
        reached
    }

    /// Whether the sync of a key awaits this version, an older one, or any change of `resource`.
    pub fn is_awaited(&self, key: &NamespacedName, resource: &Resource, version: ResourceVersion) -> bool {
        let awaiting = self.awaiting.lock();
        awaiting.get(key).is_some_and(|(awaited, least)| awaited == resource && *least <= version)
    }

    fn record(&self, owner: impl Into<LedgerOwner>, note: impl FnOnce(&mut Record)) {
        let mut records = self.records.lock();
        let record = records.entry(owner.into()).or_default();
        record.at = Some(self.clock.monotonic_now());
        note(record);
    }

    /// Records an update, a patch or a status write, by the version that it produced.
    pub fn record_write(&self, owner: impl Into<LedgerOwner>, resource: Resource, version: ResourceVersion) {
        self.record(owner, |record| raise_written_version(record, resource, version));
    }

    /// Records the creation or adoption of a child, which produced `version`.
    pub fn record_creation(
        &self,
        owner: impl Into<LedgerOwner>,
        resource: Resource,
        child: &Uid,
        version: ResourceVersion,
    ) {
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
    pub fn record_unanswered_creation(
        &self,
        owner: impl Into<LedgerOwner>,
        resource: Resource,
        before: impl FnOnce() -> HashSet<Uid>,
    ) {
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
    pub fn record_deletion(
        &self,
        owner: impl Into<LedgerOwner>,
        resource: Resource,
        namespace: &str,
        name: &str,
        child: &Uid,
    ) {
        let NamespacedName { namespace, name } = NamespacedName::new(namespace, name);
        let deleted = StaleObject { resource, namespace, name, uid: child.clone(), version: None };
        self.record(owner, |record| record.deleted.push(deleted));
    }

    /// Removes the record of a deletion that failed.
    pub fn cancel_deletion(&self, owner: impl Into<LedgerOwner>, child: &Uid) {
        if let Some(record) = self.records.lock().get_mut(&owner.into()) {
            record.deleted.retain(|d| d.uid != *child);
        }
    }

    /// Records that the server refused a write to a child because the version in `child` is stale. Returns true for the
    /// first refusal after the syncs of the owner have waited in vain for another version of the child.
    ///
    /// The syncs of the owner wait until the cache shows another version of the child, or no child. A sync before that would
    /// decide on the same state of the child, and its write would be refused.
    pub fn record_conflict(&self, owner: impl Into<LedgerOwner>, resource: Resource, child: &Meta) -> bool {
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

    fn conflict(&self, owner: impl Into<LedgerOwner>, stale_object: StaleObject, wait: Duration) -> bool {
        let until = self.clock.monotonic_now() + wait.min(self.timeout);
        let mut has_waited_in_vain = false;
        self.record(owner, |record| {
            let mut unresolved = record.unresolved_conflicts.iter_mut();
            if let Some((_, is_reported)) = unresolved.find(|(known, _)| known.is_same_state(&stale_object)) {
                has_waited_in_vain = !std::mem::replace(is_reported, true);
            }
            record.conflicts.retain(|(known, _)| known.uid != stale_object.uid);
            record.conflicts.push((stale_object, until));
        });
        has_waited_in_vain
    }

    /// Whether the syncs of the owner may have to wait for a cache to show a write to `resource`.
    ///
    /// Event handlers enqueue the owner only in this case, for example after the event of a child that this process created.
    pub fn may_have_unseen_write(&self, owner: impl Into<LedgerOwner>, resource: &Resource) -> bool {
        let records = self.records.lock();
        records.get(&owner.into()).is_some_and(|record| record.written.iter().any(|(written, _)| written == resource))
    }

    /// Drops the record of a deleted owner.
    pub fn forget_owner(&self, owner: impl Into<LedgerOwner>) {
        self.records.lock().remove(&owner.into());
    }

    /// Returns the first kind of write that the caches do not show yet, with the longest time to wait for it; `None` if the
    /// sync need not wait. `children` returns the UIDs of the owner's children in the cache, and is called only if an answer
    /// was lost.
    ///
    /// Drops the record when the caches show all its writes, or after the timeout. Conflicts are reported first, because no
    /// sync may begin before they end. Written versions, unanswered creations and deletions follow.
    pub fn first_unseen_write(
        &self,
        owner: impl Into<LedgerOwner>,
        children: impl FnOnce() -> HashSet<Uid>,
    ) -> Option<(UnseenWrite, Duration)> {
        let (owner, now) = (&owner.into(), self.clock.monotonic_now());
        let caches = &**self.caches.read();
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

//! Read your own writes: a sync never decides on a cache that has not seen what this process wrote before.
//!
//! After each write the owner's record holds what the cache must show: the version of the write, the disappearance of what
//! was deleted, and, where an answer was lost, a child nobody knows yet. As long as something is missing the owner's sync
//! waits ([`Behind`]). It cannot wait for ever: any list, bookmark or event of the resource moves the cache on, a deletion
//! is judged by the cache itself (also if it was seen before the answer), and after the time-out the record is dropped.
//!
//! Upstream has two mechanisms: expectations (counts, which a foreign Pod satisfies) and, since 1.36, the consistency store
//! of four controllers. This one does the work of both, by identity. Upstream: `pkg/controller/util/consistency`,
//! `ControllerExpectations`.

use std::{sync::Arc, time::Duration};

use parking_lot::Mutex;

use crate::{
    clock::{Clock, Instant},
    intern::Text,
    map::{HashMap, HashSet},
    meta::{Key, Meta, Uid, Version},
    object::{Object, Resource},
    store::Store,
};

/// How long a create whose answer was lost may still take effect: a server ends requests after a minute.
const LOST_CREATE: Duration = Duration::from_secs(65);
/// How long an owner waits for the newer version of a child after a write was refused with a conflict. The version is usually
/// there within milliseconds. The time only passes if watches lag, or if the conflict was about something else.
const CONFLICT: Duration = Duration::from_secs(5);
/// How long an owner that the server no longer has waits for its cache to show that. Until then the cache would have it create
/// children, which the garbage collector deletes, again and again.
const GONE: Duration = Duration::from_secs(60);
/// How soon such an owner looks at the cache again. No event need bring it: that of a child which another owner has taken
/// concerns only that one.
const CONFLICT_CHECK: Duration = Duration::from_millis(200);

/// A cache, as far as a ledger asks.
pub trait Cache {
    /// What it caches.
    fn resource(&self) -> Resource;
    /// The version it has caught up with.
    fn version(&self) -> Version;
    /// Whether it shows that object, with no deletion requested.
    fn shows_live(&self, namespace: &str, name: &str, uid: &Uid) -> bool;
    /// Whether it shows that object at exactly this version.
    fn shows_version(&self, namespace: &str, name: &str, uid: &Uid, version: Version) -> bool;
}

impl<K: Object> Cache for Store<K> {
    fn resource(&self) -> Resource {
        K::RESOURCE
    }

    fn version(&self) -> Version {
        Store::version(self)
    }

    fn shows_live(&self, namespace: &str, name: &str, uid: &Uid) -> bool {
        self.peek(namespace, name, |meta| meta.uid == *uid && !meta.is_deleting()).unwrap_or(false)
    }

    fn shows_version(&self, namespace: &str, name: &str, uid: &Uid, version: Version) -> bool {
        self.peek(namespace, name, |meta| meta.uid == *uid && meta.resource_version == version).unwrap_or(false)
    }
}

/// What an owner still waits to see.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Behind {
    /// The cache has not reached the version of a write.
    #[error("read version: {read} is not as new as written version: {written} for group resource {resource}")]
    Write {
        /// The resource written.
        resource: Resource,
        /// Version of the write.
        written: Version,
        /// Version of the cache.
        read: Version,
    },
    /// Children have changed on the server since the version that the cache shows, or the object itself is gone: a write to
    /// them was refused.
    #[error("{count} {resource} have changed or are gone since the version in the cache")]
    Conflicts {
        /// Their resource.
        resource: Resource,
        /// How many.
        count: usize,
    },
    /// Deleted children still look alive.
    #[error("{count} deleted {resource} still look alive in the cache")]
    Deletes {
        /// Their resource.
        resource: Resource,
        /// How many.
        count: usize,
    },
    /// Children whose creation was not answered may still appear.
    #[error("{count} {resource} may have been created by requests that were not answered")]
    LostCreates {
        /// Their resource.
        resource: Resource,
        /// How many.
        count: usize,
    },
}

/// What this process wrote, per owner, and has not seen yet. Clones share it.
#[derive(Clone)]
pub struct Ledger {
    records: Arc<Mutex<HashMap<Uid, Record>>>,
    clock: Clock,
    timeout: Duration,
}

#[derive(Default)]
struct Record {
    written: Vec<(Resource, Version)>,
    /// What the server refused a write to, and until when its newer state is waited for.
    conflicts: Vec<(Shown, Instant)>,
    deleted: Vec<Shown>,
    created: Vec<Uid>,
    lost: Option<Lost>,
    at: Option<Instant>,
}

/// A state of an object that the cache has to leave behind: a version, or its existence.
struct Shown {
    resource: Resource,
    namespace: Text,
    name: Arc<str>,
    uid: Uid,
    /// `None`: the object is gone, whatever its version in the cache.
    version: Option<Version>,
}

impl Shown {
    /// Whether the cache still shows the object in that state.
    fn is_shown(&self, caches: &[&dyn Cache]) -> bool {
        let Self { resource, namespace, name, uid, version } = self;
        cache_of(caches, *resource).is_some_and(|cache| match version {
            Some(version) => cache.shows_version(namespace, name, uid, *version),
            None => cache.shows_live(namespace, name, uid),
        })
    }
}

fn cache_of<'a>(caches: &[&'a dyn Cache], resource: Resource) -> Option<&'a dyn Cache> {
    caches.iter().copied().find(|cache| cache.resource() == resource)
}

/// The first resource of these, and how many of them are of it.
fn count_first<'a>(shown: impl Iterator<Item = &'a Shown> + Clone) -> Option<(Resource, usize)> {
    let resource = shown.clone().next()?.resource;
    Some((resource, shown.filter(|shown| shown.resource == resource).count()))
}

struct Lost {
    resource: Resource,
    count: usize,
    known: HashSet<Uid>,
    until: Instant,
}

impl Ledger {
    /// An empty ledger; a record that is not satisfied after `timeout` is dropped.
    pub fn new(clock: Clock, timeout: Duration) -> Self {
        Self { records: Arc::default(), clock, timeout }
    }

    fn record(&self, owner: &Uid, note: impl FnOnce(&mut Record)) {
        let mut records = self.records.lock();
        let record = records.entry(owner.clone()).or_default();
        record.at = Some(self.clock.instant());
        note(record);
    }

    /// Notes a write (an update, a patch, a status) by its version.
    pub fn wrote(&self, owner: &Uid, resource: Resource, version: Version) {
        self.record(owner, |record| raise(record, resource, version));
    }

    /// Notes a child that was created or adopted.
    pub fn created(&self, owner: &Uid, resource: Resource, child: &Uid, version: Version) {
        self.record(owner, |record| {
            raise(record, resource, version);
            record.created.push(child.clone());
        });
    }

    /// How long a create whose answer was lost may still take effect.
    pub fn lost_create_timeout(&self) -> Duration {
        LOST_CREATE.min(self.timeout)
    }

    /// Notes a create whose answer was lost: a child other than those of `before`, and other than the created ones, may
    /// appear. `before` is what the cache showed when the sync began.
    pub fn lost_create(&self, owner: &Uid, resource: Resource, before: impl FnOnce() -> HashSet<Uid>) {
        let until = self.clock.instant() + self.lost_create_timeout();
        self.record(owner, |record| {
            let lost = record.lost.get_or_insert_with(|| Lost { resource, count: 0, known: before(), until });
            lost.count += 1;
            lost.until = until;
        });
    }

    /// Notes a deleted child, before or after the request: a request that failed is taken back with [`Ledger::undelete`].
    pub fn deleted(&self, owner: &Uid, resource: Resource, namespace: &str, name: &str, child: &Uid) {
        let Key { namespace, name } = Key::new(namespace, name);
        let deleted = Shown { resource, namespace, name, uid: child.clone(), version: None };
        self.record(owner, |record| record.deleted.push(deleted));
    }

    /// Takes a deletion back that did not happen.
    pub fn undelete(&self, owner: &Uid, child: &Uid) {
        if let Some(record) = self.records.lock().get_mut(owner) {
            record.deleted.retain(|d| d.uid != *child);
        }
    }

    /// Notes that the server refused a write to a child because the child is no longer at the version `child`.
    ///
    /// The owner waits until the cache shows another version of the child, or none. A sync before that would decide on the
    /// same state again, and be refused again.
    pub fn conflicted(&self, owner: &Uid, resource: Resource, child: &Meta) {
        let Key { namespace, name } = child.key();
        let (uid, version) = (child.uid.clone(), Some(child.resource_version));
        self.conflict(owner, Shown { resource, namespace, name, uid, version }, CONFLICT);
    }

    /// Notes that the server no longer has the owner itself, or has another object under its name.
    ///
    /// The owner waits until its cache shows that, a minute at most.
    pub fn gone(&self, owner: &Uid, resource: Resource, namespace: &Text, name: &Arc<str>) {
        let (namespace, name, uid) = (namespace.clone(), Arc::clone(name), owner.clone());
        self.conflict(owner, Shown { resource, namespace, name, uid, version: None }, GONE);
    }

    fn conflict(&self, owner: &Uid, refused: Shown, wait: Duration) {
        let until = self.clock.instant() + wait.min(self.timeout);
        self.record(owner, |record| {
            record.conflicts.retain(|(known, _)| known.uid != refused.uid);
            record.conflicts.push((refused, until));
        });
    }

    /// Whether the owner waits for a write to that resource.
    ///
    /// For handlers of events that enqueue the owner only if it waits, such as the event of a child that the owner itself created.
    pub fn awaits_write(&self, owner: &Uid, resource: Resource) -> bool {
        let records = self.records.lock();
        records.get(owner).is_some_and(|record| record.written.iter().any(|(written, _)| *written == resource))
    }

    /// Forgets an owner that is gone.
    pub fn forget(&self, owner: &Uid) {
        self.records.lock().remove(owner);
    }

    /// What the owner still waits to see, if anything, and how long at most. `children` are the uids of its children in the
    /// cache, asked for only where an answer was lost.
    ///
    /// A record that is satisfied or too old is dropped. Conflicts are reported first, since nobody goes on before they are over;
    /// then writes, lost creates, and deletes.
    pub fn behind(
        &self,
        owner: &Uid,
        caches: &[&dyn Cache],
        children: impl FnOnce() -> HashSet<Uid>,
    ) -> Option<(Behind, Duration)> {
        let now = self.clock.instant();
        let mut records = self.records.lock();
        let record = records.get_mut(owner)?;
        let age = record.at.map_or(Duration::ZERO, |at| now.saturating_duration_since(at));
        if age >= self.timeout {
            tracing::warn!(owner = %owner, age = age.as_secs(), "Own writes were not seen in time, going on without");
            records.remove(owner);
            return None;
        }
        let left = self.timeout.saturating_sub(age);
        record.conflicts.retain(|(refused, until)| *until > now && refused.is_shown(caches));
        if let Some((resource, count)) = count_first(record.conflicts.iter().map(|(refused, _)| refused)) {
            let last = record.conflicts.iter().map(|(_, until)| *until).max().unwrap_or(now);
            let wait = last.saturating_duration_since(now).min(left).min(CONFLICT_CHECK);
            return Some((Behind::Conflicts { resource, count }, wait));
        }
        let read = |resource| cache_of(caches, resource).map_or(Version::UNKNOWN, Cache::version);
        record.written.retain(|(resource, written)| read(*resource).is_known() && read(*resource) < *written);
        if let Some((resource, written)) = record.written.first().copied() {
            return Some((Behind::Write { resource, written, read: read(resource) }, left));
        }
        if let Some(lost) = record.lost.as_ref().filter(|lost| lost.until > now) {
            let unknown = |uid: &&Uid| !lost.known.contains(*uid) && !record.created.contains(*uid);
            let count = lost.count.saturating_sub(children().iter().filter(unknown).count());
            if count > 0 {
                return Some((Behind::LostCreates { resource: lost.resource, count }, lost.until - now));
            }
        }
        record.lost = None;
        record.created.clear();
        record.deleted.retain(|deleted| deleted.is_shown(caches));
        if let Some((resource, count)) = count_first(record.deleted.iter()) {
            return Some((Behind::Deletes { resource, count }, left));
        }
        records.remove(owner);
        None
    }

    /// How many owners wait for something.
    pub fn len(&self) -> usize {
        self.records.lock().len()
    }

    /// Whether nobody waits.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

fn raise(record: &mut Record, resource: Resource, version: Version) {
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

    const PODS: Resource = Resource { group: "", version: "v1", plural: "pods", kind: "Pod", namespaced: true };

    struct Fake {
        version: RefCell<Version>,
        live: RefCell<Vec<Uid>>,
    }

    impl Fake {
        fn at(version: &str, live: &[&str]) -> Self {
            Self {
                version: RefCell::new(Version::parse(version)),
                live: RefCell::new(live.iter().map(|u| Uid::new(u)).collect()),
            }
        }
        fn children(&self) -> HashSet<Uid> {
            self.live.borrow().iter().cloned().collect()
        }
    }

    impl Cache for Fake {
        fn resource(&self) -> Resource {
            PODS
        }
        fn version(&self) -> Version {
            *self.version.borrow()
        }
        fn shows_live(&self, _: &str, _: &str, uid: &Uid) -> bool {
            self.live.borrow().contains(uid)
        }
        fn shows_version(&self, _: &str, _: &str, uid: &Uid, version: Version) -> bool {
            self.live.borrow().contains(uid) && *self.version.borrow() == version
        }
    }

    fn ledger() -> (Ledger, Clock, Uid) {
        let clock = Clock::simulated(jiff::Timestamp::UNIX_EPOCH, 0);
        (Ledger::new(clock.clone(), Duration::from_secs(300)), clock, Uid::new("owner"))
    }

    #[tokio::test(start_paused = true)]
    async fn an_owner_waits_until_the_cache_has_reached_its_writes() {
        let (ledger, _, owner) = ledger();
        let cache = Fake::at("5", &[]);
        ledger.wrote(&owner, PODS, Version::parse("10"));
        ledger.wrote(&owner, PODS, Version::parse("9"));
        let behind = ledger.behind(&owner, &[&cache], || cache.children()).unwrap().0;
        assert_eq!(behind.to_string(), "read version: 5 is not as new as written version: 10 for group resource pods");
        assert!(ledger.awaits_write(&owner, PODS) && !ledger.awaits_write(&Uid::new("other"), PODS));
        *cache.version.borrow_mut() = Version::parse("10");
        assert_eq!(ledger.behind(&owner, &[&cache], || cache.children()), None);
        assert!(ledger.is_empty() && !ledger.awaits_write(&owner, PODS));
    }

    #[tokio::test(start_paused = true)]
    async fn a_deletion_seen_before_its_answer_does_not_block() {
        let (ledger, _, owner) = ledger();
        let cache = Fake::at("5", &["a"]);
        for pod in ["a", "b"] {
            ledger.deleted(&owner, PODS, "ns", pod, &Uid::new(pod));
        }
        let behind = ledger.behind(&owner, &[&cache], || cache.children()).unwrap().0;
        assert_eq!(behind, Behind::Deletes { resource: PODS, count: 1 });
        ledger.undelete(&owner, &Uid::new("a"));
        assert_eq!(ledger.behind(&owner, &[&cache], || cache.children()), None);
    }

    #[tokio::test(start_paused = true)]
    async fn a_lost_create_counts_until_a_stranger_appears_or_its_time_is_over() {
        let (ledger, clock, owner) = ledger();
        let cache = Fake::at("20", &["old"]);
        ledger.created(&owner, PODS, &Uid::new("new"), Version::parse("10"));
        ledger.lost_create(&owner, PODS, || cache.children());
        cache.live.borrow_mut().push(Uid::new("new"));
        let behind = |l: &Ledger| l.behind(&owner, &[&cache], || cache.children()).map(|(b, _)| b);
        assert_eq!(behind(&ledger), Some(Behind::LostCreates { resource: PODS, count: 1 }));
        cache.live.borrow_mut().push(Uid::new("stranger"));
        assert_eq!(behind(&ledger), None);
        ledger.lost_create(&owner, PODS, || cache.children());
        assert!(behind(&ledger).is_some());
        clock.sleep(Duration::from_secs(66)).await;
        assert_eq!(behind(&ledger), None);
    }

    #[tokio::test(start_paused = true)]
    async fn an_owner_waits_for_the_newer_version_of_a_child_that_changed_under_its_write() {
        let (ledger, clock, owner) = ledger();
        let cache = Fake::at("5", &["a", "b"]);
        let child = |name: &str| Meta {
            name: name.into(),
            uid: Uid::new(name),
            resource_version: Version::parse("5"),
            ..Meta::default()
        };
        let behind = || ledger.behind(&owner, &[&cache], || cache.children());
        for name in ["a", "a", "b", "gone"] {
            ledger.conflicted(&owner, PODS, &child(name));
        }
        let (conflicts, left) = behind().unwrap();
        assert_eq!(conflicts, Behind::Conflicts { resource: PODS, count: 2 });
        assert_eq!(conflicts.to_string(), "2 pods have changed or are gone since the version in the cache");
        assert_eq!(left, CONFLICT_CHECK);
        *cache.version.borrow_mut() = Version::parse("6");
        assert_eq!(behind(), None);
        assert!(ledger.is_empty());

        // A server that refuses for another reason never shows another version.
        ledger.conflicted(&owner, PODS, &Meta { resource_version: Version::parse("6"), ..child("a") });
        assert!(behind().is_some());
        clock.sleep(CONFLICT).await;
        assert_eq!(behind(), None);
    }

    #[tokio::test(start_paused = true)]
    async fn an_owner_that_is_gone_waits_until_its_cache_shows_that() {
        let (ledger, clock, _) = ledger();
        let cache = Fake::at("5", &["a"]);
        let owner = Uid::new("a");
        let behind = || ledger.behind(&owner, &[&cache], || cache.children());
        ledger.gone(&owner, PODS, &"shop".into(), &"a".into());
        *cache.version.borrow_mut() = Version::parse("6");
        assert_eq!(behind().unwrap().0, Behind::Conflicts { resource: PODS, count: 1 }, "whatever the version");
        let live = cache.live.take();
        assert_eq!(behind(), None);
        assert!(ledger.is_empty());

        // A server that answered by mistake.
        *cache.live.borrow_mut() = live;
        ledger.gone(&owner, PODS, &"shop".into(), &"a".into());
        assert!(behind().is_some());
        clock.sleep(GONE).await;
        assert_eq!(behind(), None);
    }

    #[tokio::test(start_paused = true)]
    async fn nobody_waits_for_ever() {
        let (ledger, clock, owner) = ledger();
        let cache = Fake::at("5", &[]);
        ledger.wrote(&owner, PODS, Version::parse("10"));
        clock.sleep(Duration::from_secs(299)).await;
        assert!(ledger.behind(&owner, &[&cache], || cache.children()).is_some());
        clock.sleep(Duration::from_secs(1)).await;
        assert_eq!(ledger.behind(&owner, &[&cache], || cache.children()), None);
    }

    #[tokio::test(start_paused = true)]
    async fn a_cache_that_knows_no_version_does_not_block() {
        let (ledger, _, owner) = ledger();
        let cache = Fake::at("", &[]);
        ledger.wrote(&owner, PODS, Version::parse("10"));
        assert_eq!(ledger.behind(&owner, &[&cache], || cache.children()), None);
    }
}

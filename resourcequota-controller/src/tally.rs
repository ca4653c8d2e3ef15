//! The tally of one kind: the usage of each object in the namespaces that have a quota, and the sums over them.
//!
//! The sums follow each event, so that a sync of a quota visits no object. Objects in other namespaces are not kept. If a
//! namespace gets its first quota later, a list of this namespace fills its part of the tally ([`TallySink::of_namespace`]).

use std::{marker::PhantomData, sync::Arc};

use common::{
    informer::{ObjectHead, Sink},
    prelude::*,
    store::CacheEntry,
};
use parking_lot::Mutex;

use crate::{
    objects::{ClaimLink, CountedObject, CountedUsage, Gates},
    usage::{Usage, UsageSums},
};

/// The objects of one kind in one namespace.
#[derive(Default)]
pub struct NamespaceTally {
    objects: HashMap<Arc<str>, Record>,
    /// The sums over all objects.
    pub sums: UsageSums,
    /// Names of the objects that cannot be decoded, with the errors.
    unreadable: HashMap<Arc<str>, String>,
    /// Whether a complete list of the namespace was read.
    is_listed: bool,
    /// Versions of the objects that were deleted before the first list. The list may be older.
    deleted: HashMap<Arc<str>, ResourceVersion>,
}

/// An object of the tally.
pub struct Record {
    /// UID of the object.
    pub uid: Uid,
    version: ResourceVersion,
    /// The usage, which objects with equal usage share.
    pub usage: Arc<Usage>,
    /// What connects the object with a ResourceClaim for extended resources.
    pub link: Option<Box<ClaimLink>>,
}

/// Releases of usage in a namespace, and the end of a first list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TallyEvent {
    /// A usage may be lower than before.
    Released,
    /// The first list of the namespace is complete.
    Listed,
}

/// The part of a tally that a sync reads.
#[derive(Debug, PartialEq, Eq)]
pub enum TallyState {
    /// The first list is not complete.
    Unlisted,
    /// Objects cannot be decoded: the first of them, with the error.
    Unreadable(String),
    /// Every object is counted.
    Counted,
}

impl NamespaceTally {
    /// Returns whether the sums are complete.
    pub fn state(&self) -> TallyState {
        match self.unreadable.iter().min() {
            _ if !self.is_listed => TallyState::Unlisted,
            Some((name, error)) => TallyState::Unreadable(format!("{name} cannot be read: {error}")),
            None => TallyState::Counted,
        }
    }

    /// Returns an object.
    pub fn object(&self, name: &str) -> Option<&Record> {
        self.objects.get(name)
    }

    /// Returns all objects, in no particular order.
    pub fn objects(&self) -> impl Iterator<Item = &Record> {
        self.objects.values()
    }

    fn version_of(&self, name: &str) -> Option<ResourceVersion> {
        self.objects.get(name).map(|record| record.version)
    }

    /// Replaces an object by a newer state; `None` if it is gone. Returns whether a usage may be lower than before.
    fn replace(&mut self, name: &Arc<str>, new: Option<Record>) -> bool {
        self.unreadable.remove(name);
        if let Some(new) = &new {
            self.sums.add(&new.usage);
        }
        let old = self.objects.remove(name);
        if let Some(old) = &old {
            self.sums.remove(&old.usage);
        }
        let is_released = old.is_some_and(|old| match &new {
            Some(new) => old.uid != new.uid || old.usage.is_lowered_by(&new.usage),
            None => true,
        });
        if let Some(new) = new {
            self.objects.insert(Arc::clone(name), new);
        }
        is_released
    }

    fn remove_if_older(&mut self, name: &Arc<str>, version: ResourceVersion) -> bool {
        if !self.is_listed {
            self.deleted.insert(Arc::clone(name), version);
        }
        let is_older = self.version_of(name).is_none_or(|known| !version.is_known() || known <= version);
        is_older && self.replace(name, None)
    }
}

/// Callback for the events of a tally, with the namespace.
type OnTallyEvent = Box<dyn Fn(&Text, TallyEvent) + Send + Sync>;

/// The tally of one kind.
pub struct Tally {
    gates: Gates,
    state: Mutex<TallyContent>,
    on_event: OnTallyEvent,
}

/// The namespaces of a tally.
#[derive(Default)]
pub struct TallyContent {
    /// The namespaces that have a quota.
    pub namespaces: HashMap<Text, NamespaceTally>,
    shared_usages: HashSet<Arc<Usage>>,
    /// Number of usages at which those without an object are dropped.
    sweep_at: usize,
}

impl TallyContent {
    fn record<K: CountedObject>(&mut self, object: &K, gates: Gates) -> (Arc<str>, Record) {
        let Meta { name, uid, resource_version: version, .. } = object.meta().clone();
        let CountedUsage { usage, link } = object.usage(gates);
        let usage = match self.shared_usages.get(&usage) {
            Some(known) => Arc::clone(known),
            None => {
                if self.shared_usages.len() >= self.sweep_at {
                    self.shared_usages.retain(|usage| Arc::strong_count(usage) > 1);
                    self.sweep_at = (2 * self.shared_usages.len()).max(64);
                }
                let usage = Arc::new(usage);
                self.shared_usages.insert(Arc::clone(&usage));
                usage
            }
        };
        (name, Record { uid, version, usage, link })
    }

    fn apply<K: CountedObject>(&mut self, entry: CacheEntry<K>, gates: Gates) -> Option<(Text, TallyEvent)> {
        let Meta { namespace, name, resource_version: version, .. } = entry.meta().clone();
        let known = self.namespaces.get(&namespace)?.version_of(&name);
        if known.is_some_and(|known| version.is_known() && version <= known) {
            return None;
        }
        let record = match entry {
            CacheEntry::Decoded(object) => self.record(&*object, gates).1,
            CacheEntry::Unreadable(malformed) => {
                let tally = self.namespaces.get_mut(&namespace)?;
                let is_released = tally.replace(&name, None);
                tally.unreadable.insert(name, malformed.error.clone());
                return is_released.then_some((namespace, TallyEvent::Released));
            }
        };
        let tally = self.namespaces.get_mut(&namespace)?;
        let was_unreadable = tally.unreadable.contains_key(&name);
        let is_released = tally.replace(&name, Some(record)) || was_unreadable;
        is_released.then_some((namespace, TallyEvent::Released))
    }

    /// Replaces the objects of a namespace by those of a list. Before the first list is complete, two informers may fill the
    /// namespace, so newer states of objects stay. A relist replaces all objects, because versions are lower after a restore of
    /// etcd.
    fn apply_list(
        &mut self,
        namespace: &Text,
        listed_namespace: ListedNamespace,
        version: ResourceVersion,
    ) -> Option<TallyEvent> {
        let tally = self.namespaces.get_mut(namespace)?;
        let ListedNamespace { mut records, unreadable } = listed_namespace;
        let deleted = std::mem::take(&mut tally.deleted);
        let was_listed = std::mem::replace(&mut tally.is_listed, true);
        let is_gone =
            |name: &Arc<str>, known: &Record| !records.contains_key(name) && (was_listed || known.version <= version);
        let gone = tally.objects.iter().filter(|(name, known)| is_gone(name, known));
        let gone: Vec<_> = gone.map(|(name, _)| Arc::clone(name)).collect();
        let mut is_released = !tally.unreadable.is_empty();
        for name in gone {
            is_released |= tally.replace(&name, None);
        }
        records.retain(|name, record| {
            let is_newer = |known: ResourceVersion| known < record.version;
            let was_deleted_later = deleted.get(name).is_some_and(|deletion| !is_newer(*deletion));
            was_listed || (!was_deleted_later && tally.version_of(name).is_none_or(is_newer))
        });
        for (name, record) in records {
            is_released |= tally.replace(&name, Some(record));
        }
        tally.unreadable = unreadable;
        if was_listed { is_released.then_some(TallyEvent::Released) } else { Some(TallyEvent::Listed) }
    }
}

impl Tally {
    /// Creates an empty tally. `on_event` is called with the namespace of each event.
    pub fn new(gates: Gates, on_event: impl Fn(&Text, TallyEvent) + Send + Sync + 'static) -> Self {
        Self { gates, state: Mutex::default(), on_event: Box::new(on_event) }
    }

    /// Begins to keep the objects of a namespace. Returns whether they were not kept before.
    pub fn add_namespace(&self, namespace: &Text) -> bool {
        let mut state = self.state.lock();
        let is_new = !state.namespaces.contains_key(namespace);
        if is_new {
            state.namespaces.insert(namespace.clone(), NamespaceTally::default());
        }
        is_new
    }

    /// Forgets the objects of a namespace.
    pub fn remove_namespace(&self, namespace: &Text) {
        self.state.lock().namespaces.remove(namespace);
    }

    /// Reads the objects of a namespace; `None` if they are not kept.
    pub fn read<R>(&self, namespace: &Text, read: impl FnOnce(&NamespaceTally) -> R) -> Option<R> {
        self.state.lock().namespaces.get(namespace).map(read)
    }

    fn notify(&self, events: impl IntoIterator<Item = (Text, TallyEvent)>) {
        for (namespace, event) in events {
            (self.on_event)(&namespace, event);
        }
    }
}

/// The destination of an informer of one kind, for all namespaces or for one.
pub struct TallySink<K> {
    tally: Arc<Tally>,
    /// The only namespace of the informer; `None` for all.
    only: Option<Text>,
    version: Mutex<ResourceVersion>,
    kind: PhantomData<fn() -> K>,
}

/// The objects of a list, in the namespaces that were kept when the list began.
pub struct ListedObjects(HashMap<Text, ListedNamespace>);

/// The objects of a list in one namespace.
#[derive(Default)]
struct ListedNamespace {
    records: HashMap<Arc<str>, Record>,
    unreadable: HashMap<Arc<str>, String>,
}

impl<K> TallySink<K> {
    /// Creates the sink of an informer of all namespaces.
    pub fn of_cluster(tally: Arc<Tally>) -> Self {
        Self { tally, only: None, version: Mutex::default(), kind: PhantomData }
    }

    /// Creates the sink of an informer of one namespace.
    pub fn of_namespace(tally: Arc<Tally>, namespace: Text) -> Self {
        Self { only: Some(namespace), ..Self::of_cluster(tally) }
    }
}

impl<K: CountedObject> Sink for TallySink<K> {
    type Object = K;
    type Set = ListedObjects;

    fn begin_set(&self) -> ListedObjects {
        let state = self.tally.state.lock();
        let kept = state.namespaces.keys().filter(|namespace| self.only.as_ref().is_none_or(|only| only == *namespace));
        ListedObjects(kept.map(|namespace| (namespace.clone(), ListedNamespace::default())).collect())
    }

    fn add_to_set(&self, ListedObjects(listed): &mut ListedObjects, entry: CacheEntry<K>, _: ChangeOrigin) {
        let Some(list) = listed.get_mut(&entry.meta().namespace) else { return };
        match entry {
            CacheEntry::Decoded(object) => {
                let (name, record) = self.tally.state.lock().record(&*object, self.tally.gates);
                list.records.insert(name, record);
            }
            CacheEntry::Unreadable(malformed) => {
                list.unreadable.insert(Arc::clone(&malformed.meta.name), malformed.error.clone());
            }
        }
    }

    fn complete_set(&self, ListedObjects(listed): ListedObjects, version: ResourceVersion, _: ChangeOrigin) {
        let mut state = self.tally.state.lock();
        let apply = |(namespace, list)| state.apply_list(&namespace, list, version).map(|event| (namespace, event));
        let events: Vec<_> = listed.into_iter().filter_map(apply).collect();
        drop(state);
        *self.version.lock() = version;
        self.tally.notify(events);
    }

    fn put_object(&self, entry: CacheEntry<K>) {
        let version = entry.meta().resource_version;
        let event = self.tally.state.lock().apply(entry, self.tally.gates);
        self.raise_version(version);
        self.tally.notify(event);
    }

    /// Only advances the version, because every object counts.
    fn handle_foreign(&self, head: &ObjectHead<'_>) {
        self.raise_version(head.resource_version());
    }

    fn remove_deleted(&self, last: &Meta) {
        let Meta { namespace, name, resource_version: version, .. } = last;
        let tally =
            self.tally.state.lock().namespaces.get_mut(namespace).map(|tally| tally.remove_if_older(name, *version));
        self.raise_version(*version);
        self.tally.notify(tally.filter(|is_released| *is_released).map(|_| (namespace.clone(), TallyEvent::Released)));
    }

    fn raise_version(&self, version: ResourceVersion) {
        let mut known = self.version.lock();
        *known = version.max(*known);
    }

    fn version(&self) -> ResourceVersion {
        *self.version.lock()
    }

    fn len(&self) -> usize {
        self.tally.state.lock().namespaces.values().map(|tally| tally.objects.len()).sum()
    }

    /// Does nothing, because a tally is never resynced.
    fn replay(&self) {}
}

#[cfg(test)]
mod tests;

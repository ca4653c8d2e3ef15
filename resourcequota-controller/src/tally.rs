//! The tally of one kind: the usage of each object in the namespaces that have a quota, and the sums over them.
//!
//! The sums follow each event, so that a sync of a quota visits no object. Objects in other namespaces are not kept, only the
//! names of namespaces that have had one. If such a
//! namespace gets its first quota later, an informer of this namespace fills its part of the tally with its first list.

use std::{collections::BTreeMap, marker::PhantomData, sync::Arc};

use common::{
    informer::{ObjectHead, Sink},
    prelude::*,
    store::CacheEntry,
};
use parking_lot::Mutex;

use crate::{
    objects::{CountedObject, CountedUsage, DeviceLink, Gates},
    usage::{Usage, UsageSums},
};

/// The objects of one kind in one namespace.
pub struct NamespaceTally {
    objects: HashMap<Arc<str>, Record>,
    /// The sums over all objects.
    pub sums: UsageSums,
    /// Names of the objects that cannot be decoded, with the errors.
    unreadable: BTreeMap<Arc<str>, String>,
    /// The newest state of each object that changed before the first list is complete; `None` afterwards.
    early: Option<HashMap<Arc<str>, (ResourceVersion, ObjectState)>>,
}

/// The counted state of an object; `None` if the object is gone, and an error if it cannot be decoded.
type ObjectState = Option<Result<Record, String>>;

/// An object of the tally.
pub struct Record {
    /// UID of the object.
    pub uid: Uid,
    version: ResourceVersion,
    /// The usage, which objects with equal usage share.
    pub usage: Arc<Usage>,
    /// What extended resources need to know of the object.
    pub link: Option<Box<DeviceLink>>,
}

/// Releases of usage in a namespace, and the end of a first list.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum TallyEvent {
    /// A usage may be lower than before.
    Released,
    /// The first list of the namespace is complete.
    Listed,
    /// The objects are unknown, and need an informer of the namespace.
    Unlisted,
}

impl Default for NamespaceTally {
    fn default() -> Self {
        let (objects, sums, unreadable) = Default::default();
        Self { objects, sums, unreadable, early: Some(HashMap::default()) }
    }
}

impl NamespaceTally {
    /// Whether the first list of the namespace is complete.
    pub fn is_listed(&self) -> bool {
        self.early.is_none()
    }

    /// Returns the first of the objects that cannot be decoded, with the error; `None` if every object is counted.
    pub fn unreadable(&self) -> Option<String> {
        self.unreadable.first_key_value().map(|(name, error)| format!("{name} cannot be read: {error}"))
    }

    /// Returns an object.
    pub fn object(&self, name: &str) -> Option<&Record> {
        self.objects.get(name)
    }

    /// Returns all objects by name, in no particular order.
    pub fn objects(&self) -> impl Iterator<Item = (&Arc<str>, &Record)> {
        self.objects.iter()
    }

    /// Applies the event of an object, if it is newer than the known state.
    fn apply(&mut self, name: Arc<str>, version: ResourceVersion, state: ObjectState) -> Option<TallyEvent> {
        if let Some(early) = &mut self.early {
            early.insert(name, (version, state));
            return None;
        }
        let known = self.objects.get(&name).map(|record| record.version);
        let is_older =
            known.is_some_and(|known| version < known || version == known && state.is_some()) && version.is_known();
        (!is_older && self.replace(&name, state)).then_some(TallyEvent::Released)
    }

    /// Replaces the state of an object. Returns whether a usage may be lower than before.
    fn replace(&mut self, name: &Arc<str>, state: ObjectState) -> bool {
        let was_unreadable = self.unreadable.remove(name).is_some();
        let old = self.objects.remove(name);
        if let Some(old) = &old {
            self.sums.remove(&old.usage);
        }
        let is_lower = match state {
            Some(Ok(new)) => {
                let is_lower = old.is_some_and(|old| old.uid != new.uid || old.usage.is_lowered_by(&new.usage));
                self.sums.add(&new.usage);
                self.objects.insert(Arc::clone(name), new);
                is_lower
            }
            Some(Err(error)) => {
                self.unreadable.insert(Arc::clone(name), error);
                old.is_some()
            }
            None => old.is_some(),
        };
        is_lower || was_unreadable
    }

    /// Replaces all objects by those of a list, and then applies the events that came before the first list and are newer.
    fn apply_list(&mut self, list: NamespaceList, version: ResourceVersion) -> Option<TallyEvent> {
        let known = self.objects.keys().chain(self.unreadable.keys());
        let gone: Vec<_> = known.filter(|name| !list.contains_key(*name)).cloned().collect();
        let early = self.early.take();
        let was_listed = early.is_none();
        let gone = gone.into_iter().map(|name| (name, None));
        let listed = list.into_iter().map(|(name, state)| (name, Some(state)));
        let newer = early.into_iter().flatten().filter(|(_, (early, _))| *early > version);
        let newer = newer.map(|(name, (_, state))| (name, state));
        let mut is_released = false;
        for (name, state) in gone.chain(listed).chain(newer) {
            is_released |= self.replace(&name, state);
        }
        if was_listed { is_released.then_some(TallyEvent::Released) } else { Some(TallyEvent::Listed) }
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
    /// The namespaces that are not kept and have had an object; `None` before the first list of all namespaces is complete.
    others: Option<HashSet<Text>>,
    shared_usages: HashSet<Arc<Usage>>,
    /// Number of usages at which those without an object are dropped.
    sweep_at: usize,
}

impl TallyContent {
    fn record<K: CountedObject>(&mut self, entry: CacheEntry<K>, gates: Gates) -> Result<Record, String> {
        let object = match entry {
            CacheEntry::Decoded(object) => object,
            CacheEntry::Unreadable(malformed) => return Err(malformed.error.clone()),
        };
        let Meta { uid, resource_version: version, .. } = object.meta();
        let (uid, version) = (uid.clone(), *version);
        let CountedUsage { usage, link } = object.usage(gates);
        if let Some(usage) = self.shared_usages.get(&usage).cloned() {
            return Ok(Record { uid, version, usage, link });
        }
        if self.shared_usages.len() >= self.sweep_at {
            self.shared_usages.retain(|usage| Arc::strong_count(usage) > 1);
            self.sweep_at = (2 * self.shared_usages.len()).max(64);
        }
        let usage = Arc::new(usage);
        self.shared_usages.insert(Arc::clone(&usage));
        Ok(Record { uid, version, usage, link })
    }
}

impl Tally {
    /// Creates an empty tally. `on_event` is called with the namespace of each event.
    pub fn new(gates: Gates, on_event: impl Fn(&Text, TallyEvent) + Send + Sync + 'static) -> Self {
        Self { gates, state: Mutex::default(), on_event: Box::new(on_event) }
    }

    /// Begins to keep the objects of a namespace. Returns whether an informer of the namespace has to read them: before its
    /// first list, the informer of all namespaces does, and a namespace without an object needs none.
    pub fn add_namespace(&self, namespace: &Text) -> bool {
        let TallyContent { namespaces, others, .. } = &mut *self.state.lock();
        if namespaces.contains_key(namespace) {
            return false;
        }
        let has_objects = others.as_mut().map(|others| others.remove(namespace));
        let mut tally = NamespaceTally::default();
        tally.early.take_if(|_| has_objects == Some(false));
        namespaces.insert(namespace.clone(), tally);
        has_objects == Some(true)
    }

    /// Forgets the objects of a namespace.
    pub fn remove_namespace(&self, namespace: &Text) {
        let TallyContent { namespaces, others, .. } = &mut *self.state.lock();
        if namespaces.remove(namespace).is_some()
            && let Some(others) = others
        {
            others.insert(namespace.clone());
        }
    }

    /// Reads the objects of a namespace; `None` if they are not kept.
    pub fn read<R>(&self, namespace: &Text, read: impl FnOnce(&NamespaceTally) -> R) -> Option<R> {
        self.state.lock().namespaces.get(namespace).map(read)
    }

    fn notify(&self, events: impl IntoIterator<Item = (Text, TallyEvent)>) {
        events.into_iter().for_each(|(namespace, event)| (self.on_event)(&namespace, event));
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

/// The objects of a list in one namespace.
type NamespaceList = HashMap<Arc<str>, Result<Record, String>>;

/// The objects of a list, in the namespaces that were kept when the list began, and the names of other namespaces with objects.
pub struct ListedObjects(HashMap<Text, NamespaceList>, HashSet<Text>);

impl<K> TallySink<K> {
    /// Creates the sink of an informer of all namespaces, or of `only` one until its first list is complete.
    pub fn new(tally: Arc<Tally>, only: Option<Text>) -> Self {
        Self { tally, only, version: Mutex::default(), kind: PhantomData }
    }
}

impl<K: CountedObject> Sink for TallySink<K> {
    type Object = K;
    type Set = ListedObjects;

    fn begin_set(&self) -> ListedObjects {
        let state = self.tally.state.lock();
        let is_read = |namespace: &&Text| self.only.as_ref().is_none_or(|only| only == *namespace);
        let kept = state.namespaces.keys().filter(is_read);
        let listed = kept.map(|namespace| (namespace.clone(), NamespaceList::default())).collect();
        ListedObjects(listed, HashSet::default())
    }

    fn add_to_set(&self, ListedObjects(listed, others): &mut ListedObjects, entry: CacheEntry<K>, _: ChangeOrigin) {
        let Some(list) = listed.get_mut(&entry.meta().namespace) else {
            others.insert(entry.meta().namespace.clone());
            return;
        };
        let name = Arc::clone(&entry.meta().name);
        list.insert(name, self.tally.state.lock().record(entry, self.tally.gates));
    }

    fn complete_set(&self, ListedObjects(listed, others): ListedObjects, version: ResourceVersion, _: ChangeOrigin) {
        let mut state = self.tally.state.lock();
        let TallyContent { namespaces, others: known_others, .. } = &mut *state;
        let mut events = Vec::new();
        if self.only.is_none() {
            // The changes of a namespace that was added during the list are unknown up to the version of the list.
            for (namespace, tally) in namespaces.iter_mut().filter(|(namespace, _)| !listed.contains_key(*namespace)) {
                *tally = NamespaceTally::default();
                let event = if others.contains(namespace) {
                    Some(TallyEvent::Unlisted)
                } else {
                    tally.apply_list(NamespaceList::default(), version)
                };
                events.extend(event.map(|event| (namespace.clone(), event)));
            }
            *known_others = Some(others);
        }
        for (namespace, list) in listed {
            // The informer of a namespace that is no longer awaited.
            let is_wanted = |tally: &&mut NamespaceTally| self.only.is_none() || !tally.is_listed();
            let Some(tally) = namespaces.get_mut(&namespace).filter(is_wanted) else { continue };
            events.extend(tally.apply_list(list, version).map(|event| (namespace, event)));
        }
        drop(state);
        *self.version.lock() = version;
        self.tally.notify(events);
    }

    fn put_object(&self, entry: CacheEntry<K>) {
        let Meta { namespace, name, resource_version: version, .. } = entry.meta();
        let (namespace, name, version) = (namespace.clone(), Arc::clone(name), *version);
        let mut state = self.tally.state.lock();
        let event = if state.namespaces.contains_key(&namespace) {
            let record = state.record(entry, self.tally.gates);
            let tally = state.namespaces.get_mut(&namespace);
            tally.and_then(|tally| tally.apply(name, version, Some(record)))
        } else {
            if let Some(others) = &mut state.others {
                others.insert(namespace.clone());
            }
            None
        };
        drop(state);
        self.raise_version(version);
        self.tally.notify(event.map(|event| (namespace, event)));
    }

    /// Only advances the version, because every object counts.
    fn handle_foreign(&self, head: &ObjectHead<'_>) {
        self.raise_version(head.resource_version());
    }

    fn remove_deleted(&self, last: &Meta) {
        let Meta { namespace, name, resource_version: version, .. } = last;
        let mut state = self.tally.state.lock();
        let tally = state.namespaces.get_mut(namespace);
        let event = tally.and_then(|tally| tally.apply(Arc::clone(name), *version, None));
        drop(state);
        self.raise_version(*version);
        self.tally.notify(event.map(|event| (namespace.clone(), event)));
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

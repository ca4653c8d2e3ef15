//! The cache of the objects of one kind, with lookups by key and by secondary indexes.
//!
//! There is one writer (the informer) and many readers. Reads return `Arc`s and hold the lock only while they clone them. The
//! cost of a lookup by index is proportional to the count of objects found. The version of a cached object never decreases.

use std::{hash::BuildHasher as _, sync::Arc};

use hashbrown::HashTable;
use parking_lot::RwLock;

pub use crate::index::{
    ByController, ByNamespace, HasIndex, IndexFunctions, IndexValue, OrphansByNamespace, StoreIndex, StoreIndexes,
};

use crate::{
    map::{HashMap, SeededHashState},
    meta::{Meta, NamespacedName, ResourceVersion},
    object::{CachedObjectError, MalformedObject, Object},
};

/// A cached object. If only the metadata could be decoded, the object is called unreadable.
pub enum CacheEntry<K> {
    /// The object could be decoded in full.
    Decoded(Arc<K>),
    /// Only the metadata could be decoded.
    Unreadable(Arc<MalformedObject>),
}

impl<K> Clone for CacheEntry<K> {
    fn clone(&self) -> Self {
        match self {
            Self::Decoded(o) => Self::Decoded(Arc::clone(o)),
            Self::Unreadable(m) => Self::Unreadable(Arc::clone(m)),
        }
    }
}

impl<K: Object> CacheEntry<K> {
    /// Returns the metadata, also of an unreadable object.
    pub fn meta(&self) -> &Meta {
        match self {
            Self::Decoded(o) => o.meta(),
            Self::Unreadable(m) => &m.meta,
        }
    }

    pub(crate) fn as_decoded(&self) -> Option<&K> {
        if let Self::Decoded(o) = self { Some(o) } else { None }
    }

    fn read(&self) -> Result<Arc<K>, CachedObjectError> {
        match self {
            Self::Decoded(o) => Ok(Arc::clone(o)),
            Self::Unreadable(m) => {
                Err(CachedObjectError { resource: K::RESOURCE, key: m.meta.key().to_string(), error: m.error.clone() })
            }
        }
    }
}

/// A change of the cache, as handlers receive it. If an object of the same key has a new UID, a deletion and an addition are
/// reported.
pub enum CacheEvent<K> {
    /// An object was added to the cache.
    Added(Arc<K>),
    /// A cached object has a new version.
    Updated {
        /// The cached object before the change.
        old: Arc<K>,
        /// The cached object after the change.
        new: Arc<K>,
    },
    /// An object was removed. The value is its last cached state, which may differ from the final state on the server.
    Deleted(Arc<K>),
    /// An object was added, changed or deleted, and only its metadata can be decoded.
    Unreadable(Arc<MalformedObject>),
}

impl<K: Object> CacheEvent<K> {
    /// Returns the metadata of the object in its newest known state.
    pub fn meta(&self) -> &Meta {
        match self {
            Self::Added(o) | Self::Deleted(o) | Self::Updated { new: o, .. } => o.meta(),
            Self::Unreadable(m) => &m.meta,
        }
    }

    /// Returns the object as the cache shows it after the event; `None` after a deletion, or if it cannot be decoded.
    pub fn cached(&self) -> Option<&Arc<K>> {
        match self {
            Self::Added(new) | Self::Updated { new, .. } => Some(new),
            Self::Deleted(_) | Self::Unreadable(_) => None,
        }
    }
}

/// Cause of a change of the cache, which handlers receive with the change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChangeOrigin {
    /// The first list of all objects after the start.
    Initial,
    /// A later list of all objects, which replaces the cached objects.
    Relist,
    /// A watch event, or the read of an object that the watch does not show.
    Watch,
    /// A replay of the whole cache to the handlers, periodic or on request.
    Resync,
}

/// All cached objects of one kind, with the indexes that the type `K` declares.
pub struct Store<K> {
    inner: RwLock<Inner<K>>,
}

struct Inner<K> {
    objects: HashTable<CacheEntry<K>>,
    indexes: Vec<IndexData<K>>,
    version: ResourceVersion,
}

struct IndexData<K> {
    functions: IndexFunctions<K>,
    /// Entries by index value, each list sorted by namespace and name.
    buckets: HashMap<IndexValue, Vec<CacheEntry<K>>>,
}

fn hash(names: (&str, &str)) -> u64 {
    SeededHashState::default().hash_one(names)
}

/// Returns namespace and name, the key under which objects are found and sorted.
fn names(meta: &Meta) -> (&str, &str) {
    (&meta.namespace, &meta.name)
}

impl<K: Object> IndexData<K> {
    fn find(entries: &[CacheEntry<K>], meta: &Meta) -> Result<usize, usize> {
        entries.binary_search_by(|e| names(e.meta()).cmp(&names(meta)))
    }

    fn change(&mut self, old: Option<&CacheEntry<K>>, new: Option<&CacheEntry<K>>) {
        let values = |entry: &CacheEntry<K>| self.functions.values(entry.meta(), entry.as_decoded());
        let (from, to) = (old.map(values).unwrap_or_default(), new.map(values).unwrap_or_default());
        for from in from.iter().filter(|from| to.iter().all(|to| to != *from)) {
            if let (Some(old), Some(bucket)) = (old, self.buckets.get_mut(from)) {
                if let Ok(at) = Self::find(bucket, old.meta()) {
                    bucket.remove(at);
                }
                if bucket.is_empty() {
                    self.buckets.remove(from);
                } else if bucket.capacity() > 64 && bucket.len() < bucket.capacity() / 4 {
                    bucket.shrink_to(bucket.len() * 2);
                }
            }
        }
        let Some(new) = new else { return };
        for to in to.iter() {
            let bucket = self.buckets.entry(to.clone()).or_default();
            match Self::find(bucket, new.meta()) {
                Ok(at) => bucket[at] = new.clone(),
                Err(at) => bucket.insert(at, new.clone()),
            }
        }
    }
}

impl<K: Object> Inner<K> {
    fn find(&self, key: (&str, &str)) -> Option<&CacheEntry<K>> {
        self.objects.find(hash(key), |e| names(e.meta()) == key)
    }

    /// Inserts an entry, or replaces the entry of the same key. If the object does not concern this controller, the entry of
    /// the key is removed instead.
    fn put(&mut self, new: CacheEntry<K>, events: &mut Vec<CacheEvent<K>>) {
        let key = names(new.meta());
        if new.as_decoded().is_some_and(|o| !o.is_cached()) {
            return self.remove(key, events);
        }
        let old = match self.objects.find_mut(hash(key), |e| names(e.meta()) == key) {
            Some(slot) => Some(std::mem::replace(slot, new.clone())),
            None => {
                self.objects.insert_unique(hash(key), new.clone(), |e| hash(names(e.meta())));
                None
            }
        };
        self.changed(old, Some(new), events);
    }

    fn remove(&mut self, key: (&str, &str), events: &mut Vec<CacheEvent<K>>) {
        if let Ok(entry) = self.objects.find_entry(hash(key), |e| names(e.meta()) == key) {
            let (old, _) = entry.remove();
            self.changed(Some(old), None, events);
        }
    }

    /// Updates the indexes, and appends the events that lead from `old` to `new`.
    fn changed(&mut self, old: Option<CacheEntry<K>>, new: Option<CacheEntry<K>>, events: &mut Vec<CacheEvent<K>>) {
        for index in &mut self.indexes {
            index.change(old.as_ref(), new.as_ref());
        }
        match (old, new) {
            (Some(CacheEntry::Decoded(old)), Some(CacheEntry::Decoded(new))) if old.meta().uid == new.meta().uid => {
                events.push(CacheEvent::Updated { old, new });
            }
            (_, Some(CacheEntry::Unreadable(bad))) => events.push(CacheEvent::Unreadable(bad)),
            (old, new) => {
                events.extend(old.map(|old| match old {
                    CacheEntry::Decoded(old) => CacheEvent::Deleted(old),
                    CacheEntry::Unreadable(bad) => CacheEvent::Unreadable(bad),
                }));
                if let Some(CacheEntry::Decoded(new)) = new {
                    events.push(CacheEvent::Added(new));
                }
            }
        }
    }
}

impl<K: Object> Default for Store<K> {
    fn default() -> Self {
        let functions = K::Indexes::index_functions().into_iter();
        let indexes = functions.map(|functions| IndexData { functions, buckets: HashMap::default() }).collect();
        Self { inner: RwLock::new(Inner { objects: HashTable::new(), indexes, version: ResourceVersion::UNKNOWN }) }
    }
}

impl<K: Object> Store<K> {
    /// Returns the object with this key; `None` if it is missing.
    ///
    /// # Errors
    /// If the object is unreadable.
    pub fn get(&self, namespace: &str, name: &str) -> Result<Option<Arc<K>>, CachedObjectError> {
        self.inner.read().find((namespace, name)).map(CacheEntry::read).transpose()
    }

    /// Returns the object with this key; `None` if it is missing or unreadable.
    pub fn get_decoded(&self, namespace: &str, name: &str) -> Option<Arc<K>> {
        self.get(namespace, name).ok().flatten()
    }

    /// Applies `look` to the metadata of an object, without a clone; `None` if the object is missing.
    pub fn with_metadata<R>(&self, namespace: &str, name: &str, look: impl FnOnce(&Meta) -> R) -> Option<R> {
        self.inner.read().find((namespace, name)).map(|e| look(e.meta()))
    }

    /// Whether the cache holds the object with this key and UID, in any version, even if only its metadata could be decoded.
    pub fn contains_object(&self, object: &Meta) -> bool {
        self.with_metadata(&object.namespace, &object.name, |meta| meta.uid == object.uid) == Some(true)
    }

    /// Returns the objects under an index value, sorted by namespace and name.
    ///
    /// # Errors
    /// If one of the objects is unreadable, because a decision on only a part of the children would be wrong.
    pub fn list_by_index<I, At>(&self, index: I, value: &IndexValue) -> Result<Vec<Arc<K>>, CachedObjectError>
    where
        K::Indexes: HasIndex<I, At>,
    {
        self.list_by_index_and_metadata(index, value, |_| true)
    }

    /// Returns the objects under an index value with metadata that `wanted` accepts, sorted by namespace and name.
    ///
    /// # Errors
    /// If one of the accepted objects is unreadable.
    pub fn list_by_index_and_metadata<I, At>(
        &self,
        index: I,
        value: &IndexValue,
        wanted: impl Fn(&Meta) -> bool,
    ) -> Result<Vec<Arc<K>>, CachedObjectError>
    where
        K::Indexes: HasIndex<I, At>,
    {
        self.bucket(index, value, |bucket| {
            bucket.iter().filter(|entry| wanted(entry.meta())).map(CacheEntry::read).collect()
        })
    }

    /// Returns the objects under an index value that could be decoded, sorted by namespace and name. Skips the other objects.
    pub fn list_decoded_by_index<I, At>(&self, index: I, value: &IndexValue) -> Vec<Arc<K>>
    where
        K::Indexes: HasIndex<I, At>,
    {
        self.bucket(index, value, |bucket| bucket.iter().filter_map(|entry| entry.read().ok()).collect())
    }

    /// Returns the objects that `owner` controls, followed by the orphans of its namespace. Skips orphans that could not be decoded,
    /// because only decoded objects may be adopted.
    ///
    /// # Errors
    /// If an object that `owner` controls is unreadable.
    pub fn list_controlled_and_orphans<A, B>(&self, owner: &Meta) -> Result<Vec<Arc<K>>, CachedObjectError>
    where
        K::Indexes: HasIndex<ByController, A> + HasIndex<OrphansByNamespace, B>,
    {
        let mut objects = self.list_by_index(ByController, &IndexValue::for_controller(owner))?;
        let namespace = IndexValue::Text(owner.namespace.clone());
        objects.extend(self.list_decoded_by_index(OrphansByNamespace, &namespace));
        Ok(objects)
    }

    /// Returns at most `limit` objects under an index value that could be decoded, sorted by namespace and name.
    pub fn list_some_by_index<I, At>(&self, index: I, value: &IndexValue, limit: usize) -> Vec<Arc<K>>
    where
        K::Indexes: HasIndex<I, At>,
    {
        self.bucket(index, value, |bucket| bucket.iter().filter_map(|entry| entry.read().ok()).take(limit).collect())
    }

    /// Returns the number of objects under an index value, including unreadable objects.
    pub fn count_by_index<I, At>(&self, index: I, value: &IndexValue) -> usize
    where
        K::Indexes: HasIndex<I, At>,
    {
        self.bucket(index, value, <[_]>::len)
    }

    fn bucket<I, At, R>(&self, _: I, value: &IndexValue, read: impl FnOnce(&[CacheEntry<K>]) -> R) -> R
    where
        K::Indexes: HasIndex<I, At>,
    {
        let inner = self.inner.read();
        let index = inner.indexes.get(<K::Indexes as HasIndex<I, At>>::POSITION);
        read(index.and_then(|index| index.buckets.get(value)).map_or(&[], Vec::as_slice))
    }

    /// Returns the index values that have objects, in no particular order. The cost depends only on the number of index values.
    pub fn index_values<I, At>(&self, _: I) -> Vec<IndexValue>
    where
        K::Indexes: HasIndex<I, At>,
    {
        let inner = self.inner.read();
        let index = inner.indexes.get(<K::Indexes as HasIndex<I, At>>::POSITION);
        index.map_or_else(Vec::new, |index| index.buckets.keys().cloned().collect())
    }

    /// Returns all objects that could be decoded, sorted by namespace and name.
    pub fn all_decoded(&self) -> Vec<Arc<K>> {
        self.select_decoded(|_| true)
    }

    /// Returns the decoded objects that `wanted` accepts, sorted by namespace and name. Skips objects that were not decoded.
    pub fn select_decoded(&self, wanted: impl Fn(&K) -> bool) -> Vec<Arc<K>> {
        let inner = self.inner.read();
        let good = inner.objects.iter().filter(|entry| entry.as_decoded().is_some_and(&wanted));
        let mut all: Vec<Arc<K>> = good.filter_map(|entry| entry.read().ok()).collect();
        drop(inner);
        all.sort_by(|a, b| names(a.meta()).cmp(&names(b.meta())));
        all
    }

    /// Returns the number of cached objects, including unreadable objects.
    pub fn len(&self) -> usize {
        self.inner.read().objects.len()
    }

    /// Whether the cache holds no objects.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the newest version that the cache has reached.
    pub fn version(&self) -> ResourceVersion {
        self.inner.read().version
    }

    /// Replaces all objects, as a list at `version` would, and returns the changes of the cache. Only for tests and
    /// measurements: in a controller, only the informer writes to its cache.
    pub fn replace_objects_for_tests(&self, objects: Vec<K>, version: ResourceVersion) -> Vec<CacheEvent<K>> {
        let (objects, mut out) = (objects.into_iter().map(|o| CacheEntry::Decoded(Arc::new(o))).collect(), Vec::new());
        self.replace_all_entries(objects, version, &mut out);
        out
    }

    /// Adds or updates an object, and appends the events to `events`. A state that is not newer than the cached state is ignored.
    pub fn put_entry(&self, new: CacheEntry<K>, events: &mut Vec<CacheEvent<K>>) {
        let version = new.meta().resource_version;
        let mut inner = self.inner.write();
        inner.version = inner.version.max(version);
        let known = inner.find(names(new.meta())).map(|e| e.meta().resource_version);
        if known.is_none_or(|known| !version.is_known() || version > known) {
            inner.put(new, events);
        }
    }

    /// Adds or updates an object that was read outside the watch. A state that is not newer than the cached state is ignored.
    ///
    /// The version of the cache stays unchanged, because the watch has yet to deliver the other changes up to the version of
    /// the object.
    pub fn put_entry_outside_watch(&self, new: CacheEntry<K>, events: &mut Vec<CacheEvent<K>>) {
        let mut inner = self.inner.write();
        let known = inner.find(names(new.meta())).map(|e| e.meta().resource_version);
        if known.is_none_or(|known| new.meta().resource_version > known) {
            inner.put(new, events);
        }
    }

    /// Removes an object that does not concern this controller as of `version`, unless the cached version is newer.
    pub fn remove_filtered_out_object(
        &self,
        namespace: &str,
        name: &str,
        version: ResourceVersion,
        events: &mut Vec<CacheEvent<K>>,
    ) {
        let mut inner = self.inner.write();
        inner.version = inner.version.max(version);
        let is_newer = |known: &CacheEntry<K>| version.is_known() && known.meta().resource_version > version;
        if !inner.find((namespace, name)).is_some_and(is_newer) {
            inner.remove((namespace, name), events);
        }
    }

    /// Removes an object that was deleted at `version`, and raises the version of the cache to `version`.
    pub fn remove_deleted_object(
        &self,
        namespace: &str,
        name: &str,
        version: ResourceVersion,
        events: &mut Vec<CacheEvent<K>>,
    ) {
        let mut inner = self.inner.write();
        inner.version = inner.version.max(version);
        inner.remove((namespace, name), events);
    }

    /// Raises the version of the cache to `version`, up to which all events have arrived.
    pub fn raise_version(&self, version: ResourceVersion) {
        let mut inner = self.inner.write();
        inner.version = inner.version.max(version);
    }

    /// Makes the cache equal to a list at `version`. Objects with an unchanged version cause no event.
    pub fn replace_all_entries(
        &self,
        entries: Vec<CacheEntry<K>>,
        version: ResourceVersion,
        events: &mut Vec<CacheEvent<K>>,
    ) {
        let mut inner = self.inner.write();
        let mut keys: Vec<NamespacedName> = entries.iter().map(|e| e.meta().key()).collect();
        keys.sort();
        let mut gone: Vec<NamespacedName> = inner.objects.iter().map(|e| e.meta().key()).collect();
        gone.retain(|key| keys.binary_search(key).is_err());
        gone.sort();
        for key in gone {
            inner.remove((&key.namespace, &key.name), events);
        }
        for new in entries {
            let meta = new.meta();
            let is_same =
                |e: &CacheEntry<K>| e.meta().resource_version == meta.resource_version && e.meta().uid == meta.uid;
            if !inner.find(names(meta)).is_some_and(is_same) {
                inner.put(new, events);
            }
        }
        inner.version = version;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{intern::Text, meta::Uid, object::Resource};

    #[derive(serde::Deserialize, Debug)]
    struct Thing {
        metadata: Meta,
        #[serde(default)]
        keep: Option<bool>,
    }

    impl Object for Thing {
        const RESOURCE: Resource = Resource::namespaced("", "v1", "things", "Thing");
        type Indexes = (ByController, OrphansByNamespace);
        fn meta(&self) -> &Meta {
            &self.metadata
        }
        fn is_cached(&self) -> bool {
            self.keep.unwrap_or(true)
        }
    }

    fn thing(name: &str, uid: &str, version: u64, owner: &str) -> CacheEntry<Thing> {
        let owners = if owner.is_empty() {
            serde_json::json!([])
        } else {
            serde_json::json!([{"kind": "Owner", "name": "o", "uid": owner, "controller": true}])
        };
        let json = serde_json::json!({"metadata": {"name": name, "namespace": "ns", "uid": uid,
            "resourceVersion": version.to_string(), "ownerReferences": owners}});
        CacheEntry::Decoded(Arc::new(serde_json::from_value(json).unwrap()))
    }

    fn names(things: &[Arc<Thing>]) -> Vec<&str> {
        things.iter().map(|t| &*t.metadata.name).collect()
    }

    fn describe(events: &[CacheEvent<Thing>]) -> Vec<String> {
        let one = |e: &CacheEvent<Thing>| match e {
            CacheEvent::Added(o) => format!("+{}", o.metadata.name),
            CacheEvent::Updated { new, .. } => format!("~{}", new.metadata.name),
            CacheEvent::Deleted(o) => format!("-{}", o.metadata.name),
            CacheEvent::Unreadable(m) => format!("?{}", m.meta.name),
        };
        events.iter().map(one).collect()
    }

    fn controller(namespace: &str, uid: &str) -> IndexValue {
        IndexValue::Controller { namespace: Text::new(namespace), uid: Uid::new(uid) }
    }

    fn store() -> Store<Thing> {
        Store::default()
    }

    #[test]
    fn indexes_follow_their_objects() {
        let (store, mut out) = (store(), Vec::new());
        for (name, owner) in [("b", "u1"), ("a", "u1"), ("c", "")] {
            store.put_entry(thing(name, name, 1, owner), &mut out);
        }
        let of = |uid: &str| store.list_by_index(ByController, &controller("ns", uid)).unwrap();
        let orphans = || store.list_by_index(OrphansByNamespace, &IndexValue::Text(Text::new("ns"))).unwrap();
        assert_eq!(names(&of("u1")), ["a", "b"]);
        assert_eq!(names(&orphans()), ["c"]);
        store.put_entry(thing("c", "c", 2, "u1"), &mut out);
        store.put_entry(thing("a", "a", 2, "u2"), &mut out);
        assert_eq!((names(&of("u1")), names(&of("u2"))), (vec!["b", "c"], vec!["a"]));
        assert!(orphans().is_empty());
        assert_eq!(store.count_by_index(ByController, &controller("ns", "u1")), 2);
        assert_eq!(store.count_by_index(OrphansByNamespace, &IndexValue::Text(Text::new("ns"))), 0);
        let mut owners = store.index_values(ByController);
        owners.sort_by_key(|owner| format!("{owner:?}"));
        assert_eq!(owners, [controller("ns", "u1"), controller("ns", "u2")]);
        assert_eq!(store.index_values(OrphansByNamespace), []);
        assert!(
            store.list_by_index(ByController, &controller("elsewhere", "u1")).unwrap().is_empty(),
            "a controller has no children in other namespaces"
        );
    }

    /// COMMON-10.
    #[test]
    fn an_older_version_never_replaces_a_newer_one() {
        let (store, mut out) = (store(), Vec::new());
        store.put_entry(thing("a", "a", 5, ""), &mut out);
        store.put_entry(thing("a", "a", 4, ""), &mut out);
        assert_eq!(describe(&out), ["+a"]);
        assert_eq!(store.get("ns", "a").unwrap().unwrap().metadata.resource_version, ResourceVersion::parse("5"));
    }

    /// COMMON-11.
    #[test]
    fn a_recreated_object_is_a_deletion_and_an_addition() {
        let (store, mut out) = (store(), Vec::new());
        store.put_entry(thing("a", "u1", 1, ""), &mut out);
        store.put_entry(thing("a", "u2", 2, ""), &mut out);
        assert_eq!(describe(&out), ["+a", "-a", "+a"]);
    }

    /// COMMON-11.
    #[test]
    fn a_full_set_reports_each_difference_once() {
        let (store, mut out) = (store(), Vec::new());
        for (name, version) in [("a", 1), ("b", 2), ("c", 3)] {
            store.put_entry(thing(name, name, version, ""), &mut out);
        }
        out.clear();
        let set = vec![thing("b", "b", 2, ""), thing("c", "c", 9, ""), thing("d", "d", 8, "")];
        store.replace_all_entries(set, ResourceVersion::parse("10"), &mut out);
        assert_eq!(describe(&out), ["-a", "~c", "+d"]);
        assert_eq!(store.version(), ResourceVersion::parse("10"));
        assert_eq!(names(&store.all_decoded()), ["b", "c", "d"]);
    }

    /// COMMON-9.
    #[test]
    fn an_unreadable_child_fails_the_lookup_of_its_owner_and_no_other() {
        let (store, mut out) = (store(), Vec::new());
        store.put_entry(thing("a", "a", 1, "u1"), &mut out);
        store.put_entry(thing("b", "b", 1, "u2"), &mut out);
        let CacheEntry::Decoded(good) = thing("a", "a", 2, "u1") else { unreachable!() };
        let bad = MalformedObject { meta: good.metadata.clone(), error: "spec is a number".into() };
        store.put_entry(CacheEntry::Unreadable(Arc::new(bad)), &mut out);
        assert_eq!(describe(&out), ["+a", "+b", "?a"]);
        let error = store.list_by_index(ByController, &controller("ns", "u1")).unwrap_err();
        assert_eq!(error.to_string(), "things ns/a cannot be read: spec is a number");
        assert_eq!(store.list_by_index(ByController, &controller("ns", "u2")).unwrap().len(), 1);
        store.put_entry(thing("a", "a", 3, "u1"), &mut out);
        assert_eq!(store.list_by_index(ByController, &controller("ns", "u1")).unwrap().len(), 1);
    }

    /// COMMON-12.
    #[test]
    fn an_object_that_does_not_concern_the_controller_is_not_cached_but_raises_the_version() {
        let (store, mut out) = (store(), Vec::new());
        store.put_entry(thing("a", "a", 1, ""), &mut out);
        let other: Thing = serde_json::from_str(
            r#"{"metadata":{"name":"a","namespace":"ns","uid":"a","resourceVersion":"7"},"keep":false}"#,
        )
        .unwrap();
        store.put_entry(CacheEntry::Decoded(Arc::new(other)), &mut out);
        assert_eq!(describe(&out), ["+a", "-a"]);
        assert_eq!((store.len(), store.version()), (0, ResourceVersion::parse("7")));
    }
}

//! Storage: versions of objects in tables, one counter for all of them, and a window of history to watch.

pub(crate) mod audit;
pub(crate) mod encoding;

use std::{
    collections::{BTreeMap, VecDeque},
    ops::Bound,
    sync::Arc,
};

use bytes::Bytes;
use common::clock::Instant;
use parking_lot::Mutex;
use serde_json::Value;
use tokio::sync::Notify;

use crate::{
    api::{raw, resource::Key},
    store::encoding::{Content, Encoded, Format},
    value::{
        object::{meta, partial, set_meta},
        selector::labels_of,
    },
};

/// How many of the newest events keep their objects parsed and in all formats; older ones are parsed again for each reader.
const PARSED: usize = 1024;

/// What happened to an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Change {
    /// It came to be.
    Added,
    /// It changed.
    Modified,
    /// It is gone.
    Deleted,
}

impl Change {
    /// The type of the watch event.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Added => "ADDED",
            Self::Modified => "MODIFIED",
            Self::Deleted => "DELETED",
        }
    }
}

/// An object as it was from one resource version on. Immutable; shared by the store, its history and all readers.
#[derive(Debug)]
pub(crate) struct Version {
    pub(crate) rv: u64,
    pub(crate) labels: BTreeMap<String, String>,
    change: Change,
    json: Encoded,
    /// The text of the field whose bytes are kept, as it came.
    pub(crate) raw: Option<Box<str>>,
    derived: Mutex<Derived>,
}

/// What is made from a version when a reader asks for it, once for all readers.
#[derive(Debug, Default)]
struct Derived {
    value: Option<Arc<Value>>,
    metadata: Option<Encoded>,
    protobuf: Option<Encoded>,
    protobuf_metadata: Option<Encoded>,
}

impl Version {
    pub(crate) fn new(change: Change, rv: u64, mut value: Value) -> Self {
        set_meta(&mut value, "resourceVersion", rv.to_string());
        let raw = raw::take(&mut value).map(String::into_boxed_str);
        let json = Encoded::json(change.as_str(), &value, raw.as_deref());
        let labels = labels_of(&value);
        let derived = Mutex::new(Derived { value: Some(Arc::new(value)), ..Derived::default() });
        Self { rv, labels, change, json, raw, derived }
    }

    /// The version in a format. An error is the encoder's, and only protobuf has one.
    pub(crate) fn encoded(&self, format: Format, content: Content) -> Result<Encoded, String> {
        let mut derived = self.derived.lock();
        let Derived { value, metadata, protobuf, protobuf_metadata } = &mut *derived;
        let slot = match (format, content) {
            (Format::Json | Format::Yaml, Content::Whole) => return Ok(self.json.clone()),
            (Format::Json | Format::Yaml, Content::Metadata) => metadata,
            (Format::Protobuf, Content::Whole) => protobuf,
            (Format::Protobuf, Content::Metadata) => protobuf_metadata,
        };
        if let Some(encoded) = slot {
            return Ok(encoded.clone());
        }
        let object = value.clone().unwrap_or_else(|| self.parse());
        let event = self.change.as_str();
        let encoded = match content {
            Content::Whole => Encoded::new(format, event, &object, self.raw.as_deref())?,
            Content::Metadata => Encoded::new(format, event, &partial(&object), None)?,
        };
        // Old versions are seldom asked for and keep their JSON only.
        if value.is_some() {
            *slot = Some(encoded.clone());
        }
        Ok(encoded)
    }

    /// The watch event with the version in a format.
    pub(crate) fn event(&self, change: Change, format: Format, content: Content) -> Result<Bytes, String> {
        let encoded = self.encoded(format, content)?;
        Ok(if change == self.change { encoded.own_event().clone() } else { encoded.event(change.as_str()) })
    }

    /// The object.
    pub(crate) fn value(&self) -> Arc<Value> {
        let parsed = self.derived.lock().value.clone();
        parsed.unwrap_or_else(|| self.parse())
    }

    fn parse(&self) -> Arc<Value> {
        Arc::new(serde_json::from_slice(&self.json.object()).unwrap_or_default())
    }

    fn forget_derived(&self) {
        *self.derived.lock() = Derived::default();
    }
}

/// One change, as history keeps it.
#[derive(Debug)]
pub(crate) struct Event {
    pub(crate) change: Change,
    pub(crate) key: Key,
    pub(crate) version: Arc<Version>,
    pub(crate) before: Option<Arc<Version>>,
    pub(crate) at: Instant,
}

/// All objects of one resource and what happened to them lately.
#[derive(Debug, Default)]
pub(crate) struct Table {
    objects: BTreeMap<Key, Arc<Version>>,
    log: VecDeque<Arc<Event>>,
    /// Version of the newest event that history has forgotten.
    forgotten: u64,
    /// Counts changes, for caches made from this table.
    pub(crate) changes: u64,
    notify: Arc<Notify>,
}

/// History does not reach back that far; carries the oldest version from which it does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Expired(pub(crate) u64);

/// A copy of all objects at one version, as a backup of etcd has it.
#[derive(Clone, Debug)]
pub struct Backup {
    objects: BTreeMap<Arc<str>, BTreeMap<Key, Arc<Version>>>,
    rv: u64,
}

/// Everything stored.
#[derive(Debug)]
pub(crate) struct Store {
    tables: BTreeMap<Arc<str>, Table>,
    rv: u64,
    compacted: u64,
    window: usize,
}

impl Store {
    pub(crate) fn new(window: usize) -> Self {
        Self { tables: BTreeMap::new(), rv: 1, compacted: 0, window: window.max(1) }
    }

    /// The newest version.
    pub(crate) fn rv(&self) -> u64 {
        self.rv
    }

    pub(crate) fn table(&self, table: &str) -> Option<&Table> {
        self.tables.get(table)
    }

    pub(crate) fn get(&self, table: &str, key: &Key) -> Option<&Arc<Version>> {
        self.tables.get(table)?.objects.get(key)
    }

    /// Signals changes of a table.
    pub(crate) fn notify(&mut self, table: &Arc<str>) -> Arc<Notify> {
        self.tables.entry(table.clone()).or_default().notify.clone()
    }

    /// Stores an object, new or changed, and gives it the next version.
    pub(crate) fn put(&mut self, table: &Arc<str>, key: &Key, value: Value, at: Instant) -> Arc<Event> {
        self.rv += 1;
        let rv = self.rv;
        let slot = self.tables.entry(table.clone()).or_default();
        let before = slot.objects.get(key).cloned();
        let change = if before.is_some() { Change::Modified } else { Change::Added };
        let version = Arc::new(Version::new(change, rv, value));
        slot.objects.insert(key.clone(), version.clone());
        self.record(table, Event { change, key: key.clone(), version, before, at })
    }

    /// Stores an object as it is, with the version that it has. Watches do not see it; those from earlier versions expire.
    pub(crate) fn load(&mut self, table: &Arc<str>, key: Key, value: Value) {
        let rv = meta(&value, "resourceVersion").parse().unwrap_or(self.rv + 1);
        self.rv = self.rv.max(rv);
        let slot = self.tables.entry(table.clone()).or_default();
        slot.objects.insert(key, Arc::new(Version::new(Change::Added, rv, value)));
        slot.forgotten = self.rv;
        slot.changes += 1;
        slot.notify.notify_waiters();
    }

    /// Removes an object; its last state becomes one with the version of the removal.
    pub(crate) fn remove(&mut self, table: &Arc<str>, key: &Key, at: Instant) -> Option<Arc<Event>> {
        let before = self.tables.get_mut(table)?.objects.remove(key)?;
        self.rv += 1;
        let mut value = Value::clone(&before.value());
        raw::put(&mut value, before.raw.as_deref().map(str::to_owned));
        let version = Arc::new(Version::new(Change::Deleted, self.rv, value));
        let event = Event { change: Change::Deleted, key: key.clone(), version, before: Some(before), at };
        Some(self.record(table, event))
    }

    fn record(&mut self, table: &Arc<str>, event: Event) -> Arc<Event> {
        let event = Arc::new(event);
        let window = self.window;
        let slot = self.tables.entry(table.clone()).or_default();
        slot.log.push_back(event.clone());
        slot.changes += 1;
        if slot.log.len() > window
            && let Some(old) = slot.log.pop_front()
        {
            slot.forgotten = old.version.rv;
        }
        if let Some(old) = slot.log.len().checked_sub(PARSED).and_then(|i| slot.log.get(i)) {
            if let Some(before) = &old.before {
                before.forget_derived();
            }
            if old.change == Change::Deleted {
                old.version.forget_derived();
            }
        }
        slot.notify.notify_waiters();
        event
    }

    /// Forgets all history: nothing before the newest version can be watched or paged any more.
    pub(crate) fn compact(&mut self) {
        self.compacted = self.rv;
        for table in self.tables.values_mut() {
            if let Some(last) = table.log.back() {
                table.forgotten = last.version.rv;
            }
            table.log.clear();
            // Watchers that have not seen everything must learn of it.
            table.notify.notify_waiters();
        }
    }

    /// Copies all objects and the newest version.
    pub(crate) fn backup(&self) -> Backup {
        let objects = self.tables.iter().map(|(name, table)| (Arc::clone(name), table.objects.clone())).collect();
        Backup { objects, rv: self.rv }
    }

    /// Replaces all objects by those of a backup, and continues with the versions after it.
    pub(crate) fn restore(&mut self, backup: &Backup) {
        for (name, table) in &mut self.tables {
            table.objects = backup.objects.get(name).cloned().unwrap_or_default();
            table.log.clear();
            table.forgotten = backup.rv;
            table.changes += 1;
            table.notify.notify_waiters();
        }
        (self.rv, self.compacted) = (backup.rv, backup.rv);
    }

    /// Whether a new watch or page may start from `rv`.
    pub(crate) fn reaches(&self, table: &str, rv: u64) -> Result<(), Expired> {
        let forgotten = self.tables.get(table).map_or(0, |t| t.forgotten);
        let oldest = self.compacted.max(forgotten);
        if rv < oldest { Err(Expired(oldest)) } else { Ok(()) }
    }

    /// Up to `limit` events after `rv`, oldest first.
    pub(crate) fn events_after(&self, table: &str, rv: u64, limit: usize) -> Result<Vec<Arc<Event>>, Expired> {
        let Some(table) = self.tables.get(table) else { return Ok(Vec::new()) };
        if rv < table.forgotten {
            return Err(Expired(table.forgotten));
        }
        let from = table.log.partition_point(|e| e.version.rv <= rv);
        Ok(table.log.range(from..).take(limit).cloned().collect())
    }

    /// The objects of one namespace, or of all, in key order, as they were at version `at` (now, if not given),
    /// starting behind the key `after`.
    pub(crate) fn list(
        &self,
        table: &str,
        namespace: Option<&str>,
        after: Option<&str>,
        at: Option<u64>,
    ) -> Result<Vec<(Key, Arc<Version>)>, Expired> {
        let Some(table_) = self.tables.get(table) else { return Ok(Vec::new()) };
        let prefix = namespace.map(|n| format!("{n}/"));
        let within = |key: &Key| {
            prefix.as_ref().is_none_or(|p| key.as_str().starts_with(&**p)) && after.is_none_or(|a| key.as_str() > a)
        };
        let from = after.or(prefix.as_deref()).unwrap_or_default();
        let current = table_
            .objects
            .range((Bound::Included(Key::from_path(from)), Bound::Unbounded))
            .take_while(|(key, _)| prefix.as_ref().is_none_or(|p| key.as_str().starts_with(&**p)))
            .filter(|(key, _)| within(key));
        let Some(at) = at.filter(|at| *at < self.rv) else {
            return Ok(current.map(|(k, v)| (k.clone(), v.clone())).collect());
        };
        self.reaches(table, at)?;
        let mut past: BTreeMap<Key, Option<Arc<Version>>> = BTreeMap::new();
        for event in table_.log.iter().rev().take_while(|e| e.version.rv > at) {
            past.insert(event.key.clone(), event.before.clone());
        }
        let mut all: BTreeMap<Key, Arc<Version>> =
            current.filter(|(k, _)| !past.contains_key(k)).map(|(k, v)| (k.clone(), v.clone())).collect();
        all.extend(past.into_iter().filter_map(|(k, v)| Some((k, v?))).filter(|(k, _)| within(k)));
        Ok(all.into_iter().collect())
    }

    /// How many objects a namespace holds, in all tables.
    pub(crate) fn count_in(&self, namespace: &str) -> usize {
        let prefix = format!("{namespace}/");
        let from = Key::from_path(&prefix);
        self.tables
            .values()
            .map(|t| t.objects.range(from.clone()..).take_while(|(k, _)| k.as_str().starts_with(&prefix)).count())
            .sum()
    }

    /// How many objects a table holds.
    pub(crate) fn count(&self, table: &str) -> usize {
        self.tables.get(table).map_or(0, |t| t.objects.len())
    }

    /// Whether a namespace exists, and whether it is being deleted.
    pub(crate) fn namespace(&self, name: &str) -> Option<NamespaceState> {
        let version = self.get("namespaces", &Key::new(None, name))?;
        let value = version.value();
        let deleting = !meta(&value, "deletionTimestamp").is_empty();
        Some(if deleting { NamespaceState::Terminating } else { NamespaceState::Active })
    }
}

/// Where a namespace is in its life.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NamespaceState {
    Active,
    Terminating,
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn world(window: usize) -> (Store, Arc<str>, Instant) {
        #[expect(clippy::disallowed_methods, reason = "a test needs any instant")]
        let now = Instant::now();
        (Store::new(window), "configmaps".into(), now)
    }

    fn map(name: &str, data: &str) -> Value {
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "namespace": "n"}, "data": {"a": data}})
    }

    fn key(name: &str) -> Key {
        Key::new(Some("n"), name)
    }

    #[test]
    fn a_version_is_encoded_once_in_each_format() {
        let (mut store, table, now) = world(10);
        let version = store.put(&table, &key("x"), map("x", "1"), now).version.clone();
        let json = version.encoded(Format::Json, Content::Whole).unwrap();
        let object: Value = serde_json::from_slice(&json.object()).unwrap();
        assert_eq!(object, *version.value());
        assert_eq!(object["metadata"]["resourceVersion"], "2");
        assert!(json.item().starts_with(br#""data":"#));
        for format in [Format::Json, Format::Protobuf] {
            for content in [Content::Whole, Content::Metadata] {
                let event = |change| version.event(change, format, content).unwrap();
                assert_eq!(event(Change::Added).as_ptr(), event(Change::Added).as_ptr(), "{format:?} {content:?}");
                assert_ne!(event(Change::Added), event(Change::Modified));
            }
        }
    }

    #[test]
    fn a_list_at_an_older_version_shows_the_world_of_then() {
        let (mut store, table, now) = world(10);
        store.put(&table, &key("a"), map("a", "1"), now);
        store.put(&table, &key("b"), map("b", "1"), now);
        let then = store.rv();
        store.put(&table, &key("a"), map("a", "2"), now);
        store.remove(&table, &key("b"), now);
        store.put(&table, &key("c"), map("c", "1"), now);
        let names = |at| -> Vec<(String, Value)> {
            let list = store.list(&table, Some("n"), None, at).unwrap();
            list.into_iter().map(|(k, v)| (k.name().to_owned(), v.value()["data"]["a"].clone())).collect()
        };
        assert_eq!(names(Some(then)), [("a".into(), json!("1")), ("b".into(), json!("1"))]);
        assert_eq!(names(None), [("a".into(), json!("2")), ("c".into(), json!("1"))]);
    }

    #[test]
    fn history_is_a_window() {
        let (mut store, table, now) = world(2);
        for i in 0..4 {
            store.put(&table, &key("a"), map("a", &i.to_string()), now);
        }
        assert_eq!(store.events_after(&table, 2, 10).unwrap_err(), Expired(3));
        assert_eq!(store.events_after(&table, 3, 10).unwrap().len(), 2);
        assert_eq!(store.reaches(&table, 2), Err(Expired(3)));
        store.compact();
        assert_eq!(store.reaches(&table, 4), Err(Expired(5)));
        assert_eq!(store.reaches(&table, 5), Ok(()));
    }

    #[test]
    fn old_versions_are_parsed_again_when_asked_for() {
        let (mut store, table, now) = world(PARSED * 2);
        let first = store.put(&table, &key("a"), map("a", "first"), now);
        for i in 0..PARSED {
            store.put(&table, &key("a"), map("a", &i.to_string()), now);
        }
        assert!(first.version.derived.lock().value.is_none());
        assert_eq!(first.version.value()["data"]["a"], "first");
    }

    #[test]
    fn a_loaded_object_keeps_its_version_and_later_writes_get_higher_ones() {
        let (mut store, table, now) = world(10);
        let mut loaded = map("a", "1");
        loaded["metadata"]["resourceVersion"] = "700".into();
        store.load(&table, key("a"), loaded);
        assert_eq!((store.get(&table, &key("a")).unwrap().rv, store.rv()), (700, 700));
        assert_eq!((store.reaches(&table, 699), store.reaches(&table, 700)), (Err(Expired(700)), Ok(())));
        store.load(&table, key("b"), map("b", "1"));
        assert_eq!(store.put(&table, &key("a"), map("a", "2"), now).version.rv, 702);
        let names: Vec<_> = store.events_after(&table, 701, 10).unwrap().iter().map(|e| e.key.clone()).collect();
        assert_eq!(names, [key("a")]);
    }

    #[test]
    fn lists_are_in_key_order_and_start_behind_a_key() {
        let (mut store, table, now) = world(10);
        for name in ["b", "a", "c"] {
            store.put(&table, &key(name), map(name, "1"), now);
        }
        let list = store.list(&table, None, Some("n/a"), None).unwrap();
        let names: Vec<_> = list.iter().map(|(k, _)| k.name()).collect();
        assert_eq!(names, ["b", "c"]);
    }
}

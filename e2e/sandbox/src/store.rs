//! Storage: versions of objects in tables, one counter for all of them, and a window of history to watch.

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

use super::{
    json,
    object::{meta, set_meta},
    raw,
    resource::Key,
    selector::labels_of,
};

/// How many of the newest events keep their objects parsed; older ones are parsed again when someone asks.
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
pub(super) struct Version {
    pub(super) rv: u64,
    pub(super) labels: BTreeMap<String, String>,
    change: Change,
    /// `{"type":"...","object":{"apiVersion":...,"kind":...,...}}` and a line feed: what every plain watcher gets.
    line: Bytes,
    /// Where the object starts in `line`.
    object: usize,
    /// Where the fields behind `apiVersion` and `kind` start in `line`.
    fields: usize,
    /// The text of the field whose bytes are kept, as it came.
    pub(super) raw: Option<Box<str>>,
    parsed: Mutex<Option<Arc<Value>>>,
}

impl Version {
    pub(super) fn new(change: Change, rv: u64, mut value: Value) -> Self {
        set_meta(&mut value, "resourceVersion", rv.to_string());
        let raw = raw::take(&mut value);
        let mut line = Vec::with_capacity(1024);
        line.extend_from_slice(b"{\"type\":\"");
        line.extend_from_slice(change.as_str().as_bytes());
        line.extend_from_slice(b"\",\"object\":");
        let object = line.len();
        let fields = write_object(&mut line, &value, raw.as_deref());
        line.extend_from_slice(b"}\n");
        let labels = labels_of(&value);
        let (line, parsed) = (Bytes::from(line), Mutex::new(Some(Arc::new(value))));
        let raw = raw.map(String::into_boxed_str);
        Self { rv, labels, change, line, object, fields, raw, parsed }
    }

    /// The object with `apiVersion` and `kind`.
    pub(super) fn json(&self) -> Bytes {
        self.line.slice(self.object..self.line.len() - 2)
    }

    /// The object's text behind `apiVersion` and `kind`, closing brace included: what follows a `{` in a list.
    pub(super) fn item(&self) -> &[u8] {
        &self.line[self.fields..self.line.len() - 2]
    }

    /// The watch line, if the event is of the type it was written for.
    pub(super) fn line(&self, change: Change) -> Option<&Bytes> {
        (change == self.change).then_some(&self.line)
    }

    /// The object.
    pub(super) fn value(&self) -> Arc<Value> {
        if let Some(value) = &*self.parsed.lock() {
            return value.clone();
        }
        Arc::new(serde_json::from_slice(&self.json()).unwrap_or_default())
    }

    fn forget_parsed(&self) {
        *self.parsed.lock() = None;
    }
}

/// Writes an object, `apiVersion` and `kind` first; returns where the other fields start.
fn write_object(out: &mut Vec<u8>, value: &Value, raw: Option<&str>) -> usize {
    out.extend_from_slice(b"{\"apiVersion\":");
    json::write(out, value.get("apiVersion").unwrap_or(&Value::Null));
    out.extend_from_slice(b",\"kind\":");
    json::write(out, value.get("kind").unwrap_or(&Value::Null));
    out.push(b',');
    let fields = out.len();
    if let Some(text) = raw {
        json::write_str(out, raw::FIELD);
        out.push(b':');
        out.extend_from_slice(raw::encoded(text).as_bytes());
        out.push(b',');
    }
    let written = |field: &str| matches!(field, "apiVersion" | "kind") || (raw.is_some() && field == raw::FIELD);
    let rest = value.as_object().into_iter().flatten().filter(|(field, _)| !written(field));
    json::write_fields(out, rest);
    out.push(b'}');
    fields
}

/// One change, as history keeps it.
#[derive(Debug)]
pub(super) struct Event {
    pub(super) change: Change,
    pub(super) key: Key,
    pub(super) version: Arc<Version>,
    pub(super) before: Option<Arc<Version>>,
    pub(super) at: Instant,
}

/// All objects of one resource and what happened to them lately.
#[derive(Debug, Default)]
pub(super) struct Table {
    objects: BTreeMap<Key, Arc<Version>>,
    log: VecDeque<Arc<Event>>,
    /// Version of the newest event that history has forgotten.
    forgotten: u64,
    /// Counts changes, for caches made from this table.
    pub(super) changes: u64,
    notify: Arc<Notify>,
}

/// History does not reach back that far; carries the oldest version from which it does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Expired(pub(super) u64);

/// Everything stored.
#[derive(Debug)]
pub(super) struct Store {
    tables: BTreeMap<Arc<str>, Table>,
    rv: u64,
    compacted: u64,
    window: usize,
}

impl Store {
    pub(super) fn new(window: usize) -> Self {
        Self { tables: BTreeMap::new(), rv: 1, compacted: 0, window: window.max(1) }
    }

    /// The newest version.
    pub(super) fn rv(&self) -> u64 {
        self.rv
    }

    pub(super) fn table(&self, table: &str) -> Option<&Table> {
        self.tables.get(table)
    }

    pub(super) fn get(&self, table: &str, key: &Key) -> Option<&Arc<Version>> {
        self.tables.get(table)?.objects.get(key)
    }

    /// Signals changes of a table.
    pub(super) fn notify(&mut self, table: &Arc<str>) -> Arc<Notify> {
        self.tables.entry(table.clone()).or_default().notify.clone()
    }

    /// Stores an object, new or changed, and gives it the next version.
    pub(super) fn put(&mut self, table: &Arc<str>, key: &Key, value: Value, at: Instant) -> Arc<Event> {
        self.rv += 1;
        let rv = self.rv;
        let slot = self.tables.entry(table.clone()).or_default();
        let before = slot.objects.get(key).cloned();
        let change = if before.is_some() { Change::Modified } else { Change::Added };
        let version = Arc::new(Version::new(change, rv, value));
        slot.objects.insert(key.clone(), version.clone());
        self.record(table, Event { change, key: key.clone(), version, before, at })
    }

    /// Removes an object; its last state becomes one with the version of the removal.
    pub(super) fn remove(&mut self, table: &Arc<str>, key: &Key, at: Instant) -> Option<Arc<Event>> {
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
                before.forget_parsed();
            }
            if old.change == Change::Deleted {
                old.version.forget_parsed();
            }
        }
        slot.notify.notify_waiters();
        event
    }

    /// Forgets all history: nothing before the newest version can be watched or paged any more.
    pub(super) fn compact(&mut self) {
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

    /// Whether a new watch or page may start from `rv`.
    pub(super) fn reaches(&self, table: &str, rv: u64) -> Result<(), Expired> {
        let forgotten = self.tables.get(table).map_or(0, |t| t.forgotten);
        let oldest = self.compacted.max(forgotten);
        if rv < oldest { Err(Expired(oldest)) } else { Ok(()) }
    }

    /// Up to `limit` events after `rv`, oldest first.
    pub(super) fn events_after(&self, table: &str, rv: u64, limit: usize) -> Result<Vec<Arc<Event>>, Expired> {
        let Some(table) = self.tables.get(table) else { return Ok(Vec::new()) };
        if rv < table.forgotten {
            return Err(Expired(table.forgotten));
        }
        let from = table.log.partition_point(|e| e.version.rv <= rv);
        Ok(table.log.range(from..).take(limit).cloned().collect())
    }

    /// The objects of one namespace, or of all, in key order, as they were at version `at` (now, if not given),
    /// starting behind the key `after`.
    pub(super) fn list(
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
    pub(super) fn count_in(&self, namespace: &str) -> usize {
        let prefix = format!("{namespace}/");
        let from = Key::from_path(&prefix);
        self.tables
            .values()
            .map(|t| t.objects.range(from.clone()..).take_while(|(k, _)| k.as_str().starts_with(&prefix)).count())
            .sum()
    }

    /// How many objects a table holds.
    pub(super) fn count(&self, table: &str) -> usize {
        self.tables.get(table).map_or(0, |t| t.objects.len())
    }

    /// Whether a namespace exists, and whether it is being deleted.
    pub(super) fn namespace(&self, name: &str) -> Option<NamespaceState> {
        let version = self.get("namespaces", &Key::new(None, name))?;
        let value = version.value();
        let deleting = !meta(&value, "deletionTimestamp").is_empty();
        Some(if deleting { NamespaceState::Terminating } else { NamespaceState::Active })
    }
}

/// Where a namespace is in its life.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum NamespaceState {
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
    fn a_version_s_texts_are_cut_from_one_line() {
        let (mut store, table, now) = world(10);
        let event = store.put(&table, &key("x"), map("x", "1"), now);
        let json: Value = serde_json::from_slice(&event.version.json()).unwrap();
        assert_eq!(json, *event.version.value());
        assert_eq!(json["metadata"]["resourceVersion"], "2");
        assert!(event.version.item().starts_with(br#""data":"#));
        assert!(event.version.line(Change::Added).unwrap().ends_with(b"}}\n"));
        assert!(event.version.line(Change::Deleted).is_none());
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
        assert!(first.version.parsed.lock().is_none());
        assert_eq!(first.version.value()["data"]["a"], "first");
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

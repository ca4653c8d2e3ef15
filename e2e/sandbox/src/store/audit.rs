//! What was asked and what was written: counters of requests and a log of accepted writes.

use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    sync::Arc,
};

use jiff::Timestamp;
use parking_lot::Mutex;
use serde_json::Value;
use tokio::sync::mpsc;

use crate::store::{Change, Event, Version};

/// One accepted write.
#[derive(Clone, Debug)]
pub struct Write {
    /// Verb of the request as RBAC names it.
    pub verb: &'static str,
    /// API group of the resource, empty for core.
    pub group: String,
    /// Plural name of the resource.
    pub resource: String,
    /// Subresource that was written through.
    pub subresource: Option<String>,
    /// Namespace of the object, empty for what has none.
    pub namespace: String,
    /// Name of the object.
    pub name: String,
    /// Who wrote.
    pub identity: String,
    /// User agent of who wrote.
    pub user_agent: String,
    /// What became of the object.
    pub change: Change,
    /// Version the write made.
    pub rv: u64,
    /// The server's time.
    pub at: Timestamp,
    before: Option<Arc<Version>>,
    after: Arc<Version>,
}

impl Write {
    /// The object before the write, in its stored form.
    pub fn before(&self) -> Option<Arc<Value>> {
        self.before.as_ref().map(|v| v.value())
    }

    /// The object after the write; nothing if it was removed.
    pub fn after(&self) -> Option<Arc<Value>> {
        (self.change != Change::Deleted).then(|| self.after.value())
    }

    /// The same write with other states of the object before and after it, which no server need allow: a test of an oracle
    /// whose case the sandbox refuses.
    #[must_use]
    pub fn with_states(&self, before: Value, after: Value) -> Self {
        let version = |value| Arc::new(Version::new(Change::Modified, self.rv, value));
        Self { change: Change::Modified, before: Some(version(before)), after: version(after), ..self.clone() }
    }
}

/// Who writes, and how.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Author<'a> {
    pub(crate) identity: &'a str,
    pub(crate) agent: &'a str,
    pub(crate) verb: &'static str,
    pub(crate) sub: Option<&'a str>,
}

impl Author<'static> {
    /// A controller that the sandbox plays itself.
    pub(crate) fn sandbox(identity: &'static str, verb: &'static str) -> Self {
        Self { identity, agent: "sandbox", verb, sub: None }
    }
}

#[derive(Debug, Default)]
struct Log {
    kept: VecDeque<Arc<Write>>,
    total: u64,
    readers: Vec<mpsc::UnboundedSender<Arc<Write>>>,
}

/// The log of accepted writes. Cheap to clone; clones share the log.
#[derive(Clone, Debug)]
pub struct Writes {
    log: Arc<Mutex<Log>>,
    capacity: usize,
}

impl Writes {
    pub(crate) fn new(capacity: usize) -> Self {
        Self { log: Arc::default(), capacity }
    }

    /// The writes still kept, oldest first.
    pub fn all(&self) -> Vec<Arc<Write>> {
        self.log.lock().kept.iter().cloned().collect()
    }

    /// How many writes there have been.
    pub fn count(&self) -> u64 {
        self.log.lock().total
    }

    /// The writes kept that were made after that version, oldest first.
    pub fn since(&self, rv: u64) -> Vec<Arc<Write>> {
        let log = self.log.lock();
        let from = log.kept.partition_point(|w| w.rv <= rv);
        log.kept.range(from..).cloned().collect()
    }

    /// All writes from now on.
    pub fn subscribe(&self) -> mpsc::UnboundedReceiver<Arc<Write>> {
        let (sender, receiver) = mpsc::unbounded_channel();
        self.log.lock().readers.push(sender);
        receiver
    }

    /// Forgets the writes so far.
    pub fn clear(&self) {
        self.log.lock().kept.clear();
    }

    pub(crate) fn record(&self, author: &Author<'_>, group: &str, plural: &str, event: &Event, at: Timestamp) {
        let mut log = self.log.lock();
        log.total += 1;
        if self.capacity == 0 && log.readers.is_empty() {
            return;
        }
        let write = Arc::new(Write {
            verb: author.verb,
            group: group.into(),
            resource: plural.into(),
            subresource: author.sub.map(str::to_owned),
            namespace: event.key.namespace().unwrap_or_default().into(),
            name: event.key.name().into(),
            identity: author.identity.into(),
            user_agent: author.agent.into(),
            change: event.change,
            rv: event.version.rv,
            at,
            before: event.before.clone(),
            after: event.version.clone(),
        });
        log.readers.retain(|reader| reader.send(write.clone()).is_ok());
        if self.capacity > 0 {
            if log.kept.len() == self.capacity {
                log.kept.pop_front();
            }
            log.kept.push_back(write);
        }
    }
}

/// What requests are counted by.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct RequestKey {
    /// Who asked.
    pub identity: String,
    /// Verb as RBAC names it.
    pub verb: &'static str,
    /// Plural name with its group and subresource: `deployments.apps/status`.
    pub resource: String,
}

/// Counters of requests for resources, whatever became of them. Cheap to clone; clones share the counters.
#[derive(Clone, Debug, Default)]
pub struct Requests {
    counts: Arc<Mutex<BTreeMap<RequestKey, u64>>>,
    selectors: Arc<Mutex<BTreeMap<RequestKey, BTreeSet<String>>>>,
    watched: Arc<Mutex<BTreeMap<String, u64>>>,
}

impl Requests {
    pub(crate) fn add(&self, identity: &str, verb: &'static str, resource: String) {
        let key = RequestKey { identity: identity.into(), verb, resource };
        *self.counts.lock().entry(key).or_default() += 1;
    }

    pub(crate) fn add_selector(&self, identity: &str, verb: &'static str, resource: String, selector: &str) {
        let key = RequestKey { identity: identity.into(), verb, resource };
        let mut selectors = self.selectors.lock();
        let known = selectors.entry(key).or_default();
        if !known.contains(selector) {
            known.insert(selector.to_owned());
        }
    }

    pub(crate) fn add_watched(&self, identity: &str, bytes: usize) {
        *self.watched.lock().entry(identity.to_owned()).or_default() += bytes as u64;
    }

    /// The bytes that watches have delivered, by client.
    pub fn watched_bytes(&self) -> BTreeMap<String, u64> {
        self.watched.lock().clone()
    }

    /// The field selectors of the lists and watches; an empty text stands for requests without one.
    pub fn field_selectors(&self) -> BTreeMap<RequestKey, BTreeSet<String>> {
        self.selectors.lock().clone()
    }

    /// All counters.
    pub fn all(&self) -> BTreeMap<RequestKey, u64> {
        self.counts.lock().clone()
    }

    /// How many requests there were, of any client or of one, of any verb or of one, for any resource or for one.
    pub fn count(&self, identity: Option<&str>, verb: Option<&str>, resource: Option<&str>) -> u64 {
        let is = |wanted: Option<&str>, found: &str| wanted.is_none_or(|w| w == found);
        let counts = self.counts.lock();
        let matching = counts.iter().filter(|(k, _)| is(identity, &k.identity) && is(verb, k.verb));
        matching.filter(|(k, _)| is(resource, &k.resource)).map(|(_, n)| n).sum()
    }

    /// Sets all counters to zero, and forgets the selectors.
    pub fn clear(&self) {
        self.counts.lock().clear();
        self.selectors.lock().clear();
        self.watched.lock().clear();
    }
}

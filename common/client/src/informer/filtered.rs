//! A cache of labelled objects, which keeps its objects when they lose the label.
//!
//! The server delivers only objects with the label. For the watch, an object that loses the label is like a deleted object,
//! because both arrive as `DELETED`, in the last state with the label. This sink distinguishes the two cases:
//!
//! - A deleted Pod has a deletion timestamp in its last state, because the server stores the timestamp before it removes the
//!   Pod. An object that disappears without a deletion timestamp is read once.
//! - During the read, the object remains in the cache unchanged. A sync of its owner sees a stale child, not a missing one.
//! - An object that still exists is *hidden*. The state that was read stays in the cache, and the controller treats the object
//!   like any other object, so the controller releases the object, or restores the label. The object is read again, at growing
//!   intervals, until the watch shows the object again, the object no longer exists, or [`Object::is_cached`] rejects the object.
//! - An object that is hidden when the process starts is not in the cache. Code that finds such an object passes it to
//!   [`SinkInformer::add_object_hidden_from_watch`].
//!
//! A read never raises the version of the cache, which is the version that the watch has reached. The version of a cached
//! object never decreases.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};

use parking_lot::Mutex;
use tokio::{sync::Notify, task::JoinHandle};

use super::{
    InformerConfig, ObjectHead, Sink, SinkInformer, StoreAndHandlers,
    accept::accept_header,
    frames::{self, ListPage},
};
use crate::{
    api::{Api, Call, percent_encode},
    batch,
    client::user_agent,
    clock::{Clock, Instant},
    meta::{Meta, NamespacedName, ResourceVersion, Uid},
    metrics::HiddenObjectMetrics,
    object::Object,
    store::{CacheEntry, ChangeOrigin, Store},
};

/// Maximum number of concurrent reads of hidden objects.
const MAX_CONCURRENT_READS: usize = 8;
/// First pause before a hidden object is read again, or a failed read is retried. The pause doubles each time.
const FIRST_PAUSE: Duration = Duration::from_secs(1);
/// Upper limit of the pause between reads of an object, unless [`PAUSE_PER_OBJECT`] requires a longer pause.
const LONGEST_PAUSE: Duration = Duration::from_mins(1);
/// Lower limit of the pause, per hidden object, so that at most ten objects are read each second, however many are hidden.
const PAUSE_PER_OBJECT: Duration = Duration::from_millis(100);

/// A sink that keeps whole objects in a store.
pub trait StoreSink: Sink<Set = Vec<CacheEntry<<Self as Sink>::Object>>> {
    /// Returns the store with the objects.
    fn store(&self) -> &Arc<Store<Self::Object>>;
    /// Adds or updates an object that was read outside the watch. The version of the store stays unchanged.
    fn put_read_object(&self, entry: CacheEntry<Self::Object>);
}

/// An informer that watches the objects with one label and keeps its objects when they lose the label.
pub type LabelFilteredInformer<K> = SinkInformer<LabelFilterSink<StoreAndHandlers<K>>>;

/// A sink for the objects with one label, which adds the handling of hidden objects to the sink `S`.
pub struct LabelFilterSink<S> {
    shared: Arc<Shared<S>>,
    reader: JoinHandle<()>,
}

struct Shared<S> {
    sink: S,
    label: &'static str,
    clock: Clock,
    /// Locked during every change of the sink, because both the watch and the reads of single objects change the sink.
    hidden: Mutex<Hidden>,
    /// Wakes the task that reads hidden objects, after a change of the schedule.
    due: Notify,
}

/// The objects that the watch does not show although they may still exist.
struct Hidden {
    metrics: HiddenObjectMetrics,
    objects: BTreeMap<NamespacedName, HiddenObject>,
    /// Objects with a scheduled read, ordered by [`HiddenObject::due`].
    schedule: BTreeSet<(Instant, NamespacedName)>,
    /// Serial number of the newest scheduled read, for [`HiddenObject::question`].
    questions: u64,
}

struct HiddenObject {
    uid: Uid,
    /// Time of the next read of the object; `None` during the read.
    due: Option<Instant>,
    pause: Duration,
    /// Minimum version of the list that answers the read. An answer with an older version is ignored.
    since: ResourceVersion,
    /// Serial number of the scheduled read. The answer to a read with another serial number is ignored.
    question: u64,
}

impl Hidden {
    /// Adds an object that is read at `due`. An answer that is older than the version `since` is ignored.
    fn insert(&mut self, object: &Meta, since: ResourceVersion, due: Instant) {
        let key = object.key();
        self.remove(&key);
        let hidden = HiddenObject { uid: object.uid.clone(), due: None, pause: FIRST_PAUSE, since, question: 0 };
        self.objects.insert(key.clone(), hidden);
        self.metrics.set_hidden_object_count(self.objects.len());
        self.read_at(&key, due);
    }

    fn remove(&mut self, key: &NamespacedName) {
        if let Some(due) = self.objects.remove(key).and_then(|object| object.due) {
            self.schedule.remove(&(due, key.clone()));
        }
        self.metrics.set_hidden_object_count(self.objects.len());
    }

    /// Schedules the read of an object at `due`. If a read is in flight, its answer is ignored.
    fn read_at(&mut self, key: &NamespacedName, due: Instant) {
        let Some(object) = self.objects.get_mut(key) else { return };
        self.questions += 1;
        object.question = self.questions;
        if let Some(before) = object.due.replace(due) {
            self.schedule.remove(&(before, key.clone()));
        }
        self.schedule.insert((due, key.clone()));
    }

    /// Schedules the next read of an object after its pause, and doubles the pause.
    fn schedule_next_read(&mut self, key: &NamespacedName, now: Instant) {
        let least = PAUSE_PER_OBJECT.saturating_mul(u32::try_from(self.objects.len()).unwrap_or(u32::MAX));
        let Some(object) = self.objects.get_mut(key) else { return };
        let pause = object.pause.max(least);
        object.pause = (object.pause * 2).min(LONGEST_PAUSE);
        self.read_at(key, now + pause);
    }

    /// Returns the keys to read now, each with the serial number of its read. If no read is due, returns the time of the next.
    fn take_due(&mut self, now: Instant) -> Result<Vec<(NamespacedName, u64)>, Option<Instant>> {
        let mut taken = Vec::new();
        while taken.len() < MAX_CONCURRENT_READS
            && self.schedule.first().is_some_and(|(due, _)| *due <= now)
            && let Some((_, key)) = self.schedule.pop_first()
            && let Some(object) = self.objects.get_mut(&key)
        {
            object.due = None;
            taken.push((key, object.question));
        }
        if taken.is_empty() { Err(self.schedule.first().map(|(due, _)| *due)) } else { Ok(taken) }
    }
}

impl<S> Drop for LabelFilterSink<S> {
    fn drop(&mut self) {
        self.reader.abort();
    }
}

impl<S: StoreSink> LabelFilterSink<S> {
    /// Wraps `sink` for the objects that have a label with the key `label`. Must be called within a tokio runtime, because it
    /// spawns the task that reads hidden objects.
    pub fn new(api: &Api, metrics: HiddenObjectMetrics, label: &'static str, sink: S) -> Self {
        let hidden = Hidden { metrics, objects: BTreeMap::new(), schedule: BTreeSet::new(), questions: 0 };
        let (clock, hidden, due) = (api.clock().clone(), Mutex::new(hidden), Notify::new());
        let shared = Arc::new(Shared { sink, label, clock, hidden, due });
        let reading = api.clone().with_user_agent(&user_agent("shared-informers"));
        let reader = tokio::spawn(Arc::clone(&shared).read_when_due(reading));
        Self { shared, reader }
    }
}

impl<S: StoreSink> SinkInformer<LabelFilterSink<S>> {
    /// Starts to list and watch the objects that have a label with the key `label`.
    pub fn start_with_label(api: Api, config: InformerConfig, label: &'static str, sink: S) -> Self {
        let config = InformerConfig { label_selector: label.to_owned(), ..config };
        let metrics = HiddenObjectMetrics::new(&config.metrics.clone().unwrap_or_default(), S::Object::RESOURCE);
        let filtered = LabelFilterSink::new(&api, metrics, label, sink);
        Self::start_with_sink(api, config, filtered)
    }

    /// Returns the store with all objects, including objects that have lost the label.
    pub fn store(&self) -> &Arc<Store<S::Object>> {
        self.sink.shared.sink.store()
    }

    /// Reads an object again if it is hidden. Call this after a write to a hidden object, because the watch does not show the
    /// write.
    pub fn reread_if_hidden_from_watch(&self, object: &Meta) {
        let shared = &self.sink.shared;
        let mut hidden = shared.hidden.lock();
        let key = object.key();
        if hidden.objects.get(&key).is_some_and(|known| known.uid == object.uid) {
            hidden.read_at(&key, shared.clock.monotonic_now());
            shared.due.notify_one();
        }
    }

    /// Adds a hidden object that was found without the watch. Ignores an object with the label, because the watch delivers it.
    pub fn add_object_hidden_from_watch(&self, mut object: S::Object) {
        let shared = &self.sink.shared;
        object.drop_unneeded_fields();
        if shared.is_visible(object.meta()) || !object.is_cached() {
            return;
        }
        let mut hidden = shared.hidden.lock();
        let Meta { namespace, name, uid, resource_version, .. } = object.meta();
        let is_known = |meta: &Meta| meta.uid != *uid || meta.resource_version >= *resource_version;
        if shared.sink.store().with_metadata(namespace, name, is_known) == Some(true) {
            return;
        }
        hidden.insert(object.meta(), *resource_version, shared.clock.monotonic_now() + FIRST_PAUSE);
        shared.sink.put_read_object(CacheEntry::Decoded(Arc::new(object)));
        shared.due.notify_one();
    }
}

impl<S: StoreSink> Shared<S> {
    fn is_visible(&self, object: &Meta) -> bool {
        object.labels.get(self.label).is_some()
    }

    async fn read_when_due(self: Arc<Self>, api: Api) {
        loop {
            let due = self.hidden.lock().take_due(self.clock.monotonic_now());
            match due {
                Ok(due) => {
                    batch::join_all_with_concurrency_limit(
                        MAX_CONCURRENT_READS,
                        due.iter().map(|(key, question)| self.read_and_classify(&api, key, *question)),
                    )
                    .await;
                }
                Err(Some(next)) => drop(tokio::time::timeout_at(next, self.due.notified()).await),
                Err(None) => self.due.notified().await,
            }
        }
    }

    /// Reads an object, and finds out whether it has the label, is hidden, does not concern this process, or is missing.
    async fn read_and_classify(&self, api: &Api, key: &NamespacedName, question: u64) {
        let answer = Self::read(api, key).await;
        let mut hidden = self.hidden.lock();
        // `question` differs if the watch has delivered a newer state during the read, or if another read is scheduled.
        let Some(known) = hidden.objects.get(key).filter(|known| known.question == question) else { return };
        let page = answer.and_then(|page| {
            let is_new = page.version >= known.since;
            is_new.then_some(page).ok_or_else(|| format!("the list is older than version {}", known.since))
        });
        let result = match page {
            Err(error) => {
                tracing::debug!(resource = %S::Object::RESOURCE, key = %key, err = error, "Hidden object cannot be read");
                hidden.schedule_next_read(key, self.clock.monotonic_now());
                "error"
            }
            Ok(page) => {
                let live = page.items.into_iter().find(|item| item.meta().name == key.name);
                let live = live.filter(|live| live.meta().uid == known.uid);
                let is_taken = page.filtered_out_object_count > 0 || live.is_some();
                match live.filter(|live| live.as_decoded().is_none_or(Object::is_cached)) {
                    Some(live) if self.is_visible(live.meta()) => {
                        hidden.remove(key);
                        self.sink.put_read_object(live);
                        "visible"
                    }
                    Some(live) => {
                        self.sink.put_read_object(live);
                        hidden.schedule_next_read(key, self.clock.monotonic_now());
                        "hidden"
                    }
                    None => {
                        hidden.remove(key);
                        self.remove(key);
                        if is_taken { "foreign" } else { "gone" }
                    }
                }
            }
        };
        hidden.metrics.count_hidden_object_read(result);
    }

    /// Requests an object as a list of one object. A list has a version even if the object is missing, and upstream's role for
    /// DaemonSets does not include the right to get Pods.
    async fn read(api: &Api, key: &NamespacedName) -> Result<ListPage<S::Object>, String> {
        let query = format!("fieldSelector={}", percent_encode(&format!("metadata.name={}", key.name)));
        let call = Call::list(&S::Object::RESOURCE, &key.namespace, &query, accept_header::<S::Object>(api));
        let (format, body) = api.call_with_format(call).await.map_err(|error| error.to_string())?;
        frames::decode_list_page::<S::Object>(format, &body)
    }

    /// Removes an object from the cache. The version of the cache stays unchanged.
    fn remove(&self, key: &NamespacedName) {
        // Without a version, the removal does not raise the version of the cache to the version of the object.
        let unversioned = |cached: &Meta| Meta { resource_version: ResourceVersion::UNKNOWN, ..cached.clone() };
        if let Some(last) = self.sink.store().with_metadata(&key.namespace, &key.name, unversioned) {
            self.sink.remove_deleted(&last);
        }
    }
}

impl<S: StoreSink> Sink for LabelFilterSink<S> {
    type Object = S::Object;
    type Set = S::Set;

    fn begin_set(&self) -> Self::Set {
        self.shared.sink.begin_set()
    }

    fn add_to_set(&self, set: &mut Self::Set, entry: CacheEntry<S::Object>, origin: ChangeOrigin) {
        self.shared.sink.add_to_set(set, entry, origin);
    }

    /// Completes the set, but keeps and reads the cached objects that are missing in the set, because they may be hidden.
    fn complete_set(&self, mut set: Self::Set, version: ResourceVersion, origin: ChangeOrigin) {
        let shared = &self.shared;
        let mut hidden = shared.hidden.lock();
        let shown: BTreeSet<NamespacedName> = set.iter().map(|entry| entry.meta().key()).collect();
        for key in &shown {
            hidden.remove(key);
        }
        let now = shared.clock.monotonic_now();
        for object in shared.sink.store().select_decoded(|object| !shown.contains(&object.meta().key())) {
            let is_known = hidden.objects.contains_key(&object.meta().key());
            if !is_known && object.meta().is_deleting() {
                continue;
            }
            if !is_known {
                hidden.insert(object.meta(), version, now);
            }
            set.push(CacheEntry::Decoded(object));
        }
        shared.sink.complete_set(set, version, origin);
        shared.due.notify_one();
    }

    fn put_object(&self, entry: CacheEntry<S::Object>) {
        let mut hidden = self.shared.hidden.lock();
        if !hidden.objects.is_empty() {
            hidden.remove(&entry.meta().key());
        }
        self.shared.sink.put_object(entry);
    }

    fn handle_foreign(&self, head: &ObjectHead<'_>) {
        let mut hidden = self.shared.hidden.lock();
        self.shared.sink.handle_foreign(head);
        // The wrapped sink keeps the object if a read has returned a newer state.
        let is_out = self.shared.sink.store().with_metadata(head.namespace(), head.name(), |_| ()).is_none();
        if !hidden.objects.is_empty() && is_out {
            hidden.remove(&NamespacedName::new(head.namespace(), head.name()));
        }
    }

    fn remove_deleted(&self, last: &Meta) {
        let shared = &self.shared;
        let mut hidden = shared.hidden.lock();
        if last.is_deleting() || !shared.sink.store().contains_object(last) {
            hidden.remove(&last.key());
            shared.sink.remove_deleted(last);
        } else {
            hidden.insert(last, last.resource_version, shared.clock.monotonic_now());
            shared.sink.raise_version(last.resource_version);
            shared.due.notify_one();
        }
    }

    fn raise_version(&self, version: ResourceVersion) {
        self.shared.sink.raise_version(version);
    }

    fn version(&self) -> ResourceVersion {
        self.shared.sink.version()
    }

    fn len(&self) -> usize {
        self.shared.sink.len()
    }

    fn replay(&self) {
        let _hidden = self.shared.hidden.lock();
        self.shared.sink.replay();
    }
}

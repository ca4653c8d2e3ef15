//! How the process and its control loops know each other.

use std::{
    any::{Any, TypeId},
    collections::BTreeMap,
    sync::{Arc, Weak},
};

use futures::future::BoxFuture;
use parking_lot::Mutex;
use serde_json::{Value, json};

use crate::{
    api::Api,
    clock::Clock,
    consistency::Ledger,
    events::Recorder,
    gate::Gate,
    informer::{self, Cached, FilteredInformer, Handler, Informer, SharedInformer, SinkInformer},
    io::AccountObserver,
    metrics::Metrics,
    object::Object,
    sampler::{OwnedWrites, WriteSampler},
    settings::{EXPECTATIONS_TIMEOUT, Settings, WATCH_LIST_CLIENT},
    store::Store,
};

/// A control loop that a binary can run.
#[derive(Clone, Copy)]
pub struct LoopDefinition {
    /// Canonical name, as `--controllers` and logs know it: `replicaset-controller`.
    pub name: &'static str,
    /// The older name `--controllers` accepts as well: `replicaset`.
    pub alias: &'static str,
    /// What its user agent ends in and its ServiceAccount is called upstream: `replicaset-controller`.
    pub client: &'static str,
    /// Component its Events come from.
    pub component: &'static str,
    /// The writes by which a second writer that runs the loop is noticed.
    pub owned_writes: &'static [OwnedWrites],
    /// Builds the loop and starts its informers; its workers wait for the gate and for the caches.
    pub start: fn(Context) -> Arc<dyn Running>,
}

impl LoopDefinition {
    /// A loop whose client and component have its name.
    pub const fn new(name: &'static str, alias: &'static str, start: fn(Context) -> Arc<dyn Running>) -> Self {
        Self { name, alias, client: name, component: name, owned_writes: &[], start }
    }

    /// The same with another client and another component.
    #[must_use]
    pub const fn known_as(self, client: &'static str, component: &'static str) -> Self {
        Self { client, component, ..self }
    }

    /// The same with writes that nobody else makes.
    #[must_use]
    pub const fn owning(self, owned_writes: &'static [OwnedWrites]) -> Self {
        Self { owned_writes, ..self }
    }
}

/// What a control loop is built from.
#[derive(Clone)]
pub struct Context {
    /// The API server, behind the gate.
    pub api: Api,
    /// Time and randomness.
    pub clock: Clock,
    /// The permission to write.
    pub gate: Gate,
    /// Flags, feature gates and tuned values.
    pub settings: Arc<Settings>,
    /// Where metrics are registered.
    pub metrics: Metrics,
    /// Records Events under the loop's component.
    pub recorder: Recorder,
    /// Sees the accounts of syncs, if somebody wants to.
    pub accounts: Option<Arc<dyn AccountObserver>>,
    /// Looks at what the caches read for writes of a second writer, if it is to.
    pub sampler: Option<Arc<WriteSampler>>,
    /// What the loops of this process share: one and the same for all of them.
    pub shared: Shared,
}

impl Context {
    /// How every cache of this process is read.
    pub fn reading(&self) -> informer::Config {
        informer::Config { streaming: self.settings.gate(&WATCH_LIST_CLIENT), ..informer::Config::default() }
    }

    /// How caches of this process are kept that last as long as it does: replayed as the operator wants it, and counted.
    pub fn caches(&self) -> informer::Config {
        informer::Config {
            resync: self.settings.resync_period(&self.clock),
            metrics: Some(self.metrics.clone()),
            sampler: self.sampler.clone(),
            ..self.reading()
        }
    }

    /// Starts a cache in `store` that lasts as long as this process; `handler` hears of its changes.
    pub fn informer<K: Object>(&self, store: Arc<Store<K>>, handler: Handler<K>) -> Informer<K> {
        Informer::start_with(self.api.clone(), self.caches(), store, vec![handler])
    }

    /// The same for the objects with a label of that key. The controller gives that label to its objects.
    pub fn filtered_informer<K: Object>(&self, label: &'static str, handler: Handler<K>) -> FilteredInformer<K> {
        let cached = Cached::new(Arc::default(), vec![handler]);
        SinkInformer::follow_labelled(self.api.clone(), self.caches(), label, cached)
    }

    /// The cache of a kind that the loops of this process share. The first call starts it.
    pub fn shared_informer<K: Object>(&self) -> Arc<SharedInformer<K>> {
        self.shared.get_or_make(|| SharedInformer::start(self.api.clone(), self.caches()))
    }

    /// A ledger whose records last as long as `--tune expectations-timeout` says.
    pub fn ledger(&self) -> Ledger {
        Ledger::new(self.clock.clone(), self.settings.duration(&EXPECTATIONS_TIMEOUT))
    }
}

/// What the loops of one process keep once instead of each for itself, by type: a cache of Pods that several read.
///
/// A value lives as long as one loop holds it. Clones share everything; `Default` begins a new process, so to speak.
#[derive(Clone, Default)]
pub struct Shared {
    values: Arc<Mutex<BTreeMap<TypeId, Weak<dyn Any + Send + Sync>>>>,
}

impl Shared {
    /// The value of that type; whoever asks first makes it. `make` must not ask for another value: the values are locked.
    pub fn get_or_make<T: Send + Sync + 'static>(&self, make: impl FnOnce() -> T) -> Arc<T> {
        let mut values = self.values.lock();
        if let Some(known) = values.get(&TypeId::of::<T>()).and_then(Weak::upgrade)
            && let Ok(known) = known.downcast::<T>()
        {
            return known;
        }
        let made = Arc::new(make());
        let erased: Arc<dyn Any + Send + Sync> = Arc::<T>::clone(&made);
        values.insert(TypeId::of::<T>(), Arc::downgrade(&erased));
        made
    }
}

/// A control loop that runs.
pub trait Running: Send + Sync {
    /// Whether every cache holds its first full set, its handlers have seen it, and it has not lost touch with the API server
    /// since; otherwise what is waited for.
    fn ready(&self) -> Result<(), String>;
    /// What is wrong that does not keep the loop from its work, for those who ask how it is.
    fn troubles(&self) -> Option<String> {
        None
    }
    /// The queue: depth, keys in progress, delayed keys with their time, failures.
    fn debug_queue(&self) -> Value;
    /// The caches: objects, versions, bytes where known, last event, state of the watch.
    fn debug_cache(&self) -> Value;
    /// The last plan of one key, or of all keys: what was decided and why.
    fn explain(&self, key: Option<&str>) -> Value;
    /// The graph of objects that the loop keeps, as DOT: what is connected with these uids, or everything. Few keep one.
    fn debug_graph(&self, _around: &[String]) -> Option<String> {
        None
    }
    /// Stops taking keys and waits for the syncs in progress; nothing is written after it returns.
    fn shutdown(&self) -> BoxFuture<'_, ()>;
}

/// A loop, and one that serves it: together they count as one.
pub struct Pair {
    /// The loop that has the caches.
    pub main: Arc<dyn Running>,
    /// The loop that serves it.
    pub second: Arc<dyn Running>,
    /// The member under which diagnostics show the second loop.
    pub name: &'static str,
}

impl Running for Pair {
    fn ready(&self) -> Result<(), String> {
        self.main.ready().and_then(|()| self.second.ready())
    }

    fn debug_queue(&self) -> Value {
        let mut out = self.main.debug_queue();
        out[self.name] = self.second.debug_queue()["queue"].take();
        out
    }

    fn debug_cache(&self) -> Value {
        self.main.debug_cache()
    }

    /// What the second loop says of a key is shown if it acts.
    fn explain(&self, key: Option<&str>) -> Value {
        let mut out = self.main.explain(key);
        let second = self.second.explain(key);
        if key.is_none() || second["state"] == json!("acting") {
            out[self.name] = second;
        }
        out
    }

    fn shutdown(&self) -> BoxFuture<'_, ()> {
        Box::pin(async {
            futures::join!(self.main.shutdown(), self.second.shutdown());
        })
    }
}

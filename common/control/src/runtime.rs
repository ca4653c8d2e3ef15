//! The interface between the process and its control loops.

use std::{
    any::{Any, TypeId},
    collections::BTreeMap,
    sync::{Arc, OnceLock, Weak},
    time::Duration,
};

use futures::future::BoxFuture;
use nonet_client::discovery::DiscoveredResources;
use parking_lot::Mutex;
use serde_json::Value;

use crate::{
    api::Api,
    clock::Clock,
    consistency::{Ledger, LedgerCaches},
    events::EventRecorder,
    gate::WriteGate,
    informer::{
        self, AnyInformer, CacheEventHandler, Informer, InformerConfig, LabelFilteredInformer, SharedInformer,
        SinkInformer, StoreAndHandlers,
    },
    io::SyncCallbacks,
    metrics::Metrics,
    object::{Object, Resource},
    settings::{EXPECTATIONS_TIMEOUT, OperatorSettings, WATCH_LIST_CLIENT},
    store::Store,
    write_sampler::{OwnedWrites, WriteSampler},
};

/// The static description of a control loop, from which a binary starts the loop.
#[derive(Clone, Copy)]
pub struct LoopDefinition {
    /// Canonical name in `--controllers` and in logs: `replicaset-controller`.
    pub name: &'static str,
    /// Older name that `--controllers` accepts as well: `replicaset`.
    pub alias: &'static str,
    /// Suffix of the user agent, and name of the ServiceAccount upstream: `replicaset-controller`.
    pub user_agent_suffix: &'static str,
    /// `source.component` of the loop's Events; empty for a loop that records none.
    pub event_component: &'static str,
    /// Writes that only this loop makes. Such a write by another process reveals a second writer, which runs the same loop.
    pub owned_writes: &'static [OwnedWrites],
    /// Function that builds the loop and starts its informers. The workers wait for the gate and for the caches.
    pub start_loop: fn(LoopContext) -> Arc<dyn RunningLoop>,
}

impl LoopDefinition {
    /// Creates a definition that uses `name` for the user agent and for Events, too, and that has no owned writes.
    pub const fn new(name: &'static str, alias: &'static str, start: fn(LoopContext) -> Arc<dyn RunningLoop>) -> Self {
        Self { name, alias, user_agent_suffix: name, event_component: name, owned_writes: &[], start_loop: start }
    }

    /// Sets the suffix of the user agent, and the `source.component` of Events.
    #[must_use]
    pub const fn with_user_agent_and_component(self, client: &'static str, component: &'static str) -> Self {
        Self { user_agent_suffix: client, event_component: component, ..self }
    }

    /// Sets the writes that only this loop makes. Another process that makes such a write is a second writer.
    #[must_use]
    pub const fn with_owned_writes(self, owned_writes: &'static [OwnedWrites]) -> Self {
        Self { owned_writes, ..self }
    }
}

/// The dependencies of a control loop: API client, clock, settings, metrics.
#[derive(Clone)]
pub struct LoopContext {
    /// Client of the API server. Writes pass the gate.
    pub api: Api,
    /// Source of time and randomness.
    pub clock: Clock,
    /// The permission to write: open while this process leads.
    pub write_gate: WriteGate,
    /// Flags, feature gates and tuned values.
    pub settings: Arc<OperatorSettings>,
    /// Registry to which the loop adds its metrics.
    pub metrics: Metrics,
    /// Recorder of Events with the component of the loop.
    pub recorder: EventRecorder,
    /// Callbacks around each sync that sends requests; `None` outside of simulation and tests.
    pub sync_callbacks: Option<Arc<dyn SyncCallbacks>>,
    /// Search for writes of a second writer in the objects that the caches receive; `None` if the search is off.
    pub write_sampler: Option<Arc<WriteSampler>>,
    /// Values that all loops of this process share. The context of every loop has a clone of the same `SharedValues`.
    pub shared_values: SharedValues,
    /// The informers and the ledger of this loop.
    pub parts: LoopParts,
}

/// The informers and the ledger that a loop has made with its context. Clones share them; a default is empty.
#[derive(Clone, Default)]
pub struct LoopParts {
    informers: Arc<Mutex<Vec<LoopInformer>>>,
    ledger: Arc<OnceLock<Ledger>>,
    caches: LedgerCaches,
}

/// The served resource of a kind and its cache, once the first list has been read.
pub type ServedInformer<K> = Arc<OnceLock<(Resource, Arc<Store<K>>)>>;

/// First and longest pause between two reads of discovery that look for a kind.
const DISCOVERY_PAUSES: [Duration; 2] = [Duration::from_secs(1), Duration::from_mins(10)];

/// An informer or shared informer of a loop, or several of them as one.
pub type LoopInformer = Arc<dyn AsRef<dyn AnyInformer> + Send + Sync>;

impl LoopParts {
    /// Adds an informer that must be filled before the first sync.
    pub fn add_informer(&self, informer: LoopInformer) {
        self.informers.lock().push(informer);
    }

    /// Returns the informers that must be filled before the first sync.
    pub fn informers(&self) -> Vec<LoopInformer> {
        self.informers.lock().clone()
    }

    /// Returns the record of this process's writes that the caches do not show yet; `None` if the loop has no ledger.
    pub fn ledger(&self) -> Option<Ledger> {
        self.ledger.get().cloned()
    }
}

impl LoopContext {
    /// Returns the configuration of a short-lived cache: no resync, no metrics, no search for a second writer.
    pub fn short_lived_cache_config(&self) -> informer::InformerConfig {
        informer::InformerConfig {
            is_streaming_list_enabled: self.settings.is_feature_gate_on(&WATCH_LIST_CLIENT),
            ..informer::InformerConfig::default()
        }
    }

    /// Returns the configuration of a cache that lives as long as the process: with resyncs, metrics and the search for a second
    /// writer.
    pub fn long_lived_cache_config(&self) -> informer::InformerConfig {
        informer::InformerConfig {
            resync_interval: self.settings.random_resync_period(&self.clock),
            metrics: Some(self.metrics.clone()),
            write_sampler: self.write_sampler.clone(),
            ..self.short_lived_cache_config()
        }
    }

    /// Starts an informer that fills `store` as long as this process lives, and returns the store. `handler` is called with each
    /// change. The workers of the loop wait for the first list, and the ledger finds the loop's writes in the store.
    pub fn start_informer<K: Object>(&self, store: Arc<Store<K>>, handler: CacheEventHandler<K>) -> Arc<Store<K>> {
        let config = self.long_lived_cache_config();
        let informer = Informer::start_with_store(self.api.clone(), config, Arc::clone(&store), vec![handler]);
        self.add_informer(Arc::new(informer), &store);
        store
    }

    /// Starts a cache of the objects with `label` as a label key. The controller sets this label on its objects.
    pub fn start_filtered_informer<K: Object>(
        &self,
        label: &'static str,
        handler: CacheEventHandler<K>,
    ) -> Arc<LabelFilteredInformer<K>> {
        let cached = StoreAndHandlers::new(Arc::default(), vec![handler]);
        let config = self.long_lived_cache_config();
        let informer = Arc::new(SinkInformer::start_with_label(self.api.clone(), config, label, cached));
        self.add_informer(Arc::<LabelFilteredInformer<K>>::clone(&informer), informer.store());
        informer
    }

    /// Starts an informer for the first of these API versions in which the server serves the kind. Until there is one, discovery is
    /// read again after a second, and then after pauses that grow to ten minutes. Calls `on_first_list` after the first list.
    pub fn start_informer_once_served<K: Object>(
        &self,
        api_versions: &'static [&'static str],
        handler: CacheEventHandler<K>,
        on_first_list: impl FnOnce() + Send + 'static,
    ) -> ServedInformer<K> {
        let (served, context) = (ServedInformer::default(), self.clone());
        let weak = Arc::downgrade(&served);
        tokio::spawn(async move {
            let [mut pause, longest_pause] = DISCOVERY_PAUSES;
            let resource = loop {
                match DiscoveredResources::read(&context.api).await {
                    Ok(discovered) => {
                        let mut kinds = api_versions.iter();
                        let found = kinds.find_map(|version| discovered.resource_of_kind(version, K::RESOURCE.kind()));
                        if let Some(resource) = found {
                            break resource.clone();
                        }
                        tracing::info!(kind = K::RESOURCE.kind(), "The API server does not serve the kind");
                    }
                    Err(error) => tracing::warn!(kind = K::RESOURCE.kind(), err = %error, "Cannot discover the kind"),
                }
                context.clock.sleep(pause).await;
                if weak.strong_count() == 0 {
                    return;
                }
                pause = (pause * 2).min(longest_pause);
            };
            let config = InformerConfig { resource: Some(resource.clone()), ..context.long_lived_cache_config() };
            let informer = Informer::start(context.api.clone(), config, vec![handler]);
            let (store, first_list) = (Arc::clone(informer.store()), informer.wait_for_first_list());
            context.add_informer(Arc::new(informer), &store);
            drop(context);
            if first_list.await
                && let Some(served) = weak.upgrade()
            {
                served.get_or_init(|| (resource, store));
                on_first_list();
            }
        });
        served
    }

    /// Returns the process-wide cache of a kind. The first call starts the informer. The workers of the loop wait for the first
    /// list, and the ledger finds the loop's writes in the store.
    pub fn shared_informer<K: Object>(&self) -> Arc<SharedInformer<K>> {
        let informer = self
            .shared_values
            .get_or_insert_with(|| SharedInformer::start(self.api.clone(), self.long_lived_cache_config()));
        self.add_informer(Arc::<SharedInformer<K>>::clone(&informer), informer.store());
        informer
    }

    /// Adds `handler` to the process-wide cache of a kind, and returns its store, as [`Self::shared_informer`] does.
    pub fn watch_shared<K: Object>(&self, handler: CacheEventHandler<K>) -> Arc<Store<K>> {
        let informer = self.shared_informer::<K>();
        informer.add_handler(handler);
        Arc::clone(informer.store())
    }

    /// Adds an informer for which the workers of the loop wait, and its store, in which the ledger finds the loop's writes.
    pub fn add_informer<K: Object>(&self, informer: LoopInformer, store: &Arc<Store<K>>) {
        self.parts.add_informer(informer);
        self.parts.caches.write().push(Arc::<Store<K>>::clone(store));
    }

    /// Returns the ledger of this loop's writes. Its records expire after `--tune expectations-timeout`.
    pub fn ledger(&self) -> Ledger {
        let timeout = self.settings.tuned_duration(&EXPECTATIONS_TIMEOUT);
        let caches = Arc::clone(&self.parts.caches);
        self.parts.ledger.get_or_init(|| Ledger::with_caches(self.clock.clone(), timeout, caches)).clone()
    }
}

/// Values that the loops of one process share, keyed by type: for example one cache of Pods for several loops.
///
/// A value is dropped when the last loop drops its `Arc`. Clones share all values; `SharedValues::default()` shares nothing
/// with other instances.
#[derive(Clone, Default)]
pub struct SharedValues {
    values: Arc<Mutex<BTreeMap<TypeId, Weak<dyn Any + Send + Sync>>>>,
}

impl SharedValues {
    /// Returns the value of type `T`. The first caller creates the value with `make`.
    ///
    /// `make` must not call this method, because the values are locked while it runs.
    pub fn get_or_insert_with<T: Send + Sync + 'static>(&self, make: impl FnOnce() -> T) -> Arc<T> {
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

/// The operations of a process on each of its started loops: readiness, diagnostics, shutdown.
pub trait RunningLoop: Send + Sync {
    /// Returns `Ok` if every cache is filled, its handlers have processed the first list, and its watch works. The error
    /// names the cache that is not ready.
    fn check_ready(&self) -> Result<(), String>;
    /// Describes problems that do not make the loop unready, for diagnostics; `None` if there are no such problems.
    fn problems_besides_readiness(&self) -> Option<String> {
        None
    }
    /// Returns the state of the queue: waiting keys, keys in progress, delayed keys with their time, failures.
    fn debug_queue(&self) -> Value;
    /// Returns the state of the caches: count of objects, version, last event, state of the watch.
    fn debug_cache(&self) -> Value;
    /// Decides again for `key`, and returns the plan with its reasons; for `None`, all failing keys and the recent plans.
    fn explain(&self, key: Option<&str>) -> Value;
    /// Returns the loop's graph of objects in DOT format, limited to the connections of these UIDs; the whole graph if there are
    /// no UIDs. `None` if the loop has no graph.
    fn debug_graph(&self, _around: &[String]) -> Option<String> {
        None
    }
    /// Stops taking keys and waits for the syncs in progress. The loop writes nothing after this future resolves.
    fn shutdown(&self) -> BoxFuture<'_, ()>;
}

/// Loops that appear as one loop in diagnostics, each with a name for its part. The caches of the first serve all.
pub struct LoopGroup(pub Vec<(&'static str, Arc<dyn RunningLoop>)>);

/// The lists in the answer of [`RunningLoop::explain`] without a key.
const EXPLAINED_LISTS: [&str; 3] = ["failing", "recent", "differences"];

impl RunningLoop for LoopGroup {
    fn check_ready(&self) -> Result<(), String> {
        self.0.iter().try_for_each(|(_, running_loop)| running_loop.check_ready())
    }

    /// Returns the state of the first queue, and the others under the names of their loops.
    fn debug_queue(&self) -> Value {
        let mut out = Value::Null;
        for (name, running_loop) in &self.0 {
            let mut state = running_loop.debug_queue();
            if out.is_null() { out = state } else { out[name] = state["queue"].take() }
        }
        out
    }

    fn debug_cache(&self) -> Value {
        self.0.first().map(|(_, running_loop)| running_loop.debug_cache()).unwrap_or_default()
    }

    /// Explains a key by the first loop that has an object with this key. The answer of another loop is included under the name
    /// of that loop if it acts on the key, too.
    fn explain(&self, key: Option<&str>) -> Value {
        let mut answers: Vec<_> = self.0.iter().map(|(name, running_loop)| (name, running_loop.explain(key))).collect();
        if key.is_some() {
            let unknown = |(_, answer): &(&&str, Value)| (answer.get("error").is_some(), answer["state"] == "gone");
            answers.sort_by_key(unknown);
        }
        let mut answers = answers.into_iter();
        let mut out = answers.next().map(|(_, answer)| answer).unwrap_or_default();
        for (name, mut answer) in answers {
            if answer["state"] == "acting" {
                out[name] = answer;
            } else if key.is_none() {
                for list in EXPLAINED_LISTS {
                    if let (Some(Value::Array(all)), Some(Value::Array(more))) =
                        (out.get_mut(list), answer.get_mut(list))
                    {
                        all.append(more);
                    }
                }
            }
        }
        out
    }

    fn shutdown(&self) -> BoxFuture<'_, ()> {
        Box::pin(async {
            futures::future::join_all(self.0.iter().map(|(_, running_loop)| running_loop.shutdown())).await;
        })
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// A loop that gives fixed answers.
    struct FixedLoop {
        queue: &'static str,
        explanation_of_key: Value,
    }

    impl RunningLoop for FixedLoop {
        fn check_ready(&self) -> Result<(), String> {
            Ok(())
        }

        fn debug_queue(&self) -> Value {
            json!({"queue": self.queue})
        }

        fn debug_cache(&self) -> Value {
            Value::Null
        }

        fn explain(&self, key: Option<&str>) -> Value {
            key.map_or_else(|| json!({"failing": [self.queue]}), |_| self.explanation_of_key.clone())
        }

        fn shutdown(&self) -> BoxFuture<'_, ()> {
            Box::pin(async {})
        }
    }

    fn group(explanations: [Value; 2]) -> LoopGroup {
        let [first, second] = explanations;
        LoopGroup(vec![
            ("jobs", Arc::new(FixedLoop { queue: "a", explanation_of_key: first })),
            ("orphans", Arc::new(FixedLoop { queue: "b", explanation_of_key: second })),
        ])
    }

    #[test]
    fn a_group_shows_all_queues_and_one_list_of_failing_keys() {
        let group = group([Value::Null, Value::Null]);
        assert_eq!(group.debug_queue(), json!({"queue": "a", "orphans": "b"}));
        assert_eq!(group.explain(None), json!({"failing": ["a", "b"]}));
    }

    #[test]
    fn a_key_is_explained_by_the_loop_that_has_its_object() {
        let (gone, error) = (json!({"state": "gone"}), json!({"error": "not a key"}));
        let (settled, acting) = (json!({"state": "settled"}), json!({"state": "acting"}));
        for (explanations, expected) in [
            ([settled.clone(), gone.clone()], settled.clone()),
            ([gone.clone(), settled.clone()], settled.clone()),
            ([error.clone(), gone.clone()], gone.clone()),
            ([gone, acting.clone()], acting.clone()),
            ([settled, acting.clone()], json!({"state": "settled", "orphans": acting})),
        ] {
            assert_eq!(group(explanations.clone()).explain(Some("ns/web")), expected, "{explanations:?}");
        }
    }
}

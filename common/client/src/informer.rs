//! List and watch: keeps a [`Store`] or another [`Sink`] equal to the state of the API server, and calls handlers with every
//! change.
//!
//! - Every list is a consistent read of all objects (a streaming list, or pages if the server does not support streaming
//!   lists), never the state of a lagging server. After a list, the watch resumes from the newest version received, never from
//!   an older version.
//! - Handlers run after the store has changed, in order, and only enqueue keys. [`Informer::wait_until_synced`] means that the
//!   handlers have received the first list, too.
//! - A watch that ends is resumed without a list, after a pause if the connection broke in the middle of a line. An invalid
//!   event, or a version that the server no longer keeps, leads to a relist. A watch that delivers nothing, not even a
//!   bookmark, for [`InformerConfig::max_watch_idle_time`] is resumed.
//! - Repeated failures are retried with a growing back-off, and never earlier than the server asks for.
//!
//! Upstream: client-go `tools/cache`, `Reflector`.

mod accept;
mod filtered;
mod frames;
mod reflect;
mod shared;
mod sink;

use std::{sync::Arc, time::Duration};

use jiff::Timestamp;
use parking_lot::Mutex;
use tokio::{sync::Notify, task::JoinHandle};

use crate::{
    api::Api,
    clock::{Clock, Instant},
    meta::ResourceVersion,
    metrics::{InformerMetrics, Metrics},
    object::{Object, Resource},
    store::Store,
    succession::LeadershipStart,
    watched as watch,
    write_sampler::WriteSampler,
};

pub use crate::head::ObjectHead;
pub use accept::{ACCEPT_JSON, ACCEPT_METADATA, ACCEPT_METADATA_LIST, ACCEPT_PROTOBUF, ACCEPT_PROTOBUF_METADATA};
pub use filtered::{LabelFilterSink, LabelFilteredInformer, StoreSink};
pub use frames::apply_watch_frame;
pub use shared::SharedInformer;
pub use sink::{CacheEventHandler, Sink, StoreAndHandlers, handler_from_method};

/// Options of an informer: the objects to watch, and how to list and watch them.
#[derive(Clone, Debug)]
pub struct InformerConfig {
    /// Namespace to watch; empty for all namespaces.
    pub namespace: String,
    /// Label selector of the objects; empty for all objects.
    pub label_selector: String,
    /// Field selector of the objects; empty for [`Object::FIELD_SELECTOR`] of the decoded type.
    pub field_selector: String,
    /// Whether to try a streaming list before a list in pages.
    pub is_streaming_list_enabled: bool,
    /// Number of objects per page of a list, if streaming lists are disabled or unsupported.
    pub page_size: u32,
    /// Size limit in bytes of a list as it is received; room for several million Pods. The size limit ends the list of a broken
    /// server that never stops sending.
    pub max_list_bytes: usize,
    /// Time without an event or a bookmark after which a watch is resumed, once the server has shown that it sends bookmarks.
    ///
    /// A server sends a bookmark about once a minute, but not while the resource is unchanged since the watch began. A watch
    /// that delivers nothing is therefore no failure. The informer resumes the watch from the same version, at the cost of one
    /// request. This time then doubles until the next event.
    pub max_watch_idle_time: Duration,
    /// Time for which all lists and watches must fail before the cache counts as stale ([`AnyInformer::stale_error`]).
    pub stale_after: Duration,
    /// Interval between replays of the whole cache to the handlers; `None` for no replays.
    pub resync_interval: Option<Duration>,
    /// Resource to watch, for types that can decode every resource; `None` for the resource of the decoded type.
    pub resource: Option<Resource>,
    /// Whether to request only the metadata of the objects.
    pub is_metadata_only: bool,
    /// Registry for the metrics of the cache; `None` for no metrics.
    pub metrics: Option<Metrics>,
    /// Detector of another process that runs the same loops as this process; `None` for no detection.
    pub write_sampler: Option<Arc<WriteSampler>>,
}

impl Default for InformerConfig {
    fn default() -> Self {
        Self {
            namespace: String::new(),
            label_selector: String::new(),
            field_selector: String::new(),
            is_streaming_list_enabled: true,
            page_size: 500,
            max_list_bytes: 8 << 30,
            // Two and a half times the usual interval between bookmarks.
            max_watch_idle_time: Duration::from_secs(150),
            stale_after: Duration::from_secs(90),
            resync_interval: None,
            resource: None,
            is_metadata_only: false,
            metrics: None,
            write_sampler: None,
        }
    }
}

/// Status of an informer, for diagnostics and readiness.
#[derive(Clone, Debug, Default, serde::Serialize)]
pub struct InformerStatus {
    /// `listing`, `watching`, or `waiting` during a back-off.
    pub phase: &'static str,
    /// Whether the handlers have received the first list.
    pub synced: bool,
    /// Time at which the last watch event was handled.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_event: Option<Timestamp>,
    /// Message of the last failure, with the number of failures in a row; `None` after a success.
    pub error: Option<(String, u32)>,
    /// Start of the current series of failures; `None` after a success.
    #[serde(skip)]
    pub failing_since: Option<Instant>,
    /// Number of lists read since the start.
    pub lists: u64,
    /// Number of watches opened since the start.
    pub watches: u64,
    /// Number of watch events handled since the start.
    pub events: u64,
}

/// An informer that fills a [`Store`] and calls handlers.
pub type Informer<K> = SinkInformer<StoreAndHandlers<K>>;

/// List and watch of one resource, which keep a [`Sink`] up to date until the informer is dropped.
pub struct SinkInformer<S> {
    resource: Resource,
    sink: Arc<S>,
    shared: Arc<InformerShared>,
    clock: Clock,
    failing: Duration,
    task: JoinHandle<()>,
}

/// State that an informer shares with its list-and-watch task.
struct InformerShared {
    state: Mutex<InformerStatus>,
    synced: watch::Sender<bool>,
    /// The newest request to bring the cache up to date.
    refresh: watch::Sender<RefreshRequest>,
    /// Serial number of the newest refresh request for which the cache is up to date.
    refreshed: watch::Sender<u64>,
    /// Time at which the latest list was requested. Only lists count that are at least as new as their request.
    set_asked: Mutex<Option<Instant>>,
    /// Wakes the list-and-watch task for a replay of the cache.
    replay: Notify,
}

/// A request to bring the cache up to date at least to a version.
#[derive(Clone, Copy, Debug)]
struct RefreshRequest {
    number: u64,
    until: RefreshTarget,
}

/// The version that the cache must reach to meet a [`RefreshRequest`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum RefreshTarget {
    /// At least this version.
    At(ResourceVersion),
    /// The newest version of the server at the time of the request.
    Newest,
}

impl InformerShared {
    fn set_phase(&self, phase: &'static str) {
        self.state.lock().phase = phase;
    }

    fn record_events(&self, events: u64, now: Timestamp) {
        let mut state = self.state.lock();
        state.last_event = Some(now);
        state.events += events;
    }

    /// Records that a watch was not closed immediately, or has delivered an event.
    fn record_success(&self) {
        let mut state = self.state.lock();
        state.error = None;
        state.failing_since = None;
    }

    fn record_failure(&self, now: Instant, why: &str) {
        let mut state = self.state.lock();
        let count = state.error.as_ref().map_or(0, |(_, n)| *n) + 1;
        state.error = Some((why.to_owned(), count));
        state.failing_since.get_or_insert(now);
    }
}

/// Any informer, without the type of its objects, for code that handles all caches of a process.
pub trait AnyInformer: Send + Sync {
    /// Returns the watched resource.
    fn resource(&self) -> Resource;
    /// Returns a copy of the current status, for diagnostics.
    fn informer_status(&self) -> InformerStatus;
    /// Returns the number of cached objects.
    fn len(&self) -> usize;
    /// Whether the cache has no objects.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }
    /// Returns the newest version that the cache has reached.
    fn version(&self) -> ResourceVersion;
    /// Whether the handlers have received the first list.
    fn is_synced(&self) -> bool;
    /// Returns the last error if the cache is stale, because all lists and watches have failed for longer than
    /// [`InformerConfig::stale_after`]. Otherwise, returns `None`.
    fn stale_error(&self) -> Option<String>;
    /// Waits until the handlers have received the first list.
    fn wait_until_synced(&self) -> futures::future::BoxFuture<'_, ()>;
    /// Requests a replay of the cache to the handlers, like a [resync](InformerConfig::resync_interval).
    fn replay(&self);
    /// Waits until the cache shows the predecessor's writes, or, if these writes are unknown, until the cache is as new as the
    /// server was at the start of the term.
    fn catch_up_with_predecessor<'a>(&'a self, start: &'a LeadershipStart) -> futures::future::BoxFuture<'a, ()>;
}

impl<K: Object> Informer<K> {
    /// Starts to list and watch into a new store. Every object of the first list is passed to the handlers.
    pub fn start(api: Api, config: InformerConfig, handlers: Vec<CacheEventHandler<K>>) -> Self {
        Self::start_with_store(api, config, Arc::default(), handlers)
    }

    /// Starts to list and watch into an existing store, which the handlers may read.
    pub fn start_with_store(
        api: Api,
        config: InformerConfig,
        store: Arc<Store<K>>,
        handlers: Vec<CacheEventHandler<K>>,
    ) -> Self {
        Self::start_with_sink(api, config, StoreAndHandlers::new(store, handlers))
    }

    /// Returns the store that the informer fills.
    pub fn store(&self) -> &Arc<Store<K>> {
        &self.sink.store
    }
}

impl<S: Sink> SinkInformer<S> {
    /// Starts to list and watch into `sink`.
    pub fn start_with_sink(api: Api, config: InformerConfig, sink: S) -> Self {
        let shared = Arc::new(InformerShared {
            state: Mutex::new(InformerStatus { phase: "waiting", ..InformerStatus::default() }),
            synced: watch::Sender::new(false),
            refresh: watch::Sender::new(RefreshRequest { number: 0, until: RefreshTarget::Newest }),
            refreshed: watch::Sender::new(0),
            set_asked: Mutex::new(None),
            replay: Notify::new(),
        });
        let resource = config.resource.clone().unwrap_or(S::Object::RESOURCE);
        let (clock, failing) = (api.clock().clone(), config.stale_after);
        let sink = Arc::new(sink);
        let counted = match &config.metrics {
            Some(metrics) => {
                let counted = metrics.informer_metrics(&resource);
                let (gauges, probed) = (counted.clone(), Arc::downgrade(&sink));
                metrics.run_before_each_scrape(move || {
                    if let Some(sink) = probed.upgrade() {
                        gauges.set_store_version(sink.version());
                    }
                });
                counted
            }
            None => InformerMetrics::unserved(&resource),
        };
        let reflector = reflect::Reflector::new(api, config, Arc::clone(&sink), Arc::clone(&shared), counted);
        let task = tokio::spawn(reflector.run());
        Self { resource, sink, shared, clock, failing, task }
    }

    /// Returns the sink that the informer keeps up to date.
    pub fn sink(&self) -> &Arc<S> {
        &self.sink
    }

    /// Returns a future that ends when the handlers have received the first list. The future does not borrow the informer. Its
    /// output is `false` if the informer was dropped before the first list.
    pub fn wait_for_first_list(&self) -> impl Future<Output = bool> + Send + use<S> {
        let mut synced = self.shared.synced.subscribe();
        async move { synced.wait_for(|synced| *synced).await.is_ok() }
    }
}

impl<S> Drop for SinkInformer<S> {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl<S: Sink> AsRef<dyn AnyInformer> for SinkInformer<S> {
    fn as_ref(&self) -> &(dyn AnyInformer + 'static) {
        self
    }
}

impl<S: Sink> AnyInformer for SinkInformer<S> {
    fn resource(&self) -> Resource {
        self.resource.clone()
    }

    fn informer_status(&self) -> InformerStatus {
        self.shared.state.lock().clone()
    }

    fn len(&self) -> usize {
        self.sink.len()
    }

    fn version(&self) -> ResourceVersion {
        self.sink.version()
    }

    fn is_synced(&self) -> bool {
        *self.shared.synced.borrow()
    }

    fn stale_error(&self) -> Option<String> {
        let state = self.shared.state.lock();
        let lost_for = self.clock.monotonic_now().saturating_duration_since(state.failing_since?);
        let (why, _) = state.error.as_ref().filter(|_| lost_for > self.failing)?;
        Some(format!("no list or watch of {} has succeeded for {}s: {why}", self.resource, lost_for.as_secs()))
    }

    fn wait_until_synced(&self) -> futures::future::BoxFuture<'_, ()> {
        Box::pin(async {
            self.wait_for_first_list().await;
        })
    }

    fn replay(&self) {
        self.shared.replay.notify_one();
    }

    fn catch_up_with_predecessor<'a>(&'a self, start: &'a LeadershipStart) -> futures::future::BoxFuture<'a, ()> {
        Box::pin(async move {
            let until = start.versions_written_by_predecessor.as_ref().map_or(RefreshTarget::Newest, |versions| {
                RefreshTarget::At(versions.newest_written_version(&self.resource))
            });
            let asked = *self.shared.set_asked.lock();
            let shows = match until {
                RefreshTarget::At(version) => self.sink.version() >= version,
                RefreshTarget::Newest => asked.is_some_and(|asked| asked >= start.leading_since),
            };
            if self.is_synced() && shows {
                return;
            }
            let met = *self.shared.refreshed.borrow();
            let mut wanted = 0;
            self.shared.refresh.send_modify(|refresh| {
                refresh.until = if refresh.number > met { refresh.until.max(until) } else { until };
                refresh.number += 1;
                wanted = refresh.number;
            });
            let _ = self.shared.refreshed.subscribe().wait_for(|n| *n >= wanted).await;
        })
    }
}

#[cfg(test)]
mod tests;

//! List and watch: keeps a [`Store`] equal to what the API server has, and tells handlers of every change; or any other
//! [`Sink`].
//!
//! - The first set, and every later one, is a consistent read (a streaming list, or pages where the server has none): never
//!   the state of a lagging server. Afterwards the watch resumes from the newest version seen, never from an older one.
//! - Handlers run after the store has been changed, in order, and only enqueue. [`Informer::synced`] means that the handlers
//!   have seen the first set, too.
//! - A watch that ends is resumed without a list, after a pause if it broke off in the middle of a line. Garbage and a version
//!   the server no longer keeps lead to a new full set. A watch that is silent for longer than bookmarks take is resumed.
//! - Whatever goes wrong again and again is tried later and later, and never earlier than the server said.
//!
//! Upstream: client-go `tools/cache`, `Reflector`.

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
    meta::Version,
    metrics::{InformerMetrics, Metrics},
    object::{Object, Resource},
    sampler::WriteSampler,
    store::Store,
    succession::Succession,
    watched as watch,
};

pub use crate::head::Head;
pub use filtered::{Filtered, FilteredInformer, StoreSink};
pub use frames::apply_frame;
pub use reflect::{JSON, METADATA};
pub use shared::SharedInformer;
pub use sink::{Cached, Handler, Sink, handler};

/// What an informer watches and how.
#[derive(Clone, Debug)]
pub struct Config {
    /// Only this namespace; all if empty.
    pub namespace: String,
    /// Only what this label selector matches; everything if empty.
    pub labels: String,
    /// Only what this field selector matches; everything if empty.
    pub fields: String,
    /// Whether to ask for streaming lists first.
    pub streaming: bool,
    /// Objects per page where the server has no streaming lists.
    pub page: u32,
    /// The longest set that is read, in bytes as they come: some million Pods. A server that sends more never stops.
    pub longest: usize,
    /// How long a watch may bring nothing before it is opened anew, once the server has shown that it sends bookmarks.
    ///
    /// A server owes a bookmark about once a minute, and none at all while a quiet resource has not moved on from the
    /// version the watch began with. Silence is therefore no failure: the watch is resumed where it stands, which costs one
    /// request, and while nothing comes the next silence may last twice as long.
    pub silence: Duration,
    /// How long a cache may hear of nothing but failures before it counts as out of touch.
    pub failing: Duration,
    /// How often the whole cache is replayed to the handlers; never if none.
    pub resync: Option<Duration>,
    /// Another resource than the projection's own, for projections of whatever there is.
    pub resource: Option<Resource>,
    /// Whether to ask for the metadata of objects and nothing else.
    pub metadata_only: bool,
    /// Where the cache is counted; nowhere if none.
    pub metrics: Option<Metrics>,
    /// Looks at what the watch brings for writes of a second writer, if it is to.
    pub sampler: Option<Arc<WriteSampler>>,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            namespace: String::new(),
            labels: String::new(),
            fields: String::new(),
            streaming: true,
            page: 500,
            longest: 8 << 30,
            // Two bookmarks and a half.
            silence: Duration::from_secs(150),
            failing: Duration::from_secs(90),
            resync: None,
            resource: None,
            metadata_only: false,
            metrics: None,
            sampler: None,
        }
    }
}

/// What an informer is doing, for diagnostics and readiness.
#[derive(Clone, Debug, Default, serde::Serialize)]
pub struct State {
    /// `listing`, `watching` or `waiting`.
    pub phase: &'static str,
    /// Whether handlers have seen a first full set.
    pub synced: bool,
    /// When the last event was handled.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_event: Option<Timestamp>,
    /// The last failure, with how often it came in a row.
    pub error: Option<(String, u32)>,
    /// Since when nothing but failures came.
    #[serde(skip)]
    pub failing_since: Option<Instant>,
    /// Full sets read.
    pub lists: u64,
    /// Watches opened.
    pub watches: u64,
    /// Events received.
    pub events: u64,
}

/// A cache with its list and watch.
pub type Informer<K> = SinkInformer<Cached<K>>;

/// A list and watch of one resource, and the sink that it keeps up to date.
pub struct SinkInformer<S> {
    resource: Resource,
    sink: Arc<S>,
    shared: Arc<Shared>,
    clock: Clock,
    failing: Duration,
    task: JoinHandle<()>,
}

/// What the task that lists and watches and its owner share.
struct Shared {
    state: Mutex<State>,
    synced: watch::Sender<bool>,
    /// The newest request for a cache that is fresh enough.
    refresh: watch::Sender<Refresh>,
    /// The number of the newest such request that has been met.
    refreshed: watch::Sender<u64>,
    /// When the full set the cache stands on was asked for.
    set_asked: Mutex<Option<Instant>>,
    /// Asks for a replay of the cache.
    replay: Notify,
}

/// A request for a cache that is fresh enough.
#[derive(Clone, Copy, Debug)]
struct Refresh {
    number: u64,
    until: Until,
}

/// How fresh is fresh enough.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Until {
    /// As new as this version.
    At(Version),
    /// As new as the request.
    Newest,
}

impl Shared {
    fn phase(&self, phase: &'static str) {
        self.state.lock().phase = phase;
    }

    fn saw_events(&self, events: u64, now: Timestamp) {
        let mut state = self.state.lock();
        state.last_event = Some(now);
        state.events += events;
    }

    /// A watch stays open.
    fn got_through(&self) {
        let mut state = self.state.lock();
        state.error = None;
        state.failing_since = None;
    }

    fn failed(&self, now: Instant, why: &str) {
        let mut state = self.state.lock();
        let count = state.error.as_ref().map_or(0, |(_, n)| *n) + 1;
        state.error = Some((why.to_owned(), count));
        state.failing_since.get_or_insert(now);
    }
}

/// An informer without its type, as the process sees it.
pub trait AnyInformer: Send + Sync {
    /// What it watches.
    fn resource(&self) -> Resource;
    /// What it is doing.
    fn state(&self) -> State;
    /// How many objects it holds.
    fn len(&self) -> usize;
    /// Whether it holds none.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }
    /// The version it has caught up with.
    fn version(&self) -> Version;
    /// Whether handlers have seen a first full set.
    fn is_synced(&self) -> bool;
    /// What is wrong, if nothing has come but failures for longer than a watch may be silent: what the cache holds is old.
    fn lost_touch(&self) -> Option<String>;
    /// Waits until handlers have seen a first full set.
    fn synced(&self) -> futures::future::BoxFuture<'_, ()>;
    /// Replays the cache to the handlers soon, as a [resync](Config::resync) does.
    fn replay(&self);
    /// Waits until the cache shows what a predecessor wrote; if that is not known, until it is as new as the succession.
    fn catch_up<'a>(&'a self, succession: &'a Succession) -> futures::future::BoxFuture<'a, ()>;
}

impl<K: Object> Informer<K> {
    /// Starts listing and watching. Handlers hear of everything from the first object on.
    pub fn start(api: Api, config: Config, handlers: Vec<Handler<K>>) -> Self {
        Self::start_with(api, config, Arc::default(), handlers)
    }

    /// Starts listing and watching into a store made before, which handlers may read.
    pub fn start_with(api: Api, config: Config, store: Arc<Store<K>>, handlers: Vec<Handler<K>>) -> Self {
        Self::follow(api, config, Cached::new(store, handlers))
    }

    /// The cache.
    pub fn store(&self) -> &Arc<Store<K>> {
        &self.sink.store
    }
}

impl<S: Sink> SinkInformer<S> {
    /// Starts listing and watching into a sink.
    pub fn follow(api: Api, config: Config, sink: S) -> Self {
        let shared = Arc::new(Shared {
            state: Mutex::new(State { phase: "waiting", ..State::default() }),
            synced: watch::Sender::new(false),
            refresh: watch::Sender::new(Refresh { number: 0, until: Until::Newest }),
            refreshed: watch::Sender::new(0),
            set_asked: Mutex::new(None),
            replay: Notify::new(),
        });
        let resource = config.resource.unwrap_or(S::Object::RESOURCE);
        let (clock, failing) = (api.clock().clone(), config.failing);
        let sink = Arc::new(sink);
        let counted = match &config.metrics {
            Some(metrics) => {
                let counted = metrics.informer(resource);
                let (gauges, probed) = (counted.clone(), Arc::downgrade(&sink));
                metrics.before_scrape(move || {
                    if let Some(sink) = probed.upgrade() {
                        gauges.version(sink.version());
                    }
                });
                counted
            }
            None => InformerMetrics::unserved(resource),
        };
        let reflector = reflect::Reflector::new(api, config, Arc::clone(&sink), Arc::clone(&shared), counted);
        let task = tokio::spawn(reflector.run());
        Self { resource, sink, shared, clock, failing, task }
    }

    /// Waits until handlers have seen a first full set, without holding the informer. Says whether they have: if the
    /// informer is dropped first, they never will.
    pub fn first_set(&self) -> impl Future<Output = bool> + Send + use<S> {
        let mut synced = self.shared.synced.subscribe();
        async move { synced.wait_for(|synced| *synced).await.is_ok() }
    }
}

impl<S> Drop for SinkInformer<S> {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl<S: Sink> AnyInformer for SinkInformer<S> {
    fn resource(&self) -> Resource {
        self.resource
    }

    fn state(&self) -> State {
        self.shared.state.lock().clone()
    }

    fn len(&self) -> usize {
        self.sink.len()
    }

    fn version(&self) -> Version {
        self.sink.version()
    }

    fn is_synced(&self) -> bool {
        *self.shared.synced.borrow()
    }

    fn lost_touch(&self) -> Option<String> {
        let state = self.shared.state.lock();
        let lost_for = self.clock.instant().saturating_duration_since(state.failing_since?);
        let (why, _) = state.error.as_ref().filter(|_| lost_for > self.failing)?;
        Some(format!("nothing heard of {} for {}s: {why}", self.resource, lost_for.as_secs()))
    }

    fn synced(&self) -> futures::future::BoxFuture<'_, ()> {
        Box::pin(async {
            self.first_set().await;
        })
    }

    fn replay(&self) {
        self.shared.replay.notify_one();
    }

    fn catch_up<'a>(&'a self, succession: &'a Succession) -> futures::future::BoxFuture<'a, ()> {
        Box::pin(async move {
            let until = succession.left.as_ref().map_or(Until::Newest, |left| Until::At(left.of(self.resource)));
            let asked = *self.shared.set_asked.lock();
            let shows = match until {
                Until::At(version) => self.sink.version() >= version,
                Until::Newest => asked.is_some_and(|asked| asked >= succession.since),
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

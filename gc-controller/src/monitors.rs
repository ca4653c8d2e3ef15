//! Monitors: one informer for each resource that can be collected, started and stopped as the server serves resources.
//!
//! - A resource that cannot be listed delays only objects with owners of its kind.
//! - If discovery of a group fails, resources of the group keep their monitor if its initial list is complete.
//! - A resource that is no longer served loses its monitor, and its objects become virtual in the graph: they are looked up. If
//!   the resource returns, it gets a new monitor.
//!
//! Upstream: `garbagecollector.go`, `Sync`, and `graph_builder.go`, `syncMonitors`. An upstream round waits for its monitors, a
//! monitor that fails to start prevents the start of the others, and a removed monitor continues to watch.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};

use common::{
    api::Api,
    clock::Instant,
    informer::{AnyInformer, Config, SinkInformer, State},
    meta::Version,
    object::{Object as _, Resource},
    queue::Priority,
    succession::Succession,
    watched as watch,
};
use futures::{
    StreamExt as _,
    future::{self, BoxFuture},
    stream::FuturesUnordered,
};
use parking_lot::Mutex;
use tokio::task::JoinSet;

use crate::{
    collection::Collection,
    collector::snapshot::OwnerKind,
    discovery::Served,
    graph::{Kind, Source},
    graph_sink::GraphSink,
    key::ObjectKey,
    metrics::ControllerMetrics,
    objects::Partial,
    parked::{Awaited, QueueId},
};

/// Group and plural of resources with many objects that other clients watch, too. They are watched as whole objects, and only
/// the metadata is decoded.
///
/// An API server encodes a whole object once for all its watches, but the metadata separately for each watch and event. For
/// thousands of Pods, this encoding costs more than the transfer of whole objects.
const WHOLE: [(&str, &str); 4] =
    [("", "pods"), ("apps", "replicasets"), ("batch", "jobs"), ("discovery.k8s.io", "endpointslices")];
/// How long work is held back until the initial lists of all resources are complete.
const INITIAL_SYNC: Duration = Duration::from_secs(30);
/// Number of consecutive failures after which a silent resource counts as broken.
const LASTING: u32 = 3;
/// Period of the check for broken resources while an object waits for the initial lists of all resources.
const AGAIN: Duration = Duration::from_secs(5);
/// Pause between attempts at discovery before its first success.
const FIRST_RETRY: Duration = Duration::from_secs(1);
/// How long a new leader waits for its caches to reach the version of its predecessor's last write. Owners that the caches do
/// not contain yet are looked up.
const CATCH_UP: Duration = Duration::from_secs(5);

struct Monitor {
    source: Source,
    informer: Arc<SinkInformer<GraphSink>>,
}

#[derive(Default)]
struct Watched {
    served: Served,
    monitors: BTreeMap<Resource, Monitor>,
    /// The resource, with the watched version, by group and plural.
    by_name: BTreeMap<(&'static str, &'static str), Resource>,
}

/// All monitors of the process, and the result of the last successful discovery.
pub(crate) struct Monitors {
    api: Api,
    reading: Config,
    collection: Arc<Collection>,
    metrics: ControllerMetrics,
    watched: Mutex<Watched>,
    /// Whether work may begin: the initial lists are complete or have timed out.
    ready: watch::Sender<bool>,
    /// Error of the last discovery and the time of the first failure in a row; `None` after a successful discovery.
    error: Mutex<Option<(String, Instant)>>,
}

/// Futures that end when a new monitor has completed its initial list.
type Firsts = FuturesUnordered<BoxFuture<'static, bool>>;

impl Monitors {
    /// Starts the task that discovers resources and updates the monitors.
    pub(crate) fn start(
        api: Api,
        reading: Config,
        collection: Arc<Collection>,
        metrics: ControllerMetrics,
        period: Duration,
        tasks: &mut JoinSet<()>,
    ) -> Arc<Self> {
        let monitors = Arc::new(Self {
            api,
            reading,
            collection,
            metrics,
            watched: Mutex::default(),
            ready: watch::channel(false).0,
            error: Mutex::default(),
        });
        tasks.spawn(Arc::clone(&monitors).run(period));
        monitors
    }

    async fn run(self: Arc<Self>, period: Duration) {
        let mut firsts = Firsts::new();
        let mut known = false;
        // Deadline for the initial lists of the monitors that the last change started.
        let mut due = None;
        loop {
            let changed = self.round(&mut firsts).await;
            known |= changed.is_some();
            let now = self.api.clock().instant();
            if known && !self.is_synced() {
                let all = future::join_all(self.informers().into_iter().map(|i| async move { i.synced().await }));
                if tokio::time::timeout(INITIAL_SYNC, all).await.is_err() {
                    self.complain();
                }
                self.ready.send_replace(true);
            } else if changed == Some(true) {
                due = Some(now + INITIAL_SYNC);
            }
            let pause = if known { period } else { FIRST_RETRY.min(period) };
            self.rest(pause, &mut firsts, &mut due).await;
        }
    }

    /// Waits for the next round of discovery. Meanwhile enqueues each parked object when its condition becomes true.
    async fn rest(&self, pause: Duration, firsts: &mut Firsts, due: &mut Option<Instant>) {
        let clock = self.api.clock();
        let parked = &self.collection.parked;
        let end = clock.instant() + pause;
        loop {
            self.wake();
            let now = clock.instant();
            if due.take_if(|due| *due <= now).is_some() && !self.unsynced().is_empty() {
                self.complain();
            }
            if now >= end {
                return;
            }
            let mut next = due.map_or(end, |due| due.min(end));
            if parked.is_watched() {
                next = next.min(now + AGAIN);
            }
            tokio::select! {
                biased;
                Some(_) = firsts.next() => {}
                () = parked.came.notified() => {}
                () = clock.sleep(next - now) => {}
            }
        }
    }

    /// Counts and logs that initial lists have timed out.
    fn complain(&self) {
        self.metrics.sync_errors.inc();
        tracing::warn!(resources = ?self.unsynced(), "Timed out waiting for some resources, proceeding without them");
    }

    /// Runs one round of discovery and updates the monitors. Returns whether the monitors changed, or `None` if discovery failed.
    async fn round(&self, firsts: &mut Firsts) -> Option<bool> {
        let served = match Served::read(&self.api).await {
            Ok(served) => served,
            Err(error) => {
                self.metrics.sync_errors.inc();
                tracing::warn!(err = %error, "Discovery failed");
                let mut known = self.error.lock();
                let since = known.take().map_or_else(|| self.api.clock().instant(), |(_, since)| since);
                *known = Some((format!("discovery: {error}"), since));
                return None;
            }
        };
        *self.error.lock() = None;
        if !served.failed.is_empty() {
            tracing::info!(failed = ?served.failed, "Discovery failed for some groups");
        }
        let changed = self.follow(served, firsts);
        let graph = self.collection.graph.lock();
        self.collection.parked.retain(|key| graph.node(&key.0).is_some());
        Some(changed)
    }

    /// Starts and stops monitors so that they match the discovered resources. Returns whether the monitors changed.
    fn follow(&self, mut served: Served, firsts: &mut Firsts) -> bool {
        let mut stopped = Vec::new();
        let mut watched = self.watched.lock();
        let (monitors, kinds) = (&watched.monitors, &watched.served.kinds);
        let failed = std::mem::take(&mut served.failed);
        let is_silent = |r: &Resource| failed.contains(&(r.group.to_owned(), r.version.to_owned()));
        let mut wanted = served.collected.clone();
        let stay = monitors.iter().filter(|(r, monitor)| is_silent(r) && monitor.informer.is_synced());
        wanted.extend(stay.map(|(r, _)| *r));
        // A kind of a group with failed discovery keeps its previous resource.
        for (kind, resource) in kinds.iter().filter(|(_, r)| is_silent(r)) {
            served.kinds.entry(kind.clone()).or_insert(*resource);
        }
        let gone: Vec<Resource> = monitors.keys().filter(|r| !wanted.contains(r)).copied().collect();
        for resource in gone {
            tracing::info!(%resource, version = resource.version, "Stopped watching a resource");
            self.metrics.failing.remove(&[resource.group, resource.plural]);
            stopped.extend(watched.monitors.remove(&resource).map(|monitor| monitor.source));
        }
        let mut changed = !stopped.is_empty();
        for resource in wanted {
            watched.monitors.entry(resource).or_insert_with(|| {
                tracing::debug!(%resource, version = resource.version, "Started watching a resource");
                changed = true;
                let monitor = self.monitor(resource);
                firsts.push(Box::pin(monitor.informer.first_set()));
                monitor
            });
        }
        watched.by_name = watched.monitors.keys().map(|r| ((r.group, r.plural), *r)).collect();
        watched.served = Served { failed, ..served };
        drop(watched);
        for source in stopped {
            self.collection.change(Priority::Low, |graph, out| graph.unwatched(source, out));
        }
        changed
    }

    fn monitor(&self, resource: Resource) -> Monitor {
        let source = self.collection.graph.lock().source(&resource.api_version(), resource.kind);
        let metadata_only = !WHOLE.contains(&(resource.group, resource.plural));
        let config = Config { resource: Some(resource), metadata_only, ..self.reading.clone() };
        let sink = GraphSink::new(Arc::clone(&self.collection), source);
        Monitor { source, informer: Arc::new(SinkInformer::follow(self.api.clone(), config, sink)) }
    }

    fn informers(&self) -> Vec<Arc<SinkInformer<GraphSink>>> {
        self.watched.lock().monitors.values().map(|monitor| Arc::clone(&monitor.informer)).collect()
    }

    /// Returns the state of the monitor for a kind, and the resource that serves the kind; `None` if the kind is not served.
    pub(crate) fn known(&self, kind: &Kind) -> (OwnerKind, Option<Resource>) {
        let watched = self.watched.lock();
        let Some(resource) = watched.served.kinds.get(kind).copied() else { return (OwnerKind::Unknown, None) };
        let monitor = watched.by_name.get(&(resource.group, resource.plural)).and_then(|r| watched.monitors.get(r));
        let known = match monitor.map(|monitor| monitor.informer.is_synced()) {
            None => OwnerKind::Unwatched,
            Some(false) => OwnerKind::Unsynced,
            Some(true) => OwnerKind::Synced,
        };
        (known, Some(resource))
    }

    /// Parks an object until `awaited` is true. If the condition is already true, the object is enqueued immediately.
    pub(crate) fn park(&self, queue: QueueId, key: ObjectKey, awaited: Awaited) {
        self.collection.parked.park(queue, key, awaited.clone());
        if self.is_there(&awaited) {
            self.collection.wake(&awaited);
        }
    }

    /// Enqueues all parked objects whose condition is true.
    fn wake(&self) {
        let there = self.collection.parked.awaited().into_iter().filter(|awaited| self.is_there(awaited));
        there.for_each(|awaited| self.collection.wake(&awaited));
    }

    fn is_there(&self, awaited: &Awaited) -> bool {
        match awaited {
            Awaited::Served(kind) => self.resource(kind).is_some(),
            Awaited::Known(kind) => self.known(kind).0 != OwnerKind::Unsynced,
            Awaited::Everything => self.coming().is_empty(),
        }
    }

    /// Returns the resource that serves a kind; `None` if the kind is not served.
    pub(crate) fn resource(&self, kind: &Kind) -> Option<Resource> {
        self.watched.lock().served.kinds.get(kind).copied()
    }

    /// Returns the names of resources without a complete initial list.
    pub(crate) fn unsynced(&self) -> Vec<String> {
        let watched = self.watched.lock();
        watched.monitors.iter().filter(|(_, m)| !m.informer.is_synced()).map(|(r, _)| r.to_string()).collect()
    }

    /// Returns the names of resources without a complete initial list, except broken ones. Foreground deletion and orphaning
    /// wait for these resources, which may contain dependents. A resource is broken if its watch fails repeatedly and is silent
    /// for longer than allowed.
    pub(crate) fn coming(&self) -> Vec<String> {
        let watched = self.watched.lock();
        let coming = |m: &Monitor| !m.informer.is_synced() && !is_broken(&m.informer);
        watched.monitors.iter().filter(|(_, m)| coming(m)).map(|(r, _)| r.to_string()).collect()
    }

    /// Returns the resources with a failing watch, each with the last error.
    pub(crate) fn failing(&self) -> Vec<(Resource, String)> {
        let watched = self.watched.lock();
        let error = |(r, m): (&Resource, &Monitor)| m.informer.state().error.map(|(error, _)| (*r, error));
        watched.monitors.iter().filter_map(error).collect()
    }

    /// Returns a message for each resource with a watch that has been silent for longer than allowed.
    fn lost(&self) -> Vec<String> {
        self.informers().iter().filter_map(|informer| informer.lost_touch()).collect()
    }

    /// Returns a message about resources that cannot be watched. The other resources are collected nevertheless.
    pub(crate) fn troubles(&self) -> Option<String> {
        few(&self.lost())
    }

    /// Updates the gauges that are computed only for a scrape.
    pub(crate) fn measure(&self) {
        let failing: BTreeSet<Resource> = self.failing().into_iter().map(|(resource, _)| resource).collect();
        let all: Vec<Resource> = self.watched.lock().monitors.keys().copied().collect();
        for resource in all {
            let value = u8::from(failing.contains(&resource));
            self.metrics.failing.with(&[resource.group, resource.plural]).set(value.into());
        }
        self.metrics.nodes.set(self.len() as _);
        self.metrics.parked.set(self.collection.parked.len() as _);
    }

    /// Returns each resource with its number of objects, its version and the state of its informer.
    pub(crate) fn states(&self) -> Vec<(Resource, usize, Version, State)> {
        let watched = self.watched.lock();
        let one = |(r, m): (&Resource, &Monitor)| (*r, m.informer.len(), m.informer.version(), m.informer.state());
        watched.monitors.iter().map(one).collect()
    }
}

/// Returns whether the watch of a resource has failed repeatedly and has been silent for longer than allowed.
fn is_broken(informer: &SinkInformer<GraphSink>) -> bool {
    let failures = informer.state().error.map_or(0, |(_, failures)| failures);
    failures >= LASTING && informer.lost_touch().is_some()
}

/// Returns the first message and the number of further messages; `None` without messages.
fn few(all: &[String]) -> Option<String> {
    let (first, others) = all.split_first()?;
    Some(if others.is_empty() { first.clone() } else { format!("{first} (and {} more)", others.len()) })
}

/// All monitors as one informer, which counts as synced when work may begin.
impl AnyInformer for Monitors {
    fn resource(&self) -> Resource {
        Partial::RESOURCE
    }

    fn state(&self) -> State {
        let error = self.error.lock().as_ref().map(|(error, _)| error.clone());
        let failing = || self.failing().into_iter().map(|(resource, error)| format!("{resource}: {error}")).next();
        State {
            phase: "watching",
            synced: self.is_synced(),
            last_event: None,
            error: error.or_else(failing).map(|error| (error, 1)),
            failing_since: None,
            lists: 0,
            watches: 0,
            events: 0,
        }
    }

    fn len(&self) -> usize {
        self.collection.graph.lock().len()
    }

    fn version(&self) -> Version {
        Version::UNKNOWN
    }

    fn is_synced(&self) -> bool {
        *self.ready.borrow()
    }

    /// Returns a message if discovery fails, or every watch is silent, for longer than a watch may be silent. One silent watch
    /// is not enough: [`Monitors::troubles`] reports it.
    fn lost_touch(&self) -> Option<String> {
        let error = self.error.lock().clone();
        if let Some((error, since)) = error {
            let lost_for = self.api.clock().instant().saturating_duration_since(since);
            if lost_for > self.reading.silence {
                return Some(format!("{error} (for {}s)", lost_for.as_secs()));
            }
        }
        let lost = self.lost();
        if lost.len() < self.watched.lock().monitors.len() { None } else { few(&lost) }
    }

    fn synced(&self) -> BoxFuture<'_, ()> {
        Box::pin(async {
            let mut ready = self.ready.subscribe();
            // The sender lives as long as `self`, so the result is never an error.
            let _ = ready.wait_for(|ready| *ready).await;
        })
    }

    fn replay(&self) {
        self.informers().iter().for_each(|informer| informer.replay());
    }

    fn catch_up<'a>(&'a self, succession: &'a Succession) -> BoxFuture<'a, ()> {
        Box::pin(async move {
            let synced = self.informers().into_iter().filter(|informer| informer.is_synced());
            let all = future::join_all(synced.map(|informer| async move { informer.catch_up(succession).await }));
            let _ = tokio::time::timeout(CATCH_UP, all).await;
        })
    }
}

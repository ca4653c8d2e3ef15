//! A monitor for each resource that can be collected, coming and going with what the server serves.
//!
//! - A resource that cannot be listed delays nobody but objects whose owners are of its kind.
//! - A resource whose group the server knows nothing of at present keeps its monitor if that had all objects.
//! - What vanished is watched no more; what returns is watched anew, and what was known of it meanwhile counts as hearsay.
//!
//! Upstream: `garbagecollector.go`, `Sync`, and `graph_builder.go`, `syncMonitors`. There a round waits for its monitors, a
//! monitor that fails to start keeps others from starting, and a monitor that was removed goes on watching.

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

/// Kinds that are many, which others watch too: these are watched as whole objects, and only their metadata is read.
///
/// An API server encodes a whole object once for everybody who watches it, and the metadata anew for each watch and event. For
/// thousands of Pods that costs it more than to send the rest as well.
const WHOLE: [(&str, &str); 4] =
    [("", "pods"), ("apps", "replicasets"), ("batch", "jobs"), ("discovery.k8s.io", "endpointslices")];
/// How long work waits for resources whose first full set does not come.
const INITIAL_SYNC: Duration = Duration::from_secs(30);
/// How often in a row a resource fails, at least, until it counts as broken.
const LASTING: u32 = 3;
/// How often it is looked whether what is on its way is broken, while somebody waits for it.
const AGAIN: Duration = Duration::from_secs(5);
/// Pause before discovery is tried again that has never succeeded.
const FIRST_RETRY: Duration = Duration::from_secs(1);
/// How long a new leader's caches may take to show that they are as new as its lease. What they do not show is looked up.
const CATCH_UP: Duration = Duration::from_secs(5);

struct Monitor {
    source: Source,
    informer: Arc<SinkInformer<GraphSink>>,
}

#[derive(Default)]
struct Watched {
    served: Served,
    monitors: BTreeMap<Resource, Monitor>,
    /// The monitor of each group and resource, in whatever version.
    by_name: BTreeMap<(&'static str, &'static str), Resource>,
}

/// All monitors.
pub(crate) struct Monitors {
    api: Api,
    reading: Config,
    collection: Arc<Collection>,
    metrics: ControllerMetrics,
    watched: Mutex<Watched>,
    /// Whether work may begin.
    ready: watch::Sender<bool>,
    /// Why nothing can be discovered, and since when.
    error: Mutex<Option<(String, Instant)>>,
}

/// First full sets that have not come yet.
type Firsts = FuturesUnordered<BoxFuture<'static, bool>>;

impl Monitors {
    /// Begins to discover and to watch.
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
        // When the monitors that came or stayed at the last change are to have all objects.
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

    /// Waits for the next round, and sees to it that whoever waits for something else goes on once it is there.
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

    /// Says that not all objects are known.
    fn complain(&self) {
        self.metrics.sync_errors.inc();
        tracing::warn!(resources = ?self.unsynced(), "Not all objects are known, proceeding anyway");
    }

    /// Asks what is served, and makes the monitors follow. Says whether that changed them, if the server answered.
    async fn round(&self, firsts: &mut Firsts) -> Option<bool> {
        let served = match Served::read(&self.api).await {
            Ok(served) => served,
            Err(error) => {
                self.metrics.sync_errors.inc();
                tracing::warn!(err = %error, "Cannot discover what is served");
                let mut known = self.error.lock();
                let since = known.take().map_or_else(|| self.api.clock().instant(), |(_, since)| since);
                *known = Some((format!("discovery: {error}"), since));
                return None;
            }
        };
        *self.error.lock() = None;
        if !served.failed.is_empty() {
            tracing::info!(failed = ?served.failed, "Some groups cannot be discovered at present");
        }
        let changed = self.follow(served, firsts);
        let graph = self.collection.graph.lock();
        self.collection.parked.retain(|key| graph.node(&key.0).is_some());
        Some(changed)
    }

    /// Says whether there are other monitors now.
    fn follow(&self, mut served: Served, firsts: &mut Firsts) -> bool {
        let mut stopped = Vec::new();
        let mut watched = self.watched.lock();
        let (monitors, kinds) = (&watched.monitors, &watched.served.kinds);
        let failed = std::mem::take(&mut served.failed);
        let is_silent = |r: &Resource| failed.contains(&(r.group.to_owned(), r.version.to_owned()));
        let mut wanted = served.collected.clone();
        let stay = monitors.iter().filter(|(r, monitor)| is_silent(r) && monitor.informer.is_synced());
        wanted.extend(stay.map(|(r, _)| *r));
        // What a group served before it fell silent is where it was.
        for (kind, resource) in kinds.iter().filter(|(_, r)| is_silent(r)) {
            served.kinds.entry(kind.clone()).or_insert(*resource);
        }
        let gone: Vec<Resource> = monitors.keys().filter(|r| !wanted.contains(r)).copied().collect();
        for resource in gone {
            tracing::info!(%resource, version = resource.version, "Resource is watched no more");
            self.metrics.failing.remove(&[resource.group, resource.plural]);
            stopped.extend(watched.monitors.remove(&resource).map(|monitor| monitor.source));
        }
        let mut changed = !stopped.is_empty();
        for resource in wanted {
            watched.monitors.entry(resource).or_insert_with(|| {
                tracing::debug!(%resource, version = resource.version, "Resource is watched");
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

    /// The state of the monitor of a kind, and its resource if the kind is served.
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

    /// Somebody waits for that. If it is there already, not for long.
    pub(crate) fn park(&self, queue: QueueId, key: ObjectKey, awaited: Awaited) {
        self.collection.parked.park(queue, key, awaited.clone());
        if self.is_there(&awaited) {
            self.collection.wake(&awaited);
        }
    }

    /// Whoever waits for what is there by now goes on.
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

    /// Where objects of a kind live.
    pub(crate) fn resource(&self, kind: &Kind) -> Option<Resource> {
        self.watched.lock().served.kinds.get(kind).copied()
    }

    /// Resources of which not all objects are known, as people name them.
    pub(crate) fn unsynced(&self) -> Vec<String> {
        let watched = self.watched.lock();
        watched.monitors.iter().filter(|(_, m)| !m.informer.is_synced()).map(|(r, _)| r.to_string()).collect()
    }

    /// Of these, the ones that are on their way: they are waited for before an owner goes whose dependents may be among
    /// them. One failure says nothing; a resource is broken that has answered with nothing else for as long as a watch may
    /// be silent.
    pub(crate) fn coming(&self) -> Vec<String> {
        let watched = self.watched.lock();
        let coming = |m: &Monitor| !m.informer.is_synced() && !is_broken(&m.informer);
        watched.monitors.iter().filter(|(_, m)| coming(m)).map(|(r, _)| r.to_string()).collect()
    }

    /// Resources whose watch fails, each with its error.
    pub(crate) fn failing(&self) -> Vec<(Resource, String)> {
        let watched = self.watched.lock();
        let error = |(r, m): (&Resource, &Monitor)| m.informer.state().error.map(|(error, _)| (*r, error));
        watched.monitors.iter().filter_map(error).collect()
    }

    /// Resources of which nothing has been heard for longer than a watch may be silent.
    fn lost(&self) -> Vec<String> {
        self.informers().iter().filter_map(|informer| informer.lost_touch()).collect()
    }

    /// Names resources that cannot be watched. The others are collected all the same.
    pub(crate) fn troubles(&self) -> Option<String> {
        few(&self.lost())
    }

    /// Sets the gauges that are looked at only when somebody asks.
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

    /// What each monitor does.
    pub(crate) fn states(&self) -> Vec<(Resource, usize, Version, State)> {
        let watched = self.watched.lock();
        let one = |(r, m): (&Resource, &Monitor)| (*r, m.informer.len(), m.informer.version(), m.informer.state());
        watched.monitors.iter().map(one).collect()
    }
}

/// Whether a monitor has failed again and again for a while.
fn is_broken(informer: &SinkInformer<GraphSink>) -> bool {
    let failures = informer.state().error.map_or(0, |(_, failures)| failures);
    failures >= LASTING && informer.lost_touch().is_some()
}

/// The first of some complaints, and how many more there are.
fn few(all: &[String]) -> Option<String> {
    let (first, others) = all.split_first()?;
    Some(if others.is_empty() { first.clone() } else { format!("{first} (and {} more)", others.len()) })
}

/// All monitors as one cache: filled when work may begin.
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

    /// One resource that cannot be watched keeps nobody from collecting the others, see [`Monitors::troubles`]: touch is lost
    /// when nothing can be discovered for as long as a watch may be silent, or nothing can be watched.
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
            // The sender lives as long as `self`.
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

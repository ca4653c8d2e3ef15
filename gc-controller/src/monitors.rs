//! Monitors: one informer for each resource that can be collected, started and stopped as the server serves resources.
//!
//! - A resource that cannot be listed delays only objects with owners of its kind.
//! - If discovery of a group fails, resources of the group keep their monitor if its initial list is complete.
//! - A resource that is no longer served loses its monitor, and its objects become virtual in the graph and are looked up. If
//!   the resource returns, it gets a new monitor.
//!
//! Upstream: `garbagecollector.go`, `Sync`, and `graph_builder.go`, `syncMonitors`. Upstream waits for new monitors after each
//! discovery, a monitor that fails to start prevents the start of the others, and a removed monitor continues to watch.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};

use common::{
    api::Api,
    clock::Instant,
    informer::{AnyInformer, InformerConfig, InformerStatus, SinkInformer},
    meta::ResourceVersion,
    object::{Object as _, Resource},
    queue::Priority,
    succession::LeadershipStart,
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
    collection::CollectorState,
    collector::decide::KindState,
    discovery::DiscoveredResources,
    graph::{Kind, MonitorId},
    graph_sink::GraphSink,
    key::ObjectKey,
    metrics::ControllerMetrics,
    objects::PartialObject,
    parked::{QueueId, WaitCondition},
};

/// Group and plural of resources with many objects that other clients watch, too. They are watched as whole objects, and only
/// the metadata is decoded.
///
/// An API server encodes a whole object once for all its watches, but the metadata separately for each watch and event. For
/// thousands of Pods, this encoding costs more than the transfer of whole objects.
const WATCHED_AS_WHOLE_OBJECTS: [(&str, &str); 4] =
    [("", "pods"), ("apps", "replicasets"), ("batch", "jobs"), ("discovery.k8s.io", "endpointslices")];
/// Maximum time that work waits for the initial lists of all resources.
const INITIAL_SYNC_TIMEOUT: Duration = Duration::from_secs(30);
/// Number of consecutive failures after which a resource with a stale watch counts as broken.
const BROKEN_AFTER_FAILURES: u32 = 3;
/// Period of the check for broken resources while an object waits for the initial lists of all resources.
const BROKEN_CHECK_PERIOD: Duration = Duration::from_secs(5);
/// Pause between attempts at discovery before its first success.
const FIRST_RETRY: Duration = Duration::from_secs(1);
/// How long a new leader waits for its caches to reach the version of its predecessor's last write. Owners that the caches do
/// not contain yet are looked up.
const CATCH_UP_TIMEOUT: Duration = Duration::from_secs(5);

struct Monitor {
    source: MonitorId,
    informer: Arc<SinkInformer<GraphSink>>,
}

#[derive(Default)]
struct WatchedResources {
    served: DiscoveredResources,
    monitors: BTreeMap<Resource, Monitor>,
    /// The resource, with the watched version, by group and plural.
    by_name: BTreeMap<(&'static str, &'static str), Resource>,
}

/// All monitors of the process, and the result of the last successful discovery.
pub(crate) struct Monitors {
    api: Api,
    reading: InformerConfig,
    collection: Arc<CollectorState>,
    metrics: ControllerMetrics,
    watched: Mutex<WatchedResources>,
    /// Whether work may begin: the initial lists are complete or have timed out.
    ready: watch::Sender<bool>,
    /// Error of the last run of discovery, and the time since which every run has failed; `None` after a successful run.
    error: Mutex<Option<(String, Instant)>>,
}

/// One future for each new monitor. The future completes together with the initial list of the monitor.
type InitialLists = FuturesUnordered<BoxFuture<'static, bool>>;

impl Monitors {
    /// Starts the task that discovers resources and updates the monitors.
    pub(crate) fn start(
        api: Api,
        reading: InformerConfig,
        collection: Arc<CollectorState>,
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
        let mut firsts = InitialLists::new();
        let mut known = false;
        // Deadline for the initial lists of the monitors that the last change started.
        let mut due = None;
        loop {
            let changed = self.run_discovery(&mut firsts).await;
            known |= changed.is_some();
            let now = self.api.clock().monotonic_now();
            if known && !self.is_synced() {
                let all =
                    future::join_all(self.informers().into_iter().map(|i| async move { i.wait_until_synced().await }));
                if tokio::time::timeout(INITIAL_SYNC_TIMEOUT, all).await.is_err() {
                    self.report_list_timeout();
                }
                self.ready.send_replace(true);
            } else if changed == Some(true) {
                due = Some(now + INITIAL_SYNC_TIMEOUT);
            }
            let pause = if known { period } else { FIRST_RETRY.min(period) };
            self.wait_for_next_round(pause, &mut firsts, &mut due).await;
        }
    }

    /// Waits until the next run of discovery. Meanwhile enqueues parked objects as soon as their wait conditions are true.
    async fn wait_for_next_round(&self, pause: Duration, firsts: &mut InitialLists, due: &mut Option<Instant>) {
        let clock = self.api.clock();
        let parked = &self.collection.parked_objects;
        let end = clock.monotonic_now() + pause;
        loop {
            self.wake();
            let now = clock.monotonic_now();
            if due.take_if(|due| *due <= now).is_some() && !self.unsynced_resources().is_empty() {
                self.report_list_timeout();
            }
            if now >= end {
                return;
            }
            let mut next = due.map_or(end, |due| due.min(end));
            if parked.needs_periodic_check() {
                next = next.min(now + BROKEN_CHECK_PERIOD);
            }
            tokio::select! {
                biased;
                Some(_) = firsts.next() => {}
                () = parked.periodic_check_needed.notified() => {}
                () = clock.sleep(next - now) => {}
            }
        }
    }

    /// Counts and logs that initial lists have timed out.
    fn report_list_timeout(&self) {
        self.metrics.resource_sync_errors.inc();
        tracing::warn!(resources = ?self.unsynced_resources(), "Timed out waiting for some resources, proceeding without them");
    }

    /// Runs discovery once, and updates the monitors. Returns whether the monitors changed, or `None` if discovery failed.
    async fn run_discovery(&self, firsts: &mut InitialLists) -> Option<bool> {
        let served = match DiscoveredResources::read(&self.api).await {
            Ok(served) => served,
            Err(error) => {
                self.metrics.resource_sync_errors.inc();
                tracing::warn!(err = %error, "Discovery failed");
                let mut known = self.error.lock();
                let since = known.take().map_or_else(|| self.api.clock().monotonic_now(), |(_, since)| since);
                *known = Some((format!("discovery: {error}"), since));
                return None;
            }
        };
        *self.error.lock() = None;
        if !served.stale_group_versions.is_empty() {
            tracing::info!(failed = ?served.stale_group_versions, "Discovery failed for some groups");
        }
        let changed = self.follow(served, firsts);
        let graph = self.collection.graph.lock();
        self.collection.parked_objects.retain(|key| graph.node(&key.0).is_some());
        Some(changed)
    }

    /// Starts and stops monitors so that they match the discovered resources. Returns whether the monitors changed.
    fn follow(&self, mut served: DiscoveredResources, firsts: &mut InitialLists) -> bool {
        let mut stopped = Vec::new();
        let mut watched = self.watched.lock();
        let (monitors, kinds) = (&watched.monitors, &watched.served.resource_by_kind);
        let failed = std::mem::take(&mut served.stale_group_versions);
        let is_silent = |r: &Resource| failed.contains(&(r.group.to_owned(), r.version.to_owned()));
        let mut wanted = served.collectable_resources.clone();
        let stay = monitors.iter().filter(|(r, monitor)| is_silent(r) && monitor.informer.is_synced());
        wanted.extend(stay.map(|(r, _)| *r));
        // The kinds of a group with failed discovery keep their previous resources.
        for (kind, resource) in kinds.iter().filter(|(_, r)| is_silent(r)) {
            served.resource_by_kind.entry(kind.clone()).or_insert(*resource);
        }
        let gone: Vec<Resource> = monitors.keys().filter(|r| !wanted.contains(r)).copied().collect();
        for resource in gone {
            tracing::info!(%resource, version = resource.version, "Stopped watching a resource");
            self.metrics.failing_resources.remove(&[resource.group, resource.plural]);
            stopped.extend(watched.monitors.remove(&resource).map(|monitor| monitor.source));
        }
        let mut changed = !stopped.is_empty();
        for resource in wanted {
            watched.monitors.entry(resource).or_insert_with(|| {
                tracing::debug!(%resource, version = resource.version, "Started watching a resource");
                changed = true;
                let monitor = self.monitor(resource);
                firsts.push(Box::pin(monitor.informer.wait_for_first_list()));
                monitor
            });
        }
        watched.by_name = watched.monitors.keys().map(|r| ((r.group, r.plural), *r)).collect();
        watched.served = DiscoveredResources { stale_group_versions: failed, ..served };
        drop(watched);
        for source in stopped {
            self.collection.apply_change(Priority::Low, |graph, out| graph.remove_monitor(source, out));
        }
        changed
    }

    fn monitor(&self, resource: Resource) -> Monitor {
        let source = self.collection.graph.lock().add_monitor(&resource.api_version(), resource.kind);
        let metadata_only = !WATCHED_AS_WHOLE_OBJECTS.contains(&(resource.group, resource.plural));
        let config =
            InformerConfig { resource: Some(resource), is_metadata_only: metadata_only, ..self.reading.clone() };
        let sink = GraphSink::new(Arc::clone(&self.collection), source);
        Monitor { source, informer: Arc::new(SinkInformer::start_with_sink(self.api.clone(), config, sink)) }
    }

    fn informers(&self) -> Vec<Arc<SinkInformer<GraphSink>>> {
        self.watched.lock().monitors.values().map(|monitor| Arc::clone(&monitor.informer)).collect()
    }

    /// Returns the state of the monitor for a kind, and the resource that serves the kind; `None` if the kind is not served.
    pub(crate) fn kind_state_and_resource(&self, kind: &Kind) -> (KindState, Option<Resource>) {
        let watched = self.watched.lock();
        let Some(resource) = watched.served.resource_by_kind.get(kind).copied() else {
            return (KindState::Unknown, None);
        };
        let monitor = watched.by_name.get(&(resource.group, resource.plural)).and_then(|r| watched.monitors.get(r));
        let known = match monitor.map(|monitor| monitor.informer.is_synced()) {
            None => KindState::Unwatched,
            Some(false) => KindState::Unsynced,
            Some(true) => KindState::Synced,
        };
        (known, Some(resource))
    }

    /// Parks an object until `awaited` is true. If the wait condition is already true, enqueues the object immediately.
    pub(crate) fn park(&self, queue: QueueId, key: ObjectKey, awaited: WaitCondition) {
        self.collection.parked_objects.park(queue, key, awaited.clone());
        if self.is_fulfilled(&awaited) {
            self.collection.enqueue_parked_objects(&awaited);
        }
    }

    /// Enqueues all parked objects with a wait condition that is true.
    fn wake(&self) {
        let there =
            self.collection.parked_objects.wait_conditions().into_iter().filter(|awaited| self.is_fulfilled(awaited));
        there.for_each(|awaited| self.collection.enqueue_parked_objects(&awaited));
    }

    fn is_fulfilled(&self, awaited: &WaitCondition) -> bool {
        match awaited {
            WaitCondition::KindServed(kind) => self.resource_of_kind(kind).is_some(),
            WaitCondition::KindListed(kind) => self.kind_state_and_resource(kind).0 != KindState::Unsynced,
            WaitCondition::EverythingListed => self.awaited_resources().is_empty(),
        }
    }

    /// Returns the resource that serves a kind; `None` if the kind is not served.
    pub(crate) fn resource_of_kind(&self, kind: &Kind) -> Option<Resource> {
        self.watched.lock().served.resource_by_kind.get(kind).copied()
    }

    /// Returns the names of resources without a complete initial list.
    pub(crate) fn unsynced_resources(&self) -> Vec<String> {
        let watched = self.watched.lock();
        watched.monitors.iter().filter(|(_, m)| !m.informer.is_synced()).map(|(r, _)| r.to_string()).collect()
    }

    /// Returns the names of resources without a complete initial list, except broken ones. Foreground deletion and orphaning
    /// wait for these resources, which may contain dependents. `is_broken` defines broken resources.
    pub(crate) fn awaited_resources(&self) -> Vec<String> {
        let watched = self.watched.lock();
        let coming = |m: &Monitor| !m.informer.is_synced() && !is_broken(&m.informer);
        watched.monitors.iter().filter(|(_, m)| coming(m)).map(|(r, _)| r.to_string()).collect()
    }

    /// Returns the resources with a failing watch, each with the last error.
    pub(crate) fn failing_resources(&self) -> Vec<(Resource, String)> {
        let watched = self.watched.lock();
        let error = |(r, m): (&Resource, &Monitor)| m.informer.informer_status().error.map(|(error, _)| (*r, error));
        watched.monitors.iter().filter_map(error).collect()
    }

    /// Returns a message for each resource with lists and watches that have all failed for longer than a cache may be stale.
    fn silent_watches(&self) -> Vec<String> {
        self.informers().iter().filter_map(|informer| informer.stale_error()).collect()
    }

    /// Returns a message about resources that cannot be watched. The other resources are collected nevertheless.
    pub(crate) fn stale_watch_message(&self) -> Option<String> {
        summarize_messages(&self.silent_watches())
    }

    /// Updates the gauges that are computed only for a scrape.
    pub(crate) fn update_gauges(&self) {
        let failing: BTreeSet<Resource> = self.failing_resources().into_iter().map(|(resource, _)| resource).collect();
        let all: Vec<Resource> = self.watched.lock().monitors.keys().copied().collect();
        for resource in all {
            let value = u8::from(failing.contains(&resource));
            self.metrics.failing_resources.with_label_values(&[resource.group, resource.plural]).set(value.into());
        }
        self.metrics.graph_nodes.set(self.len() as _);
        self.metrics.parked_objects.set(self.collection.parked_objects.len() as _);
    }

    /// Returns each resource with its number of objects, its version and the state of its informer.
    pub(crate) fn monitor_states(&self) -> Vec<(Resource, usize, ResourceVersion, InformerStatus)> {
        let watched = self.watched.lock();
        let one =
            |(r, m): (&Resource, &Monitor)| (*r, m.informer.len(), m.informer.version(), m.informer.informer_status());
        watched.monitors.iter().map(one).collect()
    }
}

/// Returns whether a resource is broken: its watch has failed several times in a row, for longer than a cache may be stale.
fn is_broken(informer: &SinkInformer<GraphSink>) -> bool {
    let failures = informer.informer_status().error.map_or(0, |(_, failures)| failures);
    failures >= BROKEN_AFTER_FAILURES && informer.stale_error().is_some()
}

/// Returns the first message and the number of further messages; `None` without messages.
fn summarize_messages(all: &[String]) -> Option<String> {
    let (first, others) = all.split_first()?;
    Some(if others.is_empty() { first.clone() } else { format!("{first} (and {} more)", others.len()) })
}

impl AsRef<dyn AnyInformer> for Monitors {
    fn as_ref(&self) -> &(dyn AnyInformer + 'static) {
        self
    }
}

/// All monitors as one informer, which counts as synced when work may begin.
impl AnyInformer for Monitors {
    fn resource(&self) -> Resource {
        PartialObject::RESOURCE
    }

    fn informer_status(&self) -> InformerStatus {
        let error = self.error.lock().as_ref().map(|(error, _)| error.clone());
        let failing =
            || self.failing_resources().into_iter().map(|(resource, error)| format!("{resource}: {error}")).next();
        InformerStatus {
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

    fn version(&self) -> ResourceVersion {
        ResourceVersion::UNKNOWN
    }

    fn is_synced(&self) -> bool {
        *self.ready.borrow()
    }

    /// Returns a message if discovery, or the watch of every resource, has failed for longer than a cache may be stale. Other
    /// failing watches are reported by [`Monitors::stale_watch_message`].
    fn stale_error(&self) -> Option<String> {
        let error = self.error.lock().clone();
        if let Some((error, since)) = error {
            let lost_for = self.api.clock().monotonic_now().saturating_duration_since(since);
            if lost_for > self.reading.max_watch_idle_time {
                return Some(format!("{error} (for {}s)", lost_for.as_secs()));
            }
        }
        let lost = self.silent_watches();
        if lost.len() < self.watched.lock().monitors.len() { None } else { summarize_messages(&lost) }
    }

    fn wait_until_synced(&self) -> BoxFuture<'_, ()> {
        Box::pin(async {
            let mut ready = self.ready.subscribe();
            // The sender lives as long as `self`, so the result is never an error.
            let _ = ready.wait_for(|ready| *ready).await;
        })
    }

    fn replay(&self) {
        self.informers().iter().for_each(|informer| informer.replay());
    }

    fn catch_up_with_predecessor<'a>(&'a self, succession: &'a LeadershipStart) -> BoxFuture<'a, ()> {
        Box::pin(async move {
            let synced = self.informers().into_iter().filter(|informer| informer.is_synced());
            let all = future::join_all(
                synced.map(|informer| async move { informer.catch_up_with_predecessor(succession).await }),
            );
            let _ = tokio::time::timeout(CATCH_UP_TIMEOUT, all).await;
        })
    }
}

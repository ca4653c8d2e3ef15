//! Monitors: the informers of all resources that can be collected, which fill the graph of owners.
//!
//! - A resource that cannot be listed delays only objects with owners of its kind.
//! - A resource that is no longer served loses its monitor, and its objects become virtual in the graph and are looked up. If
//!   the resource returns, it gets a new monitor.
//!
//! Upstream: `garbagecollector.go`, `Sync`, and `graph_builder.go`, `syncMonitors`. Upstream waits for new monitors after each
//! discovery, a monitor that fails to start prevents the start of the others, and a removed monitor continues to watch.

use std::{sync::Arc, time::Duration};

use common::{
    api::Api,
    discovery::DiscoveredInformers,
    informer::{InformerConfig, InformerStatus, SinkInformer},
    partial_object::PartialObject,
    prelude::*,
    succession::LeadershipStart,
    watched as watch,
};
use futures::{
    StreamExt as _,
    future::{self, BoxFuture},
    stream::FuturesUnordered,
};
use parking_lot::Mutex;

use crate::{
    collection::CollectorState,
    collector::decide::KindState,
    discovery::discover,
    graph::Kind,
    graph_sink::GraphSink,
    key::ObjectKey,
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

/// All monitors of the process, and the result of the last successful discovery.
pub(crate) struct Monitors {
    api: Api,
    config: InformerConfig,
    pub(crate) collector_state: Arc<CollectorState>,
    pub(crate) informers: Mutex<DiscoveredInformers<GraphSink>>,
    /// Whether work may begin: the initial lists are complete or have timed out.
    ready: watch::Sender<bool>,
    /// Error of the last run of discovery, and the time since which every run has failed; `None` after a successful run.
    error: Mutex<Option<(String, Instant)>>,
}

/// One future for each new monitor. The future completes together with the initial list of the monitor.
type InitialLists = FuturesUnordered<BoxFuture<'static, bool>>;

impl Monitors {
    pub(crate) fn new(context: &LoopContext, collector_state: Arc<CollectorState>) -> Self {
        let (api, config) = (context.api.clone(), context.short_lived_cache_config());
        let (informers, ready, error) = (Mutex::default(), watch::channel(false).0, Mutex::default());
        Self { api, config, collector_state, informers, ready, error }
    }

    /// Discovers resources in intervals of `period`, and updates the monitors. Never ends.
    pub(crate) async fn run(self: Arc<Self>, period: Duration) {
        let mut initial_lists = InitialLists::new();
        let mut known = false;
        // Deadline for the initial lists of the monitors that the last change started.
        let mut deadline = None;
        loop {
            let changed = self.run_discovery(&mut initial_lists).await;
            known |= changed.is_some();
            let now = self.api.clock().monotonic_now();
            if known && !self.is_synced() {
                let all = self.informers.lock().wait_for_first_lists();
                if tokio::time::timeout(INITIAL_SYNC_TIMEOUT, all).await.is_err() {
                    self.report_list_timeout();
                }
                self.ready.send_replace(true);
            } else if changed == Some(true) {
                deadline = Some(now + INITIAL_SYNC_TIMEOUT);
            }
            let pause = if known { period } else { FIRST_RETRY.min(period) };
            self.wait_for_next_round(pause, &mut initial_lists, &mut deadline).await;
        }
    }

    /// Waits until the next run of discovery. Meanwhile enqueues parked objects as soon as their wait conditions are true.
    async fn wait_for_next_round(
        &self,
        pause: Duration,
        initial_lists: &mut InitialLists,
        deadline: &mut Option<Instant>,
    ) {
        let clock = self.api.clock();
        let parked_objects = &self.collector_state.parked_objects;
        let end = clock.monotonic_now() + pause;
        loop {
            self.enqueue_ready_objects();
            let now = clock.monotonic_now();
            if deadline.take_if(|deadline| *deadline <= now).is_some()
                && !self.informers.lock().unsynced_resources().is_empty()
            {
                self.report_list_timeout();
            }
            if now >= end {
                return;
            }
            let mut next = deadline.map_or(end, |deadline| deadline.min(end));
            if parked_objects.needs_periodic_check() {
                next = next.min(now + BROKEN_CHECK_PERIOD);
            }
            tokio::select! {
                biased;
                Some(_) = initial_lists.next() => {}
                () = parked_objects.periodic_check_needed.notified() => {}
                () = clock.sleep(next - now) => {}
            }
        }
    }

    fn report_list_timeout(&self) {
        self.collector_state.metrics.resource_sync_errors.inc();
        let unsynced_resources = self.informers.lock().unsynced_resources();
        let resources: Vec<String> = unsynced_resources.iter().map(ToString::to_string).collect();
        tracing::warn!(?resources, "Timed out waiting for some resources, proceeding without them");
    }

    /// Runs discovery once, and updates the monitors. Returns whether the monitors changed, or `None` if discovery failed.
    async fn run_discovery(&self, initial_lists: &mut InitialLists) -> Option<bool> {
        let (discovered_resources, collectable_resources) = match discover(&self.api).await {
            Ok(resources) => resources,
            Err(error) => {
                self.collector_state.metrics.resource_sync_errors.inc();
                tracing::warn!(err = %error, "Discovery failed");
                let mut known = self.error.lock();
                let since = known.take().map_or_else(|| self.api.clock().monotonic_now(), |(_, since)| since);
                *known = Some((format!("discovery: {error}"), since));
                return None;
            }
        };
        *self.error.lock() = None;
        if !discovered_resources.stale_group_versions.is_empty() {
            tracing::info!(failed = ?discovered_resources.stale_group_versions, "Discovery failed for some groups");
        }
        let start = |resource: &Resource| self.start_informer(resource);
        let changes = self.informers.lock().follow(discovered_resources, collectable_resources, start);
        for informer in &changes.started {
            initial_lists.push(Box::pin(informer.wait_for_first_list()));
        }
        for informer in &changes.stopped {
            let (resource, monitor_id) = (informer.resource(), informer.sink().monitor_id);
            self.collector_state.metrics.failing_resources.remove(&[resource.group(), resource.plural()]);
            self.collector_state.apply_change(Priority::Low, |graph, work| graph.remove_monitor(monitor_id, work));
        }
        let graph = self.collector_state.graph.lock();
        self.collector_state.parked_objects.retain(|key| graph.node(&key.0).is_some());
        Some(!changes.started.is_empty() || !changes.stopped.is_empty())
    }

    fn start_informer(&self, resource: &Resource) -> SinkInformer<GraphSink> {
        let monitor_id = self.collector_state.graph.lock().add_monitor(&resource.api_version(), resource.kind());
        let config = InformerConfig {
            resource: Some(resource.clone()),
            is_metadata_only: !WATCHED_AS_WHOLE_OBJECTS.contains(&(resource.group(), resource.plural())),
            ..self.config.clone()
        };
        let sink = GraphSink::new(Arc::clone(&self.collector_state), monitor_id);
        SinkInformer::start_with_sink(self.api.clone(), config, sink)
    }

    /// Returns the state of the monitor for a kind, and the resource that serves the kind; `None` if the kind is not served.
    pub(crate) fn kind_state_and_resource(&self, kind: &Kind) -> (KindState, Option<Resource>) {
        let informers = self.informers.lock();
        let resource = informers.discovered_resources().resource_of_kind(&kind.api_version, &kind.kind);
        let kind_state = match resource.map(|resource| informers.informer_of(resource)) {
            None => KindState::Unknown,
            Some(None) => KindState::Unwatched,
            Some(Some(informer)) if informer.is_synced() => KindState::Synced,
            Some(Some(_)) => KindState::Unsynced,
        };
        (kind_state, resource.cloned())
    }

    /// Parks an object until `condition` is true. If the wait condition is already true, enqueues the object immediately.
    pub(crate) fn park(&self, queue_id: QueueId, key: ObjectKey, condition: WaitCondition) {
        self.collector_state.parked_objects.park(queue_id, key, condition.clone());
        if self.is_fulfilled(&condition) {
            self.collector_state.enqueue_parked_objects(&condition);
        }
    }

    /// Enqueues all parked objects with a wait condition that is true.
    fn enqueue_ready_objects(&self) {
        for condition in self.collector_state.parked_objects.wait_conditions() {
            if self.is_fulfilled(&condition) {
                self.collector_state.enqueue_parked_objects(&condition);
            }
        }
    }

    fn is_fulfilled(&self, condition: &WaitCondition) -> bool {
        match condition {
            WaitCondition::KindServed(kind) => self.kind_state_and_resource(kind).0 != KindState::Unknown,
            WaitCondition::KindListed(kind) => self.kind_state_and_resource(kind).0 != KindState::Unsynced,
            WaitCondition::EverythingListed => self.awaited_resources().is_empty(),
        }
    }

    /// Returns the names of resources without a complete initial list, except broken ones. Foreground deletion and orphaning
    /// wait for these resources, which may contain dependents. `is_broken` defines broken resources.
    pub(crate) fn awaited_resources(&self) -> Vec<String> {
        let informers = self.informers.lock();
        let awaited = informers.informers().filter(|informer| !informer.is_synced() && !is_broken(informer));
        awaited.map(|informer| informer.resource().to_string()).collect()
    }

    /// Returns a message about resources that cannot be watched. The other resources are collected nevertheless.
    pub(crate) fn stale_watch_message(&self) -> Option<String> {
        summarize_messages(&self.informers.lock().stale_errors())
    }

    /// Updates the gauges that are computed only for a scrape.
    pub(crate) fn update_gauges(&self) {
        for informer in self.informers.lock().informers() {
            let (resource, is_failing) = (informer.resource(), informer.informer_status().error.is_some());
            let gauge = self
                .collector_state
                .metrics
                .failing_resources
                .with_label_values(&[resource.group(), resource.plural()]);
            gauge.set(u8::from(is_failing).into());
        }
        self.collector_state.metrics.graph_nodes.set(self.len() as _);
        self.collector_state.metrics.parked_objects.set(self.collector_state.parked_objects.len() as _);
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
        let failing_resources = self.informers.lock().failing_resources();
        let error = error.or_else(|| failing_resources.first().map(|(resource, error)| format!("{resource}: {error}")));
        let error = error.map(|error| (error, 1));
        InformerStatus { phase: "watching", synced: self.is_synced(), error, ..InformerStatus::default() }
    }

    fn len(&self) -> usize {
        self.collector_state.graph.lock().len()
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
            if lost_for > self.config.max_watch_idle_time {
                return Some(format!("{error} (for {}s)", lost_for.as_secs()));
            }
        }
        let informers = self.informers.lock();
        let stale_errors = informers.stale_errors();
        if stale_errors.len() < informers.informers().count() { None } else { summarize_messages(&stale_errors) }
    }

    fn wait_until_synced(&self) -> BoxFuture<'_, ()> {
        Box::pin(async {
            let mut ready = self.ready.subscribe();
            // The sender lives as long as `self`, so the result is never an error.
            let _ = ready.wait_for(|ready| *ready).await;
        })
    }

    fn replay(&self) {
        self.informers.lock().informers().for_each(|informer| informer.replay());
    }

    fn catch_up_with_predecessor<'a>(&'a self, start: &'a LeadershipStart) -> BoxFuture<'a, ()> {
        Box::pin(async move {
            let informers: Vec<_> = self.informers.lock().informers().cloned().collect();
            let synced = informers.iter().filter(|informer| informer.is_synced());
            let all = future::join_all(synced.map(|informer| informer.catch_up_with_predecessor(start)));
            let _ = tokio::time::timeout(CATCH_UP_TIMEOUT, all).await;
        })
    }
}

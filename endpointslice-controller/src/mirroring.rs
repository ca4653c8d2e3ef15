//! The loop that mirrors Endpoints which somebody writes by hand, for a Service without a selector, into slices.
//!
//! Deciding is in [`crate::decide::mirror`]. Where it differs from upstream: slices are patched; new contents are written
//! over old slices by pairs, so that none is lost where both families change; a slice that is going counts as gone; one that
//! is gone when it is deleted is no failure.

use std::{sync::Arc, time::Duration};

use common::{
    consistency::{Cache, Ledger},
    controller::{Controller, Loop, Observed, Requeue, priority},
    events::ObjectRef,
    informer::{AnyInformer, Listened},
    meta::{Key, Uid},
    metrics::{Counters, Gauge, Histogram, Metrics, Stability, exponential_buckets},
    queue::{Backoff, Queue},
    runtime::{Context, LoopDefinition, Running},
    settings::{Tune, TuneValue, WorkersFlag},
    store::{Event, Origin},
};
use jiff::Timestamp;

use crate::{
    EXPECTATIONS_TIMEOUT,
    act::{Made, Writer},
    body::Change,
    caches,
    decide::mirror::{self, MirrorPlan, MirrorSnapshot, is_mirrorable},
    error::Error,
    metrics::Shares,
    objects::{ENDPOINTS, Endpoints, MIRRORING, Service, Slice},
    observe::{RECHECK, slices_of},
    own_writes::OwnWrites,
    plan::Writes,
    watch::{Parked, SliceWatch},
};

/// The flag that says how many Endpoints are mirrored at once.
pub const CONCURRENT_SYNCS: WorkersFlag = WorkersFlag {
    name: "mirroring-concurrent-service-endpoint-syncs",
    default: 5,
    min: 1,
    help: "How many Endpoints are mirrored at once",
};
/// How many addresses are mirrored.
pub const MAX_ENDPOINTS_PER_SUBSET: Tune = Tune {
    name: "mirroring-max-endpoints-per-subset",
    default: TuneValue::Count(1000),
    help: "The most addresses of a subset of Endpoints that are mirrored",
};
/// How long changes of mirrored slices are gathered.
pub const UPDATES_BATCH_PERIOD: Tune = Tune {
    name: "mirroring-endpointslice-updates-batch-period",
    default: TuneValue::Duration(Duration::ZERO),
    help: "How long changes of mirrored EndpointSlices by others are gathered before they are corrected",
};
/// How Endpoints whose sync fails are delayed. Upstream: `defaultSyncBackOff`, `maxSyncBackOff`.
const BACKOFF: Backoff =
    Backoff { base: Duration::from_secs(1), max: Duration::from_secs(100), bucket: Some((10.0, 100)) };

/// The loop of mirrored slices.
pub const ENDPOINT_SLICE_MIRRORING: LoopDefinition = LoopDefinition {
    name: "endpointslice-mirroring-controller",
    alias: "endpointslicemirroring",
    client: "endpointslicemirroring-controller",
    component: "endpoint-slice-mirroring-controller",
    start,
};

fn start(context: Context) -> Arc<dyn Running> {
    let queue = context.queue("endpoint_slice_mirroring", BACKOFF);
    let workers = context.settings.workers(&CONCURRENT_SYNCS);
    let controller = MirroringController::new(context.clone(), queue.clone());
    Loop::start(ENDPOINT_SLICE_MIRRORING.name, context, Arc::new(controller), queue, workers)
}

/// What the loop counts besides its queue.
struct MirroringMetrics {
    added: Histogram,
    updated: Histogram,
    removed: Histogram,
    skipped: Histogram,
    took: Histogram,
    changes: Counters,
    shares: Shares,
}

impl MirroringMetrics {
    fn new(metrics: &Metrics) -> Self {
        let histogram = |name, help| {
            metrics.histogram(name, Stability::Alpha, help, &[], exponential_buckets(2.0, 2.0, 15)).with(&[])
        };
        let gauge = |name, help| -> Gauge { metrics.gauge(name, Stability::Alpha, help, &[]).with(&[]) };
        Self {
            added: histogram(
                "endpoint_slice_mirroring_controller_endpoints_added_per_sync",
                "Number of endpoints added on each Endpoints sync",
            ),
            updated: histogram(
                "endpoint_slice_mirroring_controller_endpoints_updated_per_sync",
                "Number of endpoints updated on each Endpoints sync",
            ),
            removed: histogram(
                "endpoint_slice_mirroring_controller_endpoints_removed_per_sync",
                "Number of endpoints removed on each Endpoints sync",
            ),
            skipped: histogram(
                "endpoint_slice_mirroring_controller_addresses_skipped_per_sync",
                "Number of addresses skipped on each Endpoints sync due to being invalid or exceeding MaxEndpointsPerSubset",
            ),
            took: metrics
                .histogram(
                    "endpoint_slice_mirroring_controller_endpoints_sync_duration",
                    Stability::Alpha,
                    "Duration of syncEndpoints() in seconds",
                    &[],
                    exponential_buckets(0.001, 2.0, 15),
                )
                .with(&[]),
            changes: metrics.counter(
                "endpoint_slice_mirroring_controller_changes",
                Stability::Alpha,
                "Number of EndpointSlice changes",
                &["operation"],
            ),
            shares: Shares::new(
                gauge("endpoint_slice_mirroring_controller_endpoints_desired", "Number of endpoints desired"),
                gauge("endpoint_slice_mirroring_controller_num_endpoint_slices", "Number of EndpointSlices"),
                gauge(
                    "endpoint_slice_mirroring_controller_desired_endpoint_slices",
                    "Number of EndpointSlices that would exist with perfect endpoint allocation",
                ),
            ),
        }
    }

    fn planned(&self, key: &Key, plan: &MirrorPlan) {
        if !plan.mirrors {
            return self.shares.forget(key);
        }
        let sum = |of: fn(&Writes) -> usize| plan.writes.iter().map(of).sum::<usize>() as f64;
        self.added.observe(sum(|writes| writes.counts.added));
        self.removed.observe(sum(|writes| writes.counts.removed));
        self.updated.observe(plan.updated as f64);
        self.skipped.observe(plan.skipped as f64);
        self.shares.set(key, plan.writes.iter().map(|writes| writes.counts));
    }
}

/// The controller of mirrored slices.
pub struct MirroringController {
    context: Context,
    services: Arc<Listened<Service>>,
    endpoints: Arc<Listened<Endpoints>>,
    slices: Arc<Listened<Slice>>,
    own: Arc<OwnWrites>,
    parked: Arc<Parked>,
    ledger: Ledger,
    metrics: MirroringMetrics,
    most: usize,
}

/// Whose record in the ledger is about the slices of that name: they outlive the Endpoints they mirror.
fn record(key: &Key) -> Uid {
    Uid::new(&key.to_string())
}

impl MirroringController {
    /// Starts watching; keys go to `queue`.
    pub fn new(context: Context, queue: Queue<Key>) -> Self {
        let settings = Arc::clone(&context.settings);
        let batch = settings.duration(&UPDATES_BATCH_PERIOD);
        let ledger = Ledger::new(context.clock.clone(), settings.duration(&EXPECTATIONS_TIMEOUT));
        let services = caches::services(&context);
        let (endpoints, slices) = (caches::endpoints(&context), caches::slices(&context));
        let (own, parked): (Arc<OwnWrites>, Arc<Parked>) = Default::default();
        let on_slice = SliceWatch {
            queue: queue.clone(),
            writer: MIRRORING,
            own: Arc::clone(&own),
            parked: Arc::clone(&parked),
            delay: batch,
        };
        let (for_services, for_endpoints) = (queue.clone(), queue);
        let of_gone = Arc::clone(&own);
        services.listen(Box::new(move |event, origin| {
            let selects = |service: &Service| !service.spec.selector.is_empty();
            let concerns = match event {
                Event::Added(service) | Event::Deleted(service) => !selects(service),
                Event::Updated { old, new } => selects(old) != selects(new),
                Event::Unreadable(_) => false,
            };
            if concerns {
                for_services.add(event.meta().key(), priority(origin));
            }
        }));
        endpoints.listen(Box::new(move |event, origin| {
            let concerns = match event {
                Event::Added(endpoints) | Event::Deleted(endpoints) => is_mirrorable(endpoints),
                Event::Updated { old, new } => is_mirrorable(old) || is_mirrorable(new),
                Event::Unreadable(_) => true,
            };
            if concerns {
                for_endpoints.add(event.meta().key(), priority(origin));
            }
            if matches!(event, Event::Deleted(_)) {
                of_gone.forget(&event.meta().key());
            }
        }));
        // A slice whose Endpoints went while nobody looked is found by itself.
        slices.listen(Box::new(move |event, origin| {
            let origin = if origin == Origin::Initial { Origin::Relist } else { origin };
            on_slice.on_slice(event, origin);
        }));
        let most = usize::try_from(settings.count(&MAX_ENDPOINTS_PER_SUBSET)).unwrap_or(usize::MAX).max(1);
        let metrics = MirroringMetrics::new(&context.metrics);
        Self { context, services, endpoints, slices, own, parked, ledger, metrics, most }
    }

    async fn write(&self, snapshot: &Mirrored, plan: &MirrorPlan) -> Result<(), Error> {
        let (key, owner) = (&snapshot.key, record(&snapshot.key));
        let writer = Writer { api: &self.context.api, ledger: &self.ledger, own: &self.own, key, owner: &owner };
        for writes in &plan.writes {
            for draft in &writes.create {
                let made = writer.create(&plan.face, writes.kind, draft).await;
                let what = || format!("failed to create EndpointSlice for Endpoints {key}");
                match made.map_err(|error| Error::request(what(), error))? {
                    Made::Yes => self.metrics.changes.with(&["create"]).inc(),
                    Made::NamespaceGoes => return Ok(()),
                };
            }
            for draft in &writes.update {
                let Some(base) = &draft.base else { continue };
                let what = || format!("failed to update {} EndpointSlice for Endpoints {key}", base.metadata.name);
                let changed = writer.change(base, &Change::everything(&plan.face, base, draft)).await;
                changed.map_err(|error| Error::request(what(), error))?;
                self.metrics.changes.with(&["update"]).inc();
            }
            for slice in &writes.delete {
                let what = || format!("failed to delete {} EndpointSlice for Endpoints {key}", slice.name);
                writer.delete(slice).await.map_err(|error| Error::request(what(), error))?;
                self.metrics.changes.with(&["delete"]).inc();
            }
        }
        Ok(())
    }
}

/// What one sync looks at, and what it is about.
pub struct Mirrored {
    key: Key,
    inner: MirrorSnapshot,
}

impl Controller for MirroringController {
    type Key = Key;
    type Snapshot = Mirrored;
    type Plan = MirrorPlan;
    type Error = Error;

    fn observe(&self, key: &Key, _now: Timestamp) -> Result<Observed<Mirrored>, Error> {
        let children = || slices_of(self.slices.store(), key, MIRRORING).unwrap_or_default();
        let uids = || children().iter().map(|slice| slice.metadata.uid.clone()).collect();
        let caches: [&dyn Cache; 1] = [&**self.slices.store()];
        if let Some((behind, left)) = self.ledger.behind(&record(key), &caches, uids) {
            return Ok(Observed::Waiting { why: behind.to_string(), at_most: left.min(RECHECK) });
        }
        let inner = MirrorSnapshot {
            endpoints: self.endpoints.store().get(&key.namespace, &key.name)?,
            service: self.services.store().get(&key.namespace, &key.name)?,
            slices: slices_of(self.slices.store(), key, MIRRORING)?,
            most: self.most,
        };
        Ok(Observed::Ready(Mirrored { key: key.clone(), inner }))
    }

    fn decide(snapshot: &Mirrored) -> MirrorPlan {
        mirror::decide(&snapshot.inner)
    }

    async fn act(&self, snapshot: Mirrored, plan: MirrorPlan) -> Result<Requeue, Error> {
        let began = self.context.clock.instant();
        self.metrics.planned(&snapshot.key, &plan);
        if let Some(endpoints) = &snapshot.inner.endpoints {
            let about = ObjectRef::new(ENDPOINTS, &endpoints.metadata);
            for event in &plan.events {
                self.context.recorder.event(&about, event.kind, event.reason, event.message.clone());
            }
        }
        let outcome = self.write(&snapshot, &plan).await;
        self.metrics.took.observe(self.context.clock.instant().duration_since(began).as_secs_f64());
        outcome.map(|()| Requeue::No)
    }

    fn informers(&self) -> Vec<&dyn AnyInformer> {
        vec![self.services.informer(), self.endpoints.informer(), self.slices.informer()]
    }

    fn waiting(&self, key: &Key) {
        self.parked.park(key);
    }
}

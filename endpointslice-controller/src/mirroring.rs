//! The loop that mirrors Endpoints which somebody writes by hand, for a Service without a selector, into slices.
//!
//! Deciding is in [`crate::decide::mirror`]. Where it differs from upstream: slices are patched; new contents are written
//! over the old slices that share most endpoints with them; a terminating slice counts as gone; deleting a slice that is gone
//! already is no failure.

use std::{sync::Arc, time::Duration};

use common::{
    consistency::{Cache, Ledger},
    controller::{Controller, Loop, Observed, Requeue},
    informer::{AnyInformer, Listened},
    meta::{Key, Uid},
    queue::{Backoff, Queue},
    runtime::{Context, LoopDefinition, Running},
    settings::{Tune, TuneValue, WorkersFlag},
};
use jiff::Timestamp;

use crate::{
    EXPECTATIONS_TIMEOUT, caches,
    decide::mirror::{self, MirrorPlan, MirrorSnapshot},
    error::Error,
    objects::{Endpoints, MIRRORING, Service, Slice},
    observe::{RECHECK, slices_of},
    own_writes::OwnWrites,
    watch::{Parked, SliceWatch},
};
use metrics::MirroringMetrics;
use watch::Watch;

mod act;
mod metrics;
mod watch;

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

/// The controller of mirrored slices.
pub struct MirroringController {
    context: Context,
    queue: Queue<Key>,
    services: Arc<Listened<Service>>,
    endpoints: Arc<Listened<Endpoints>>,
    slices: Arc<Listened<Slice>>,
    own: Arc<OwnWrites>,
    parked: Arc<Parked>,
    ledger: Ledger,
    metrics: MirroringMetrics,
    max_endpoints_per_subset: usize,
    /// How long changes of slices by others are gathered.
    slice_delay: Duration,
}

/// The owner of the record in the ledger about the slices of that name: they outlive the Endpoints that they mirror.
fn record(key: &Key) -> Uid {
    Uid::new(&key.to_string())
}

impl MirroringController {
    /// Starts watching; keys go to `queue`.
    pub fn new(context: Context, queue: Queue<Key>) -> Self {
        let settings = Arc::clone(&context.settings);
        let slice_delay = settings.duration(&UPDATES_BATCH_PERIOD);
        let ledger = Ledger::new(context.clock.clone(), settings.duration(&EXPECTATIONS_TIMEOUT));
        let services = caches::services(&context);
        let (endpoints, slices) = (caches::endpoints(&context), caches::slices(&context));
        let (own, parked): (Arc<OwnWrites>, Arc<Parked>) = Default::default();
        let watch = Arc::new(Watch {
            queue: queue.clone(),
            own: Arc::clone(&own),
            ledger: ledger.clone(),
            cache: Arc::clone(slices.store()),
            slices: SliceWatch {
                queue: queue.clone(),
                managed_by: MIRRORING,
                own: Arc::clone(&own),
                parked: Arc::clone(&parked),
                delay: slice_delay,
            },
        });
        let (service_watch, endpoints_watch) = (Arc::clone(&watch), Arc::clone(&watch));
        services.listen(Box::new(move |event, origin| service_watch.on_service(event, origin)));
        endpoints.listen(Box::new(move |event, origin| endpoints_watch.on_endpoints(event, origin)));
        slices.listen(Box::new(move |event, origin| watch.on_slice(event, origin)));
        let max_endpoints_per_subset =
            usize::try_from(settings.count(&MAX_ENDPOINTS_PER_SUBSET)).unwrap_or(usize::MAX).max(1);
        let metrics = MirroringMetrics::new(&context.metrics);
        Self {
            context,
            queue,
            services,
            endpoints,
            slices,
            own,
            parked,
            ledger,
            metrics,
            max_endpoints_per_subset,
            slice_delay,
        }
    }
}

/// What one sync looks at, and the Endpoints that it is about.
pub struct Observation {
    key: Key,
    snapshot: MirrorSnapshot,
}

impl Controller for MirroringController {
    type Key = Key;
    type Snapshot = Observation;
    type Plan = MirrorPlan;
    type Error = Error;

    fn observe(&self, key: &Key, _now: Timestamp) -> Result<Observed<Observation>, Error> {
        let caches: [&dyn Cache; 1] = [&**self.slices.store()];
        if let Some((behind, left)) = self.ledger.behind(&record(key), &caches, Default::default) {
            return Ok(Observed::Waiting { why: behind.to_string(), at_most: left.min(RECHECK) });
        }
        let snapshot = MirrorSnapshot {
            endpoints: self.endpoints.store().get(&key.namespace, &key.name)?,
            service: self.services.store().get(&key.namespace, &key.name)?,
            slices: slices_of(self.slices.store(), key, MIRRORING)?,
            max_endpoints_per_subset: self.max_endpoints_per_subset,
        };
        Ok(Observed::Ready(Observation { key: key.clone(), snapshot }))
    }

    fn decide(observation: &Observation) -> MirrorPlan {
        mirror::decide(&observation.snapshot)
    }

    async fn act(&self, observation: Observation, plan: MirrorPlan) -> Result<Requeue, Error> {
        let began = self.context.clock.instant();
        let outcome = self.execute(&observation, &plan).await;
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

//! Endpoints of Services: which Pods are behind a Service, as kube-proxy and others read it.
//!
//! # What it promises
//!
//! Each Service with a selector ends up with slices that name every Pod it selects that has an address and has not ended,
//! once for each address type, with whether it is ready, serves and is going; and always with one slice at least. No slice is
//! filled with more endpoints than `--max-endpoints-per-slice`. A change is written with as few requests as possible, endpoints
//! stay in the slice they are in, and nothing is written where nothing changed. Nobody else's slices are touched, and nothing
//! is decided on a view that lacks this process's own last writes.
//!
//! # How it is laid out
//!
//! ```text
//! watch.rs ──► queue ──► observe.rs ──► Snapshot ──► decide/ ──► Plan ──► act.rs ──► API server
//!     │                      ▲                       (pure)         │
//!     │                      └────────── memory.rs ◄────────────────┘
//!     └ matching.rs: the Services of a Pod    own_writes.rs: whose echo an event is    topology.rs: shares of zones
//! ```
//!
//! [`decide::desired`] makes endpoints of Pods, [`decide::pack`] puts them into slices, [`decide::distribution`] says who
//! should use which.
//!
//! Beside that, hand-made Endpoints of Services without a selector are mirrored into slices ([`mirroring`]), and Endpoints, the
//! older form of slices, are kept ([`older`]): loops of their own on the same caches.
//!
//! # Where it differs from upstream
//!
//! Why is in `docs/decisions/0010-endpoints.md`.
//!
//! - Own writes are waited for by identity, in `common`'s ledger. Slices are patched, onto the version that was looked at; so
//!   are those that a new content is written over, which upstream replaces unconditionally.
//! - A slice that somebody deletes is missed also if it was not written by this process.
//! - A slice that is going counts as gone.
//! - Endpoints are taken in the order of their Pods' names. Hints are given zone by zone in the order of their names.
//! - Nothing is written where a slice would come out as it is.
//! - An empty slice stands for a Service only if it belongs to this very one.
//! - A Pod that ended brings its Services also if its readiness did not change.
//! - A Service that is no longer looked after is forgotten with its hints.
//! - Shares of zones are known before the first sync.
//! - A sync that keeps failing is tried again and again, every 1000 s in the end.

pub mod address;
pub mod decide;
pub mod error;
pub mod memory;
pub mod mirroring;
pub mod objects;
pub mod older;
pub mod plan;
pub mod snapshot;

mod act;
mod body;
mod caches;
mod matching;
mod metrics;
mod observe;
mod own_writes;
mod topology;
mod watch;

use std::{sync::Arc, time::Duration};

use common::{
    app::Definition,
    consistency::Ledger,
    controller::{Controller, Loop, Observed, Requeue},
    informer::{AnyInformer, Listened},
    meta::Key,
    queue::{Backoff, Queue},
    runtime::{Context, LoopDefinition, Running},
    settings::{FeatureGate, Tune, TuneValue, WorkersFlag},
};
use jiff::Timestamp;

use crate::{
    error::Error,
    memory::Memories,
    metrics::ControllerMetrics,
    objects::{CONTROLLER, Node, Pod, Service, Slice},
    own_writes::OwnWrites,
    plan::Plan,
    snapshot::Snapshot,
    topology::Topology,
    watch::{Parked, SliceWatch, Watch},
};

/// After how long a write that no cache shows is waited for no more.
pub const EXPECTATIONS_TIMEOUT: Tune = Tune {
    name: "expectations-timeout",
    default: TuneValue::Duration(Duration::from_mins(5)),
    help: "After how long a write of its own that its caches do not show is waited for no more",
};
/// All values of this crate that can be tuned.
pub const TUNES: &[Tune] = &[EXPECTATIONS_TIMEOUT];

/// How many endpoints a slice is filled with.
pub const MAX_ENDPOINTS_PER_SLICE: Tune = Tune {
    name: "max-endpoints-per-slice",
    default: TuneValue::Count(100),
    help: "The most endpoints that are put into an EndpointSlice",
};
/// For how long changes of Pods are gathered.
pub const UPDATES_BATCH_PERIOD: Tune = Tune {
    name: "endpointslice-updates-batch-period",
    default: TuneValue::Duration(Duration::ZERO),
    help: "For how long changes of Pods are gathered before the EndpointSlices of their Services are written",
};
/// All values that are flags.
pub const FLAGS: &[Tune] = &[
    MAX_ENDPOINTS_PER_SLICE,
    UPDATES_BATCH_PERIOD,
    mirroring::MAX_ENDPOINTS_PER_SUBSET,
    mirroring::UPDATES_BATCH_PERIOD,
    older::UPDATES_BATCH_PERIOD,
];

/// The flag that says how many Services are synced at once.
pub const CONCURRENT_SYNCS: WorkersFlag = WorkersFlag {
    name: "concurrent-service-endpoint-syncs",
    default: 5,
    min: 1,
    help: "How many Services have their EndpointSlices synced at once",
};
/// All flags of this crate that say how many objects are synced at once.
pub const WORKERS: &[WorkersFlag] = &[CONCURRENT_SYNCS, mirroring::CONCURRENT_SYNCS, older::CONCURRENT_SYNCS];

/// Endpoints are spread as `spec.trafficDistribution` says. It can no longer be switched.
pub const PREFER_SAME_TRAFFIC_DISTRIBUTION: FeatureGate = FeatureGate {
    name: "PreferSameTrafficDistribution",
    default: true,
    locked: true,
    help: "Services may prefer endpoints of the same zone or node",
};
/// All gates this crate knows.
pub const GATES: &[FeatureGate] = &[PREFER_SAME_TRAFFIC_DISTRIBUTION];

/// The shortest time for which changes of slices by others are gathered. Upstream: `endpointSliceChangeMinSyncDelay`.
const SLICE_CHANGES: Duration = Duration::from_secs(1);
/// How a Service whose sync fails is delayed. Upstream: `defaultSyncBackOff`, `maxSyncBackOff`.
const BACKOFF: Backoff =
    Backoff { base: Duration::from_secs(1), max: Duration::from_secs(1000), bucket: Some((10.0, 100)) };

/// The loop of slices of Services with a selector.
pub const ENDPOINT_SLICE: LoopDefinition = LoopDefinition {
    name: "endpointslice-controller",
    alias: "endpointslice",
    client: "endpointslice-controller",
    component: "endpoint-slice-controller",
    start,
};
/// All loops of this crate.
pub const LOOPS: &[LoopDefinition] = &[ENDPOINT_SLICE, mirroring::ENDPOINT_SLICE_MIRRORING, older::ENDPOINTS_LOOP];

/// The program.
pub const DEFINITION: Definition = Definition {
    name: "endpointslice-controller",
    about: "Keeps EndpointSlices: which Pods are behind a Service",
    loops: LOOPS,
    workers: WORKERS,
    gates: GATES,
    tunes: TUNES,
    flags: FLAGS,
};

/// The controller of slices of Services with a selector.
pub struct SliceController {
    context: Context,
    services: Arc<Listened<Service>>,
    pods: Arc<Listened<Pod>>,
    nodes: Arc<Listened<Node>>,
    slices: Arc<Listened<Slice>>,
    topology: Arc<Topology>,
    memories: Arc<Memories>,
    own: Arc<OwnWrites>,
    parked: Arc<Parked>,
    ledger: Ledger,
    metrics: Arc<ControllerMetrics>,
    most: usize,
}

fn start(context: Context) -> Arc<dyn Running> {
    let queue = context.queue("endpoint_slice", BACKOFF);
    let workers = context.settings.workers(&CONCURRENT_SYNCS);
    let controller = SliceController::new(context.clone(), queue.clone());
    Loop::start(ENDPOINT_SLICE.name, context, Arc::new(controller), queue, workers)
}

impl SliceController {
    /// Starts watching; keys go to `queue`.
    pub fn new(context: Context, queue: Queue<Key>) -> Self {
        let settings = Arc::clone(&context.settings);
        let batch = settings.duration(&UPDATES_BATCH_PERIOD);
        let ledger = Ledger::new(context.clock.clone(), settings.duration(&EXPECTATIONS_TIMEOUT));
        let (services, pods) = (caches::services(&context), caches::pods(&context));
        let (nodes, slices) = (caches::nodes(&context), caches::slices(&context));
        let topology = Arc::new(Topology::new(Arc::clone(nodes.store())));
        let memories: Arc<Memories> = Arc::default();
        let (own, parked): (Arc<OwnWrites>, Arc<Parked>) = Default::default();
        let metrics = Arc::new(ControllerMetrics::new(&context.metrics));
        let watch = Arc::new(Watch {
            queue: queue.clone(),
            services: Arc::clone(services.store()),
            topology: Arc::clone(&topology),
            memories: Arc::clone(&memories),
            own: Arc::clone(&own),
            ledger: ledger.clone(),
            metrics: Arc::clone(&metrics),
            batch,
        });
        let on_slice = SliceWatch {
            queue,
            writer: CONTROLLER,
            own: Arc::clone(&own),
            parked: Arc::clone(&parked),
            delay: batch.max(SLICE_CHANGES),
        };
        let (on_service, on_pod) = (Arc::clone(&watch), Arc::clone(&watch));
        services.listen(Box::new(move |event, origin| on_service.on_service(event, origin)));
        pods.listen(Box::new(move |event, origin| on_pod.on_pod(event, origin)));
        nodes.listen(Box::new(move |event, origin| watch.on_node(event, origin)));
        slices.listen(Box::new(move |event, origin| on_slice.on_slice(event, origin)));
        let most = usize::try_from(settings.count(&MAX_ENDPOINTS_PER_SLICE)).unwrap_or(usize::MAX).max(1);
        Self { context, services, pods, nodes, slices, topology, memories, own, parked, ledger, metrics, most }
    }
}

impl Controller for SliceController {
    type Key = Key;
    type Snapshot = Snapshot;
    type Plan = Plan;
    type Error = Error;

    fn observe(&self, key: &Key, _now: Timestamp) -> Result<Observed<Snapshot>, Error> {
        self.look(key)
    }

    fn decide(snapshot: &Snapshot) -> Plan {
        decide::decide(snapshot)
    }

    async fn act(&self, snapshot: Snapshot, plan: Plan) -> Result<Requeue, Error> {
        self.carry_out(snapshot, plan).await
    }

    fn informers(&self) -> Vec<&dyn AnyInformer> {
        vec![self.services.informer(), self.pods.informer(), self.nodes.informer(), self.slices.informer()]
    }

    fn waiting(&self, key: &Key) {
        self.metrics.stale.inc();
        self.parked.park(key);
    }
}

//! Endpoints of Services: the Pods behind each Service, in the form that kube-proxy and others read.
//!
//! # What it promises
//!
//! Each Service with a selector gets slices that list every selected Pod that has an address and has not finished, once per
//! address type, with its conditions; and always at least one slice. No slice is filled beyond `--max-endpoints-per-slice`.
//! A change takes as few writes as possible, endpoints stay in the slice they are in, and nothing is written where nothing
//! changed. A consumer that follows every write never loses a ready endpoint that is to stay. Slices of others are not touched,
//! and no decision is based on a view that lacks this process's own last writes.
//!
//! # How it is laid out
//!
//! ```text
//! watch.rs ──► queue ──► observe.rs ──► Snapshot ──► decide/ ──► Plan ──► act.rs ──► API server
//!     ▲                      ▲                       (pure)         │
//!     │                      ├────────── memory.rs ◄────────────────┘
//! own_writes.rs          members.rs: the Pods of each Service (membership.rs)
//!                        topology.rs: the zones and the capacity of Nodes
//! ```
//!
//! [`decide::ports`] finds the numbers of ports on each Pod, [`decide::desired`] turns Pods into candidates, [`decide::pack`] puts
//! them into slices, [`decide::distribution`] gives hints, [`decide::sequence`] orders the writes.
//!
//! Two more loops use the same caches: [`mirroring`] copies hand-made Endpoints of Services without a selector into slices, and
//! [`endpoints`] keeps an Endpoints object for every Service with a selector.
//!
//! # Where it differs from upstream
//!
//! The reasons are in `docs/decisions/0010-endpoints.md`.
//!
//! - The members of each Service are kept in an index; no event and no sync walks over a namespace.
//! - Own writes are recognized by version, in `common`'s ledger. Slices are patched and deleted in the version that was decided
//!   on; upstream replaces a reused slice unconditionally.
//! - Writes are ordered so that no endpoint is missing between two of them.
//! - The deletion of a slice is noticed also if another process wrote the slice.
//! - A terminating slice counts as gone.
//! - Endpoints are taken in the order of their Pods' names. Hints are given zone by zone in the order of their names.
//! - Nothing is written where a slice would come out as it is.
//! - New slices of one sync have a limited number of ports in all; the next sync creates the others.
//! - An empty slice stands for a Service only if the Service owns it.
//! - A Pod that has finished brings its Services also if its readiness did not change.
//! - A Service that no longer has a selector is forgotten with its hints.
//! - Shares of zones are known before the first sync, and checked once a second while Nodes change.
//! - A sync that keeps failing is retried without end, every 1000 s at last.

pub mod address;
pub mod decide;
pub mod endpoints;
pub mod error;
pub mod membership;
pub mod memory;
pub mod mirroring;
pub mod objects;
pub mod plan;
pub mod snapshot;

mod act;
mod body;
mod caches;
mod members;
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
use tokio::task::JoinSet;

use crate::{
    error::Error,
    members::SharedMembership,
    memory::Memories,
    metrics::ControllerMetrics,
    objects::{CONTROLLER, Node, Slice},
    own_writes::OwnWrites,
    plan::Plan,
    snapshot::Snapshot,
    topology::Topology,
    watch::{Parked, SliceWatch, Watch},
};

/// How long to wait for the cache to show a write of this process before syncing without it.
pub const EXPECTATIONS_TIMEOUT: Tune = Tune {
    name: "expectations-timeout",
    default: TuneValue::Duration(Duration::from_mins(5)),
    help: "How long to wait for the cache to show a write of this process before syncing without it",
};
/// All values of this crate that can be tuned.
pub const TUNES: &[Tune] = &[EXPECTATIONS_TIMEOUT];

/// The number of endpoints up to which a slice is filled.
pub const MAX_ENDPOINTS_PER_SLICE: Tune = Tune {
    name: "max-endpoints-per-slice",
    default: TuneValue::Count(100),
    help: "The maximum number of endpoints that are added to an EndpointSlice",
};
/// How long changes of Pods are gathered.
pub const UPDATES_BATCH_PERIOD: Tune = Tune {
    name: "endpointslice-updates-batch-period",
    default: TuneValue::Duration(Duration::ZERO),
    help: "How long changes of Pods are gathered before the EndpointSlices of their Services are written",
};
/// All values that are flags.
pub const FLAGS: &[Tune] = &[
    MAX_ENDPOINTS_PER_SLICE,
    UPDATES_BATCH_PERIOD,
    mirroring::MAX_ENDPOINTS_PER_SUBSET,
    mirroring::UPDATES_BATCH_PERIOD,
    endpoints::UPDATES_BATCH_PERIOD,
];

/// The flag for the number of Services that are synced at the same time.
pub const CONCURRENT_SYNCS: WorkersFlag = WorkersFlag {
    name: "concurrent-service-endpoint-syncs",
    default: 5,
    min: 1,
    help: "Number of Services whose EndpointSlices are synced at the same time",
};
/// All flags of this crate for numbers of workers.
pub const WORKERS: &[WorkersFlag] = &[CONCURRENT_SYNCS, mirroring::CONCURRENT_SYNCS, endpoints::CONCURRENT_SYNCS];

/// `spec.trafficDistribution` is followed. The gate is locked.
pub const PREFER_SAME_TRAFFIC_DISTRIBUTION: FeatureGate = FeatureGate {
    name: "PreferSameTrafficDistribution",
    default: true,
    locked: true,
    help: "Services may prefer endpoints of the same zone or node",
};
/// All gates this crate knows.
pub const GATES: &[FeatureGate] = &[PREFER_SAME_TRAFFIC_DISTRIBUTION];

/// The shortest time that changes of slices by others are gathered. Upstream: `endpointSliceChangeMinSyncDelay`.
const SLICE_CHANGES: Duration = Duration::from_secs(1);
/// The back-off of a Service whose sync fails. Upstream: `defaultSyncBackOff`, `maxSyncBackOff`.
const BACKOFF: Backoff =
    Backoff { base: Duration::from_secs(1), max: Duration::from_secs(1000), bucket: Some((10.0, 100)) };

/// The loop that keeps the slices of Services with a selector.
pub const ENDPOINT_SLICE: LoopDefinition = LoopDefinition {
    name: "endpointslice-controller",
    alias: "endpointslice",
    client: "endpointslice-controller",
    component: "endpoint-slice-controller",
    start,
};
/// All loops of this crate.
pub const LOOPS: &[LoopDefinition] = &[ENDPOINT_SLICE, mirroring::ENDPOINT_SLICE_MIRRORING, endpoints::ENDPOINTS_LOOP];

/// The program.
pub const DEFINITION: Definition = Definition {
    name: "endpointslice-controller",
    about: "Keeps EndpointSlices and Endpoints: the Pods behind each Service",
    loops: LOOPS,
    workers: WORKERS,
    gates: GATES,
    tunes: TUNES,
    flags: FLAGS,
};

/// The controller of slices of Services with a selector.
pub struct SliceController {
    context: Context,
    queue: Queue<Key>,
    members: Arc<SharedMembership>,
    nodes: Arc<Listened<Node>>,
    slices: Arc<Listened<Slice>>,
    topology: Arc<Topology>,
    memories: Arc<Memories>,
    own: Arc<OwnWrites>,
    parked: Arc<Parked>,
    ledger: Ledger,
    metrics: Arc<ControllerMetrics>,
    max_endpoints_per_slice: usize,
    /// How long changes of slices by others are gathered.
    slice_delay: Duration,
    /// The task that checks hints after changes of Nodes. It ends with the controller.
    _recheck: JoinSet<()>,
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
        let members = SharedMembership::shared(&context);
        let (nodes, slices) = (caches::nodes(&context), caches::slices(&context));
        let topology = Arc::new(Topology::new(Arc::clone(nodes.store())));
        let memories: Arc<Memories> = Arc::default();
        let (own, parked): (Arc<OwnWrites>, Arc<Parked>) = Default::default();
        let metrics = Arc::new(ControllerMetrics::new(&context.metrics));
        let watch = Arc::new(Watch {
            queue: queue.clone(),
            topology: Arc::clone(&topology),
            memories: Arc::clone(&memories),
            own: Arc::clone(&own),
            ledger: ledger.clone(),
            metrics: Arc::clone(&metrics),
            batch,
        });
        let slice_delay = batch.max(SLICE_CHANGES);
        let slice_watch = SliceWatch {
            queue: queue.clone(),
            managed_by: CONTROLLER,
            own: Arc::clone(&own),
            parked: Arc::clone(&parked),
            delay: slice_delay,
        };
        let service_watch = Arc::clone(&watch);
        members.services.listen(Box::new(move |event, origin| service_watch.on_service(event, origin)));
        let pod_watch = Arc::clone(&watch);
        members.listen(move |concerned| pod_watch.on_pod(concerned));
        let of_nodes = Arc::clone(&topology);
        nodes.listen(Box::new(move |event, _| of_nodes.on_node(event)));
        slices.listen(Box::new(move |event, origin| slice_watch.on_slice(event, origin)));
        let mut recheck = JoinSet::new();
        let (clock, of_nodes) = (context.clock.clone(), Arc::clone(&topology));
        recheck.spawn(async move { of_nodes.recheck_after_changes(&clock, || watch.recheck_hints()).await });
        let max_endpoints_per_slice =
            usize::try_from(settings.count(&MAX_ENDPOINTS_PER_SLICE)).unwrap_or(usize::MAX).max(1);
        Self {
            context,
            queue,
            members,
            nodes,
            slices,
            topology,
            memories,
            own,
            parked,
            ledger,
            metrics,
            max_endpoints_per_slice,
            slice_delay,
            _recheck: recheck,
        }
    }
}

impl Controller for SliceController {
    type Key = Key;
    type Snapshot = Snapshot;
    type Plan = Plan;
    type Error = Error;

    fn observe(&self, key: &Key, _now: Timestamp) -> Result<Observed<Snapshot>, Error> {
        self.snapshot(key)
    }

    fn decide(snapshot: &Snapshot) -> Plan {
        decide::decide(snapshot)
    }

    async fn act(&self, snapshot: Snapshot, plan: Plan) -> Result<Requeue, Error> {
        self.execute(snapshot, plan).await
    }

    fn informers(&self) -> Vec<&dyn AnyInformer> {
        let SharedMembership { services, pods, .. } = &*self.members;
        vec![services.informer(), pods.informer(), self.nodes.informer(), self.slices.informer()]
    }

    fn waiting(&self, key: &Key) {
        self.metrics.stale.inc();
        self.parked.park(key);
    }
}

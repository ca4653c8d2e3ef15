//! The loop that keeps the slices of Services with a selector.

use std::{sync::Arc, time::Duration};

use common::{
    consistency::Ledger,
    controller::{Controller, Loop, Observed},
    events::ObjectRef,
    informer::{AnyInformer, SharedInformer},
    io::{Failed, Io, Outcome},
    meta::{Key, Uid},
    queue::{Backoff, Queue},
    runtime::{Context, LoopDefinition, Running},
    second_writer::OwnedWrites,
    settings::{Tune, WorkersFlag},
};
use jiff::Timestamp;
use tokio::task::JoinSet;

use crate::{
    members::SharedMembership,
    memory::Memories,
    objects::{CONTROLLER, MANAGED_BY, Node, SERVICES, SLICE_WRITES, Slice},
    own_writes::{OwnWrites, WriteMemory},
    topology::Topology,
    watch::{Parked, SliceWatch},
};
use carry_out::Note;
use metrics::SliceMetrics;
use plan::Plan;
use snapshot::Snapshot;
use watch::Watch;

pub mod decide;
pub mod plan;
pub mod snapshot;

mod carry_out;
mod metrics;
mod observe;
mod watch;

/// The number of endpoints up to which a slice is filled.
pub const MAX_ENDPOINTS_PER_SLICE: Tune =
    Tune::count("max-endpoints-per-slice", 100, "The maximum number of endpoints that are added to an EndpointSlice");
/// The number of Pods of a Service from which on a sync remembers its packing. To pack fewer Pods anew takes less time than to send
/// one slice.
pub const MIN_PODS_OF_PACKING: Tune = Tune::count(
    "endpointslice-min-pods-of-packing",
    200,
    "The number of Pods of a Service from which on a sync considers only the Pods that have changed",
);
/// How long changes of Pods are gathered.
pub const UPDATES_BATCH_PERIOD: Tune = Tune::duration(
    "endpointslice-updates-batch-period",
    Duration::ZERO,
    "How long changes of Pods are gathered before the EndpointSlices of their Services are written",
);
/// The flag for the number of Services that are synced at the same time.
pub const CONCURRENT_SYNCS: WorkersFlag = WorkersFlag::new(
    "concurrent-service-endpoint-syncs",
    5,
    "Number of Services whose EndpointSlices are synced at the same time",
);
/// The shortest time that changes of slices by others are gathered. Upstream: `endpointSliceChangeMinSyncDelay`.
const SLICE_CHANGES: Duration = Duration::from_secs(1);
/// The back-off of a Service whose sync fails. Upstream: `defaultSyncBackOff`, `maxSyncBackOff`.
const BACKOFF: Backoff =
    Backoff { base: Duration::from_secs(1), max: Duration::from_secs(1000), bucket: Some((10.0, 100)) };

/// The loop that keeps the slices of Services with a selector.
pub const ENDPOINT_SLICE: LoopDefinition = LoopDefinition::new("endpointslice-controller", "endpointslice", start)
    .known_as("endpointslice-controller", "endpoint-slice-controller")
    .owning(&[OwnedWrites { label: Some((MANAGED_BY, CONTROLLER)), ..SLICE_WRITES }]);
/// The controller of slices of Services with a selector.
pub struct SliceController {
    members: Arc<SharedMembership>,
    nodes: Arc<SharedInformer<Node>>,
    slices: Arc<SharedInformer<Slice>>,
    topology: Arc<Topology>,
    memories: Arc<Memories>,
    parked: Arc<Parked>,
    ledger: Ledger,
    writes: WriteMemory,
    metrics: Arc<SliceMetrics>,
    max_endpoints_per_slice: usize,
    min_pods_of_packing: usize,
    /// The task that checks zones after changes of Nodes. It ends with the controller.
    _recheck: JoinSet<()>,
}

fn start(context: Context) -> Arc<dyn Running> {
    let queue = context.queue("endpoint_slice", BACKOFF);
    let workers = context.settings.workers(&CONCURRENT_SYNCS);
    let controller = SliceController::new(&context, queue.clone());
    Loop::start(ENDPOINT_SLICE.name, context, Arc::new(controller), queue, workers)
}

impl SliceController {
    /// Starts watching; keys go to `queue`.
    pub fn new(context: &Context, queue: Queue<Key>) -> Self {
        let settings = Arc::clone(&context.settings);
        let batch = settings.duration(&UPDATES_BATCH_PERIOD);
        let ledger = context.ledger();
        let members = SharedMembership::shared(context);
        let nodes = context.shared_informer::<Node>();
        let slices = context.shared_informer::<Slice>();
        let topology = Arc::new(Topology::new(Arc::clone(nodes.store())));
        let memories: Arc<Memories> = Arc::default();
        let (own, parked): (Arc<OwnWrites>, Arc<Parked>) = Default::default();
        let metrics = Arc::new(SliceMetrics::new(&context.metrics));
        let watch = Arc::new(Watch {
            queue: queue.clone(),
            topology: Arc::clone(&topology),
            memories: Arc::clone(&memories),
            own: Arc::clone(&own),
            ledger: ledger.clone(),
            metrics: Arc::clone(&metrics),
            batch,
        });
        let delay = batch.max(SLICE_CHANGES);
        let slice_watch = SliceWatch {
            queue: queue.clone(),
            managed_by: CONTROLLER,
            own: Arc::clone(&own),
            parked: Arc::clone(&parked),
            delay,
        };
        let service_watch = Arc::clone(&watch);
        members.services.add_handler(Box::new(move |event, origin| service_watch.on_service(event, origin)));
        let pod_watch = Arc::clone(&watch);
        members.add_handler(move |concerned| pod_watch.on_pod(concerned));
        let of_nodes = Arc::clone(&topology);
        nodes.add_handler(Box::new(move |event, origin| of_nodes.on_node(event, origin)));
        slices.add_handler(Box::new(move |event, origin| slice_watch.on_slice(event, origin)));
        let mut recheck = JoinSet::new();
        let (clock, of_nodes) = (context.clock.clone(), Arc::clone(&topology));
        let of_pods = Arc::clone(&members);
        recheck.spawn(async move { of_nodes.recheck_after_changes(&clock, || watch.recheck_zones(&of_pods)).await });
        let max_endpoints_per_slice = settings.size(&MAX_ENDPOINTS_PER_SLICE);
        let min_pods_of_packing = settings.size(&MIN_PODS_OF_PACKING);
        let changes = metrics.changes.clone();
        let writes = WriteMemory { own, queue: queue.clone(), delay, changes };
        Self {
            members,
            nodes,
            slices,
            topology,
            memories,
            parked,
            ledger,
            writes,
            metrics,
            max_endpoints_per_slice,
            min_pods_of_packing,
            _recheck: recheck,
        }
    }
}

impl Controller for SliceController {
    type Key = Key;
    type Snapshot = Snapshot;
    type Plan = Plan;
    type Note = Note;

    fn observe(&self, key: &Key, _now: Timestamp) -> Result<Observed<Snapshot>, Failed> {
        self.observe(key)
    }

    fn decide(snapshot: &Snapshot) -> Plan {
        decide::decide(snapshot)
    }

    async fn carry_out(snapshot: &Snapshot, plan: &Plan, io: Io<'_, Note>) -> Outcome {
        carry_out::carry_out(snapshot, plan, io).await
    }

    fn object(snapshot: &Snapshot) -> (ObjectRef, Uid) {
        let service = &snapshot.service.metadata;
        (ObjectRef::new(SERVICES, service), service.uid.clone())
    }

    fn note(&self, snapshot: &Snapshot, note: Note) {
        let service = &snapshot.service.metadata;
        let key = service.key();
        match note {
            Note::Decide(memory, totals) => {
                if self.members.services.store().shows(service) {
                    self.memories.keep(&key, memory);
                    if let Some(totals) = totals {
                        self.metrics.planned(&key, &totals);
                    }
                }
            }
            Note::Write(note) => self.writes.note(&key, &note),
            Note::Complete(spread, writes) => self.metrics.done(spread, writes),
            Note::End(false) => drop(self.metrics.succeeded.inc()),
            Note::End(true) => drop(self.metrics.failed.inc()),
        }
    }

    /// The event of the deletion of a Service may have come before the last answer was noted.
    fn ended(&self, snapshot: &Snapshot) {
        let service = &snapshot.service.metadata;
        let (key, services) = (service.key(), self.members.services.store());
        self.writes.end(&key);
        if services.shows(service) {
            return;
        }
        self.ledger.forget(&service.uid);
        self.memories.forget(&key, &service.uid);
        // What is remembered by its name belongs to its successor, if there is one.
        if services.peek(&key.namespace, &key.name, |_| ()).is_none() {
            self.writes.own.forget(&key);
            self.metrics.forget(&key);
        }
    }

    fn ledger(&self) -> Option<&Ledger> {
        Some(&self.ledger)
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

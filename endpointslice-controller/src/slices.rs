//! The loop that keeps the slices of Services with a selector.

use std::{sync::Arc, time::Duration};

use common::{
    consistency::Ledger,
    controller::{Controller, Loop, Observed},
    events::ObjectRef,
    informer::{AnyInformer, SharedInformer, handler},
    io::{Failed, Io, Requeue},
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
    topology::Topology,
    watch::SliceWatch,
};
use act::Note;
use metrics::SliceMetrics;
use plan::Plan;
use snapshot::Snapshot;
use watch::Watch;

pub mod decide;
pub mod plan;
pub mod snapshot;

mod act;
mod metrics;
mod observe;
mod watch;

/// `--max-endpoints-per-slice`: the number of endpoints up to which a slice is filled, 100 by default.
pub const MAX_ENDPOINTS_PER_SLICE: Tune =
    Tune::count("max-endpoints-per-slice", 100, "The maximum number of endpoints that are added to an EndpointSlice");
/// The number of Pods from which a sync remembers the slice of each Pod, 200 by default. With fewer Pods, finding all slices
/// again takes less time than sending one slice.
pub const MIN_PODS_OF_PACKING: Tune = Tune::count(
    "endpointslice-min-pods-of-packing",
    200,
    "The number of Pods of a Service from which a sync considers only the Pods that have changed",
);
/// `--endpointslice-updates-batch-period`: the debounce period for changes of Pods, 0 by default.
pub const UPDATES_BATCH_PERIOD: Tune = Tune::duration(
    "endpointslice-updates-batch-period",
    Duration::ZERO,
    "How long to debounce changes of Pods before the EndpointSlices of their Services are written",
);
/// `--concurrent-service-endpoint-syncs`: the number of Services synced at the same time, 5 by default.
pub const CONCURRENT_SYNCS: WorkersFlag = WorkersFlag::new(
    "concurrent-service-endpoint-syncs",
    5,
    "Number of Services whose EndpointSlices are synced at the same time",
);
/// The minimal debounce period for changes of slices by other writers. Upstream: `endpointSliceChangeMinSyncDelay`.
const SLICE_CHANGES: Duration = Duration::from_secs(1);
/// The back-off of a Service after a failed sync. Upstream: `defaultSyncBackOff`, `maxSyncBackOff`.
const BACKOFF: Backoff =
    Backoff { base: Duration::from_secs(1), max: Duration::from_secs(1000), bucket: Some((10.0, 100)) };

/// The definition of the loop of slices, which owns the field `endpoints` of the slices that it manages.
pub const ENDPOINT_SLICE: LoopDefinition = LoopDefinition::new("endpointslice-controller", "endpointslice", start)
    .known_as("endpointslice-controller", "endpoint-slice-controller")
    .owning(&[OwnedWrites { label: Some((MANAGED_BY, CONTROLLER)), ..SLICE_WRITES }]);

/// The controller that keeps the slices of each Service with a selector.
pub struct SliceController {
    members: Arc<SharedMembership>,
    nodes: Arc<SharedInformer<Node>>,
    slices: Arc<SharedInformer<Slice>>,
    watch: Arc<Watch>,
    max_endpoints_per_slice: usize,
    min_pods_of_packing: usize,
    /// The task that recomputes zones after changes of Nodes. Dropping the controller aborts it.
    _recheck: JoinSet<()>,
}

fn start(context: Context) -> Arc<dyn Running> {
    let queue = context.queue("endpoint_slice", BACKOFF);
    let workers = context.settings.workers(&CONCURRENT_SYNCS);
    let controller = SliceController::new(&context, queue.clone());
    Loop::start(ENDPOINT_SLICE.name, context, Arc::new(controller), queue, workers)
}

impl SliceController {
    /// Creates the controller, registers event handlers that add keys to `queue`, and starts the task for changes of Nodes.
    pub fn new(context: &Context, queue: Queue<Key>) -> Self {
        let settings = &context.settings;
        let batch = settings.duration(&UPDATES_BATCH_PERIOD);
        let members = SharedMembership::shared(context);
        let nodes = context.shared_informer::<Node>();
        let slices = context.shared_informer::<Slice>();
        let metrics = SliceMetrics::new(&context.metrics);
        let watch = Arc::new(Watch {
            topology: Topology::new(Arc::clone(nodes.store())),
            memories: Memories::default(),
            ledger: context.ledger(),
            slices: SliceWatch::new(&queue, CONTROLLER, batch.max(SLICE_CHANGES), &metrics.changes),
            metrics,
        });
        members.services.add_handler(handler(&watch, Watch::on_service));
        members.enqueue_to(queue, batch);
        nodes.add_handler(handler(&watch, |watch: &Watch, event, origin| watch.topology.on_node(event, origin)));
        slices.add_handler(handler(&watch, |watch: &Watch, event, origin| watch.slices.on_slice(event, origin)));
        let mut recheck = JoinSet::new();
        recheck.spawn({
            let (clock, watch, members) = (context.clock.clone(), Arc::clone(&watch), Arc::clone(&members));
            async move { watch.topology.recheck_after_changes(&clock, || watch.recheck_zones(&members)).await }
        });
        Self {
            members,
            nodes,
            slices,
            watch,
            max_endpoints_per_slice: settings.size(&MAX_ENDPOINTS_PER_SLICE),
            min_pods_of_packing: settings.size(&MIN_PODS_OF_PACKING),
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

    async fn act(snapshot: &Snapshot, plan: &Plan, io: Io<'_, Note>) -> Result<Requeue, Failed> {
        act::act(snapshot, plan, io).await
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
                    self.watch.memories.keep(&key, memory);
                    if let Some(totals) = totals {
                        self.watch.metrics.planned(&key, &totals);
                    }
                }
            }
            Note::Write(note) => self.watch.slices.note(&key, &note),
            Note::Complete(spread, writes) => self.watch.metrics.done(spread, writes),
            Note::End(false) => drop(self.watch.metrics.succeeded.inc()),
            Note::End(true) => drop(self.watch.metrics.failed.inc()),
        }
    }

    /// Removes the state of a deleted Service again: the delete event can arrive before the last answer of the sync is noted.
    fn after_sync(&self, snapshot: &Snapshot) {
        let service = &snapshot.service.metadata;
        let (key, services) = (service.key(), self.members.services.store());
        self.watch.slices.end(&key);
        if services.shows(service) {
            return;
        }
        self.watch.ledger.forget(&service.uid);
        self.watch.memories.forget(&key, &service.uid);
        // If a new Service has the same name, the state under this key belongs to the new Service.
        if services.peek(&key.namespace, &key.name, |_| ()).is_none() {
            self.watch.slices.own.forget(&key);
            self.watch.metrics.forget(&key);
        }
    }

    fn ledger(&self) -> Option<&Ledger> {
        Some(&self.watch.ledger)
    }

    fn informers(&self) -> Vec<&dyn AnyInformer> {
        let SharedMembership { services, pods, .. } = &*self.members;
        vec![services.informer(), pods.informer(), self.nodes.informer(), self.slices.informer()]
    }

    fn waiting(&self, key: &Key) {
        self.watch.metrics.stale.inc();
        self.watch.slices.parked.park(key);
    }
}

//! The loop that keeps the slices of Services with a selector up to date.

use std::{sync::Arc, time::Duration};

use common::{
    consistency::Ledger,
    controller::{Controller, Loop, Observation},
    events::InvolvedObject,
    informer::{AnyInformer, SharedInformer, handler_from_method},
    io::{Io, Requeue, SyncError},
    meta::{NamespacedName, Uid},
    queue::{BackoffSettings, Queue},
    runtime::{LoopContext, LoopDefinition, RunningLoop},
    second_writer::OwnedWrites,
    settings::{Tunable, WorkersFlag},
};
use jiff::Timestamp;
use tokio::task::JoinSet;

use crate::{
    memory::ServiceMemoryByKey,
    objects::{MANAGED_BY_LABEL, MANAGED_BY_SLICE_CONTROLLER, Node, OWNED_SLICE_WRITES, SERVICES, Slice},
    shared_service_pod_index::SharedServicePodIndex,
    topology::NodeTopology,
    watch::SliceEventHandlers,
};
use act::Note;
use metrics::SliceMetrics;
use plan::Plan;
use snapshot::Snapshot;
use watch::EventHandlers;

pub mod decide;
pub mod plan;
pub mod snapshot;

mod act;
mod metrics;
mod observe;
mod watch;

/// `--max-endpoints-per-slice`: the count of endpoints at which a slice is full, 100 by default.
pub const MAX_ENDPOINTS_PER_SLICE: Tunable = Tunable::of_count(
    "max-endpoints-per-slice",
    100,
    "The maximum number of endpoints that are added to an EndpointSlice",
);
/// The minimal count of Pods for which a sync remembers the slice of each Pod, 200 by default. With fewer Pods, computing all
/// slices again takes less time than sending one slice.
pub const MIN_PODS_TO_RECORD_SLICES: Tunable = Tunable::of_count(
    "endpointslice-min-pods-of-packing",
    200,
    "The number of Pods of a Service from which a sync considers only the Pods that have changed",
);
/// `--endpointslice-updates-batch-period`: the debounce period for changes of Pods, 0 by default.
pub const ENDPOINT_SLICE_UPDATES_BATCH_PERIOD: Tunable = Tunable::of_duration(
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
const MIN_SLICE_CHANGE_DEBOUNCE: Duration = Duration::from_secs(1);
/// The back-off of a Service after a failed sync. Upstream: `defaultSyncBackOff`, `maxSyncBackOff`.
const BACKOFF: BackoffSettings = BackoffSettings {
    base_delay: Duration::from_secs(1),
    max_delay: Duration::from_secs(1000),
    retry_rate_and_burst: Some((10.0, 100)),
};

/// The definition of the loop `endpointslice-controller`. The loop owns the field `endpoints` of the slices that it manages.
pub const ENDPOINT_SLICE_LOOP: LoopDefinition = LoopDefinition::new("endpointslice-controller", "endpointslice", start)
    .with_user_agent_and_component("endpointslice-controller", "endpoint-slice-controller")
    .with_owned_writes(&[OwnedWrites {
        required_label: Some((MANAGED_BY_LABEL, MANAGED_BY_SLICE_CONTROLLER)),
        ..OWNED_SLICE_WRITES
    }]);

/// The controller that creates, updates and deletes the slices of Services with a selector.
pub struct SliceController {
    members: Arc<SharedServicePodIndex>,
    nodes: Arc<SharedInformer<Node>>,
    slices: Arc<SharedInformer<Slice>>,
    watch: Arc<EventHandlers>,
    max_endpoints_per_slice: usize,
    min_pods_of_packing: usize,
    /// The task that enqueues Services after changes of Nodes. Dropping the controller aborts the task.
    _recheck: JoinSet<()>,
}

fn start(context: LoopContext) -> Arc<dyn RunningLoop> {
    let queue = context.new_queue("endpoint_slice", BACKOFF);
    let workers = context.settings.worker_count(&CONCURRENT_SYNCS);
    let controller = SliceController::new(&context, queue.clone());
    Loop::start(ENDPOINT_SLICE_LOOP.name, context, Arc::new(controller), queue, workers)
}

impl SliceController {
    /// Creates the controller, registers event handlers that add keys to `queue`, and starts the task for changes of Nodes.
    pub fn new(context: &LoopContext, queue: Queue<NamespacedName>) -> Self {
        let settings = &context.settings;
        let batch = settings.tuned_duration(&ENDPOINT_SLICE_UPDATES_BATCH_PERIOD);
        let members = SharedServicePodIndex::get_or_create(context);
        let nodes = context.shared_informer::<Node>();
        let slices = context.shared_informer::<Slice>();
        let metrics = SliceMetrics::new(&context.metrics);
        let watch = Arc::new(EventHandlers {
            topology: NodeTopology::new(Arc::clone(nodes.store())),
            memories: ServiceMemoryByKey::default(),
            ledger: context.new_ledger(),
            slice_handlers: SliceEventHandlers::new(
                &queue,
                MANAGED_BY_SLICE_CONTROLLER,
                batch.max(MIN_SLICE_CHANGE_DEBOUNCE),
                &metrics.slice_changes,
            ),
            metrics,
        });
        members.service_informer.add_handler(handler_from_method(&watch, EventHandlers::on_service));
        members.add_queue_for_affected_services(queue, batch);
        nodes.add_handler(handler_from_method(&watch, |watch: &EventHandlers, event, origin| {
            watch.topology.on_node(event, origin);
        }));
        slices.add_handler(handler_from_method(&watch, |watch: &EventHandlers, event, origin| {
            watch.slice_handlers.on_slice(event, origin);
        }));
        let mut recheck = JoinSet::new();
        recheck.spawn({
            let (clock, watch, members) = (context.clock.clone(), Arc::clone(&watch), Arc::clone(&members));
            async move {
                watch.topology.run_after_node_changes(&clock, || watch.enqueue_after_node_changes(&members)).await;
            }
        });
        Self {
            members,
            nodes,
            slices,
            watch,
            max_endpoints_per_slice: settings.tuned_nonzero_count(&MAX_ENDPOINTS_PER_SLICE),
            min_pods_of_packing: settings.tuned_nonzero_count(&MIN_PODS_TO_RECORD_SLICES),
            _recheck: recheck,
        }
    }
}

impl Controller for SliceController {
    type Key = NamespacedName;
    type Snapshot = Snapshot;
    type Plan = Plan;
    type Note = Note;

    fn observe(&self, key: &NamespacedName, _now: Timestamp) -> Result<Observation<Snapshot>, SyncError> {
        self.observe(key)
    }

    fn decide(snapshot: &Snapshot) -> Plan {
        decide::decide(snapshot)
    }

    async fn act(snapshot: &Snapshot, plan: &Plan, io: Io<'_, Note>) -> Result<Requeue, SyncError> {
        act::act(snapshot, plan, io).await
    }

    fn synced_object(snapshot: &Snapshot) -> (InvolvedObject, Uid) {
        let service = &snapshot.service.metadata;
        (InvolvedObject::new(SERVICES, service), service.uid.clone())
    }

    fn apply_memory_note(&self, snapshot: &Snapshot, note: Note) {
        let service = &snapshot.service.metadata;
        let key = service.key();
        match note {
            Note::ReplaceMemory(memory, totals) => {
                if self.members.service_informer.store().contains_object(service) {
                    self.watch.memories.store_memory(&key, memory);
                    if let Some(totals) = totals {
                        self.watch.metrics.record_sync_counts(&key, &totals);
                    }
                }
            }
            Note::Write(note) => self.watch.slice_handlers.record_write_progress(&key, &note),
            Note::AddressTypeWritten(spread, writes) => self.watch.metrics.record_slice_write_count(spread, writes),
            Note::SyncEnded(false) => drop(self.watch.metrics.succeeded_syncs.inc()),
            Note::SyncEnded(true) => drop(self.watch.metrics.failed_syncs.inc()),
        }
    }

    /// Removes the state of a deleted Service again, because the sync can record an answer after the delete event has arrived.
    fn after_sync(&self, snapshot: &Snapshot) {
        let service = &snapshot.service.metadata;
        let (key, services) = (service.key(), self.members.service_informer.store());
        self.watch.slice_handlers.end_sync(&key);
        if services.contains_object(service) {
            return;
        }
        self.watch.ledger.forget_owner(&service.uid);
        self.watch.memories.drop_memory(&key, &service.uid);
        // If a new Service has the same name, the state under this key belongs to the new Service.
        if services.with_metadata(&key.namespace, &key.name, |_| ()).is_none() {
            self.watch.slice_handlers.own_writes.forget_service(&key);
            self.watch.metrics.forget_service(&key);
        }
    }

    fn ledger(&self) -> Option<&Ledger> {
        Some(&self.watch.ledger)
    }

    fn informers(&self) -> Vec<&dyn AnyInformer> {
        let SharedServicePodIndex { service_informer: services, pod_informer: pods, .. } = &*self.members;
        vec![services.informer(), pods.informer(), self.nodes.informer(), self.slices.informer()]
    }

    fn on_waiting(&self, key: &NamespacedName) {
        self.watch.metrics.stale_syncs.inc();
        self.watch.slice_handlers.waiting_keys.add_waiting_key(key);
    }
}

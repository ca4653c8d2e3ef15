//! The loop that keeps the slices of Services with a selector up to date.

pub mod decide;

mod metrics;

use std::{sync::Arc, time::Duration};

use common::{
    prelude::*,
    settings::{Tunable, WorkersFlag},
};
use jiff::Timestamp;
use tokio::task::JoinSet;

use self::{
    decide::{MAX_NEW_SLICE_PORTS, Plan, Snapshot},
    metrics::SliceMetrics,
};
use crate::{
    act::{SliceWriter, WriteOutcome},
    memory::ServiceMemoryByKey,
    objects::{MANAGED_BY_SLICE_CONTROLLER, NameSortedPods, SERVICES, Service, Slice, owned_slice_writes},
    observe::{slices_of_service, waiting_for_pod_index},
    plan::DeferredWriteCounts,
    shared_service_pod_index::SharedServicePodIndex,
    topology::NodeTopology,
    watch::SliceEventHandlers,
};

/// `--max-endpoints-per-slice`: the number of endpoints at which a slice is full, 100 by default.
pub const MAX_ENDPOINTS_PER_SLICE: Tunable = Tunable::of_count(
    "max-endpoints-per-slice",
    100,
    "The maximum number of endpoints that are added to an EndpointSlice",
);
/// The minimum number of Pods for which a sync remembers the slice of each Pod, 200 by default. With fewer Pods, computing all
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
/// The minimum debounce period for changes of slices by other writers. Upstream: `endpointSliceChangeMinSyncDelay`.
const MIN_SLICE_CHANGE_DEBOUNCE: Duration = Duration::from_secs(1);
/// The back-off of a Service after a failed sync. Upstream: `defaultSyncBackOff`, `maxSyncBackOff`.
pub(crate) const BACKOFF: BackoffSettings = BackoffSettings {
    base_delay: Duration::from_secs(1),
    max_delay: Duration::from_secs(1000),
    retry_rate_and_burst: Some((10.0, 100)),
};

/// The definition of the loop `endpointslice-controller`. The loop owns the field `endpoints` of the slices that it manages.
pub const ENDPOINT_SLICE_LOOP: LoopDefinition = LoopDefinition::new("endpointslice-controller", "endpointslice", start)
    .with_user_agent_and_component("endpointslice-controller", "endpoint-slice-controller")
    .with_owned_writes(&[owned_slice_writes(MANAGED_BY_SLICE_CONTROLLER)]);

/// The controller that creates, updates and deletes the slices of Services with a selector.
pub struct SliceController {
    pod_index: Arc<SharedServicePodIndex>,
    slices: Arc<Store<Slice>>,
    watch: Arc<EventHandlers>,
    max_endpoints_per_slice: usize,
    min_pods_to_record_slices: usize,
    /// The task that enqueues Services after changes of Nodes. Dropping the controller aborts the task.
    _recheck: JoinSet<()>,
}

/// Starts the loop with its queue `endpoint_slice`, to which events add the keys of Services, and the task for changes of Nodes.
fn start(context: LoopContext) -> Arc<dyn RunningLoop> {
    let queue = context.new_queue_with_backoff("endpoint_slice", BACKOFF);
    let settings = &context.settings;
    let debounce_period = settings.tuned_duration(&ENDPOINT_SLICE_UPDATES_BATCH_PERIOD);
    let slice_debounce_period = debounce_period.max(MIN_SLICE_CHANGE_DEBOUNCE);
    let pod_index = SharedServicePodIndex::get_or_create(&context);
    let nodes = context.shared_informer();
    let metrics = SliceMetrics::new(&context.metrics);
    let slice_handlers =
        SliceEventHandlers::new(&queue, MANAGED_BY_SLICE_CONTROLLER, slice_debounce_period, &metrics.slice_changes);
    let watch = Arc::new(EventHandlers {
        topology: Arc::new(NodeTopology::new(Arc::clone(nodes.store()))),
        memories: ServiceMemoryByKey::default(),
        ledger: context.ledger(),
        slice_handlers: Arc::new(slice_handlers),
        metrics,
    });
    pod_index.service_informer.add_handler(handler_from_method(&watch, EventHandlers::on_service));
    pod_index.add_queue_for_affected_services(queue.clone(), debounce_period);
    nodes.add_handler(handler_from_method(&watch.topology, NodeTopology::on_node));
    let slices = context.watch_shared(handler_from_method(&watch.slice_handlers, SliceEventHandlers::on_slice));
    let mut recheck = JoinSet::new();
    recheck.spawn({
        let (clock, watch, pod_index) = (context.clock.clone(), Arc::clone(&watch), Arc::clone(&pod_index));
        async move {
            watch.topology.run_after_node_changes(&clock, || watch.enqueue_after_node_changes(&pod_index)).await;
        }
    });
    let workers = settings.worker_count(&CONCURRENT_SYNCS);
    let controller = SliceController {
        pod_index,
        slices,
        watch,
        max_endpoints_per_slice: settings.tuned_nonzero_count(&MAX_ENDPOINTS_PER_SLICE),
        min_pods_to_record_slices: settings.tuned_nonzero_count(&MIN_PODS_TO_RECORD_SLICES),
        _recheck: recheck,
    };
    Loop::start(ENDPOINT_SLICE_LOOP.name, context, Arc::new(controller), queue, workers)
}

/// The event handlers of the loop, and the state that they change. Upstream: `pkg/controller/endpointslice`,
/// `onServiceUpdate`, `onServiceDelete`, `syncPod`, `checkNodeTopologyDistribution`.
struct EventHandlers {
    topology: Arc<NodeTopology>,
    memories: ServiceMemoryByKey,
    ledger: Ledger,
    slice_handlers: Arc<SliceEventHandlers>,
    metrics: SliceMetrics,
}

impl EventHandlers {
    /// Enqueues the Service of an event, and removes all state of a deleted Service.
    fn on_service(&self, event: &CacheEvent<Service>, origin: ChangeOrigin) {
        let key = event.meta().key();
        if let CacheEvent::Deleted(service) = event {
            let uid = &service.metadata.uid;
            self.memories.drop_memory(&key, uid);
            self.slice_handlers.own_writes.forget_service(&key);
            self.ledger.forget_owner(uid);
            self.metrics.forget_service(&key);
        }
        self.slice_handlers.queue.add(key, origin);
    }

    /// Enqueues Services with hints that no longer fit the capacity of the zones, and Services with Pods on new Nodes or Nodes
    /// with a new zone.
    fn enqueue_after_node_changes(&self, pod_index: &SharedServicePodIndex) {
        let moved = pod_index.services_on_nodes(&self.topology.take_nodes_with_new_zone());
        for key in self.topology.services_with_outdated_hints(&self.memories).into_iter().chain(moved) {
            self.slice_handlers.queue.add(key, Priority::Normal);
        }
    }

    fn record_waiting(&self, key: &NamespacedName) {
        self.metrics.stale_syncs.inc();
        self.slice_handlers.waiting_keys.add_waiting_key(key);
    }
}

impl AsRef<SliceEventHandlers> for SliceController {
    fn as_ref(&self) -> &SliceEventHandlers {
        &self.watch.slice_handlers
    }
}

impl Controller for SliceController {
    type Key = NamespacedName;
    type Snapshot = Snapshot;
    type Plan = Plan;

    fn observe(&self, key: &NamespacedName, _now: Timestamp) -> Result<Snapshot, NoSnapshot> {
        let EventHandlers { topology, memories, ledger, .. } = &*self.watch;
        let services = self.pod_index.service_informer.store();
        // A Service without a selector waits for nothing, so all other writes are checked below.
        let (service, _) = ledger.read(services, key, WaitPolicy::ConflictsOnly, |_| HashSet::default())?;
        let uid = &service.metadata.uid;
        let mut snapshot = Snapshot {
            memory: memories.memory_of_service(key, uid),
            service: Arc::clone(&service),
            pods: NameSortedPods::default(),
            zones_by_node: topology.zones_by_node(),
            slices: Vec::new(),
            zone_cpu_shares: None,
            max_endpoints_per_slice: self.max_endpoints_per_slice,
            max_new_slice_ports: MAX_NEW_SLICE_PORTS,
            min_pods_to_record_slices: self.min_pods_to_record_slices,
        };
        if !service.has_applicable_selector() {
            return Ok(snapshot);
        }
        let checked = ledger.check(uid, key, WaitPolicy::AllWrites, HashSet::default);
        checked.inspect_err(|_| self.watch.record_waiting(key))?;
        let Some(pods) = self.pod_index.pods_of_service(&service)? else {
            self.watch.record_waiting(key);
            return Err(waiting_for_pod_index());
        };
        snapshot.pods = pods;
        snapshot.slices = slices_of_service(&self.slices, key, MANAGED_BY_SLICE_CONTROLLER)?;
        if service.has_topology_hints_enabled() {
            snapshot.zone_cpu_shares = topology.zone_cpu_shares().map(Arc::new);
        }
        Ok(snapshot)
    }

    fn decide(snapshot: &Snapshot) -> Plan {
        decide::decide(snapshot)
    }

    /// Sends the writes and the Events of a plan, and combines all failures into one error.
    ///
    /// After a failure, no more slices of the same address type are written. Slices of the other address type are still written.
    async fn act(snapshot: &Snapshot, plan: &Plan, io: Io<'_, Self>) -> Result<Requeue, SyncError> {
        let service = &snapshot.service.metadata;
        let key = &service.key();
        io.update_memory(|controller| {
            if controller.pod_index.service_informer.store().contains_object(service) {
                controller.watch.memories.store_memory(key, plan.memory.clone());
                if plan.is_managed_service {
                    controller.watch.metrics.record_sync_counts(key, plan);
                }
            }
        });
        let writer = SliceWriter { owner_kind: "Service", owner_key: key, metadata: &plan.slice_metadata, io };
        let mut failures: Vec<SyncError> = Vec::new();
        let mut requeue = Requeue::AfterPlannedDelay;
        for writes in &plan.slice_writes {
            let omitted = writes.omitted_pod_messages.iter();
            failures.extend(omitted.map(|message| SyncError::new(SyncErrorClass::NodeNotFound, message)));
            match writer.write_all(writes).await {
                Ok(WriteOutcome::AllWritten) => {
                    io.update_memory(|controller| {
                        controller.watch.metrics.record_slice_write_count(plan, writes.len());
                    });
                    if writes.deferred_write_counts != DeferredWriteCounts::default() && !writes.is_empty() {
                        requeue = Requeue::After(Duration::ZERO);
                    }
                }
                Ok(WriteOutcome::NamespaceTerminates) => {}
                Err(failed) => failures.push(failed),
            }
            for event in &writes.events {
                io.record_event(event.kind, event.reason, event.message.clone());
            }
        }
        for slice in &plan.slices_of_unused_address_types {
            if let Err(refusal) = writer.delete(slice, "the Service does not use this address type").await {
                let what = format!("error deleting {} EndpointSlice for Service {key}", slice.metadata.name);
                failures.push(SyncError::from_refusal(&what, &refusal));
            }
        }
        let Some(failed) = join_failures(&failures) else {
            io.update_memory(|controller| {
                controller.watch.metrics.succeeded_syncs.inc();
            });
            return Ok(requeue);
        };
        io.update_memory(|controller| {
            controller.watch.metrics.failed_syncs.inc();
        });
        let message = format!("Error updating Endpoint Slices for Service {key}: {failed}");
        io.record_event(EventType::Warning, "FailedToUpdateEndpointSlices", message);
        Err(failed)
    }

    fn object(snapshot: &Snapshot) -> InvolvedObject {
        InvolvedObject::new(SERVICES, &snapshot.service.metadata)
    }

    /// Removes the state of a deleted Service again, because the sync can record an answer after the delete event has arrived.
    fn after_sync(&self, snapshot: &Snapshot) {
        let EventHandlers { memories, ledger, slice_handlers, metrics, .. } = &*self.watch;
        let service = &snapshot.service.metadata;
        let (key, services) = (service.key(), self.pod_index.service_informer.store());
        slice_handlers.finish_request(&key, None);
        if services.contains_object(service) {
            return;
        }
        ledger.forget_owner(&service.uid);
        memories.drop_memory(&key, &service.uid);
        // If a new Service has the same name, the state under this key belongs to the new Service.
        if services.with_metadata(&key.namespace, &key.name, |_| ()).is_none() {
            slice_handlers.own_writes.forget_service(&key);
            metrics.forget_service(&key);
        }
    }
}

/// Combines failures into one error that has each message once, as upstream does; `None` if there is no failure.
fn join_failures(sync_errors: &[SyncError]) -> Option<SyncError> {
    let first = sync_errors.first()?;
    let mut texts: Vec<String> = Vec::new();
    for text in sync_errors.iter().map(ToString::to_string) {
        if !texts.contains(&text) {
            texts.push(text);
        }
    }
    let text = if texts.len() == 1 { texts.concat() } else { format!("[{}]", texts.join(", ")) };
    Some(SyncError::new(first.class(), text))
}

//! The loop that writes one Endpoints object for every Service with a selector. Endpoints are the predecessor of slices.
//!
//! Differences from upstream: Endpoints are patched with a precondition on the cached version. A sync waits until the cache
//! shows all writes of this process; upstream remembers one version. Deletions have a precondition on the UID and the version.
//! Endpoints with too many addresses are written only if they change. A list of ports that is too long for the API server is
//! truncated.

use std::{sync::Arc, time::Duration};

use common::{
    consistency::Ledger,
    controller::{Controller, Loop, Observation},
    events::InvolvedObject,
    informer::{AnyInformer, SharedInformer, handler_from_method},
    io::{Io, Requeue, SyncError},
    meta::{Meta, NamespacedName, Uid},
    queue::{BackoffSettings, Queue},
    runtime::{LoopContext, LoopDefinition, RunningLoop},
    second_writer::OwnedWrites,
    settings::{Tunable, WorkersFlag},
};
use jiff::Timestamp;

use crate::{
    memory::ServiceMemoryByKey,
    objects::{Endpoints, endpoints_object_ref},
    observe::{drop_satisfied_ledger_record, ledger_owner},
    shared_service_pod_index::SharedServicePodIndex,
    watch::WaitingKeys,
};
use act::Note;
use plan::Plan;
use snapshot::Snapshot;
use watch::EventHandlers;

pub mod decide;
pub mod plan;
pub mod snapshot;

mod act;
mod observe;
mod watch;

/// `--concurrent-endpoint-syncs`: the number of Services synced at the same time, 5 by default.
pub const CONCURRENT_SYNCS: WorkersFlag =
    WorkersFlag::new("concurrent-endpoint-syncs", 5, "Number of Services whose Endpoints are synced at the same time");
/// `--endpoint-updates-batch-period`: the debounce period for changes of Pods, 0 by default.
pub const UPDATES_BATCH_PERIOD: Tunable = Tunable::of_duration(
    "endpoint-updates-batch-period",
    Duration::ZERO,
    "How long to debounce changes of Pods before the Endpoints of their Services are written",
);

/// The definition of the Endpoints loop, which owns the field `subsets` of Endpoints.
pub const ENDPOINTS_LOOP: LoopDefinition = LoopDefinition::new("endpoints-controller", "endpoint", start)
    .with_user_agent_and_component("endpoint-controller", decide::ENDPOINT_CONTROLLER_NAME)
    .with_owned_writes(&[OwnedWrites {
        required_fields_v1_text: "f:subsets",
        ..OwnedWrites::of_object("", "endpoints")
    }]);

fn start(context: LoopContext) -> Arc<dyn RunningLoop> {
    let queue = context.new_queue("endpoint", BackoffSettings::default());
    let workers = context.settings.worker_count(&CONCURRENT_SYNCS);
    let controller = EndpointsController::new(&context, queue.clone());
    Loop::start(ENDPOINTS_LOOP.name, context, Arc::new(controller), queue, workers)
}

/// The controller that creates, patches and deletes the Endpoints objects of Services with a selector.
pub struct EndpointsController {
    service_pod_index: Arc<SharedServicePodIndex>,
    endpoints: Arc<SharedInformer<Endpoints>>,
    watch: Arc<EventHandlers>,
}

impl EndpointsController {
    /// Registers event handlers that add the keys of Services to `queue`. The informers are shared with the other loops.
    pub fn new(context: &LoopContext, queue: Queue<NamespacedName>) -> Self {
        let members = SharedServicePodIndex::get_or_create(context);
        let endpoints = context.shared_informer::<Endpoints>();
        let watch = Arc::new(EventHandlers {
            queue: queue.clone(),
            memories: ServiceMemoryByKey::default(),
            waiting_keys: WaitingKeys::default(),
            ledger: context.new_ledger(),
            endpoints_store: Arc::clone(endpoints.store()),
        });
        members.service_informer.add_handler(handler_from_method(&watch, EventHandlers::on_service));
        members.add_queue_for_affected_services(queue, context.settings.tuned_duration(&UPDATES_BATCH_PERIOD));
        endpoints.add_handler(handler_from_method(&watch, EventHandlers::on_endpoints));
        Self { service_pod_index: members, endpoints, watch }
    }
}

impl Controller for EndpointsController {
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
        (endpoints_object_ref(&snapshot.key, snapshot.endpoints.as_deref()), ledger_owner(&snapshot.key))
    }

    fn apply_memory_note(&self, snapshot: &Snapshot, note: Note) {
        let key = &snapshot.key;
        match note {
            Note::ReplaceMemory(memory) => {
                let is_there = |meta: &Meta| meta.uid == memory.uid;
                if self.service_pod_index.service_informer.store().with_metadata(&key.namespace, &key.name, is_there)
                    == Some(true)
                {
                    self.watch.memories.store_memory(key, memory);
                }
            }
            // The cache may still show the state before the write, so that a sync finds nothing to do. If the write took
            // effect, its watch event enqueues the key again.
            Note::AnswerLost => self.watch.waiting_keys.add_waiting_key(key),
        }
    }

    fn after_sync(&self, snapshot: &Snapshot) {
        if snapshot.service_with_pods.is_none() {
            // Without a Service, this may be the last sync of the key, so the record of own writes for the key is removed now.
            drop_satisfied_ledger_record(&self.watch.ledger, &ledger_owner(&snapshot.key), &**self.endpoints.store());
        }
    }

    fn ledger(&self) -> Option<&Ledger> {
        Some(&self.watch.ledger)
    }

    fn informers(&self) -> Vec<&dyn AnyInformer> {
        let SharedServicePodIndex { service_informer: services, pod_informer: pods, .. } = &*self.service_pod_index;
        vec![services.informer(), pods.informer(), self.endpoints.informer()]
    }

    fn on_waiting(&self, key: &NamespacedName) {
        self.watch.waiting_keys.add_waiting_key(key);
    }
}

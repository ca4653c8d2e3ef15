//! The loop that writes one Endpoints object for every Service with a selector. Endpoints are the predecessor of slices.
//!
//! Differences from upstream: a sync waits until the cache shows all writes of this process; upstream remembers one version.
//! Deletions have a precondition on the UID and the version. Endpoints with too many addresses are written only if they change. A
//! list of ports that is too long for the API server is truncated.

pub mod decide;

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use common::{
    meta::MetadataReplacement,
    prelude::*,
    second_writer::OwnedWrites,
    settings::{Tunable, WorkersFlag},
    wire::{RawFields, messages},
};
use jiff::Timestamp;
use serde::Serialize;
use serde_json::{Value, json};

use self::decide::{Plan, ServiceWithPods, Snapshot, WantedEndpoints};
use crate::{
    body::map_edits,
    memory::{InSyncVersions, ServiceMemory, ServiceMemoryByKey},
    objects::{ENDPOINTS, Endpoints, Service, Subset, endpoints_object_ref},
    observe::{WaitingKeys, drop_satisfied_ledger_record, waiting_for_pod_index},
    shared_service_pod_index::SharedServicePodIndex,
};

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

/// The controller that creates, replaces and deletes the Endpoints objects of Services with a selector.
pub struct EndpointsController {
    pod_index: Arc<SharedServicePodIndex>,
    endpoints: Arc<Store<Endpoints>>,
    watch: Arc<EventHandlers>,
}

/// Starts the loop with its queue `endpoint`, to which events add the keys of Services.
fn start(context: LoopContext) -> Arc<dyn RunningLoop> {
    let queue = context.new_queue("endpoint");
    let pod_index = SharedServicePodIndex::get_or_create(&context);
    let watch = Arc::new(EventHandlers {
        queue: queue.clone(),
        memories: ServiceMemoryByKey::default(),
        waiting_keys: WaitingKeys::default(),
        ledger: context.ledger(),
    });
    pod_index.service_informer.add_handler(handler_from_method(&watch, EventHandlers::on_service));
    let debounce_period = context.settings.tuned_duration(&UPDATES_BATCH_PERIOD);
    pod_index.add_queue_for_affected_services(queue.clone(), debounce_period);
    let endpoints = context.watch_shared(handler_from_method(&watch, EventHandlers::on_endpoints));
    let workers = context.settings.worker_count(&CONCURRENT_SYNCS);
    let controller = EndpointsController { pod_index, endpoints, watch };
    Loop::start(ENDPOINTS_LOOP.name, context, Arc::new(controller), queue, workers)
}

/// The event handlers of the loop, and the state that they change. Upstream: `pkg/controller/endpoint`, `onServiceUpdate`,
/// `addPod`, `onEndpointsDelete`.
struct EventHandlers {
    queue: Queue<NamespacedName>,
    memories: ServiceMemoryByKey,
    waiting_keys: WaitingKeys,
    ledger: Ledger,
}

impl EventHandlers {
    /// Enqueues the added, changed or deleted Service. Also removes the memory of a deleted Service.
    fn on_service(&self, event: &CacheEvent<Service>, origin: ChangeOrigin) {
        let key = event.meta().key();
        if let CacheEvent::Deleted(service) = event {
            self.memories.drop_memory(&key, &service.metadata.uid);
        }
        self.queue.add(key, origin);
    }

    /// Enqueues the Service if the Endpoints were deleted, are in the first list, or if a sync waits for their event.
    fn on_endpoints(&self, event: &CacheEvent<Endpoints>, origin: ChangeOrigin) {
        let key = event.meta().key();
        let concerns = match event {
            // The first list can contain Endpoints of a Service that was deleted before this process started; a sync deletes
            // them. Leader election locks have no Service either, and must not be deleted.
            CacheEvent::Added(endpoints) => origin == ChangeOrigin::Initial && !endpoints.is_leader_election_lock(),
            CacheEvent::Deleted(_) => true,
            CacheEvent::Updated { .. } | CacheEvent::Unreadable(_) => false,
        };
        if matches!(event, CacheEvent::Deleted(_)) {
            drop_satisfied_ledger_record(&self.ledger, &key);
        }
        if self.waiting_keys.remove_waiting_key(&key) || concerns {
            self.queue.add(key, origin);
        }
    }
}

impl Controller for EndpointsController {
    type Key = NamespacedName;
    type Snapshot = Snapshot;
    type Plan = Plan;

    fn observe(&self, key: &NamespacedName, _now: Timestamp) -> Result<Snapshot, NoSnapshot> {
        let EventHandlers { memories, waiting_keys, ledger, .. } = &*self.watch;
        let checked = ledger.check(key, key, WaitPolicy::AllWrites, HashSet::default);
        checked.inspect_err(|_| waiting_keys.add_waiting_key(key))?;
        let mut service_with_pods = None;
        if let Some(service) = self.pod_index.service_informer.store().get(&key.namespace, &key.name)? {
            let Some(pods) = self.pod_index.pods_of_service(&service)? else {
                waiting_keys.add_waiting_key(key);
                return Err(waiting_for_pod_index());
            };
            let ServiceMemory { synced_state, in_sync_versions, .. } =
                memories.memory_of_service(key, &service.metadata.uid);
            service_with_pods = Some(ServiceWithPods { service, pods, synced_state, in_sync_versions });
        }
        let endpoints = self.endpoints.get(&key.namespace, &key.name)?;
        Ok(Snapshot { key: key.clone(), service_with_pods, endpoints })
    }

    fn decide(snapshot: &Snapshot) -> Plan {
        decide::decide(snapshot)
    }

    async fn act(snapshot: &Snapshot, plan: &Plan, io: Io<'_, Self>) -> Result<Requeue, SyncError> {
        let key = &snapshot.key;
        match (plan, &snapshot.service_with_pods) {
            (Plan::Delete(endpoints), _) => {
                let request = Request::delete(ENDPOINTS, &endpoints.metadata).with_role(ObjectRole::AwaitedObject);
                match io.send(request.with_reason("the Service does not exist")).await {
                    Err(refusal) if !refusal.error.is_not_found() => Err(failed("delete", key, &refusal)),
                    _ => Ok(Requeue::AfterPlannedDelay),
                }
            }
            (Plan::WriteIfNeeded(wanted), Some(ServiceWithPods { service, .. })) => {
                write_if_needed(key, service, wanted, io).await
            }
            (Plan::WriteIfNeeded(_) | Plan::Unchanged(_) | Plan::NothingToDo, _) => Ok(Requeue::AfterPlannedDelay),
        }
    }

    fn object(snapshot: &Snapshot) -> InvolvedObject {
        endpoints_object_ref(&snapshot.key, snapshot.endpoints.as_deref())
    }

    /// The owner is the key, because the Endpoints can outlive the Service.
    fn ledger_owner(snapshot: &Snapshot) -> LedgerOwner {
        LedgerOwner::Key(snapshot.key.clone())
    }

    fn after_sync(&self, snapshot: &Snapshot) {
        if snapshot.service_with_pods.is_none() {
            // Without a Service, this may be the last sync of the key, so the record of own writes for the key is removed now.
            drop_satisfied_ledger_record(&self.watch.ledger, &snapshot.key);
        }
    }
}

/// Replaces the memory of the Service. Creates the Endpoints if they do not exist, or replaces them if they differ from
/// the wanted state.
async fn write_if_needed(
    key: &NamespacedName,
    service: &Service,
    wanted: &WantedEndpoints,
    io: Io<'_, EndpointsController>,
) -> Result<Requeue, SyncError> {
    let existing_endpoints = wanted.existing_endpoints.as_deref();
    io.update_memory(|controller| {
        if controller.pod_index.service_informer.store().contains_object(&service.metadata) {
            let in_sync = existing_endpoints.filter(|_| !wanted.is_write_needed);
            let memory = ServiceMemory {
                uid: service.metadata.uid.clone(),
                synced_state: Some(Arc::new(wanted.synced_state.clone())),
                in_sync_versions: in_sync.map(|endpoints| InSyncVersions::new(service, endpoints)),
                ..ServiceMemory::default()
            };
            controller.watch.memories.store_memory(key, memory);
        }
    });
    if !wanted.is_write_needed {
        return Ok(Requeue::AfterPlannedDelay);
    }
    let request = match existing_endpoints {
        Some(endpoints) => {
            let body = || EndpointsReplacement::new(endpoints, wanted);
            let body = io.encode_object(&ENDPOINTS, &messages::ENDPOINTS, body);
            Request::replace(ENDPOINTS, &endpoints.metadata, body).with_verb_text("update")
        }
        None => {
            let body = io.encode_object(&ENDPOINTS, &messages::ENDPOINTS, || create_body(key, wanted));
            Request::create(ENDPOINTS, &key.namespace, &key.name, body)
        }
    };
    let refusal = match io.send(request.with_role(ObjectRole::AwaitedObject)).await {
        Err(refusal) if refusal.class != RefusalClass::NamespaceTerminating => refusal,
        _ => return Ok(Requeue::AfterPlannedDelay),
    };
    if refusal.class == RefusalClass::MaybeWritten {
        // The cache may still show the state before the write, so that a sync finds nothing to do. If the write took effect, its
        // watch event enqueues the key again.
        io.update_memory(|controller| controller.watch.waiting_keys.add_waiting_key(key));
    }
    let error = &refusal.error;
    let (reason, message) = match existing_endpoints {
        None => ("FailedToCreateEndpoint", format!("Failed to create endpoint for service {key}: {error}")),
        Some(_) => ("FailedToUpdateEndpoint", format!("Failed to update endpoint {key}: {error}")),
    };
    io.record_event(EventType::Warning, reason, message);
    Err(failed("write", key, &refusal))
}

fn failed(doing: &str, key: &NamespacedName, refusal: &Refusal) -> SyncError {
    SyncError::from_refusal(&format!("failed to {doing} endpoints {key}"), refusal)
}

fn create_body(key: &NamespacedName, wanted: &WantedEndpoints) -> Value {
    let annotations: BTreeMap<&str, &str> =
        wanted.annotations().into_iter().filter_map(|(name, value)| Some((name, value?))).collect();
    json!({
        "apiVersion": ENDPOINTS.api_version(), "kind": ENDPOINTS.kind(),
        "metadata": {"name": key.name, "namespace": key.namespace, "labels": wanted.labels, "annotations": annotations},
        "subsets": wanted.subsets,
    })
}

/// Endpoints that replace the received ones, with their metadata and all fields that this version does not know.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct EndpointsReplacement<'a> {
    api_version: String,
    kind: &'static str,
    metadata: MetadataReplacement<'a>,
    subsets: &'a [Subset],
    #[serde(flatten)]
    undeclared: RawFields<'a>,
}

impl<'a> EndpointsReplacement<'a> {
    /// Builds the body that changes `endpoints` into the wanted state. It does not change annotations of other writers.
    fn new(endpoints: &'a Endpoints, wanted: &'a WantedEndpoints) -> Self {
        let meta = &endpoints.metadata;
        let annotations = wanted.annotations().into_iter().filter(|(name, value)| meta.annotations.get(name) != *value);
        Self {
            api_version: ENDPOINTS.api_version(),
            kind: "Endpoints",
            metadata: meta
                .replacement()
                .with_label_edits(map_edits(meta.labels.iter(), wanted.labels.iter()))
                .with_annotation_edits(annotations.collect()),
            subsets: &wanted.subsets,
            undeclared: endpoints.undeclared.fields_without(&messages::ENDPOINTS, &["apiVersion", "kind"]),
        }
    }
}

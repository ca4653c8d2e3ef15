//! The loop that mirrors the hand-made Endpoints of Services without a selector into slices.
//!
//! Differences from upstream: slices are patched instead of replaced. Instead of creating a slice and deleting another, a sync
//! updates the slice to delete that has the most endpoints in common with the new slice. A terminating slice is treated as
//! deleted. Deleting a slice that does not exist is not a failure.

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

use crate::{
    objects::{
        Endpoints, MANAGED_BY_LABEL, MANAGED_BY_MIRRORING, OWNED_SLICE_WRITES, Service, Slice, endpoints_object_ref,
    },
    observe::{drop_satisfied_ledger_record, ledger_owner},
    watch::SliceEventHandlers,
};
use act::Note;
use metrics::MirroringMetrics;
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

/// `--mirroring-concurrent-service-endpoint-syncs`: the number of Endpoints mirrored at the same time, 5 by default.
pub const CONCURRENT_SYNCS: WorkersFlag =
    WorkersFlag::new("mirroring-concurrent-service-endpoint-syncs", 5, "Number of Endpoints mirrored at the same time");
/// `--mirroring-max-endpoints-per-subset`: the maximal number of addresses that are mirrored from each subset, 1000 by default.
pub const MAX_ENDPOINTS_PER_SUBSET: Tunable = Tunable::of_count(
    "mirroring-max-endpoints-per-subset",
    1000,
    "The maximum number of addresses that are mirrored for each subset of Endpoints",
);
/// `--mirroring-endpointslice-updates-batch-period`: the debounce period for changes of mirrored slices, 0 by default.
pub const UPDATES_BATCH_PERIOD: Tunable = Tunable::of_duration(
    "mirroring-endpointslice-updates-batch-period",
    Duration::ZERO,
    "How long to debounce changes of mirrored EndpointSlices by others before they are corrected",
);
/// The delays before a failed sync is retried. Upstream: `defaultSyncBackOff`, `maxSyncBackOff`.
const BACKOFF: BackoffSettings = BackoffSettings {
    base_delay: Duration::from_secs(1),
    max_delay: Duration::from_secs(100),
    retry_rate_and_burst: Some((10.0, 100)),
};

/// The definition of the mirroring loop, which owns the field `endpoints` of the slices that it manages.
pub const ENDPOINT_SLICE_MIRRORING_LOOP: LoopDefinition =
    LoopDefinition::new("endpointslice-mirroring-controller", "endpointslicemirroring", start)
        .with_user_agent_and_component("endpointslicemirroring-controller", "endpoint-slice-mirroring-controller")
        .with_owned_writes(&[OwnedWrites {
            required_label: Some((MANAGED_BY_LABEL, MANAGED_BY_MIRRORING)),
            ..OWNED_SLICE_WRITES
        }]);

fn start(context: LoopContext) -> Arc<dyn RunningLoop> {
    let queue = context.new_queue("endpoint_slice_mirroring", BACKOFF);
    let workers = context.settings.worker_count(&CONCURRENT_SYNCS);
    let controller = MirroringController::new(&context, &queue);
    Loop::start(ENDPOINT_SLICE_MIRRORING_LOOP.name, context, Arc::new(controller), queue, workers)
}

/// The controller that creates, patches and deletes the slices that mirror hand-made Endpoints.
pub struct MirroringController {
    services: Arc<SharedInformer<Service>>,
    endpoints: Arc<SharedInformer<Endpoints>>,
    slices: Arc<SharedInformer<Slice>>,
    watch: Arc<EventHandlers>,
    metrics: MirroringMetrics,
    max_endpoints_per_subset: usize,
}

impl MirroringController {
    /// Registers event handlers that add the keys of Endpoints to `queue`. The informers are shared with the other loops.
    pub fn new(context: &LoopContext, queue: &Queue<NamespacedName>) -> Self {
        let services = context.shared_informer::<Service>();
        let endpoints = context.shared_informer::<Endpoints>();
        let slices = context.shared_informer::<Slice>();
        let metrics = MirroringMetrics::new(&context.metrics);
        let delay = context.settings.tuned_duration(&UPDATES_BATCH_PERIOD);
        let watch = Arc::new(EventHandlers {
            ledger: context.new_ledger(),
            slice_store: Arc::clone(slices.store()),
            slice_handlers: SliceEventHandlers::new(queue, MANAGED_BY_MIRRORING, delay, &metrics.slice_changes),
        });
        services.add_handler(handler_from_method(&watch, EventHandlers::on_service));
        endpoints.add_handler(handler_from_method(&watch, EventHandlers::on_endpoints));
        slices.add_handler(handler_from_method(&watch, EventHandlers::on_slice));
        let max_endpoints_per_subset = context.settings.tuned_nonzero_count(&MAX_ENDPOINTS_PER_SUBSET);
        Self { services, endpoints, slices, watch, metrics, max_endpoints_per_subset }
    }
}

impl Controller for MirroringController {
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
        match note {
            Note::RecordPlan(totals) => self.metrics.record_sync_counts(&snapshot.key, totals.as_ref()),
            Note::Write(note) => self.watch.slice_handlers.record_write_progress(&snapshot.key, &note),
            Note::SyncEnded(took) => self.metrics.sync_duration_seconds.observe(took),
        }
    }

    fn after_sync(&self, snapshot: &Snapshot) {
        self.watch.slice_handlers.end_sync(&snapshot.key);
        if snapshot.mirrored_endpoints().is_none() {
            // Without mirrored Endpoints, this may be the last sync of the key, so the record of own writes for the key is
            // removed now.
            drop_satisfied_ledger_record(&self.watch.ledger, &ledger_owner(&snapshot.key), &**self.slices.store());
        }
    }

    fn ledger(&self) -> Option<&Ledger> {
        Some(&self.watch.ledger)
    }

    fn informers(&self) -> Vec<&dyn AnyInformer> {
        vec![self.services.informer(), self.endpoints.informer(), self.slices.informer()]
    }

    fn on_waiting(&self, key: &NamespacedName) {
        self.watch.slice_handlers.waiting_keys.add_waiting_key(key);
    }
}

//! The loop that mirrors the hand-made Endpoints of Services without a selector into slices.
//!
//! Differences from upstream: slices are patched instead of replaced. The content of a new slice replaces the old slice with
//! the most endpoints in common. A terminating slice is treated as deleted. Deleting a slice that does not exist is not a
//! failure.

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

use crate::{
    objects::{Endpoints, MANAGED_BY, MIRRORING, SLICE_WRITES, Service, Slice, object_ref},
    observe::{drop_satisfied_record, record},
    watch::SliceWatch,
};
use act::Note;
use metrics::MirroringMetrics;
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

/// `--mirroring-concurrent-service-endpoint-syncs`: the number of Endpoints mirrored at the same time, 5 by default.
pub const CONCURRENT_SYNCS: WorkersFlag =
    WorkersFlag::new("mirroring-concurrent-service-endpoint-syncs", 5, "Number of Endpoints mirrored at the same time");
/// `--mirroring-max-endpoints-per-subset`: the maximal number of mirrored addresses of a subset, 1000 by default.
pub const MAX_ENDPOINTS_PER_SUBSET: Tune = Tune::count(
    "mirroring-max-endpoints-per-subset",
    1000,
    "The maximum number of addresses that are mirrored for each subset of Endpoints",
);
/// `--mirroring-endpointslice-updates-batch-period`: the debounce period for changes of mirrored slices, 0 by default.
pub const UPDATES_BATCH_PERIOD: Tune = Tune::duration(
    "mirroring-endpointslice-updates-batch-period",
    Duration::ZERO,
    "How long to debounce changes of mirrored EndpointSlices by others before they are corrected",
);
/// The back-off of Endpoints after a failed sync. Upstream: `defaultSyncBackOff`, `maxSyncBackOff`.
const BACKOFF: Backoff =
    Backoff { base: Duration::from_secs(1), max: Duration::from_secs(100), bucket: Some((10.0, 100)) };

/// The definition of the mirroring loop, which owns the field `endpoints` of the slices that it manages.
pub const ENDPOINT_SLICE_MIRRORING: LoopDefinition =
    LoopDefinition::new("endpointslice-mirroring-controller", "endpointslicemirroring", start)
        .known_as("endpointslicemirroring-controller", "endpoint-slice-mirroring-controller")
        .owning(&[OwnedWrites { label: Some((MANAGED_BY, MIRRORING)), ..SLICE_WRITES }]);

fn start(context: Context) -> Arc<dyn Running> {
    let queue = context.queue("endpoint_slice_mirroring", BACKOFF);
    let workers = context.settings.workers(&CONCURRENT_SYNCS);
    let controller = MirroringController::new(&context, &queue);
    Loop::start(ENDPOINT_SLICE_MIRRORING.name, context, Arc::new(controller), queue, workers)
}

/// The controller that mirrors hand-made Endpoints into slices.
pub struct MirroringController {
    services: Arc<SharedInformer<Service>>,
    endpoints: Arc<SharedInformer<Endpoints>>,
    slices: Arc<SharedInformer<Slice>>,
    watch: Arc<Watch>,
    metrics: MirroringMetrics,
    max_endpoints_per_subset: usize,
}

impl MirroringController {
    /// Creates the controller, and registers event handlers that add keys to `queue`.
    pub fn new(context: &Context, queue: &Queue<Key>) -> Self {
        let services = context.shared_informer::<Service>();
        let endpoints = context.shared_informer::<Endpoints>();
        let slices = context.shared_informer::<Slice>();
        let metrics = MirroringMetrics::new(&context.metrics);
        let delay = context.settings.duration(&UPDATES_BATCH_PERIOD);
        let watch = Arc::new(Watch {
            ledger: context.ledger(),
            cache: Arc::clone(slices.store()),
            slices: SliceWatch::new(queue, MIRRORING, delay, &metrics.changes),
        });
        services.add_handler(handler(&watch, Watch::on_service));
        endpoints.add_handler(handler(&watch, Watch::on_endpoints));
        slices.add_handler(handler(&watch, Watch::on_slice));
        let max_endpoints_per_subset = context.settings.size(&MAX_ENDPOINTS_PER_SUBSET);
        Self { services, endpoints, slices, watch, metrics, max_endpoints_per_subset }
    }
}

impl Controller for MirroringController {
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
        (object_ref(&snapshot.key, snapshot.endpoints.as_deref()), record(&snapshot.key))
    }

    fn note(&self, snapshot: &Snapshot, note: Note) {
        match note {
            Note::Decide(totals) => self.metrics.planned(&snapshot.key, totals.as_ref()),
            Note::Write(note) => self.watch.slices.note(&snapshot.key, &note),
            Note::End(took) => self.metrics.took.observe(took),
        }
    }

    fn after_sync(&self, snapshot: &Snapshot) {
        self.watch.slices.end(&snapshot.key);
        if snapshot.mirrored().is_none() {
            // Without mirrored Endpoints, the key may have no further sync, so its record of own writes is removed now.
            drop_satisfied_record(&self.watch.ledger, &record(&snapshot.key), &**self.slices.store());
        }
    }

    fn ledger(&self) -> Option<&Ledger> {
        Some(&self.watch.ledger)
    }

    fn informers(&self) -> Vec<&dyn AnyInformer> {
        vec![self.services.informer(), self.endpoints.informer(), self.slices.informer()]
    }

    fn waiting(&self, key: &Key) {
        self.watch.slices.parked.park(key);
    }
}

//! The loop that mirrors the hand-made Endpoints of Services without a selector into slices.
//!
//! Differences from upstream: instead of creating a slice and deleting another, a sync updates the slice to delete that has the
//! most endpoints in common with the new slice. A terminating slice is treated as deleted. Deleting a slice that does not exist is
//! not a failure.

pub mod decide;

mod metrics;

use std::{sync::Arc, time::Duration};

use common::{
    prelude::*,
    settings::{Tunable, WorkersFlag},
};
use jiff::Timestamp;

use self::{
    decide::{Plan, Snapshot},
    metrics::MirroringMetrics,
};
use crate::{
    act::{SliceWriter, WriteOutcome},
    objects::{Endpoints, MANAGED_BY_MIRRORING, Service, Slice, endpoints_object_ref, owned_slice_writes},
    observe::{drop_satisfied_ledger_record, slices_of_service},
    slices,
    watch::{SliceEventHandlers, service_key_of_slice},
};

/// `--mirroring-concurrent-service-endpoint-syncs`: the number of Endpoints mirrored at the same time, 5 by default.
pub const CONCURRENT_SYNCS: WorkersFlag =
    WorkersFlag::new("mirroring-concurrent-service-endpoint-syncs", 5, "Number of Endpoints mirrored at the same time");
/// `--mirroring-max-endpoints-per-subset`: the maximum number of addresses that are mirrored from each subset, 1000 by default.
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
const BACKOFF: BackoffSettings = BackoffSettings { max_delay: Duration::from_secs(100), ..slices::BACKOFF };

/// The definition of the mirroring loop, which owns the field `endpoints` of the slices that it manages.
pub const ENDPOINT_SLICE_MIRRORING_LOOP: LoopDefinition =
    LoopDefinition::new("endpointslice-mirroring-controller", "endpointslicemirroring", start)
        .with_user_agent_and_component("endpointslicemirroring-controller", "endpoint-slice-mirroring-controller")
        .with_owned_writes(&[owned_slice_writes(MANAGED_BY_MIRRORING)]);

/// The controller that creates, replaces and deletes the slices that mirror hand-made Endpoints.
pub struct MirroringController {
    services: Arc<Store<Service>>,
    endpoints: Arc<Store<Endpoints>>,
    slices: Arc<Store<Slice>>,
    watch: Arc<EventHandlers>,
    metrics: MirroringMetrics,
    max_endpoints_per_subset: usize,
}

/// Starts the loop with its queue `endpoint_slice_mirroring`, to which events add the keys of Endpoints.
fn start(context: LoopContext) -> Arc<dyn RunningLoop> {
    let queue = context.new_queue_with_backoff("endpoint_slice_mirroring", BACKOFF);
    let metrics = MirroringMetrics::new(&context.metrics);
    let debounce_period = context.settings.tuned_duration(&UPDATES_BATCH_PERIOD);
    let slice_handlers = SliceEventHandlers::new(&queue, MANAGED_BY_MIRRORING, debounce_period, &metrics.slice_changes);
    let watch = Arc::new(EventHandlers { ledger: context.ledger(), slice_handlers });
    let controller = MirroringController {
        services: context.watch_shared(handler_from_method(&watch, EventHandlers::on_service)),
        endpoints: context.watch_shared(handler_from_method(&watch, EventHandlers::on_endpoints)),
        slices: context.watch_shared(handler_from_method(&watch, EventHandlers::on_slice)),
        watch,
        metrics,
        max_endpoints_per_subset: context.settings.tuned_nonzero_count(&MAX_ENDPOINTS_PER_SUBSET),
    };
    let workers = context.settings.worker_count(&CONCURRENT_SYNCS);
    Loop::start(ENDPOINT_SLICE_MIRRORING_LOOP.name, context, Arc::new(controller), queue, workers)
}

/// The event handlers of the loop, which enqueue keys. Upstream: `pkg/controller/endpointslicemirroring`, `onEndpointsUpdate`,
/// `onServiceUpdate`, `onEndpointSliceUpdate`.
struct EventHandlers {
    ledger: Ledger,
    slice_handlers: SliceEventHandlers,
}

impl EventHandlers {
    /// Enqueues the Endpoints if a Service without a selector is added or deleted, or a Service gains or loses its selector.
    fn on_service(&self, event: &CacheEvent<Service>, origin: ChangeOrigin) {
        let selects = |service: &Service| !service.spec.selector.is_empty();
        let concerns = match event {
            CacheEvent::Added(service) | CacheEvent::Deleted(service) => !selects(service),
            CacheEvent::Updated { old, new } => selects(old) != selects(new),
            CacheEvent::Unreadable(_) => false,
        };
        if concerns {
            self.slice_handlers.queue.add(event.meta().key(), origin);
        }
    }

    /// Enqueues Endpoints unless they are excluded from mirroring and already were before the event.
    fn on_endpoints(&self, event: &CacheEvent<Endpoints>, origin: ChangeOrigin) {
        let concerns = match event {
            CacheEvent::Added(endpoints) | CacheEvent::Deleted(endpoints) => endpoints.is_mirrorable(),
            CacheEvent::Updated { old, new } => old.is_mirrorable() || new.is_mirrorable(),
            CacheEvent::Unreadable(_) => true,
        };
        let key = event.meta().key();
        if matches!(event, CacheEvent::Deleted(_)) {
            self.slice_handlers.own_writes.forget_service(&key);
        }
        if concerns {
            self.slice_handlers.queue.add(key, origin);
        }
    }

    /// Enqueues the Endpoints of a slice that a writer other than this process changed.
    fn on_slice(&self, event: &CacheEvent<Slice>, origin: ChangeOrigin) {
        // Like the slices of a relist, slices of the first list enqueue their Endpoints, which may have been deleted meanwhile.
        let origin = if origin == ChangeOrigin::Initial { ChangeOrigin::Relist } else { origin };
        self.slice_handlers.on_slice(event, origin);
        if let CacheEvent::Deleted(slice) = event
            && let Some(key) = service_key_of_slice(&slice.metadata)
        {
            drop_satisfied_ledger_record(&self.ledger, &key);
        }
    }
}

impl AsRef<SliceEventHandlers> for MirroringController {
    fn as_ref(&self) -> &SliceEventHandlers {
        &self.watch.slice_handlers
    }
}

impl Controller for MirroringController {
    type Key = NamespacedName;
    type Snapshot = Snapshot;
    type Plan = Plan;

    fn observe(&self, key: &NamespacedName, _now: Timestamp) -> Result<Snapshot, NoSnapshot> {
        let EventHandlers { ledger, slice_handlers } = &*self.watch;
        let checked = ledger.check(key, key, WaitPolicy::AllWrites, HashSet::default);
        checked.inspect_err(|_| slice_handlers.waiting_keys.add_waiting_key(key))?;
        Ok(Snapshot {
            key: key.clone(),
            endpoints: self.endpoints.get(&key.namespace, &key.name)?,
            service: self.services.get(&key.namespace, &key.name)?,
            slices: slices_of_service(&self.slices, key, MANAGED_BY_MIRRORING)?,
            max_endpoints_per_subset: self.max_endpoints_per_subset,
        })
    }

    fn decide(snapshot: &Snapshot) -> Plan {
        decide::decide(snapshot)
    }

    /// Sends the Events and then the writes of a plan, up to the first failure.
    async fn act(snapshot: &Snapshot, plan: &Plan, io: Io<'_, Self>) -> Result<Requeue, SyncError> {
        let began = io.now();
        io.update_memory(|controller| controller.metrics.record_sync_counts(&snapshot.key, plan));
        for event in &plan.events {
            io.record_event(event.kind, event.reason, event.message.clone());
        }
        let writer =
            SliceWriter { owner_kind: "Endpoints", owner_key: &snapshot.key, metadata: &plan.slice_metadata, io };
        let mut outcome = Ok(WriteOutcome::AllWritten);
        for writes in &plan.slice_writes {
            outcome = writer.write_all(writes).await;
            if !matches!(outcome, Ok(WriteOutcome::AllWritten)) {
                break;
            }
        }
        let seconds = io.now().duration_since(began).as_secs_f64().max(0.0);
        io.update_memory(|controller| controller.metrics.sync_duration_seconds.observe(seconds));
        outcome.map(|_| Requeue::AfterPlannedDelay)
    }

    fn object(snapshot: &Snapshot) -> InvolvedObject {
        endpoints_object_ref(&snapshot.key, snapshot.endpoints.as_deref())
    }

    /// The owner is the key, because the slices can outlive the Endpoints.
    fn ledger_owner(snapshot: &Snapshot) -> LedgerOwner {
        LedgerOwner::Key(snapshot.key.clone())
    }

    fn after_sync(&self, snapshot: &Snapshot) {
        self.watch.slice_handlers.finish_request(&snapshot.key, None);
        if snapshot.mirrored_endpoints().is_none() {
            // Without mirrored Endpoints, this may be the last sync of the key, so the record of own writes for the key is
            // removed now.
            drop_satisfied_ledger_record(&self.watch.ledger, &snapshot.key);
        }
    }
}

#[cfg(test)]
mod tests;

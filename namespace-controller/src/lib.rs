//! The namespace controller: deletes the content of terminating namespaces, and then removes their finalizer.
//!
//! # What it promises
//!
//! A namespace is finalized exactly when nothing is left in it: after discovery has listed all kinds, and each kind was found
//! empty. Other kinds are deleted after the last Pod is gone. A namespace that was created again under the same name keeps its
//! content. What cannot be deleted delays its own namespace only, and is named in the conditions, in `/debug/explain` and by
//! `kubectl nonet why`.
//!
//! # How it is laid out
//!
//! ```text
//! watch ──► queue ──► observe ──► Snapshot ──► decide.rs ──► Plan ──► act.rs ──► API server
//!  (terminating           ▲                                              │
//!   namespaces)           └────────────── memory.rs ◄────────────────────┘
//!                                 (findings, discovery)
//! ```
//!
//! Namespaces that are not terminating are not cached. [`decide::content`] selects the kinds, [`decide::verdict`] judges what a
//! sync has found, and [`decide::conditions`] describes it in the status.
//!
//! `docs/behaviour/namespace-controller.md` lists the differences from upstream.

pub mod decide;
pub mod objects;

mod act;
mod memory;
#[cfg(test)]
mod world;

use std::{sync::Arc, time::Duration};

use common::{
    app::ProgramDefinition,
    informer::InformerConfig,
    metrics::Stability,
    prelude::*,
    second_writer::OwnedWrites,
    settings::{FeatureGate, Tunable, WorkersFlag},
};
use jiff::Timestamp;

use crate::{
    act::{NamespaceSync, SyncEnd},
    decide::{Plan, Snapshot, content::Failure},
    memory::{Memory, NAMESPACE_DELETION_GRACE_PERIOD},
    objects::Namespace,
};

/// Number of workers that sync namespaces concurrently; 10 by default.
pub const CONCURRENT_NAMESPACE_SYNCS: WorkersFlag =
    WorkersFlag::new("concurrent-namespace-syncs", 10, "How many namespaces are synced at once");

/// Interval between syncs of terminating namespaces without an event; 5 minutes by default.
pub const NAMESPACE_SYNC_PERIOD: Tunable = Tunable::of_duration(
    "namespace-sync-period",
    Duration::from_mins(5),
    "How often terminating namespaces are synced without a change; 0: never",
);

/// The gate under which Pods are deleted before other content.
pub const ORDERED_NAMESPACE_DELETION: FeatureGate =
    FeatureGate::always_on("OrderedNamespaceDeletion", "Pods are deleted before the other content of a namespace");

/// The loop that empties and finalizes namespaces.
pub const NAMESPACE: LoopDefinition = LoopDefinition::new("namespace-controller", "namespace", start)
    .with_owned_writes(&[OwnedWrites::of_status("", "namespaces")]);
/// The loops that this crate runs.
pub const LOOPS: &[LoopDefinition] = &[NAMESPACE];

/// Name, flags and loops of the binary.
pub const DEFINITION: ProgramDefinition = ProgramDefinition {
    name: "namespace-controller",
    version: env!("CARGO_PKG_VERSION"),
    about: "Deletes the content of terminating namespaces, and removes their finalizer.",
    loops: LOOPS,
    workers_flags: &[CONCURRENT_NAMESPACE_SYNCS],
    feature_gates: &[ORDERED_NAMESPACE_DELETION],
    tunables: &[],
    single_value_flags: &[NAMESPACE_SYNC_PERIOD],
};

/// Cache and memory of the loop.
pub struct NamespaceController {
    namespaces: Arc<Store<Namespace>>,
    memory: Arc<Memory>,
}

fn start(context: LoopContext) -> Arc<dyn RunningLoop> {
    let backoff = BackoffSettings { max_delay: Duration::from_mins(1), ..BackoffSettings::default() };
    let queue = context.new_queue_with_backoff("namespace", backoff);
    let memory = Arc::new(Memory::new(&context.clock));
    let namespaces: Arc<Store<Namespace>> = Arc::default();
    let (keys, known) = (queue.clone(), Arc::clone(&memory));
    let handler = move |event: &CacheEvent<Namespace>, _: ChangeOrigin| {
        if let CacheEvent::Deleted(namespace) = event {
            known.forget(&namespace.meta().uid);
        } else {
            known.remember(&event.meta().uid);
            keys.add_debounced(event.meta().key(), NAMESPACE_DELETION_GRACE_PERIOD);
        }
    };
    // A resync passes all cached namespaces to the handler.
    let period = Some(context.settings.tuned_duration(&NAMESPACE_SYNC_PERIOD));
    let resync_interval = period.filter(|period| !period.is_zero());
    let config = InformerConfig { resync_interval, ..context.long_lived_cache_config() };
    let (api, store) = (context.api.clone(), Arc::clone(&namespaces));
    let informer = Informer::start_with_store(api, config, store, vec![Box::new(handler)]);
    context.add_informer(Arc::new(informer), &namespaces);
    let help = "Namespaces that are terminating";
    let gauge = context.metrics.gauge("nonet_namespaces_terminating", Stability::Alpha, help, &[]);
    let cached = Arc::clone(&namespaces);
    context.metrics.run_before_each_scrape(move || {
        gauge.with_label_values(&[]).set(cached.len() as _);
    });
    let workers = context.settings.worker_count(&CONCURRENT_NAMESPACE_SYNCS);
    Loop::start(NAMESPACE.name, context, Arc::new(NamespaceController { namespaces, memory }), queue, workers)
}

impl Controller for NamespaceController {
    type Key = NamespacedName;
    type Snapshot = Snapshot;
    type Plan = Plan;

    fn observe(&self, key: &NamespacedName, now: Timestamp) -> Result<Snapshot, NoSnapshot> {
        let namespace = self.namespaces.get(&key.namespace, &key.name)?.ok_or(NoSnapshot::Gone)?;
        let (findings, wait) = self.memory.findings_of(&namespace.meta().uid);
        // The key may still be enqueued for an earlier namespace of this name.
        if !wait.is_zero() {
            return Err(NoSnapshot::waiting_because("API servers may not know of the deletion yet", wait));
        }
        Ok(Snapshot { namespace, findings, now })
    }

    fn decide(snapshot: &Snapshot) -> Plan {
        decide::decide(snapshot)
    }

    async fn act(snapshot: &Snapshot, _: &Plan, io: Io<'_, Self>) -> Result<Requeue, SyncError> {
        match (NamespaceSync { snapshot, io }).run().await {
            Ok(requeue) => Ok(requeue),
            Err(SyncEnd::Done) => Ok(Requeue::AfterPlannedDelay),
            Err(SyncEnd::Refused(refusal)) => Err(SyncError::from_refusal("cannot access the namespace", &refusal)),
            Err(SyncEnd::Failed(Failure { text, class })) => Err(SyncError::new(class, text)),
        }
    }
}

//! Garbage collection: deletes objects with owners that no longer exist.
//!
//! # What it promises
//!
//! No object with an existing owner is deleted, not even after a crash, with a stale cache or with a forged reference.
//! [`collector::decide`] explains why this holds. An object is deleted if none of its owners exists, in one request if the
//! cached metadata is current. An object in foreground deletion is deleted after the dependents that block it. An object with
//! the deletion policy `Orphan` is deleted after all dependents have lost their references to it. Work that must wait is shown
//! in `/debug/explain` and delays no other work.
//!
//! # How it is laid out
//!
//! ```text
//! discovery.rs ──► monitors.rs ──► graph/ ──► queue ──► collector/ ──► place.rs ──► API server
//! (what is         (metadata of     (pure graph   │                        ▲  (requests)   │
//!  collected)       every kind)      of owners)   └─────► orphans/ ────────┘               │
//!                                       ▲                                                  │
//!                                       └──────────── there is no such object ◄────────────┘
//! ```
//!
//! [`collector`] deletes objects without an existing owner, and [`orphans`] releases the dependents of objects that are deleted
//! with the policy `Orphan`. Each of these two loops has the parts of a [`Controller`], and a file for its pure part:
//!
//! ```text
//! queue ──► observe ──► Snapshot ──► decide.rs ──► Plan ──► act ──► API server
//!                                     (pure)
//! ```
//!
//! # Where it differs from upstream
//!
//! - Pods, ReplicaSets, Jobs and EndpointSlices are watched as whole objects, but only their metadata is decoded. Whole objects
//!   cost the server less (`docs/decisions/0018-pace.md`).
//! - A `FailedUpdate` Event reports that the server denies a change of owner references because of a missing right or a policy.
//! - If all owners of an object are known not to exist, the object is deleted without being read. The DELETE has the UID and
//!   the version as preconditions. If an object has changed, it is read, and the decision is made again. It is never deleted by
//!   its UID alone. Writes of owner references have both preconditions, too. Upstream has only the UID, and removes references
//!   that a user has just corrected.
//! - A dependent is kept without a lookup of the owner if the graph has the owner under the kind and name of the reference, and
//!   the owner is not terminating. If the owner has just been deleted, its monitor reports the deletion, and the dependent is
//!   enqueued again. Upstream reads each owner each time.
//! - A 404 that does not name the object does not prove that the object is missing, because the server may not serve the path.
//! - The decision about an object is made after all objects of the kinds of its owners have been listed. Foreground deletion
//!   and orphaning finish after the objects of all kinds have been listed, except kinds with a watch that has failed for a
//!   minute and a half.
//! - A resource that cannot be watched delays only objects with owners of its kind. `/readyz?verbose` and a metric name the
//!   resource, and the process remains ready. If a resource is no longer served, its watch ends; when the resource returns, its
//!   objects are looked up. The graph keeps objects that another group also serves.
//! - An object that waits for a kind that is not served is parked: it is not retried until the kind is served. A metric counts
//!   parked objects, and `/debug/explain` lists them. Upstream retries each object with a growing back-off.
//! - A standby keeps the graph up to date, with empty queues. At the take-over, it derives the pending work from the graph.
//! - If several references of an object share a UID, the reference to the existing owner is never removed.
//! - An object is enqueued again after a correction of its references. Dependents that appear during the release of other
//!   dependents are released, too.
//! - A reference with a name that no object can have (`a/b`, `50%`, `..`) has no owner; upstream retries the lookup for ever.
//! - The kind in an owner reference may be in lower case, as in upstream. `ConfigMapList` is not a kind; upstream maps it to
//!   ConfigMaps and may delete a dependent of an existing owner.
//! - A finalizer is removed from an object only if the object has the expected UID.

pub mod collector;
pub mod graph;
pub mod key;
pub mod metrics;
pub mod orphans;

mod collection;
mod discovery;
mod graph_sink;
mod monitors;
mod objects;
mod parked;
mod place;
mod running;
#[cfg(test)]
mod world;

use std::{sync::Arc, time::Duration};

use common::{
    app::ProgramDefinition,
    prelude::*,
    runtime::LoopGroup,
    settings::{Tunable, WorkersFlag},
};
use tokio::task::JoinSet;

use crate::{
    collection::CollectorState,
    collector::Collector,
    metrics::ControllerMetrics,
    monitors::Monitors,
    orphans::Orphaner,
    running::{DisabledCollector, RunningCollector},
};

/// Time between two runs of discovery. Default: 30 seconds, as upstream.
pub const DISCOVERY_PERIOD: Tunable = Tunable::of_duration(
    "gc-discovery-period",
    Duration::from_secs(30),
    "How often the garbage collector discovers the resources of the API server",
);

/// Number of objects that each of the two loops processes concurrently. Default: 20.
pub const CONCURRENT_GC_SYNCS: WorkersFlag =
    WorkersFlag::new("concurrent-gc-syncs", 20, "How many objects the garbage collector processes concurrently");

/// Turns garbage collection on or off. Default: on. Must equal the flag of the same name of the API server.
pub const ENABLE_GARBAGE_COLLECTOR: Tunable = Tunable::of_switch(
    "enable-garbage-collector",
    true,
    "Whether to collect garbage; must equal the flag of the same name of the API server",
);

/// The garbage collector. Users see one loop; `start` runs two, one for deletions and one for orphaning.
pub const GARBAGE_COLLECTOR: LoopDefinition =
    LoopDefinition::new("garbage-collector-controller", "garbagecollector", start)
        .with_user_agent_and_component("generic-garbage-collector", "garbage-collector-controller");
/// Loops that the binary `gc-controller` starts.
pub const LOOPS: &[LoopDefinition] = &[GARBAGE_COLLECTOR];

/// Name, flags and loops of the binary `gc-controller`.
pub const DEFINITION: ProgramDefinition = ProgramDefinition {
    name: "gc-controller",
    version: env!("CARGO_PKG_VERSION"),
    about: "Runs the Kubernetes garbage collector as a service of its own",
    loops: LOOPS,
    workers_flags: &[CONCURRENT_GC_SYNCS],
    feature_gates: &[],
    tunables: &[DISCOVERY_PERIOD],
    single_value_flags: &[ENABLE_GARBAGE_COLLECTOR],
};

fn start(context: LoopContext) -> Arc<dyn RunningLoop> {
    if !context.settings.is_tunable_on(&ENABLE_GARBAGE_COLLECTOR) {
        tracing::info!("The garbage collector is switched off");
        return Arc::new(DisabledCollector);
    }
    let delete_queue = context.new_queue("garbage_collector_attempt_to_delete");
    let orphan_queue = context.new_queue("garbage_collector_attempt_to_orphan");
    let (metrics, recorder) = (ControllerMetrics::new(&context.metrics), context.recorder.clone());
    // A process in shadow mode (it writes nothing) has no predecessor, so it is never a standby.
    let is_standby = !context.settings.is_shadow();
    let queues = [delete_queue.clone(), orphan_queue.clone()];
    let collector_state = Arc::new(CollectorState::new(queues, recorder, metrics, is_standby));
    let mut tasks = JoinSet::new();
    tasks.spawn(Arc::clone(&collector_state).take_over(context.write_gate.clone()));
    let monitors = Arc::new(Monitors::new(&context, collector_state));
    tasks.spawn(Arc::clone(&monitors).run(context.settings.tuned_duration(&DISCOVERY_PERIOD)));
    context.parts.add_informer(Arc::<Monitors>::clone(&monitors));
    let weak_monitors = Arc::downgrade(&monitors);
    context.metrics.run_before_each_scrape(move || {
        if let Some(monitors) = weak_monitors.upgrade() {
            monitors.update_gauges();
        }
    });
    let workers = context.settings.worker_count(&CONCURRENT_GC_SYNCS);
    let collector = Collector { monitors: Arc::clone(&monitors) };
    let orphaner = Orphaner { monitors: Arc::clone(&monitors) };
    let loops = LoopGroup(vec![
        ("deletions", Loop::start(GARBAGE_COLLECTOR.name, context.clone(), Arc::new(collector), delete_queue, workers)),
        ("orphans", Loop::start("garbage-collector-orphans", context, Arc::new(orphaner), orphan_queue, workers)),
    ]);
    Arc::new(RunningCollector { loops, monitors, _tasks: tasks })
}

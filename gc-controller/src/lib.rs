//! Garbage collection: deletes objects whose owners no longer exist.
//!
//! # What it promises
//!
//! No object with an existing owner is deleted, despite crashes, lag or forged references ([`collector::decide`] has the
//! argument). An object whose owners are all gone is deleted, in one request if the cached metadata is current. An object in
//! foreground deletion is deleted after the dependents that block it. An object that orphans its dependents is deleted after each
//! of them has lost its reference. Work that cannot be done yet is retried and shown, and delays no other work.
//!
//! # How it is laid out
//!
//! ```text
//! discovery.rs ──► monitors.rs ──► graph/ ──► queue ──► collector/ ──► place.rs ──► API server
//! (what is         (metadata of     (pure graph   │                        ▲  (requests)   │
//!  served)          every kind)      of owners)   └─────► orphans/ ────────┘               │
//!                                       ▲                                                  │
//!                                       └──────────── there is no such object ◄────────────┘
//! ```
//!
//! [`collector`] judges objects by their owners, and [`orphans`] releases the dependents of objects that are deleted with the
//! policy `Orphan`. Each of these two loops has a folder:
//!
//! ```text
//! queue ──► observe.rs ──► Snapshot ──► decide.rs ──► Plan ──► act.rs ──► API server
//!                                        (pure)
//! ```
//!
//! # Where it differs from upstream
//!
//! - Pods, ReplicaSets, Jobs and EndpointSlices are watched as whole objects, of which only the metadata is decoded. This costs
//!   the server less (`docs/decisions/0018-pace.md`).
//! - A `FailedUpdate` Event reports that the server denies a change of owner references because of a missing right or a policy.
//! - An object is deleted without being read if all its owners are known not to exist; UID and version guard the DELETE. An
//!   object that changes meanwhile is judged again each time, and never deleted by its UID alone. The same holds for writes of
//!   owner references: upstream guards them by the UID only, and removes references that a user has just corrected.
//! - An owner is not looked up if its monitor has seen it as the reference names it and it is not terminating: such an owner
//!   keeps its dependents. If it has just been deleted, its monitor reports that, and the dependents are judged again. Upstream
//!   reads each owner each time.
//! - A 404 that does not name the object proves nothing: the server may not serve the path at the moment.
//! - An object is judged only when all objects of the kinds of its owners are known. Foreground deletion and orphaning finish
//!   only when all objects of all kinds are known, except kinds whose watch has failed for a minute and a half.
//! - A resource that cannot be watched delays only objects with owners of its kind. `/readyz?verbose` and a metric name the
//!   resource, and the process stays ready. If a resource is no longer served, its watch ends; when the resource returns, its
//!   objects are looked up. Objects that are also served in another group stay known through that group.
//! - Objects that wait for a kind that is not served are parked without retries and continue once it is served. A metric counts
//!   them and `/debug/explain` lists them. Upstream retries each of them with a growing back-off.
//! - A standby keeps the graph but no queue. When it takes over, it derives the pending work from the graph.
//! - If two references share a UID and only one is right, the right one is never removed.
//! - A corrected reference is checked again. Dependents that appear while others are released are released, too.
//! - A reference with a name that no object can have (`a/b`, `50%`, `..`) has no owner; upstream retries its lookup for ever.
//! - The kind of an owner may be in lower case, as upstream accepts it. `ConfigMapList` is not a kind; upstream maps it to
//!   ConfigMaps and may delete a dependent whose owner exists.
//! - A finalizer is removed only from the object with the right UID.

pub mod collector;
pub mod discovery;
pub mod graph;
pub mod key;
pub mod metrics;
pub mod orphans;

mod collection;
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
    app::Definition,
    controller::Loop,
    queue::Backoff,
    runtime::{Context, LoopDefinition, Pair, Running},
    settings::{Tune, WorkersFlag},
};
use tokio::task::JoinSet;

use crate::{
    collection::Collection,
    collector::Collector,
    metrics::ControllerMetrics,
    monitors::Monitors,
    orphans::Orphaner,
    running::{Collecting, Off},
};

/// Time between two rounds of discovery. Default: 30 seconds, as upstream.
pub const DISCOVERY_PERIOD: Tune = Tune::duration(
    "gc-discovery-period",
    Duration::from_secs(30),
    "How often the garbage collector discovers the resources of the API server",
);

/// Number of objects that each of the two loops processes concurrently.
pub const CONCURRENT_GC_SYNCS: WorkersFlag =
    WorkersFlag::new("concurrent-gc-syncs", 20, "How many objects the garbage collector processes concurrently");

/// The flag that switches garbage collection off.
pub const ENABLE_GARBAGE_COLLECTOR: Tune = Tune::switch(
    "enable-garbage-collector",
    true,
    "Whether to collect garbage; must equal the flag of the same name of the API server",
);

/// The garbage collector: one loop for users, although it runs two.
pub const GARBAGE_COLLECTOR: LoopDefinition =
    LoopDefinition::new("garbage-collector-controller", "garbagecollector", start)
        .known_as("generic-garbage-collector", "garbage-collector-controller");
/// All loops of this crate.
pub const LOOPS: &[LoopDefinition] = &[GARBAGE_COLLECTOR];

/// Name, flags and loops of the program.
pub const DEFINITION: Definition = Definition {
    name: "gc-controller",
    version: env!("CARGO_PKG_VERSION"),
    about: "Runs the Kubernetes garbage collector as a service of its own",
    loops: LOOPS,
    workers: &[CONCURRENT_GC_SYNCS],
    gates: &[],
    tunes: &[DISCOVERY_PERIOD],
    flags: &[ENABLE_GARBAGE_COLLECTOR],
};

fn start(context: Context) -> Arc<dyn Running> {
    if !context.settings.switch(&ENABLE_GARBAGE_COLLECTOR) {
        tracing::info!("The garbage collector is switched off");
        return Arc::new(Off);
    }
    let delete = context.queue("garbage_collector_attempt_to_delete", Backoff::default());
    let orphan = context.queue("garbage_collector_attempt_to_orphan", Backoff::default());
    let metrics = ControllerMetrics::new(&context.metrics);
    let recorder = context.recorder.clone();
    // A process in shadow mode has no predecessor, so it is never a standby.
    let stands_by = !context.settings.shadow();
    let collection = Collection::new(delete.clone(), orphan.clone(), recorder, metrics.clone(), stands_by);
    let collection = Arc::new(collection);
    let mut tasks = JoinSet::new();
    tasks.spawn({
        let (gate, collection) = (context.gate.clone(), Arc::clone(&collection));
        async move {
            gate.opened().await;
            collection.take_over().await;
        }
    });
    let period = context.settings.duration(&DISCOVERY_PERIOD);
    let (api, reading) = (context.api.clone(), context.reading());
    let monitors = Monitors::start(api, reading, Arc::clone(&collection), metrics, period, &mut tasks);
    let probed = Arc::downgrade(&monitors);
    context.metrics.before_scrape(move || {
        if let Some(monitors) = probed.upgrade() {
            monitors.measure();
        }
    });
    let workers = context.settings.workers(&CONCURRENT_GC_SYNCS);
    let collector = Collector { collection: Arc::clone(&collection), monitors: Arc::clone(&monitors) };
    let orphaner = Orphaner { collection: Arc::clone(&collection), monitors: Arc::clone(&monitors) };
    let loops = Pair {
        main: Loop::start(GARBAGE_COLLECTOR.name, context.clone(), Arc::new(collector), delete, workers),
        second: Loop::start("garbage-collector-orphans", context, Arc::new(orphaner), orphan, workers),
        name: "orphans",
    };
    Arc::new(Collecting { loops, collection, monitors, _tasks: tasks })
}

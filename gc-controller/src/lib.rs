//! Garbage collection: deletes what is owned by nobody any more.
//!
//! # What it promises
//!
//! No object is deleted one of whose owners exists, whatever crashes, lags or is forged meanwhile ([`collector::decide`]
//! has the argument). An object all of whose owners are gone is deleted, in one request where what monitors saw is still true. An
//! object that is deleted in the foreground goes after the dependents that block it; one that is deleted without its
//! dependents goes after each of them has lost its reference. What cannot be resolved is retried and shown, and delays
//! nobody else.
//!
//! # How it is laid out
//!
//! ```text
//! discovery.rs ──► monitors.rs ──► graph/ ──► queue ──► collector/ ──► place.rs ──► API server
//! (what is         (metadata of     (who owns     │                        ▲  (requests)   │
//!  served)          every kind)      whom, pure)  └─────► orphans/ ────────┘               │
//!                                       ▲                                                  │
//!                                       └──────────── there is no such object ◄────────────┘
//! ```
//!
//! [`collector`] judges objects by their owners, and [`orphans`] releases the dependents of objects that are deleted without them.
//! Each of the two loops has a folder of its own:
//!
//! ```text
//! queue ──► observe.rs ──► Snapshot ──► decide.rs ──► Plan ──► act.rs ──► API server
//!                                        (pure)
//! ```
//!
//! # Where it differs from upstream
//!
//! - Pods, ReplicaSets, Jobs and EndpointSlices are watched as whole objects, of which only the metadata is read: that costs the server
//!   less (`docs/decisions/0018-pace.md`).
//! - A `FailedUpdate` Event reports that the server denies a change of owner references: a right is missing, or a policy forbids it.
//! - An object is deleted without being read when all its owners are known to be gone; uid and version guard the DELETE. One
//!   that changes meanwhile is judged anew each time, never deleted by its uid alone. So is one whose references are
//!   written: upstream guards these by uid, and takes away what a user has just corrected.
//! - An owner that its monitor sees where the reference says, and that is not going, is not looked up: it keeps what it owns.
//!   Should it be gone already, its monitor tells, and what it owned is judged again. Upstream reads each owner each time.
//! - An answer of 404 that does not name the object proves nothing: the path may not be served at the moment.
//! - An object is judged only when all objects of the kinds its owners name are known, and one that is deleted in the
//!   foreground or without its dependents is finished only when all objects of all kinds are, those aside whose watch has
//!   failed for a minute and a half.
//! - A resource that cannot be watched delays only objects whose owners are of its kind; `/readyz?verbose` and a metric name
//!   it, and the process stays ready. Watches of resources that vanish end; their objects are asked for should the resource
//!   return, and those that are served in another group as well stay known by that.
//! - Objects that wait for a kind that is not served wait without being retried, and go on when it is; a metric counts them
//!   and `/debug/explain` lists them. Upstream retries each, later and later.
//! - A standby keeps the graph and no queue. What there is to do it tells from the graph when it takes over.
//! - Of two references with one uid, one right and one wrong, the right one is never lost.
//! - A reference that was corrected is checked anew. Dependents that come while others are released are released, too.
//! - A reference whose name no object can have (`a/b`, `50%`, `..`) names nobody; upstream fails to ask for it, for ever.
//! - An owner's kind is found by its name and by that name in lower case, as upstream finds it. `ConfigMapList` names no kind;
//!   upstream takes it for one and may delete a dependent whose owner lives.
//! - A finalizer is removed only of the object that was meant (by uid).

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

/// How often the server is asked what it serves. Upstream: 30 seconds.
pub const DISCOVERY_PERIOD: Tune = Tune::duration(
    "gc-discovery-period",
    Duration::from_secs(30),
    "How often the garbage collector asks which resources there are",
);

/// How many objects are judged at once, and of how many dependents are released.
pub const CONCURRENT_GC_SYNCS: WorkersFlag =
    WorkersFlag::new("concurrent-gc-syncs", 20, "How many objects the garbage collector looks at at once");

/// Whether anything is collected at all.
pub const ENABLE_GARBAGE_COLLECTOR: Tune = Tune::switch(
    "enable-garbage-collector",
    true,
    "Whether to collect anything; must be what the flag of that name is on the API server",
);

/// The loop.
pub const GARBAGE_COLLECTOR: LoopDefinition =
    LoopDefinition::new("garbage-collector-controller", "garbagecollector", start)
        .known_as("generic-garbage-collector", "garbage-collector-controller");
/// All loops of this crate.
pub const LOOPS: &[LoopDefinition] = &[GARBAGE_COLLECTOR];

/// The program.
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
    // Who only looks on has nobody to take over from.
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

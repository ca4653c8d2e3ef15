//! The life of nodes as others see it: whether a node is alive, and what becomes of it and of its Pods if it is not.
//!
//! # What it promises
//!
//! A node that has been silent for its grace period gets conditions that say so, and taints; a node that reports trouble gets
//! the taints that belong to it ([`monitor`]). Where many nodes fail at once, few are tainted; where all fail, none is. A Pod
//! leaves a node whose `NoExecute` taints it does not tolerate, at once or after its `tolerationSeconds`, and its condition
//! gives the reason before it is deleted ([`eviction`]). A Pod that tolerates the taints without a limit is never deleted, and
//! neither is a Pod whose node lost its taints in time. Pods that no kubelet will ever finish are removed ([`garbage`]), but
//! never a Pod that runs on a node the server knows. Every deletion names the Pod it is meant for. A node that renews its Lease
//! loses no Pod because of a taint that says it is silent, whatever its status says.
//!
//! It errs on the side of doing nothing. A process that was paused, cut off or just started has not seen what nodes do: it
//! judges no node before it has seen for a whole grace period (`sight.rs`).
//!
//! # How it is laid out
//!
//! Each of the three loops has its own queues, workers and metrics. They share one cache of Nodes and one of Pods; the monitor
//! and the eviction share the watch of Leases and what is remembered of nodes. Each of the two needs the Leases also when it
//! runs alone; the Pod garbage collector does not.
//!
//! ```text
//! Leases ──► heartbeats.rs: fleet.rs ──► monitor/rounds: conditions and taints of nodes
//!              ▲           └── may a node be well? ─┐
//!              ├── events ──► queues of nodes, Pods ──► monitor/upkeep: labels and taints of one node, monitor/readiness: one Pod
//! caches.rs ───┤                                    ▼
//! (Nodes, Pods ├── events ──► queue of Pods ──► eviction: condition, deletion
//!  by node)    │                 ▲ timers
//!              └── every 20 s ───┴────────────► garbage: phase, deletion without grace
//! ```
//!
//! The folder of each loop has the same files: `observe.rs`, `snapshot.rs`, `plan.rs`, `decide.rs` and `act.rs`.
//!
//! # Where it differs from upstream
//!
//! - Heartbeats are noted when they are seen, and a pass looks only at nodes that changed or are due.
//! - Any change of a renewal time is a sign of life; upstream's later time must be the later one by the clock of the node.
//! - Before a node is found silent, its Lease is read from the server. Grace periods begin anew after a time in which this
//!   process could not have heard, and when it starts; upstream counts from the creation of a node that never reported.
//! - A node that another process found silent gets a `NoExecute` taint only after it was silent here for a grace period.
//! - A restart leaves `NoExecute` taints in place; upstream removes and adds them again.
//! - Taints change in one write, made onto the version of the node that was judged; what failed is retried with back-off.
//! - An alarm and an optional cap for the share of nodes that are tainted.
//! - Before a Pod is deleted, its node and the Pod are read from the server and the decision is made again; writes name the
//!   version that was judged. Upstream deletes on what its cache shows.
//! - A Pod stays on a node that may be well and has only taints of the monitor: while the node is heard of, and after a time in
//!   which this process could not have heard for as long as the grace period or until the node has reported.
//! - There is no queue `noexec_taint_node`: an event of a node enqueues its Pods in `noexec_taint_pod`. There is no queue
//!   `orphaned_pods_nodes` either: the quarantine of nodes is a part of each pass, whose queue is `pod_garbage_collector`. The
//!   passes of the node monitor have the queue `node_lifecycle_controller_rounds`.
//! - A silent node whose conditions could not be written counts as not ready for its zone; upstream does not count it.
//! - A timer belongs to one Pod, not to a name, and only a timer that was really stopped is reported as cancelled.
//! - A deletion that failed is retried with back-off; upstream waits for the next event.
//! - A terminating Pod that has its condition is not deleted again.
//! - A node that is back ends its quarantine, and removals of Pods of one node run in parallel.

pub mod eviction;
pub mod garbage;
pub mod monitor;
pub mod objects;
pub mod silence;
pub mod taints;

mod caches;
mod disruption;
mod flags;
mod fleet;
mod heartbeats;
mod rate;
mod sight;
#[cfg(test)]
mod world;

use common::{app::Definition, runtime::LoopDefinition, settings::FeatureGate, settings::Tune};

/// All loops of this program.
pub const LOOPS: &[LoopDefinition] =
    &[monitor::NODE_LIFECYCLE, eviction::TAINT_EVICTION, garbage::POD_GARBAGE_COLLECTOR];
/// All feature gates of this program.
pub const GATES: &[FeatureGate] = &[eviction::COMPARISON];
/// All values that have a flag.
pub const FLAGS: &[Tune] = &[
    flags::NODE_MONITOR_PERIOD,
    flags::NODE_MONITOR_GRACE_PERIOD,
    flags::NODE_STARTUP_GRACE_PERIOD,
    flags::NODE_EVICTION_RATE,
    flags::SECONDARY_NODE_EVICTION_RATE,
    flags::LARGE_CLUSTER_SIZE_THRESHOLD,
    flags::UNHEALTHY_ZONE_THRESHOLD,
    flags::NODE_TAINT_ALARM_SHARE,
    flags::NODE_TAINT_MAX_SHARE,
    garbage::TERMINATED_POD_GC_THRESHOLD,
];

/// The program.
pub const DEFINITION: Definition = Definition {
    name: "node-lifecycle-controller",
    version: env!("CARGO_PKG_VERSION"),
    about: "Judges the health of nodes, removes Pods from nodes they may not stay on, and Pods that nobody will finish.",
    loops: LOOPS,
    workers: &[],
    gates: GATES,
    tunes: garbage::TUNES,
    flags: FLAGS,
};

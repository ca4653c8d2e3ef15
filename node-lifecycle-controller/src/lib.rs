//! The health of nodes: detects nodes that have failed, taints them, and evicts or removes their Pods.
//!
//! # What it promises
//!
//! A node that has been silent for its grace period gets conditions and taints that show this; a node that reports a problem gets
//! the corresponding taints ([`monitor`]). If many nodes fail at once, few are tainted; if all nodes fail, none is. A Pod leaves
//! a node whose `NoExecute` taints it does not tolerate, at once or after its `tolerationSeconds`, and its condition gives the
//! reason before it is deleted ([`eviction`]). A Pod that tolerates the taints without a limit is never deleted, nor is a Pod
//! whose node lost its taints in time. Pods that no kubelet will ever finish are removed ([`garbage`]), but never a running Pod
//! whose node exists. Every deletion names the UID of its Pod. A node that renews its Lease loses no Pod because of a taint for
//! silence; its status does not matter.
//!
//! In doubt, nothing is done. A process that was paused, cut off or just started has missed heartbeats: it judges no node before
//! it has had a live view for a whole grace period (`sight.rs`).
//!
//! # How it is laid out
//!
//! Each of the three loops has its own queues, workers and metrics. They share one cache of Nodes and one of Pods. The node
//! monitor and the taint eviction share the watch of Leases and the records of nodes, and each of them watches Leases even if it
//! runs alone; the Pod garbage collector does not.
//!
//! ```text
//! Leases ──► heartbeats.rs: fleet.rs ──► monitor/rounds: conditions and taints of nodes
//!              ▲           └── is a node healthy? ──┐
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
//! - Heartbeats are recorded when they are seen, and a pass examines only nodes that changed or are due.
//! - Any change of a renewal time is a heartbeat; upstream accepts only a later time by the clock of the node.
//! - Before the conditions of a silent node are written, its Lease is read from the server. Grace periods restart after a time
//!   without a live view and when the process starts; upstream counts from the creation of a node that never reported.
//! - A node that another process found silent gets a `NoExecute` taint only after it was silent here for a grace period.
//! - A restart leaves `NoExecute` taints in place; upstream removes and adds them again.
//! - Taints change in one write, based on the judged version of the node; a failed write is retried with back-off.
//! - There are an alarm and an optional limit for the share of tainted nodes.
//! - Before a Pod is deleted, its node and the Pod are read from the server and the decision is made again; writes name the
//!   judged version. Upstream relies on its cache.
//! - A Pod stays on a node that may be healthy and has only taints of the monitor: while heartbeats arrive, and after a time
//!   without a live view until the grace period has passed or the node has reported.
//! - There is no queue `noexec_taint_node`: an event of a node enqueues its Pods in `noexec_taint_pod`. There is no queue
//!   `orphaned_pods_nodes` either: the quarantine of nodes is a part of each pass, whose queue is `pod_garbage_collector`. The
//!   passes of the node monitor have the queue `node_lifecycle_controller_rounds`.
//! - A silent node whose conditions could not be written counts as not ready for its zone; upstream does not count it.
//! - A timer belongs to one Pod, not to a name, and only a timer that was really stopped is reported as cancelled.
//! - A failed deletion is retried with back-off; upstream waits for the next event.
//! - A terminating Pod that has its condition is not deleted again.
//! - The quarantine of a node ends when the node exists again, and Pods of one node are removed concurrently.

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
/// All values that are set by flags.
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

/// Name, flags and loops of the program.
pub const DEFINITION: Definition = Definition {
    name: "node-lifecycle-controller",
    version: env!("CARGO_PKG_VERSION"),
    about: "Judges the health of nodes, evicts Pods because of NoExecute taints, and removes Pods that no kubelet will finish.",
    loops: LOOPS,
    workers: &[],
    gates: GATES,
    tunes: garbage::TUNES,
    flags: FLAGS,
};

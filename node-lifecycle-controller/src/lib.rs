//! Monitors the health of nodes: detects nodes that have failed, taints them, and evicts or removes their Pods.
//!
//! # What it promises
//!
//! A node without a heartbeat for its grace period gets conditions and taints that show this. A node that reports a problem
//! gets the corresponding taints ([`monitor`]). If many nodes fail at once, only few are tainted; if all nodes fail, no node is
//! tainted. A Pod that does not tolerate a `NoExecute` taint of its node is deleted at once, and other Pods after their
//! `tolerationSeconds`; a condition gives the reason before the deletion ([`eviction`]). A Pod that tolerates the taints
//! without a limit is not deleted, nor is a Pod of a node that loses its taints in time. Pods that no kubelet will finish are
//! removed ([`garbage`]), but never a running Pod of an existing node. Every deletion names the UID of its Pod. While a node
//! renews its Lease, no Pod is deleted because of a taint for missing heartbeats, even if the node reports no status.
//!
//! In doubt, nothing is done. A process that was paused, was cut off or has just started has missed heartbeats. It makes no
//! decision about a node before it has received events and answers for a whole grace period (`server_contact.rs`).
//!
//! # How it is laid out
//!
//! Each of the three loops has its own queues, workers and metrics. All loops share one cache of Nodes and one of Pods. The
//! node monitor and the taint eviction share the watch of Leases and the records of nodes. Each of these two loops watches
//! Leases even if it runs alone; the Pod garbage collector does not watch Leases.
//!
//! ```text
//! Leases ──► heartbeats.rs: node_records.rs ──► monitor/health, monitor/tainting: conditions and taints of nodes
//!              ▲           └── is a node healthy? ──┐
//!              ├── events ──► queues of nodes, Pods ──► monitor/taints_and_labels: labels and taints of a node, monitor/readiness: a Pod
//! caches.rs ───┤                                    ▼
//! (Nodes, Pods ├── events ──► queue of Pods ──► eviction: condition, deletion
//!  by node)    │                 ▲ timers
//!              └── every 20 s ───┴────────────► garbage: phase, deletion without grace
//! ```
//!
//! A loop has a file with its requests and a folder with its decisions (`decide.rs`); parts with a name of their own are beside
//! them.
//!
//! # Where it differs from upstream
//!
//! - Heartbeats are recorded when they arrive. A pass examines only nodes that changed or have reached their deadline.
//! - Any change of a renewal time is a heartbeat; upstream accepts only a later time by the clock of the node.
//! - Before the conditions of a node become `Unknown`, its Lease is read from the server. Grace periods restart after a gap in
//!   the received events and when the process starts; upstream counts from the creation of a node that never reported.
//! - A node that another process set to `Unknown` is tainted only if this process also received no heartbeat in time.
//! - A restart leaves `NoExecute` taints in place; upstream removes and adds them again.
//! - Taints change in one write, with the version of the checked node as precondition; a failed write is retried with back-off.
//! - There are an alarm and an optional limit for the share of tainted nodes.
//! - Before a Pod is deleted, the Pod and its node are read from the server and the decision is made again. Writes name the
//!   version of the object for which they were decided. Upstream relies on its cache.
//! - A Pod is not deleted because of taints of the monitor while its node may be healthy: while heartbeats arrive, and after a
//!   gap in the received events until the node has reported or a grace period has passed.
//! - There is no queue `noexec_taint_node`: an event of a node enqueues its Pods in `noexec_taint_pod`. There is no queue
//!   `orphaned_pods_nodes` either: the quarantine of nodes is a part of each pass in the queue `pod_garbage_collector`. The
//!   passes of the node monitor have the queue `node_lifecycle_controller_rounds`.
//! - A node for which the write of `Unknown` conditions failed counts as not ready for its zone; upstream does not count it.
//! - A timer does not apply to a later Pod with the same name. Only a timer that was really stopped is reported as cancelled.
//! - A failed deletion is retried with back-off; upstream waits for the next event.
//! - A terminating Pod that already has the condition `DisruptionTarget` is not deleted again.
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
mod heartbeats;
mod node_records;
mod rate;
mod server_contact;
#[cfg(test)]
mod world;

use common::{app::ProgramDefinition, prelude::LoopDefinition};

/// The node monitor, the taint eviction and the Pod garbage collector.
pub const LOOPS: &[LoopDefinition] =
    &[monitor::NODE_LIFECYCLE_LOOP, eviction::TAINT_EVICTION_LOOP, garbage::POD_GARBAGE_COLLECTOR_LOOP];
/// The program as `common::app` runs it, with its loops, flags and feature gates.
pub const DEFINITION: ProgramDefinition = ProgramDefinition {
    name: "node-lifecycle-controller",
    version: env!("CARGO_PKG_VERSION"),
    about: "Judges the health of nodes, evicts Pods because of NoExecute taints, and removes Pods that no kubelet will finish.",
    loops: LOOPS,
    workers_flags: &[],
    feature_gates: &[eviction::TAINT_TOLERATION_COMPARISON_OPERATORS],
    tunables: &[garbage::POD_GC_PERIOD, garbage::POD_GC_NODE_QUARANTINE],
    single_value_flags: &[
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
    ],
};

//! Taint eviction and Pod garbage collection: what becomes of Pods whose node is tainted, out of service or gone.
//!
//! # What it promises
//!
//! A Pod leaves a node whose `NoExecute` taints it does not tolerate, at once or after its `tolerationSeconds`, and its
//! condition gives the reason before it is deleted ([`eviction`]). A Pod that tolerates the taints without a limit is never
//! deleted, and neither is a Pod whose node lost its taints in time. Pods that no kubelet will ever finish are removed
//! ([`garbage`]), but never a Pod that runs on a node the server knows. Every deletion names the Pod it is meant for.
//!
//! # What is missing
//!
//! The main loop, `node-lifecycle-controller`, is not part of this crate yet: nothing here judges the heartbeats of nodes,
//! adds or removes taints, or marks Pods of dead nodes as not ready. That loop stays in kube-controller-manager until then.
//!
//! # How it is laid out
//!
//! ```text
//!              ┌── events ──► queue of Pods ──► decide/eviction ──► act/eviction.rs: condition, deletion
//! caches.rs ───┤                 ▲ timers
//! (Nodes, Pods └── every 20 s ───┼────────────► decide/garbage ───► act/garbage.rs: phase, deletion without grace
//!  by node)
//! ```
//!
//! # Where it differs from upstream
//!
//! - Before a Pod is deleted, the Pod and its node are read from the server and the decision is made again; writes name the
//!   version that was judged. Upstream deletes on what its cache shows.
//! - A timer belongs to one Pod, not to a name, and only a timer that was really stopped is reported as cancelled.
//! - A deletion that failed is retried with back-off; upstream waits for the next event.
//! - A terminating Pod that has its condition is not deleted again.
//! - A node that is back ends its quarantine, and removals of Pods of one node run in parallel.

pub mod decide;
pub mod error;
pub mod eviction;
pub mod garbage;
pub mod objects;

mod act;
mod caches;
mod pass;

use common::{app::Definition, runtime::LoopDefinition, settings::FeatureGate, settings::Tune};

pub use caches::POD_INDEXES;
pub use pass::Pass;

/// All loops of this program.
pub const LOOPS: &[LoopDefinition] = &[eviction::TAINT_EVICTION, garbage::POD_GARBAGE_COLLECTOR];
/// All feature gates of this program.
pub const GATES: &[FeatureGate] = &[eviction::COMPARISON];
/// All values that have a flag.
pub const FLAGS: &[Tune] = &[garbage::TERMINATED_POD_GC_THRESHOLD];

/// The program.
pub const DEFINITION: Definition = Definition {
    name: "node-lifecycle-controller",
    about: "Removes Pods from nodes they may not stay on, and Pods that nobody will finish.",
    loops: LOOPS,
    workers: &[],
    gates: GATES,
    tunes: garbage::TUNES,
    flags: FLAGS,
};

//! The end of nodes, and of the Pods on them.
//!
//! # What it promises
//!
//! A Pod leaves a node whose `NoExecute` taints it does not tolerate, at once or when its time there is over, and says why
//! before it goes ([`eviction`]); one that tolerates them for ever is never deleted, nor one whose node lost its taints in
//! time. Pods that nobody will ever finish are removed ([`garbage`]): never a Pod that runs on a node the server knows.
//! Every deletion is meant for one Pod and never meets another one of its name.
//!
//! # How it is laid out
//!
//! ```text
//!              ┌── events ──► queue of Pods ──► decide/eviction ──► condition, deletion
//! caches.rs ───┤                 ▲ timers
//! (Nodes, Pods └── every 20 s ───┼────────────► decide/garbage ───► phase, deletion at once
//!  by node)
//! ```

pub mod act;
pub mod decide;
pub mod error;
pub mod objects;

mod caches;
mod pass;

use common::{app::Definition, runtime::LoopDefinition, settings::FeatureGate, settings::Tune};

pub use act::{eviction, garbage};
pub use pass::Pass;

/// All loops of this crate.
pub const LOOPS: &[LoopDefinition] = &[eviction::TAINT_EVICTION, garbage::POD_GARBAGE_COLLECTOR];
/// All gates this crate knows.
pub const GATES: &[FeatureGate] = &[eviction::COMPARISON];
/// All values of this crate that have a flag.
pub const FLAGS: &[Tune] = &[garbage::TERMINATED_POD_GC_THRESHOLD];

/// The program.
pub const DEFINITION: Definition = Definition {
    name: "node-lifecycle-controller",
    about: "Removes Pods from nodes they may not stay on, and Pods that nobody will finish.",
    loops: LOOPS,
    workers: &[],
    gates: GATES,
    tunes: &[],
    flags: FLAGS,
};

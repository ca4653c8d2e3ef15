//! Protects storage that is in use, and creates the claims of ephemeral volumes.
//!
//! In this crate, a "claim" is a PersistentVolumeClaim, a "class" a VolumeAttributesClass, and a "volume" an entry in
//! `spec.volumes` of a Pod.
//!
//! # What it promises
//!
//! Claims, PersistentVolumes and classes have a protection finalizer as long as they are not deleted. A deleted one loses the
//! finalizer when nothing uses it: a claim when no Pod with a node names it, a PersistentVolume when it is not bound, a class when no
//! claim and no PersistentVolume names it. The cache alone never frees a claim: the Pods of its namespace are listed from the server
//! after the deletion. Each ephemeral volume of a Pod has a claim that the Pod owns. A claim of another owner is neither used nor
//! changed.
//!
//! # How it is laid out
//!
//! The four loops have their own queues and workers. They share the caches of claims, Pods and PersistentVolumes. The three
//! protections share their loop, [`protection`], and differ in what uses an object.
//!
//! ```text
//! events of claims, Pods ────────► queue ──► claims.rs ──┐
//! events of volumes, classes ────► queue ────────────────┴► protection.rs ──► protection/decide.rs ──► act ──► API server
//! new Pods, deleted claims ──────► queue ─────────────────► ephemeral.rs ───► ephemeral/decide.rs ───► act ──► API server
//! ```
//!
//! `docs/behaviour/volume-controller.md` lists the differences from upstream.

pub mod claims;
pub mod ephemeral;
pub mod objects;
pub mod protection;

#[cfg(test)]
mod world;

use common::{app::ProgramDefinition, prelude::LoopDefinition, settings::EXPECTATIONS_TIMEOUT};

/// The loops of claims, PersistentVolumes, classes and ephemeral volumes.
pub const LOOPS: &[LoopDefinition] = &[
    claims::CLAIM_PROTECTION_LOOP,
    protection::VOLUME_PROTECTION_LOOP,
    protection::CLASS_PROTECTION_LOOP,
    ephemeral::EPHEMERAL_VOLUME_LOOP,
];

/// Name, flags and loops of the binary.
pub const DEFINITION: ProgramDefinition = ProgramDefinition {
    name: "volume-controller",
    version: env!("CARGO_PKG_VERSION"),
    about: "Protects PersistentVolumeClaims, PersistentVolumes and VolumeAttributesClasses in use, and creates the claims of \
            ephemeral volumes.",
    loops: LOOPS,
    workers_flags: &[ephemeral::CONCURRENT_EPHEMERAL_VOLUME_SYNCS],
    feature_gates: &[protection::VOLUME_ATTRIBUTES_CLASS],
    tunables: &[EXPECTATIONS_TIMEOUT],
    single_value_flags: &[],
};

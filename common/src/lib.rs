//! The foundation of every controller.
//!
//! # What it promises
//!
//! A controller defines the objects that it reads, the keys that each event concerns, and the sync of a key. This crate does
//! the rest. It fills the caches, which never go back in time. Only one worker syncs a key at a time. No decision is made from a
//! cache that lacks the controller's own writes. Nothing is written without the Lease. A failure or a panic delays only one key.
//! Metrics and debug endpoints report everything.
//!
//! ```text
//!             informer ──► store (indexes) ──────► observe ──► decide ──► act ──► io ──► api ──► gate ──► API server
//! API server ───┤                                     ▲        (pure)                    │       (leader?)
//!               └─ handlers ──► queue ──► worker ─────┘                                  └──► ledger, Events, account
//! ```
//!
//! # Where things are
//!
//! This directory has five crates. Each depends only on crates above it in the table. This crate re-exports the modules that
//! controllers use; [`prelude`] has the types of a loop.
//!
//! | crate | modules |
//! | --- | --- |
//! | `objects`: what objects mean | [`meta`], [`object`] decoding, [`head`] (the part read first), [`wire`] (protobuf), [`pods`], [`refs`], [`selector`], [`conditions`], [`revision`], [`template`], [`hash`], [`quantity`], [`intstr`], [`taints`], [`json`], [`intern`] (shared strings), [`map`], [`parsed`] texts, [`duration`] in Go's format |
//! | `platform`: the process and its machine | [`clock`] for time and randomness, [`watched`] values, [`pace`] of wake-ups, [`metrics`], [`panics`], [`version`] |
//! | `client`: the API server | [`client`] connections, [`api`] requests and error classes, [`gate`] for writes, [`informer`], [`store`], [`succession`], [`consistency`], [`history`] (lost changes), [`events`], [`batch`] for slow start |
//! | `control`: the loop | [`controller`] workers with a [`queue`], [`io`] of a sync, [`runtime`] (the dependencies of a loop), [`leader`] election, [`settings`], [`explain`] for `/debug/explain`, [`pod_creation_pauses`] |
//! | `service`: the process | [`app`] from flags to drain, [`logging`], [`server`], [`second_writer`], [`built_in_flags`] |
//!
//! This crate knows no particular controller. Its only global state is the table of interned strings, the seed of the hash maps
//! and, per thread, the numbers of the protobuf fields that each projection reads.

pub mod prelude;

pub use nonet_client::{api, batch, client, consistency, events, gate, history, informer, owners, store, succession};
pub use nonet_control::{controller, explain, io, leader, pod_creation_pauses, queue, runtime, settings};
pub use nonet_objects::{
    conditions, duration, hash, head, intern, intstr, json, map, meta, object, parsed, pods, quantity, refs, revision,
    selector, taints, template, wire,
};
pub use nonet_platform::{clock, metrics, pace, panics, version, watched};
pub use nonet_service::{app, built_in_flags, logging, second_writer, server};

//! The scaffolding every controller stands on.
//!
//! # What it promises
//!
//! A controller says which objects it reads, which events concern which key, and what to do about a key. This crate sees to
//! the rest: its caches are filled and never go back in time, a key is never worked on twice at once, nothing is decided on
//! a view that lacks the controller's own writes, nothing is written without the lease, a failure or a panic costs one key
//! a delay, and everything is counted and can be asked for.
//!
//! ```text
//!             informer ──► store (indexes) ──────► observe ──► decide ──► act ──► io ──► api ──► gate ──► API server
//! API server ───┤                                     ▲        (pure)                    │       (leader?)
//!               └─ handlers ──► queue ──► worker ─────┘                                  └──► ledger, Events, account
//! ```
//!
//! # Where things are
//!
//! Five crates below this directory, each of which stands on those before it. This one re-exports what a controller needs.
//!
//! | crate | modules |
//! | --- | --- |
//! | `objects`: what objects mean | [`meta`], [`object`] decoding, [`head`] that comes first, [`wire`] in protobuf, [`pods`], [`refs`], [`selector`], [`conditions`], [`revision`], [`template`], [`hash`], [`quantity`], [`intstr`], [`taints`], [`json`], [`intern`] of texts that repeat, [`map`], [`parsed`] texts, [`duration`] as Go writes it |
//! | `platform`: what a process has | [`clock`] for time and chance, [`watched`], [`pace`] of wake-ups, [`metrics`], [`panics`], [`version`] |
//! | `client`: the API server | [`client`] connections, [`api`] requests and error classes, [`gate`] of the leader, [`informer`], [`store`], [`succession`], [`consistency`], [`events`], [`batch`] slow start |
//! | `control`: the loop | [`controller`] workers over a [`queue`], [`io`] of a sync, [`runtime`] what a loop is given, [`leader`] election, [`settings`], [`explain`] in few lines, [`terminating_namespaces`] |
//! | `service`: the process | [`app`] from flags to drain, [`logging`], [`server`], [`second_writer`], [`built_in_flags`] |
//!
//! There is no knowledge of any one controller here, and no global state but the table of interned texts, the seed of hash maps,
//! and, per thread, the numbers of the protobuf fields that each projection reads.

pub use nonet_client::{api, batch, client, consistency, events, gate, informer, owners, store, succession};
pub use nonet_control::{controller, explain, io, leader, queue, runtime, settings, terminating_namespaces};
pub use nonet_objects::{
    conditions, duration, hash, head, intern, intstr, json, map, meta, object, parsed, pods, quantity, refs, revision,
    selector, taints, template, wire,
};
pub use nonet_platform::{clock, metrics, pace, panics, version, watched};
pub use nonet_service::{app, built_in_flags, logging, second_writer, server};

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
//!            informer ──► store (indexes) ──► observe ──► decide ──► sequence ──► executor ──► api ──► gate ──► API server
//! API server ───┤             ▲                  ▲        (pure)      (pure)         │       (leader?)
//!               └─ handlers ──┼──► queue ──► worker                                  └──► consistency, events, account
//!                             └── version seen ◄─────────── waits for ───────────────────────┘
//! ```
//!
//! # Where things are
//!
//! | | |
//! | --- | --- |
//! | the process | [`app`] from flags to drain, [`settings`] of flags, gates and `--tune`, [`logging`], [`server`], [`metrics`], [`panics`] |
//! | the loop | [`runtime`] what a loop is given, [`controller`] workers over a [`queue`], [`sequence`] of the requests of a sync, [`batch`] slow start, [`explain`] in few lines |
//! | reading | [`informer`], [`store`], [`object`] decoding with [`meta`], [`intern`] of texts that repeat, [`map`], [`parsed`] texts |
//! | writing | [`client`] connections, [`api`] requests and error classes, [`gate`] of the leader, [`leader`] election and [`succession`], [`consistency`], [`events`], [`terminating_namespaces`] |
//! | what objects mean | [`pods`], [`refs`], [`selector`], [`conditions`], [`revision`], [`template`], [`hash`], [`quantity`], [`intstr`], [`taints`], [`json`] |
//! | time, chance and order | [`clock`] and [`watched`], and nothing else; [`duration`] as Go writes it; [`pace`] of wake-ups |
//!
//! There is no knowledge of any one controller here, and no global state but the table of interned texts and the seed of
//! hash maps.

pub use nonet_client::{api, batch, client, consistency, events, gate, informer, store, succession};
pub use nonet_control::{controller, explain, io, leader, queue, runtime, sequence, settings, terminating_namespaces};
pub use nonet_objects::{
    conditions, duration, hash, intern, intstr, json, map, meta, object, parsed, pods, quantity, refs, revision,
    selector, taints, template,
};
pub use nonet_platform::{clock, metrics, pace, panics, version, watched};
pub use nonet_service::{app, built_in_flags, logging, second_writer, server};

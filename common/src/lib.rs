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

pub mod api;
pub mod app;
pub mod batch;
pub mod built_in_flags;
pub mod client;
pub mod clock;
pub mod conditions;
pub mod consistency;
pub mod controller;
pub mod duration;
pub mod events;
pub mod explain;
pub mod gate;
pub mod hash;
pub mod informer;
pub mod intern;
pub mod intstr;
pub mod io;
pub mod json;
mod layout;
pub mod leader;
pub mod logging;
pub mod map;
pub mod meta;
pub mod metrics;
pub mod object;
pub mod pace;
pub mod panics;
pub mod parsed;
pub mod pods;
pub mod quantity;
pub mod queue;
pub mod refs;
pub mod revision;
pub mod runtime;
pub mod second_writer;
pub mod selector;
pub mod sequence;
pub mod server;
pub mod settings;
mod siphash;
pub mod store;
pub mod succession;
pub mod taints;
pub mod template;
pub mod terminating_namespaces;
pub mod version;
pub mod watched;

//! The controllers, an API server and nodes in one thread, in virtual time, with injected faults.
//!
//! ```text
//!   scenario ──► users' steps ─┐                    ┌─► invariants, after every write
//!                              ▼                    │
//!   controllers ── wires ──► sandbox ── writes ──► world ──► promises, at the end
//!   (real loops)     ▲
//!                    └── hub: counts writes; faults strike at the K-th
//! ```
//!
//! - [`scenario`]: the steps of users, as data, and the oracles; [`scenarios`] has files for each controller, and [`notation`] reads
//!   the texts among them.
//! - [`perturbation`]: the faults of a run, as data with a short text; [`plan`] lists all perturbations of a scenario.
//! - [`run`](mod@run): one run. The same scenario, perturbation and seed give the same run, byte for byte.
//! - [`world`]: the true state, built from the API server's own log of writes.
//! - [`outcome`] and [`judge`](mod@judge): the result of a run, and its violations.
//! - [`impostor`]: writes under a controller's name, to show that an oracle notices them.
//! - [`neighbour`]: hostile objects in a namespace of their own, beside any scenario.
//! - [`safeguard`]: removes the controllers' safeguards, to show that an oracle notices.
//!
//! Each program is a process of its own with its own clock, connected by a wire: its messages take time, and a dead process
//! sends nothing more. Two things are not simulated: programs never share a process, and messages are never reordered within
//! one watch, because no API server does that.

mod accounts;
mod command;
pub mod explore;
mod flags;
mod hub;
pub mod impostor;
mod json;
pub mod judge;
pub mod neighbour;
pub mod notation;
pub mod outcome;
pub mod perturbation;
pub mod plan;
pub mod regressions;
pub mod run;
pub mod safeguard;
pub mod scenario;
pub mod scenarios;
mod stage;
mod trace;
pub mod users;
mod wire;
pub mod world;

pub use command::{main, reproduce};
pub use hub::Point;

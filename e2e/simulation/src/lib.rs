//! The simulation: controllers, API server and nodes in one thread, in virtual time, where anything goes wrong that can.
//!
//! ```text
//!   scenario ──► users' steps ─┐                    ┌─► invariants, after every write
//!                              ▼                    │
//!   controllers ── wires ──► sandbox ── writes ──► world ──► promises, in the end
//!   (real loops)     ▲
//!                    └── hub: counts writes; faults strike at the K-th
//! ```
//!
//! - [`scenario`]: what users do, as data, and what must hold; [`scenarios`] has a file for each controller.
//! - [`perturbation`]: what goes wrong, as data with a short text; [`plan`] lists all there are of a scenario.
//! - [`run`](mod@run): one run. Same scenario, perturbation and seed: the same run, to the byte.
//! - [`world`]: the true state, built from the API server's own log of writes.
//! - [`outcome`] and [`judge`](mod@judge): what a run was, and what is wrong with it.
//! - [`impostor`]: writes under a controller's name, to see that an oracle notices.
//! - [`neighbour`]: hostile objects in a namespace of their own, beside any scenario.
//! - [`safeguard`]: takes the controllers' safeguards away, to see that something notices.
//!
//! Each program is a process of its own with its own clock, connected by a wire: its messages take time, and when it is dead
//! nothing leaves it any more. What is not simulated: two programs never share a process, and no message is reordered within
//! one watch, because no API server does that.

mod accounts;
mod command;
pub mod explore;
mod flags;
mod hub;
pub mod impostor;
pub mod json;
pub mod judge;
pub mod neighbour;
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
mod users;
mod wire;
pub mod world;

pub use command::{main, reproduce};
pub use hub::Point;

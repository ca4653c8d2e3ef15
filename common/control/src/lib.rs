//! The parts of a control loop: work queue, controller trait, requests of a sync, leader election, settings.

pub mod controller;
pub mod explain;
pub mod io;
pub mod leader;
pub mod queue;
pub mod runtime;
pub mod settings;
pub mod terminating_namespaces;

use nonet_client::{api, batch, consistency, events, gate, informer, store, succession, write_sampler};
#[cfg(test)]
use nonet_objects::pods;
use nonet_objects::{duration, intern, map, meta, object, refs, revision};
use nonet_platform::{clock, metrics, pace, panics};

//! The parts of a control loop: work queue, controller trait, requests of a sync, leader election, settings.

pub mod ca_bundle_file;
pub mod controller;
pub mod explain;
pub mod io;
pub mod leader;
pub mod pod_creation_pauses;
pub mod queue;
pub mod runtime;
pub mod settings;

use nonet_client::{api, batch, consistency, discovery, events, gate, informer, store, succession, write_sampler};
use nonet_objects::{duration, intern, map, meta, object, partial_object, pods, refs, revision, selector, wire};
use nonet_platform::{clock, metrics, pace, panics};

//! Access to the API server: connections, requests, the gate for writes, informers and their stores, Events, and the record of
//! writes that the caches do not show yet.

pub mod api;
pub mod batch;
pub mod ca_bundle;
pub mod client;
pub mod consistency;
pub mod discovery;
pub mod events;
pub mod gate;
pub mod history;
pub mod informer;
pub mod name_sorted_list;
pub mod owners;
pub mod selector_index;
pub mod store;
pub mod succession;
pub mod write_sampler;

use nonet_objects::{head, index, intern, json, map, meta, object, refs, selector, siphash, wire};
use nonet_platform::{clock, metrics, pace, version, watched};

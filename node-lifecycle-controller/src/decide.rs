//! Deciding: a snapshot in, a plan out. Pure: no requests, no clock, no randomness.
//!
//! Each loop has its own module: [`eviction`] decides about one Pod, [`garbage`] about one pass over all Pods.

pub mod eviction;
pub mod garbage;

pub mod quarantine;

//! Deciding: a snapshot in, a plan out. Pure: no requests, no clock, no randomness.
//!
//! Each loop decides for itself: [`eviction`] about one Pod, [`garbage`] about all of them.

pub mod eviction;
pub mod garbage;

pub(crate) mod quarantine;

//! Deciding: a snapshot in, a plan out. Pure: no requests, no clock, no randomness.
//!
//! Each loop has its own modules: [`eviction`] decides about one Pod, [`garbage`] about one pass over all Pods. Of the node
//! monitor, [`health`] decides about a pass over nodes, with [`sight`] and [`zones`]; [`tainting`] about who is tainted next,
//! at the [`rate`] of the zone; [`upkeep`] about one node; [`readiness`] about one Pod. [`taints`] are the taints of all.

pub mod eviction;
pub mod garbage;
pub mod health;
pub mod quarantine;
pub mod rate;
pub mod readiness;
pub mod sight;
pub mod tainting;
pub mod taints;
pub mod upkeep;
pub mod zones;

//! What a cluster does beside its API server.
//!
//! [`definitions`], [`namespaces`] and [`quotas`] act on a write at once, within the write
//! ([`Actor`](crate::verbs::core::Actor)), so that a simulation has the same steps in each run. The others are clients.

pub(crate) mod definitions;
pub mod loops;
pub(crate) mod namespaces;
pub mod nodes;
pub mod protection;
pub(crate) mod quotas;

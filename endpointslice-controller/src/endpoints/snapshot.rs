//! Everything one sync of Endpoints may read.

use std::sync::Arc;

use common::meta::Key;

use crate::{
    by_name::Pods,
    memory::{Seen, Settled},
    objects::{Endpoints, Service},
};

/// A Service and its Pods.
#[derive(Clone, Debug)]
pub struct Members {
    /// The Service.
    pub service: Arc<Service>,
    /// The Pods that it selects, by name.
    pub pods: Pods,
    /// What the last sync saw; `None` before the first one.
    pub seen: Option<Arc<Seen>>,
    /// The state that needed no write, if the last sync found one.
    pub settled: Option<Settled>,
}

/// Everything one sync may look at.
#[derive(Clone, Debug)]
pub struct Snapshot {
    /// The key of the Service and of the Endpoints.
    pub key: Key,
    /// The Service and its Pods; `None` if the Service is gone.
    pub members: Option<Members>,
    /// The Endpoints in the cache.
    pub endpoints: Option<Arc<Endpoints>>,
}

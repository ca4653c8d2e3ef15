//! The input of one sync of Endpoints.

use std::sync::Arc;

use common::meta::Key;

use crate::{
    by_name::Pods,
    memory::{Seen, Settled},
    objects::{Endpoints, Service},
};

/// A Service and the Pods that it selects.
#[derive(Clone, Debug)]
pub struct Members {
    /// The cached Service.
    pub service: Arc<Service>,
    /// Selected Pods, sorted by name.
    pub pods: Pods,
    /// The state that the last sync saw; `None` before the first sync.
    pub seen: Option<Arc<Seen>>,
    /// The inputs for which the last sync needed no write.
    pub settled: Option<Settled>,
}

/// The input of one sync of Endpoints.
#[derive(Clone, Debug)]
pub struct Snapshot {
    /// Namespace and name, the same for the Service and its Endpoints.
    pub key: Key,
    /// The Service and its Pods; `None` if the Service does not exist.
    pub members: Option<Members>,
    /// The Endpoints in the cache.
    pub endpoints: Option<Arc<Endpoints>>,
}

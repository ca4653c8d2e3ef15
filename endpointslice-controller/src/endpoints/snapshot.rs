//! The input of one sync of Endpoints.

use std::sync::Arc;

use common::meta::Key;

use crate::{
    by_name::Pods,
    memory::{SettledVersions, SyncedState},
    objects::{Endpoints, Service},
};

/// A Service and the Pods that it selects.
#[derive(Clone, Debug)]
pub struct ServiceMembers {
    /// The Service in the cache, with or without a selector.
    pub service: Arc<Service>,
    /// Selected Pods, sorted by name; empty without a selector.
    pub pods: Pods,
    /// The state of the Service and its Pods in the last sync; `None` before the first sync.
    pub synced_state: Option<Arc<SyncedState>>,
    /// The versions of the Service and its Endpoints in the last sync; `None` if that sync needed a write.
    pub settled_versions: Option<SettledVersions>,
}

/// Everything that a sync reads about one Service and its Endpoints.
#[derive(Clone, Debug)]
pub struct Snapshot {
    /// Namespace and name, the same for the Service and its Endpoints.
    pub key: Key,
    /// The Service and its Pods; `None` if the Service does not exist.
    pub members: Option<ServiceMembers>,
    /// The cached Endpoints; `None` if they do not exist.
    pub endpoints: Option<Arc<Endpoints>>,
}

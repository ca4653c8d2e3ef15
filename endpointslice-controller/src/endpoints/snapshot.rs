//! The input of one sync of Endpoints.

use std::sync::Arc;

use common::meta::NamespacedName;

use crate::{
    by_name::NameSortedPods,
    memory::{InSyncVersions, SyncedServiceState},
    objects::{Endpoints, Service},
};

/// A Service and the Pods that it selects.
#[derive(Clone, Debug)]
pub struct ServiceWithPods {
    /// The Service in the cache, with or without a selector.
    pub service: Arc<Service>,
    /// Selected Pods, sorted by name; empty without a selector.
    pub pods: NameSortedPods,
    /// The state of the Service and its Pods in the last sync; `None` before the first sync.
    pub synced_state: Option<Arc<SyncedServiceState>>,
    /// The versions of the Service and its Endpoints in the last sync; `None` if that sync needed a write.
    pub in_sync_versions: Option<InSyncVersions>,
}

/// Everything that a sync reads about one Service and its Endpoints.
#[derive(Clone, Debug)]
pub struct Snapshot {
    /// Namespace and name, the same for the Service and its Endpoints.
    pub key: NamespacedName,
    /// The Service and its Pods; `None` if the Service does not exist.
    pub service_with_pods: Option<ServiceWithPods>,
    /// The cached Endpoints; `None` if they do not exist.
    pub endpoints: Option<Arc<Endpoints>>,
}

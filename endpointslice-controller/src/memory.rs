//! The controller's memory of a Service between two syncs. A new leader starts with an empty memory.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use common::prelude::*;
use jiff::Timestamp;
use parking_lot::Mutex;

use crate::{
    objects::{AddressType, Endpoints, NameSortedPods, Service},
    pods_in_slices::PodsInSlices,
    zones::EndpointCountsByZone,
};

/// For each address type, the number of endpoints with a hint for each zone.
pub type HintCounts = BTreeMap<AddressType, EndpointCountsByZone>;

/// The data about one Service that a loop keeps from a sync to the next.
#[derive(Clone, Debug, Default)]
pub struct ServiceMemory {
    /// `metadata.uid` of the Service.
    pub uid: Uid,
    /// The state of the Service and its Pods in the last sync; `None` before the first sync.
    pub synced_state: Option<Arc<SyncedServiceState>>,
    /// The slice that listed each Pod after the last sync; `None` for a small Service, or if the next sync must read all Pods.
    pub pods_in_slices: Option<Arc<PodsInSlices>>,
    /// For each address type, the number of endpoints with a hint for each zone; empty without hints by CPU capacity.
    pub hint_counts: HintCounts,
    /// Whether this process has emitted the Event `TopologyAwareHintsEnabled` since hints by CPU capacity were enabled.
    pub has_emitted_hints_enabled_event: bool,
    /// The versions in the last sync of the Endpoints loop; `None` if that sync needed a write. Unused by the other loops.
    pub in_sync_versions: Option<InSyncVersions>,
}

/// The versions of a Service and its Endpoints in a sync that needed no write. The next sync needs no write if these versions
/// and the Pods in [`ServiceMemory::synced_state`] have not changed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InSyncVersions {
    service: ResourceVersion,
    endpoints: (Uid, ResourceVersion),
}

impl InSyncVersions {
    /// Takes the versions from the metadata of the cached objects.
    pub fn new(service: &Service, endpoints: &Endpoints) -> Self {
        let Meta { uid, resource_version, .. } = &*endpoints.metadata;
        Self { service: service.metadata.resource_version, endpoints: (uid.clone(), *resource_version) }
    }
}

/// The state of a Service and its Pods in the last sync.
#[derive(Clone, Debug)]
pub struct SyncedServiceState {
    /// The creation timestamp of the Service.
    pub service_creation_time: Timestamp,
    /// Selected Pods, sorted by name; a cheap copy of the list in the index of Pods.
    pub pods: NameSortedPods,
}

/// The memories of all Services by namespace and name; lost when the process ends.
#[derive(Debug, Default)]
pub(crate) struct ServiceMemoryByKey(Mutex<HashMap<NamespacedName, ServiceMemory>>);

impl ServiceMemoryByKey {
    /// Returns the memory of a Service; an empty memory if none is stored, or if the stored one is of another UID.
    pub(crate) fn memory_of_service(&self, key: &NamespacedName, uid: &Uid) -> ServiceMemory {
        let known = self.0.lock().get(key).filter(|memory| memory.uid == *uid).cloned();
        known.unwrap_or_else(|| ServiceMemory { uid: uid.clone(), ..ServiceMemory::default() })
    }

    pub(crate) fn store_memory(&self, key: &NamespacedName, memory: ServiceMemory) {
        self.0.lock().insert(key.clone(), memory);
    }

    /// Removes the memory of the Service with this UID. Does not remove the memory of a newer Service with the same name.
    pub(crate) fn drop_memory(&self, key: &NamespacedName, uid: &Uid) {
        let mut memories = self.0.lock();
        if memories.get(key).is_some_and(|memory| memory.uid == *uid) {
            memories.remove(key);
        }
    }

    /// Returns the Services with a memory for which `concerns` is true, sorted by namespace and name.
    pub(crate) fn services_where(&self, concerns: impl Fn(&ServiceMemory) -> bool) -> BTreeSet<NamespacedName> {
        let memories = self.0.lock();
        memories.iter().filter(|(_, memory)| concerns(memory)).map(|(key, _)| key.clone()).collect()
    }
}

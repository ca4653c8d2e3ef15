//! The controller's memory of a Service between two syncs. A new leader starts with an empty memory.

use std::{collections::BTreeMap, sync::Arc};

use common::{
    map::HashMap,
    meta::{Key, Meta, Uid, Version},
};
use jiff::Timestamp;
use parking_lot::Mutex;

use crate::{
    by_name::Pods,
    objects::{AddressType, Endpoints, Service},
    packing::Packing,
    zones::Counts,
};

/// The number of endpoints hinted to each zone, by address type.
pub type Hints = BTreeMap<AddressType, Counts>;

/// The data about one Service that a loop keeps from a sync to the next.
#[derive(Clone, Debug, Default)]
pub struct Memory {
    /// `metadata.uid` of the Service.
    pub uid: Uid,
    /// The Service and its Pods in the last sync; `None` before the first sync.
    pub seen: Option<Arc<Seen>>,
    /// The slice of each Pod after the last sync; `None` for a small Service, or if the next sync must consider all Pods.
    pub packing: Option<Arc<Packing>>,
    /// The number of endpoints hinted to each zone; empty without hints by capacity.
    pub hints: Hints,
    /// Whether the Event `TopologyAwareHintsEnabled` has been emitted since hints by capacity were enabled.
    pub hints_announced: bool,
    /// The versions of the Service and its Endpoints if the last sync of the Endpoints loop needed no write.
    pub settled: Option<Settled>,
}

/// The versions of a Service and its Endpoints for which no write was needed, given the Pods in [`Memory::seen`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settled {
    service: Version,
    endpoints: (Uid, Version),
}

impl Settled {
    /// Creates a record of the versions of these objects.
    pub fn new(service: &Service, endpoints: &Endpoints) -> Self {
        let Meta { uid, resource_version, .. } = &endpoints.metadata;
        Self { service: service.metadata.resource_version, endpoints: (uid.clone(), *resource_version) }
    }
}

/// The state of a Service and its Pods in the last sync.
#[derive(Clone, Debug)]
pub struct Seen {
    /// The creation timestamp of the Service.
    pub service: Timestamp,
    /// Selected Pods, sorted by name. The list shares its parts with the index of members.
    pub pods: Pods,
}

/// The memories of all Services, by key.
#[derive(Debug, Default)]
pub(crate) struct Memories(Mutex<HashMap<Key, Memory>>);

impl Memories {
    /// Returns the memory of the Service with this UID; an empty memory for a new UID.
    pub(crate) fn of(&self, key: &Key, uid: &Uid) -> Memory {
        let known = self.0.lock().get(key).filter(|memory| memory.uid == *uid).cloned();
        known.unwrap_or_else(|| Memory { uid: uid.clone(), ..Memory::default() })
    }

    pub(crate) fn keep(&self, key: &Key, memory: Memory) {
        self.0.lock().insert(key.clone(), memory);
    }

    /// Removes the memory of the Service with this UID. The memory of a newer Service with the same name stays.
    pub(crate) fn forget(&self, key: &Key, uid: &Uid) {
        let mut memories = self.0.lock();
        if memories.get(key).is_some_and(|memory| memory.uid == *uid) {
            memories.remove(key);
        }
    }

    /// Returns the hint counts of all Services with hints by capacity, sorted by key.
    pub(crate) fn with_hints(&self) -> Vec<(Key, Hints)> {
        let memories = self.0.lock();
        let hinted = memories.iter().filter(|(_, memory)| !memory.hints.is_empty());
        let mut all: Vec<_> = hinted.map(|(key, memory)| (key.clone(), memory.hints.clone())).collect();
        all.sort_by(|a, b| a.0.cmp(&b.0));
        all
    }
}

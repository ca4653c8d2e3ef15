//! What is remembered of a Service between two syncs. A successor begins anew.

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

/// How many endpoints serve each zone, by address type.
pub type Hints = BTreeMap<AddressType, Counts>;

/// What is remembered of one Service.
#[derive(Clone, Debug, Default)]
pub struct Memory {
    /// The uid of the Service.
    pub uid: Uid,
    /// What the last sync saw; `None` before the first one.
    pub seen: Option<Arc<Seen>>,
    /// The packing that the last sync left, if the Service is large and the next sync can go on from there.
    pub packing: Option<Arc<Packing>>,
    /// How many endpoints serve each zone, where hints go by the capacity of zones.
    pub hints: Hints,
    /// Whether the Event that announces such hints was emitted.
    pub hints_announced: bool,
    /// The state that needed no write, if the last sync of the loop of Endpoints found one.
    pub settled: Option<Settled>,
}

/// The versions of a Service and its Endpoints that were as wanted with the Pods in [`Memory::seen`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settled {
    service: Version,
    endpoints: (Uid, Version),
}

impl Settled {
    /// The versions of these objects.
    pub fn new(service: &Service, endpoints: &Endpoints) -> Self {
        let Meta { uid, resource_version, .. } = &endpoints.metadata;
        Self { service: service.metadata.resource_version, endpoints: (uid.clone(), *resource_version) }
    }
}

/// A Service and its Pods, as the last sync saw them.
#[derive(Clone, Debug)]
pub struct Seen {
    /// When the Service was created.
    pub service: Timestamp,
    /// Its Pods by name. The list is shared with the index of members.
    pub pods: Pods,
}

/// The memories of all Services.
#[derive(Debug, Default)]
pub(crate) struct Memories(Mutex<HashMap<Key, Memory>>);

impl Memories {
    /// What is remembered of that Service, if it is still the same.
    pub(crate) fn of(&self, key: &Key, uid: &Uid) -> Memory {
        let known = self.0.lock().get(key).filter(|memory| memory.uid == *uid).cloned();
        known.unwrap_or_else(|| Memory { uid: uid.clone(), ..Memory::default() })
    }

    pub(crate) fn keep(&self, key: &Key, memory: Memory) {
        self.0.lock().insert(key.clone(), memory);
    }

    /// Forgets a Service, unless another one of its name is known by now.
    pub(crate) fn forget(&self, key: &Key, uid: &Uid) {
        let mut memories = self.0.lock();
        if memories.get(key).is_some_and(|memory| memory.uid == *uid) {
            memories.remove(key);
        }
    }

    /// The Services with hints by the capacity of zones, in order, and how many of each zone.
    pub(crate) fn with_hints(&self) -> Vec<(Key, Hints)> {
        let memories = self.0.lock();
        let hinted = memories.iter().filter(|(_, memory)| !memory.hints.is_empty());
        let mut all: Vec<_> = hinted.map(|(key, memory)| (key.clone(), memory.hints.clone())).collect();
        all.sort_by(|a, b| a.0.cmp(&b.0));
        all
    }
}

//! Which events of slices are the echo of own writes.

use common::{
    map::HashMap,
    meta::{Key, Meta, Uid, Version},
};
use parking_lot::Mutex;

/// What was last done to a slice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Last {
    Wrote(Version),
    Deleted,
}

/// What this process did last to the slices of each Service, until that is over.
///
/// Only who hears of an event asks; that a sync has seen own writes is the ledger's business. Upstream:
/// `staging/src/k8s.io/endpointslice/util`, `EndpointSliceTracker`.
#[derive(Debug, Default)]
pub(crate) struct OwnWrites(Mutex<HashMap<Key, HashMap<Uid, Last>>>);

impl OwnWrites {
    /// A slice was created or changed.
    pub(crate) fn wrote(&self, service: &Key, slice: &Uid, version: Version) {
        self.note(service, slice, Last::Wrote(version));
    }

    /// A slice was deleted.
    pub(crate) fn deleted(&self, service: &Key, slice: &Uid) {
        self.note(service, slice, Last::Deleted);
    }

    fn note(&self, service: &Key, slice: &Uid, last: Last) {
        self.0.lock().entry(service.clone()).or_default().insert(slice.clone(), last);
    }

    /// Whether a slice that came or changed is what was written here last.
    pub(crate) fn is_echo(&self, service: &Key, slice: &Meta) -> bool {
        let writes = self.0.lock();
        let last = writes.get(service).and_then(|slices| slices.get(&slice.uid));
        matches!(last, Some(Last::Wrote(version)) if slice.resource_version <= *version)
    }

    /// A slice is gone. Says whether it was deleted here.
    pub(crate) fn is_gone(&self, service: &Key, slice: &Uid) -> bool {
        let mut writes = self.0.lock();
        let Some(slices) = writes.get_mut(service) else { return false };
        let last = slices.remove(slice);
        if slices.is_empty() {
            writes.remove(service);
        }
        last == Some(Last::Deleted)
    }

    /// A Service is gone.
    pub(crate) fn forget(&self, service: &Key) {
        self.0.lock().remove(service);
    }
}

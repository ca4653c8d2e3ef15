//! Reads caches for the snapshots of several loops, and remembers the keys whose syncs wait for newer caches.

use std::{sync::Arc, time::Duration};

use common::{object::CachedObjectError, prelude::*};
use parking_lot::Mutex;

use crate::objects::{Slice, SlicesByService, service_index_value};

/// Keys that are enqueued again when the next event of their slices or Endpoints arrives, because a sync needs a newer cache.
#[derive(Debug, Default)]
pub(crate) struct WaitingKeys(Mutex<HashSet<NamespacedName>>);

impl WaitingKeys {
    pub(crate) fn add_waiting_key(&self, key: &NamespacedName) {
        self.0.lock().insert(key.clone());
    }

    /// Removes a key after an event that its sync may have waited for. Returns whether the sync waited.
    pub(crate) fn remove_waiting_key(&self, key: &NamespacedName) -> bool {
        self.0.lock().remove(key)
    }
}

/// Returns the slices of a Service, sorted by name: those with the label `managed-by: <managed_by>` that are not terminating.
pub(crate) fn slices_of_service(
    store: &Store<Slice>,
    key: &NamespacedName,
    managed_by: &str,
) -> Result<Vec<Arc<Slice>>, CachedObjectError> {
    let service = service_index_value(&key.namespace, &key.name);
    let mut slices = store.list_by_index_and_metadata(SlicesByService, &service, |meta| !meta.is_deleting())?;
    slices.retain(|slice| slice.is_managed_by(managed_by));
    Ok(slices)
}

/// Removes the ledger's record of a key if the caches show all recorded writes. Each sync does the same; this function is for a
/// key that may have no further sync.
pub(crate) fn drop_satisfied_ledger_record(ledger: &Ledger, key: &NamespacedName) {
    let _ = ledger.first_unseen_write(key, HashSet::default);
}

/// Delays the sync by 10 ms, because the event handler of Services has not updated the index of Pods yet.
pub(crate) fn waiting_for_pod_index() -> NoSnapshot {
    let why = "the index of Pods does not contain this state of the Service yet";
    NoSnapshot::waiting_because(why, Duration::from_millis(10))
}

//! Functions that read caches for the snapshots of several loops.

use std::{sync::Arc, time::Duration};

use common::{
    consistency::{Ledger, LedgerCache},
    controller::Observation,
    meta::{NamespacedName, Uid},
    object::CachedObjectError,
    store::Store,
};

use crate::objects::{Slice, SlicesByService, service_index_value};

/// Returns the slices of a Service, sorted by name: those with the label `managed-by: <managed_by>` that are not terminating.
pub(crate) fn slices_of_service(
    store: &Store<Slice>,
    key: &NamespacedName,
    managed_by: &str,
) -> Result<Vec<Arc<Slice>>, CachedObjectError> {
    let mut slices =
        store.list_by_index_and_metadata(SlicesByService, &service_index_value(&key.namespace, &key.name), |meta| {
            !meta.is_deleting()
        })?;
    slices.retain(|slice| slice.is_managed_by(managed_by));
    Ok(slices)
}

/// Returns the identifier under which the ledger records the writes of a key. The identifier is the key instead of the UID of
/// the source object, because the written objects can outlive the source object.
pub(crate) fn ledger_owner(key: &NamespacedName) -> Uid {
    Uid::new(&key.to_string())
}

/// Removes the ledger's record of `owner` if the cache shows all recorded writes. Each sync does the same; this function is for
/// an `owner` that may have no further sync.
pub(crate) fn drop_satisfied_ledger_record(ledger: &Ledger, owner: &Uid, cache: &dyn LedgerCache) {
    let _ = ledger.first_unseen_write(owner, &[cache], Default::default);
}

/// Delays the sync by 10 ms, because the event handler of Services has not updated the index of Pods yet.
pub(crate) fn wait_for_pod_index<S>() -> Observation<S> {
    Observation::waiting_because(
        "the index of Pods does not contain this state of the Service yet",
        Duration::from_millis(10),
    )
}

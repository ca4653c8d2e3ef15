//! Functions that read caches for the snapshots of several loops.

use std::{sync::Arc, time::Duration};

use common::{
    consistency::{Ledger, LedgerCache},
    controller::Observation,
    meta::{Key, Uid},
    object::UnreadableObject,
    store::Store,
};

use crate::objects::{Slice, SlicesByService, service_index_value};

/// Returns the slices of a Service with this value of the label `managed-by`, sorted by name, without terminating slices.
pub(crate) fn slices_of_service(
    store: &Store<Slice>,
    key: &Key,
    managed_by: &str,
) -> Result<Vec<Arc<Slice>>, UnreadableObject> {
    let mut slices =
        store.select_by_index(SlicesByService, &service_index_value(&key.namespace, &key.name), |meta| {
            !meta.is_deleting()
        })?;
    slices.retain(|slice| slice.is_managed_by(managed_by));
    Ok(slices)
}

/// Returns the owner under which the ledger records the writes of a key. The owner is the key instead of a UID, because the
/// written objects can outlive the object that they are made from.
pub(crate) fn ledger_owner(key: &Key) -> Uid {
    Uid::new(&key.to_string())
}

/// Removes an owner's record from the ledger if the cache shows all recorded writes. Each sync does the same; this function is
/// for owners that may have no further sync.
pub(crate) fn drop_satisfied_record(ledger: &Ledger, owner: &Uid, cache: &dyn LedgerCache) {
    let _ = ledger.unseen_write(owner, &[cache], Default::default);
}

/// Returns a wait of 10 ms, because the index of Pods lags behind the cache of Services until its handler has run.
pub(crate) fn wait_for_index<S>() -> Observation<S> {
    Observation::waiting_because(
        "the index of Pods does not contain this state of the Service yet",
        Duration::from_millis(10),
    )
}

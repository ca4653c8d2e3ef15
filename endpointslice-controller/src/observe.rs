//! What the loops read of caches and indexes in the same way.

use std::{sync::Arc, time::Duration};

use common::{
    consistency::{Cache, Ledger},
    controller::Observed,
    meta::{Key, Uid},
    object::Unreadable,
    store::Store,
};

use crate::objects::{ByService, Slice, service_value};

/// The slices of a Service with that value of the label `managed-by`, by name, without terminating ones.
pub(crate) fn slices_of(store: &Store<Slice>, key: &Key, managed_by: &str) -> Result<Vec<Arc<Slice>>, Unreadable> {
    let mut slices =
        store.select_by_index(ByService, &service_value(&key.namespace, &key.name), |meta| !meta.is_deleting())?;
    slices.retain(|slice| slice.is_managed_by(managed_by));
    Ok(slices)
}

/// The owner of the record in the ledger about the objects of that name that this process wrote: they outlive the object that they
/// are made from.
pub(crate) fn record(key: &Key) -> Uid {
    Uid::new(&key.to_string())
}

/// Drops the record of an owner if the cache shows all its writes. A sync does so by itself; this is for owners that may
/// have had their last sync.
pub(crate) fn drop_satisfied_record(ledger: &Ledger, owner: &Uid, cache: &dyn Cache) {
    let _ = ledger.behind(owner, &[cache], Default::default);
}

/// The key waits: the index of members has not seen the Service that the cache shows. Its handler runs at any moment.
pub(crate) fn wait_for_index<S>() -> Observed<S> {
    Observed::wait("the index of Pods has not seen this state of the Service yet", Duration::from_millis(10))
}

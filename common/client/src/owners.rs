//! Lookups of owners: the controller of a child, and the objects that may adopt an orphan.

use std::sync::Arc;

use crate::{
    index::{ByNamespace, HasIndex, IndexValue},
    meta::Meta,
    object::Object,
    refs,
    store::Store,
};

/// Returns the controller of `child`; `None` if it is of another kind, is missing in the cache, or could not be decoded.
pub fn controlling_owner<K: Object>(owners: &Store<K>, child: &Meta) -> Option<Arc<K>> {
    let lookup = |name: &str| owners.get_decoded(&child.namespace, name);
    refs::resolve_owner(child.controller()?, K::RESOURCE.kind(), lookup)
}

/// Returns the objects in the namespace of `orphan` for which `selects` is true, except objects that could not be decoded.
/// Returns no objects if the orphan is terminating or has no labels, because such an orphan is never adopted.
pub fn find_potential_adopters<K: Object, At>(
    owners: &Store<K>,
    orphan: &Meta,
    selects: impl Fn(&K) -> bool,
) -> impl Iterator<Item = Arc<K>>
where
    K::Indexes: HasIndex<ByNamespace, At>,
{
    let is_adoptable = !orphan.is_deleting() && !orphan.labels.is_empty();
    let namespace = IndexValue::Text(orphan.namespace.clone());
    let candidates = if is_adoptable { owners.list_decoded_by_index(ByNamespace, &namespace) } else { Vec::new() };
    candidates.into_iter().filter(move |owner| selects(owner))
}

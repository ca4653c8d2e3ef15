//! The owners that a child concerns: the one that controls it, or those that may adopt it.

use std::sync::Arc;

use crate::{
    index::{ByNamespace, Has, IndexValue},
    meta::Meta,
    object::Object,
    refs,
    store::Store,
};

/// The object of the child's namespace that controls it; `None` if the cache has no readable one.
pub fn owner_of<K: Object>(owners: &Store<K>, child: &Meta) -> Option<Arc<K>> {
    let lookup = |name: &str| owners.get_readable(&child.namespace, name);
    refs::resolve(child.controller()?, K::RESOURCE.kind, lookup)
}

/// The readable objects of the orphan's namespace that select it. An orphan that is terminating or has no labels is not adopted.
pub fn adopters_of<K: Object, At>(
    owners: &Store<K>,
    orphan: &Meta,
    selects: impl Fn(&K) -> bool,
) -> impl Iterator<Item = Arc<K>>
where
    K::Indexes: Has<ByNamespace, At>,
{
    let is_adoptable = !orphan.is_deleting() && !orphan.labels.is_empty();
    let namespace = IndexValue::Text(orphan.namespace.clone());
    let candidates = if is_adoptable { owners.readable_by_index(ByNamespace, &namespace) } else { Vec::new() };
    candidates.into_iter().filter(move |owner| selects(owner))
}

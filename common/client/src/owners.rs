//! Lookups of owners: the controller of a child, and the objects that may adopt an orphan.

use std::sync::Arc;

use crate::{
    index::{ByNamespace, HasIndex, IndexValue},
    intern::Labels,
    meta::Meta,
    object::Object,
    refs,
    store::{CacheEvent, Store},
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

/// Returns the cached owners that an event of a child concerns, as [`concerned_owners`] describes them.
///
/// `selects` returns whether the selector of an owner selects an orphan with these labels.
pub fn find_concerned_owners<K: Object, C: Object, At>(
    owners: &Store<K>,
    event: &CacheEvent<C>,
    selects: impl Fn(&K, &Labels) -> bool,
) -> Vec<Arc<K>>
where
    K::Indexes: HasIndex<ByNamespace, At>,
{
    let mut found = Vec::new();
    for concerned in concerned_owners(event) {
        match concerned {
            ConcernedOwners::Controller(child) => found.extend(controlling_owner(owners, child)),
            ConcernedOwners::Adopters(orphan) => {
                found.extend(find_potential_adopters(owners, orphan, |owner| selects(owner, &orphan.labels)));
            }
        }
    }
    found
}

/// The owners that an event of a child concerns.
#[derive(Clone, Copy, Debug)]
pub enum ConcernedOwners<'a> {
    /// The controller in this metadata of the child; none if the child has no controller.
    Controller(&'a Meta),
    /// The objects that may adopt the child, which has no controller.
    Adopters(&'a Meta),
}

/// Returns the owners that an event of a child concerns: its controller before and after a change, or its potential adopters if it
/// has no controller and is new, has lost its controller, or has other labels.
pub fn concerned_owners<K: Object>(event: &CacheEvent<K>) -> impl Iterator<Item = ConcernedOwners<'_>> {
    use ConcernedOwners::{Adopters, Controller};
    let owners = match event {
        CacheEvent::Added(child) if child.meta().controller().is_none() => [None, Some(Adopters(child.meta()))],
        CacheEvent::Updated { old, new } if old.meta().resource_version == new.meta().resource_version => [None, None],
        CacheEvent::Updated { old, new } => {
            let (before, after) = (old.meta(), new.meta());
            let has_moved = before.controller() != after.controller();
            let is_orphan = after.controller().is_none();
            let now = if is_orphan { Adopters(after) } else { Controller(after) };
            let concerns_now = !is_orphan || has_moved || before.labels != after.labels;
            [has_moved.then_some(Controller(before)), concerns_now.then_some(now)]
        }
        CacheEvent::Added(_) | CacheEvent::Deleted(_) | CacheEvent::Unreadable(_) => {
            [Some(Controller(event.meta())), None]
        }
    };
    owners.into_iter().flatten()
}

//! Changes of the graph, from the reports of monitors and from lookups that find no object.

use std::sync::Arc;

use common::{meta::OwnerRefs, prelude::*};
use smallvec::SmallVec;

use super::{
    CrossNamespaceReference, Graph, GraphNode, Identity, Kind, ListedObjects, MonitorId, Work,
    node::{self, ObjectFlags},
    references::{CompactOwnerRef, CompactOwnerRefs},
    slab::GraphNodeId,
};

/// Returns the references that are new or have changed, and the UIDs of owners that only the old references name.
///
/// Compares the lists in linear time, because some objects have thousands of owners. If several references share a UID, the
/// last such reference in `old` is compared with the first in `new`, and the remaining references in `new` count as new.
fn difference<'a>(old: &'a CompactOwnerRefs, new: &'a CompactOwnerRefs) -> (Vec<&'a CompactOwnerRef>, Vec<&'a Uid>) {
    if old.is_empty() {
        return (new.iter().collect(), Vec::new());
    }
    let known: HashMap<&Uid, &CompactOwnerRef> = old.iter().map(|before| (&before.uid, before)).collect();
    let mut seen: HashSet<&Uid> = HashSet::default();
    let is_changed = |reference: &&'a CompactOwnerRef| {
        let is_first = seen.insert(&reference.uid);
        !(is_first && known.get(&reference.uid).is_some_and(|before| before.has_same_target_as(reference)))
    };
    let changed = new.iter().filter(is_changed).collect();
    (changed, old.iter().map(|before| &before.uid).filter(|uid| !seen.contains(uid)).collect())
}

/// Whether some references of a dependent match the actual identity of the owner, and whether some do not.
#[derive(Clone, Copy, Default)]
struct ReferenceMatch {
    matches: bool,
    mismatches: bool,
}

impl ReferenceMatch {
    /// Compares `identity` with the references of `dependent_node` that have the UID of `identity`.
    fn of(dependent_node: &GraphNode, identity: &Identity) -> Self {
        if !identity.namespace.is_empty() && dependent_node.namespace != identity.namespace {
            return Self { matches: false, mismatches: true };
        }
        let mut out = Self::default();
        for reference in dependent_node.owners.iter().filter(|o| o.uid == identity.uid) {
            let matches = reference.refers_to(identity);
            out.matches |= matches;
            out.mismatches |= !matches;
        }
        out
    }
}

impl Graph {
    /// Applies an object that a watch reports as added or modified. Does nothing if the graph has the same or a newer version.
    pub fn apply_object(&mut self, monitor_id: MonitorId, meta: &Meta, work: &mut Vec<Work>) {
        self.add_further_monitor(monitor_id, meta);
        let known = self.seen_version(&meta.uid);
        if known.is_none_or(|known| !meta.resource_version.is_known() || meta.resource_version > known) {
            self.see(monitor_id, meta, work);
        }
    }

    /// Applies a deletion that a watch reports.
    pub fn apply_deletion(&mut self, monitor_id: MonitorId, meta: &Meta, work: &mut Vec<Work>) {
        if let Some(id) = self.nodes.find(&meta.uid).filter(|_| self.is_active(monitor_id)) {
            self.remove(id, Self::identity_of(monitor_id.kind, meta), work);
        }
    }

    /// Begins a list of all objects of a monitor.
    pub fn begin_list(&self, monitor_id: MonitorId) -> ListedObjects {
        ListedObjects::new(monitor_id, self.active_monitors.get(&monitor_id.serial_number))
    }

    /// Applies one object of a list.
    pub fn apply_listed_object(&mut self, listed_objects: &mut ListedObjects, meta: &Meta, work: &mut Vec<Work>) {
        self.add_further_monitor(listed_objects.monitor, meta);
        let known = self.seen_version(&meta.uid);
        if !known.is_some_and(|known| known.is_known() && known == meta.resource_version) {
            self.see(listed_objects.monitor, meta, work);
        }
        if let Some(id) = self.nodes.find(&meta.uid) {
            listed_objects.insert(id, self.nodes.get(id).belongs_to(listed_objects.monitor));
        }
    }

    /// Records that a further monitor sees an object. The object belongs to the first monitor that saw it; if the first monitor
    /// stops, the object passes to a further monitor.
    fn add_further_monitor(&mut self, monitor_id: MonitorId, meta: &Meta) {
        let Some(id) = self.nodes.find(&meta.uid) else { return };
        let node = self.nodes.get(id);
        if node.is_virtual() || node.belongs_to(monitor_id) || !self.is_active(monitor_id) {
            return;
        }
        let others = self.others.entry(id).or_default();
        if !others.contains(&monitor_id) {
            others.push(monitor_id);
        }
    }

    /// Completes a list: removes the objects of the monitor that are not in the list.
    pub fn complete_list(&mut self, listed_objects: &ListedObjects, work: &mut Vec<Work>) {
        // Equal counters show that the list contains all objects. This usual case needs no scan of all nodes.
        let counters = self.active_monitors.get(&listed_objects.monitor.serial_number);
        if counters.is_none_or(|counters| listed_objects.contains_all_objects(counters)) {
            return;
        }
        let unnamed = |(id, node): &(GraphNodeId, &GraphNode)| {
            node.belongs_to(listed_objects.monitor) && !listed_objects.contains(*id)
        };
        let gone: Vec<GraphNodeId> = self.nodes.nodes_with_ids().filter(unnamed).map(|(id, _)| id).collect();
        for id in gone {
            self.remove(id, self.nodes.get(id).identity(), work);
        }
    }

    /// Returns the last version of an object that a monitor has seen; `None` if there is no node, or only a virtual node.
    fn seen_version(&self, uid: &Uid) -> Option<ResourceVersion> {
        self.node(uid).filter(|node| !node.is_virtual()).map(|node| node.version)
    }

    /// Whether the monitor has not been removed. A removed monitor may still deliver events, which are ignored.
    fn is_active(&self, monitor_id: MonitorId) -> bool {
        self.active_monitors.contains_key(&monitor_id.serial_number)
    }

    fn see(&mut self, monitor_id: MonitorId, meta: &Meta, work: &mut Vec<Work>) {
        if !self.is_active(monitor_id) {
            return;
        }
        let identity = || Self::identity_of(monitor_id.kind, meta);
        let known = self.nodes.find(&meta.uid);
        let id = known.unwrap_or_else(|| self.insert(GraphNode::new_virtual(identity())));
        let mut before = self.nodes.get(id).flags;
        if before.has(ObjectFlags::VIRTUAL) {
            self.observe(id, monitor_id, &identity(), work);
            before = ObjectFlags::default();
        }
        let node = self.nodes.get_mut(id);
        node::copy_metadata(node, meta);
        let now = node.flags;
        if !node.owners.equal_owner_refs(&meta.owners, &self.kinds) {
            let owners = self.references(id, &meta.owners);
            owners.iter().for_each(|owner| self.kinds.add_use(owner.kind));
            let old = std::mem::replace(&mut self.nodes.get_mut(id).owners, owners.clone());
            self.change_owners(id, &old, &owners, work);
            old.iter().for_each(|owner| self.kinds.remove_use(owner.kind));
        }
        let starts = |finalizer| now.is_terminating_with(finalizer) && !before.is_terminating_with(finalizer);
        if starts(ObjectFlags::ORPHAN_FINALIZER) {
            work.push(Work::Orphan(meta.uid.clone()));
        } else if starts(ObjectFlags::FOREGROUND_FINALIZER) {
            self.nodes.get_mut(id).flags.set(ObjectFlags::DELETING_DEPENDENTS, true);
            let dependents = self.nodes.get(id).dependents.iter();
            work.extend(dependents.map(|d| Work::CheckOwners(self.nodes.get(d).uid.clone())));
            work.push(Work::CheckOwners(meta.uid.clone()));
        }
    }

    /// Applies the answer of the server that no object has this identity.
    ///
    /// Dependents may name other identities with the same UID, which the answer does not concern. While there are such
    /// dependents, the virtual node takes each of the claimed identities in turn, until one is found to exist or all are known
    /// not to exist.
    pub fn apply_absence(&mut self, identity: &Identity, work: &mut Vec<Work>) {
        let Some(id) = self.nodes.find(&identity.uid) else { return };
        let node = self.nodes.get(id);
        let (observed, same) = (!node.is_virtual(), node.has_identity(identity));
        if observed && same {
            return self.remove(id, identity.clone(), work);
        }
        let (mut matching, mut mismatching) = (Vec::new(), Vec::new());
        for dependent in self.nodes.get(id).dependents.iter() {
            let found = ReferenceMatch::of(self.nodes.get(dependent), identity);
            if found.matches {
                matching.push(dependent);
            }
            if found.mismatches {
                mismatching.push(dependent);
            }
        }
        if !observed && mismatching.is_empty() {
            return self.remove(id, identity.clone(), work);
        }
        if !matching.is_empty() {
            self.absent.insert(identity.clone());
            work.extend(matching.into_iter().map(|d| Work::CheckOwners(self.nodes.get(d).uid.clone())));
        }
        if !observed && same {
            self.absent.insert(identity.clone());
            let claimed = self.claimed_identities(&mismatching, identity);
            let next = claimed.iter().find(|claim| !self.absent.contains(claim));
            if next.is_none() && !claimed.is_empty() {
                return self.remove(id, identity.clone(), work);
            }
            if let Some(next) = next {
                self.change_identity(id, next.clone());
                work.push(Work::ResetBackoff(identity.uid.clone()));
            }
            work.push(Work::CheckOwnersAfterBackoff(identity.uid.clone()));
        }
    }

    /// Removes a monitor. Its objects become virtual if no other monitor sees them.
    pub fn remove_monitor(&mut self, monitor_id: MonitorId, work: &mut Vec<Work>) {
        if self.active_monitors.remove(&monitor_id.serial_number).is_some() {
            self.kinds.remove_use(monitor_id.kind);
        }
        let ids: Vec<GraphNodeId> =
            self.nodes.nodes_with_ids().filter(|(_, node)| node.belongs_to(monitor_id)).map(|(id, _)| id).collect();
        for id in ids {
            if let Some(further_monitor) = self.take_further_monitor(id) {
                let identity = Identity { kind: further_monitor.kind, ..self.nodes.get(id).identity() };
                self.observe(id, further_monitor, &identity, work);
                continue;
            }
            let node = self.nodes.get_mut(id);
            node.flags.set(ObjectFlags::VIRTUAL, true);
            work.push(Work::CheckOwners(node.uid.clone()));
        }
    }

    /// Removes and returns a further monitor to which the object passes, because its first monitor has stopped.
    fn take_further_monitor(&mut self, id: GraphNodeId) -> Option<MonitorId> {
        let mut others = self.others.remove(&id)?;
        others.retain(|monitor_id| self.is_active(*monitor_id));
        let further_monitor = others.pop()?;
        if !others.is_empty() {
            self.others.insert(id, others);
        }
        Some(further_monitor)
    }

    fn insert(&mut self, node: GraphNode) -> GraphNodeId {
        self.kinds.add_use(node.kind);
        self.nodes.insert(node)
    }

    fn take(&mut self, id: GraphNodeId) -> Option<GraphNode> {
        let node = self.nodes.remove(id)?;
        self.others.remove(&id);
        self.kinds.remove_use(node.kind);
        node.owners.iter().for_each(|owner| self.kinds.remove_use(owner.kind));
        Some(node)
    }

    /// Turns a virtual node into an observed one, with the identity that the monitor saw.
    fn observe(&mut self, id: GraphNodeId, monitor_id: MonitorId, identity: &Identity, work: &mut Vec<Work>) {
        if !self.nodes.get(id).has_identity(identity) {
            for dependent in self.nodes.get(id).dependents.iter() {
                let dependent = self.nodes.get(dependent);
                if !ReferenceMatch::of(dependent, identity).mismatches {
                    continue;
                }
                if !identity.namespace.is_empty() && dependent.namespace != identity.namespace {
                    let reference = dependent.owners.iter().find(|o| o.uid == identity.uid);
                    work.extend(reference.map(|reference| self.wrong_namespace(dependent, reference)));
                }
                work.push(Work::CheckOwners(dependent.uid.clone()));
            }
            self.change_identity(id, identity.clone());
            work.push(Work::ResetBackoff(identity.uid.clone()));
        }
        if let Some(counters) = self.active_monitors.get_mut(&monitor_id.serial_number) {
            counters.object_count += 1;
        }
        let node = self.nodes.get_mut(id);
        node.flags.set(ObjectFlags::VIRTUAL, false);
        node.monitor_serial_number = monitor_id.serial_number;
    }

    fn wrong_namespace(&self, dependent_node: &GraphNode, owner_ref: &CompactOwnerRef) -> Work {
        Work::CrossNamespaceReference(Box::new(CrossNamespaceReference {
            dependent: dependent_node.identity(),
            dependent_kind: self.kinds.get(dependent_node.kind).clone(),
            reference: owner_ref.to_owner_ref(self.kinds.get(owner_ref.kind)),
        }))
    }

    fn change_identity(&mut self, id: GraphNodeId, identity: Identity) {
        self.kinds.add_use(identity.kind);
        self.kinds.remove_use(self.nodes.get(id).kind);
        let node = self.nodes.get_mut(id);
        node.kind = identity.kind;
        node.namespace = identity.namespace;
        node.name = identity.name;
    }

    fn change_owners(&mut self, id: GraphNodeId, old: &CompactOwnerRefs, new: &CompactOwnerRefs, work: &mut Vec<Work>) {
        let (changed, removed) = difference(old, new);
        let before = self.blocked_by(id, old);
        self.register(id, &changed, work);
        let after = self.blocked_by(id, new);
        for owner in after.iter().filter(|owner| before.binary_search(owner).is_err()) {
            self.nodes.get_mut(*owner).blocking_dependent_count += 1;
        }
        for owner in before.iter().filter(|owner| after.binary_search(owner).is_err()) {
            self.unblock(*owner, work);
        }
        for owner in removed {
            if let Some(owner) = self.nodes.find(owner) {
                self.leave(owner, id);
            }
        }
    }

    /// Converts references to their compact form. Names and lists that the graph already contains are shared.
    fn references(&mut self, id: GraphNodeId, owner_refs: &OwnerRefs) -> CompactOwnerRefs {
        let mut all = Vec::with_capacity(owner_refs.len());
        let mut siblings = None;
        for reference in owner_refs.iter() {
            let kind = self.kinds.intern(Kind::of_owner(reference));
            let owner = self.nodes.find(&reference.uid).map(|owner| self.nodes.get(owner));
            let known = owner.map(|owner| &owner.name).filter(|name| ***name == *reference.name);
            let name = known.map_or_else(|| Arc::from(&*reference.name), Arc::clone);
            all.push(CompactOwnerRef::new(reference, kind, name));
            siblings = siblings.or(owner.and_then(|owner| owner.dependents.iter().find(|sibling| *sibling != id)));
        }
        // Dependents of one owner usually have equal lists of owners. An equal list of a sibling is shared.
        let sibling = siblings.map(|sibling| &self.nodes.get(sibling).owners).filter(|owners| ***owners == *all);
        sibling.cloned().unwrap_or_else(|| CompactOwnerRefs::new(all))
    }

    /// Returns the owners in foreground deletion that a node blocks by these references, without duplicates.
    fn blocked_by(&self, id: GraphNodeId, owner_refs: &CompactOwnerRefs) -> SmallVec<[GraphNodeId; 4]> {
        let blocking = owner_refs.iter().filter(|reference| reference.blocks_owner_deletion());
        let owners = blocking.filter_map(|reference| self.nodes.find(&reference.uid));
        let mut owners: SmallVec<[GraphNodeId; 4]> =
            owners.filter(|owner| self.nodes.get(*owner).dependents.contains(id)).collect();
        owners.sort_unstable();
        owners.dedup();
        owners
    }

    /// Decrements the number of dependents that block an owner. Enqueues the owner when the number becomes 0.
    fn unblock(&mut self, owner_id: GraphNodeId, work: &mut Vec<Work>) {
        let node = self.nodes.get_mut(owner_id);
        node.blocking_dependent_count -= 1;
        if node.blocking_dependent_count == 0 && node.is_deleting_dependents() {
            work.push(Work::CheckOwners(node.uid.clone()));
        }
    }

    /// Makes a node a dependent of the owners in these references.
    fn register(&mut self, id: GraphNodeId, owner_refs: &[&CompactOwnerRef], work: &mut Vec<Work>) {
        let mut doubtful = false;
        for reference in owner_refs {
            let namespace = self.nodes.get(id).namespace.clone();
            let Some(owner) = self.nodes.find(&reference.uid) else {
                let owner = self.insert(GraphNode::new_virtual(reference.owner_identity(namespace)));
                self.nodes.get_mut(owner).dependents.insert(id);
                work.push(Work::CheckOwners(reference.uid.clone()));
                continue;
            };
            if !doubtful {
                let (doubt, event) = self.find_contradiction(owner, id, reference, &namespace);
                doubtful = doubt;
                work.extend(event);
            }
            let node = self.nodes.get_mut(owner);
            node.dependents.insert(id);
            // The foreground deletion enqueued the dependents that existed when it began, but not this new dependent.
            doubtful |= node.is_deleting_dependents();
        }
        if doubtful {
            work.push(Work::CheckOwners(self.nodes.get(id).uid.clone()));
        }
    }

    /// Removes a dependent from its owner. A virtual owner is removed after its last dependent.
    fn leave(&mut self, owner_id: GraphNodeId, dependent_id: GraphNodeId) {
        let node = self.nodes.get_mut(owner_id);
        node.dependents.remove(dependent_id);
        if node.is_virtual() && node.dependents.is_empty() && node.owners.is_empty() {
            self.take(owner_id);
        }
    }

    /// Returns whether a reference contradicts the identity of its owner's node, and the Event to record about this.
    pub(super) fn find_contradiction(
        &self,
        owner_id: GraphNodeId,
        id: GraphNodeId,
        owner_ref: &CompactOwnerRef,
        namespace: &Text,
    ) -> (bool, Option<Work>) {
        let owner = self.nodes.get(owner_id);
        if !owner.namespace.is_empty() && owner.namespace != *namespace {
            let event = (!owner.is_virtual()).then(|| self.wrong_namespace(self.nodes.get(id), owner_ref));
            return (true, event);
        }
        let other_place = !owner_ref.refers_to(&owner.identity());
        // The empty namespace of a virtual node proves nothing, because the reference of a cluster-scoped object may have
        // created it.
        let unsure = owner.is_virtual() && owner.namespace.is_empty() && !namespace.is_empty();
        (other_place || unsure, None)
    }

    /// Returns the identities other than `identity` that dependents claim for the same UID, in the order of their lookups:
    /// first the identities that sort after `identity`, then the identities before it.
    fn claimed_identities(&self, mismatching_ids: &[GraphNodeId], identity: &Identity) -> Vec<Identity> {
        let mut claimed = Vec::new();
        for id in mismatching_ids {
            let dependent = self.nodes.get(*id);
            for reference in dependent.owners.iter().filter(|o| o.uid == identity.uid) {
                // An owner of a cluster-scoped kind has no namespace, regardless of the namespace of the dependent.
                let global = identity.namespace.is_empty() && reference.kind == identity.kind;
                let claim =
                    reference.owner_identity(if global { Text::default() } else { dependent.namespace.clone() });
                if claim != *identity {
                    claimed.push(claim);
                }
            }
        }
        let order = |i: &Identity| {
            let kind = self.kinds.get(i.kind);
            (kind.kind.clone(), kind.api_version.clone(), i.namespace.clone(), i.name.clone(), i.uid.clone())
        };
        let here = order(identity);
        claimed.sort_by_cached_key(|claim| {
            let place = order(claim);
            (place < here, place)
        });
        claimed
    }

    fn remove(&mut self, id: GraphNodeId, identity: Identity, work: &mut Vec<Work>) {
        let blocked = self.blocked_by(id, &self.nodes.get(id).owners);
        let Some(node) = self.take(id) else { return };
        if !node.is_virtual()
            && let Some(counters) = self.active_monitors.get_mut(&node.monitor_serial_number)
        {
            counters.object_count -= 1;
            counters.removal_count += 1;
        }
        if !node.dependents.is_empty() {
            self.absent.insert(identity);
            let others = node.dependents.iter().filter(|d| *d != id);
            work.extend(others.map(|d| Work::CheckOwners(self.nodes.get(d).uid.clone())));
        }
        for owner in blocked.into_iter().filter(|owner| *owner != id) {
            self.unblock(owner, work);
        }
        for reference in node.owners.iter() {
            if let Some(owner) = self.nodes.find(&reference.uid) {
                self.leave(owner, id);
            }
        }
    }
}

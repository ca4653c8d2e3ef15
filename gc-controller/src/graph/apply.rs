//! How the graph changes with what monitors see and with what turns out not to exist.

use common::{
    intern::Text,
    map::{HashMap, HashSet},
    meta::{Meta, OwnerRef, Owners, Uid},
};

use super::{
    FOREGROUND, Graph, Identity, Kind, KindId, Node, ORPHAN, Work, WrongNamespace,
    node::{self, Flags},
    slab::NodeId,
};

/// Differences between two lists of owners, by uid.
#[derive(Default)]
struct Difference<'a> {
    /// References to be registered.
    register: Vec<&'a OwnerRef>,
    /// Uids that are referred to no longer.
    removed: Vec<&'a Uid>,
    /// Owners that are no longer blocked.
    unblocked: Vec<&'a Uid>,
}

/// Of several references with one uid the last of `old` and the first of `new` are compared; further ones are registered.
/// Costs what the lists are long: some objects have thousands of owners.
fn difference<'a>(old: &'a Owners, new: &'a Owners) -> Difference<'a> {
    let mut out = Difference::default();
    let known: HashMap<&Uid, &OwnerRef> = old.iter().map(|before| (&before.uid, before)).collect();
    let mut seen: HashSet<&Uid> = HashSet::default();
    for reference in new.iter() {
        let first = seen.insert(&reference.uid);
        match known.get(&reference.uid).filter(|_| first) {
            Some(before) => {
                if before.block_owner_deletion == Some(true) && reference.block_owner_deletion != Some(true) {
                    out.unblocked.push(&reference.uid);
                }
                if !same_coordinates(before, reference) {
                    out.register.push(reference);
                }
            }
            None => out.register.push(reference),
        }
    }
    for before in old.iter().filter(|before| !seen.contains(&before.uid)) {
        if before.block_owner_deletion == Some(true) {
            out.unblocked.push(&before.uid);
        }
        out.removed.push(&before.uid);
    }
    out
}

fn same_coordinates(a: &OwnerRef, b: &OwnerRef) -> bool {
    a.uid == b.uid && a.kind == b.kind && a.api_version == b.api_version && a.name == b.name
}

/// Whether `reference` names the place of `identity`, namespaces aside.
fn names(reference: &OwnerRef, identity: &Identity, kind: &Kind) -> bool {
    reference.uid == identity.uid
        && reference.name == identity.name
        && reference.kind == kind.kind
        && reference.api_version == kind.api_version
}

/// How the references of a dependent compare with what an owner turned out to be.
#[derive(Clone, Copy, Default)]
struct Match {
    matches: bool,
    mismatches: bool,
}

impl Graph {
    /// A monitor of `kind` has seen an object, `before` as it was when it was last seen.
    pub fn put(&mut self, kind: KindId, meta: &Meta, before: Option<&Meta>, out: &mut Vec<Work>) {
        let identity = Self::identity_of(kind, meta);
        let id = match self.nodes.find(&meta.uid) {
            Some(id) => {
                if self.nodes.get(id).is_virtual() {
                    self.observe(id, &identity, out);
                }
                id
            }
            None => self.nodes.insert(Node::observed(kind, meta)),
        };
        let node = self.nodes.get_mut(id);
        node::refresh(node, meta);
        let old = std::mem::replace(&mut node.owners, meta.owners.clone());
        if old != meta.owners {
            self.change_owners(id, &old, &meta.owners, out);
        }
        let starts = |finalizer| {
            node::waits_for(meta, finalizer) && !before.is_some_and(|before| node::waits_for(before, finalizer))
        };
        if starts(ORPHAN) {
            out.push(Work::Orphan(meta.uid.clone()));
        } else if starts(FOREGROUND) {
            self.nodes.get_mut(id).flags.set(Flags::DELETING_DEPENDENTS, true);
            let dependents = self.nodes.get(id).dependents.iter();
            out.extend(dependents.map(|d| Work::Judge(self.nodes.get(d).uid.clone())));
            out.push(Work::Judge(meta.uid.clone()));
        }
    }

    /// A monitor of `kind` has seen that an object is gone.
    pub fn gone(&mut self, kind: KindId, meta: &Meta, out: &mut Vec<Work>) {
        if let Some(id) = self.nodes.find(&meta.uid) {
            self.remove(id, Self::identity_of(kind, meta), out);
        }
    }

    /// The server says that there is no such object.
    ///
    /// Only what was asked for is gone: dependents that name another place for the same uid are not concerned, and while
    /// there are such, a virtual node walks from one claimed place to the next until one exists or nobody claims any.
    pub fn absent(&mut self, identity: &Identity, out: &mut Vec<Work>) {
        let Some(id) = self.nodes.find(&identity.uid) else { return };
        let node = self.nodes.get(id);
        let (observed, same) = (!node.is_virtual(), node.is(identity));
        if observed && same {
            return self.remove(id, identity.clone(), out);
        }
        let (mut matching, mut mismatching) = (Vec::new(), Vec::new());
        for dependent in self.nodes.get(id).dependents.iter() {
            let found = self.compare(self.nodes.get(dependent), identity);
            if found.matches {
                matching.push(dependent);
            }
            if found.mismatches {
                mismatching.push(dependent);
            }
        }
        if !observed && mismatching.is_empty() {
            return self.remove(id, identity.clone(), out);
        }
        if !matching.is_empty() {
            self.absent.insert(identity.clone());
            out.extend(matching.into_iter().map(|d| Work::Judge(self.nodes.get(d).uid.clone())));
        }
        if !observed && same {
            if let Some(next) = self.alternate(&mismatching, identity) {
                self.rename(id, next);
                out.push(Work::Forget(identity.uid.clone()));
            }
            out.push(Work::JudgeLater(identity.uid.clone()));
        }
    }

    /// Nothing watches that kind any more: what was seen of it is hearsay from now on.
    pub fn unwatched(&mut self, kind: KindId, out: &mut Vec<Work>) {
        let ids: Vec<NodeId> = self.nodes.ids().filter(|id| self.nodes.get(*id).kind == kind).collect();
        for id in ids {
            let node = self.nodes.get_mut(id);
            if !node.is_virtual() {
                node.flags.set(Flags::VIRTUAL, true);
                out.push(Work::Judge(node.uid.clone()));
            }
        }
    }

    /// A virtual node turns out to be an object.
    fn observe(&mut self, id: NodeId, identity: &Identity, out: &mut Vec<Work>) {
        if !self.nodes.get(id).is(identity) {
            for dependent in self.nodes.get(id).dependents.iter() {
                let dependent = self.nodes.get(dependent);
                if !self.compare(dependent, identity).mismatches {
                    continue;
                }
                if !identity.namespace.is_empty() && dependent.namespace != identity.namespace {
                    let reference = dependent.owners.iter().find(|o| o.uid == identity.uid);
                    out.extend(reference.map(|reference| self.wrong_namespace(dependent, reference)));
                }
                out.push(Work::Judge(dependent.uid.clone()));
            }
            self.rename(id, identity.clone());
            out.push(Work::Forget(identity.uid.clone()));
        }
        self.nodes.get_mut(id).flags.set(Flags::VIRTUAL, false);
    }

    fn wrong_namespace(&self, dependent: &Node, reference: &OwnerRef) -> Work {
        Work::WrongNamespace(Box::new(WrongNamespace {
            dependent: dependent.identity(),
            kind: self.kinds.get(dependent.kind).clone(),
            reference: reference.clone(),
        }))
    }

    fn rename(&mut self, id: NodeId, identity: Identity) {
        let node = self.nodes.get_mut(id);
        node.kind = identity.kind;
        node.namespace = identity.namespace;
        node.name = std::sync::Arc::from(&*identity.name);
    }

    fn change_owners(&mut self, id: NodeId, old: &Owners, new: &Owners, out: &mut Vec<Work>) {
        let difference = difference(old, new);
        for owner in &difference.unblocked {
            if self.nodes.find(owner).is_some() {
                out.push(Work::Judge((*owner).clone()));
            }
        }
        self.register(id, &difference.register, out);
        for owner in difference.removed {
            if let Some(owner) = self.nodes.find(owner) {
                self.leave(owner, id);
            }
        }
    }

    /// Makes a node a dependent of those it refers to.
    fn register(&mut self, id: NodeId, references: &[&OwnerRef], out: &mut Vec<Work>) {
        let mut doubtful = false;
        for reference in references {
            let namespace = self.nodes.get(id).namespace.clone();
            let Some(owner) = self.nodes.find(&reference.uid) else {
                let kind = self.kinds.id(&reference.api_version, &reference.kind);
                let owner = self.nodes.insert(Node::virtual_owner(kind, &namespace, reference));
                self.nodes.get_mut(owner).dependents.insert(id);
                out.push(Work::Judge(reference.uid.clone()));
                continue;
            };
            if !doubtful {
                let (doubt, event) = self.doubt(owner, id, reference, &namespace);
                doubtful = doubt;
                out.extend(event);
            }
            self.nodes.get_mut(owner).dependents.insert(id);
        }
        if doubtful {
            out.push(Work::Judge(self.nodes.get(id).uid.clone()));
        }
    }

    /// Takes a dependent from its owner. An owner that was known from references alone goes with the last of them.
    fn leave(&mut self, owner: NodeId, dependent: NodeId) {
        let node = self.nodes.get_mut(owner);
        node.dependents.remove(dependent);
        if node.is_virtual() && node.dependents.is_empty() && node.owners.is_empty() {
            self.nodes.remove(owner);
        }
    }

    /// Whether what a reference says of its owner is not what is known of it; and what users are told of that.
    fn doubt(&self, owner: NodeId, id: NodeId, reference: &OwnerRef, namespace: &Text) -> (bool, Option<Work>) {
        let owner = self.nodes.get(owner);
        if !owner.namespace.is_empty() && owner.namespace != *namespace {
            let event = (!owner.is_virtual()).then(|| self.wrong_namespace(self.nodes.get(id), reference));
            return (true, event);
        }
        let identity = owner.identity();
        let other_place = !names(reference, &identity, self.kinds.get(owner.kind));
        // A cluster-scoped object may have been the first to name it, and the owner be namespaced all the same.
        let unsure = owner.is_virtual() && owner.namespace.is_empty() && !namespace.is_empty();
        (other_place || unsure, None)
    }

    /// How the references of `dependent` compare with `identity`.
    fn compare(&self, dependent: &Node, identity: &Identity) -> Match {
        if !identity.namespace.is_empty() && dependent.namespace != identity.namespace {
            return Match { matches: false, mismatches: true };
        }
        let kind = self.kinds.get(identity.kind);
        let mut out = Match::default();
        for reference in dependent.owners.iter().filter(|o| o.uid == identity.uid) {
            if names(reference, identity, kind) {
                out.matches = true;
            } else {
                out.mismatches = true;
            }
        }
        out
    }

    /// The place to look for an owner next that is not at `identity`: claimed places are tried in their order, round and
    /// round.
    fn alternate(&mut self, mismatching: &[NodeId], identity: &Identity) -> Option<Identity> {
        let mut claimed = Vec::new();
        for id in mismatching {
            let dependent = self.nodes.get(*id);
            for reference in dependent.owners.iter().filter(|o| o.uid == identity.uid) {
                let kind = self.kinds.id(&reference.api_version, &reference.kind);
                // What is known to be cluster-scoped is so for everybody.
                let global = identity.namespace.is_empty() && kind == identity.kind;
                let namespace = if global { Text::default() } else { dependent.namespace.clone() };
                let uid = reference.uid.clone();
                let claim = Identity { kind, namespace, name: reference.name.clone(), uid };
                if claim != *identity {
                    claimed.push(claim);
                }
            }
        }
        let order = |i: &Identity| {
            let kind = self.kinds.get(i.kind);
            (kind.kind.clone(), kind.api_version.clone(), i.namespace.clone(), i.name.clone(), i.uid.clone())
        };
        claimed.sort_by_cached_key(order);
        let here = order(identity);
        claimed.iter().find(|claim| order(claim) > here).or(claimed.first()).cloned()
    }

    fn remove(&mut self, id: NodeId, identity: Identity, out: &mut Vec<Work>) {
        let Some(node) = self.nodes.remove(id) else { return };
        if !node.dependents.is_empty() {
            self.absent.insert(identity);
            out.extend(node.dependents.iter().filter(|d| *d != id).map(|d| Work::Judge(self.nodes.get(d).uid.clone())));
        }
        for reference in node.owners.iter() {
            if let Some(owner) = self.nodes.find(&reference.uid) {
                let node = self.nodes.get(owner);
                if node.is_deleting_dependents() {
                    out.push(Work::Judge(node.uid.clone()));
                }
                self.leave(owner, id);
            }
        }
    }
}

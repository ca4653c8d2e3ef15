//! Who owns whom: every object of the cluster, by uid, with its owners and its dependents.
//!
//! - One node an object. A node is *virtual* while it is known from somebody's owner reference only.
//! - Changes come in through [`Graph::put`], [`Graph::gone`] and [`Graph::absent`], and full sets through
//!   [`Graph::begin`], [`Graph::include`] and [`Graph::complete`]. They say what is to be looked at because of them
//!   ([`Work`]), make no requests and depend on nothing but what is here.
//! - Nothing else remembers what monitors have seen, and nodes are small: kinds and namespaces are shared, so are lists of
//!   owners, and the lists of dependents begin inline.
//! - No change costs more than the owners of the object it is about, those that begin or end the deletion of an owner aside:
//!   these look at its dependents once.
//!
//! Upstream: `pkg/controller/garbagecollector`, `graph_builder.go` and `graph.go`.

mod absent;
mod apply;
mod dependents;
mod dot;
mod kinds;
mod node;
mod references;
mod slab;
mod source;
mod todo;
mod view;

#[cfg(test)]
mod tests;

use std::sync::Arc;

use common::{
    map::HashMap,
    meta::{Meta, OwnerRef, Uid},
};
use smallvec::SmallVec;

use absent::Absent;
use kinds::Kinds;
use slab::{NodeId, Slab};
use source::Sources;

pub use kinds::{Kind, KindId};
pub use node::{Identity, Node};
pub use source::{Seen, Source};
pub use view::{Dependent, OwnerState, View};

/// The finalizer of an object whose dependents go first.
pub const FOREGROUND: &str = "foregroundDeletion";
/// The finalizer of an object whose dependents are to be released.
pub const ORPHAN: &str = "orphan";

/// How many owners are remembered to be gone. Upstream: 500; a deletion storm has more owners than that.
const ABSENT: usize = 20_000;

/// What a change asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Work {
    /// Somebody should see whether the object may stay.
    Judge(Uid),
    /// The same, after a back-off.
    JudgeLater(Uid),
    /// The dependents of the object are to be released.
    Orphan(Uid),
    /// The node stands for something else now: earlier failures were another's.
    Forget(Uid),
    /// Users are to be told of an owner reference across namespaces.
    WrongNamespace(Box<WrongNamespace>),
}

/// An owner reference that crosses namespaces.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WrongNamespace {
    /// Whose reference it is.
    pub dependent: Identity,
    /// Its kind.
    pub kind: Kind,
    /// The reference.
    pub reference: OwnerRef,
}

impl WrongNamespace {
    /// What users are told.
    pub fn message(&self) -> String {
        let (namespace, owner) = (&self.dependent.namespace, &self.reference);
        format!(
            "ownerRef [{}/{}, namespace: {namespace}, name: {}, uid: {}] does not exist in namespace \"{namespace}\"",
            owner.api_version, owner.kind, owner.name, owner.uid
        )
    }
}

/// The graph.
#[derive(Default)]
pub struct Graph {
    kinds: Kinds,
    nodes: Slab,
    sources: Sources,
    /// Of objects that several monitors see: those that were not the first. Some are served in two groups.
    others: HashMap<NodeId, SmallVec<[Source; 1]>>,
    absent: Absent,
}

impl Graph {
    /// The number of a kind; the same for as long as something in the graph is of that kind or names it.
    pub fn kind_id(&mut self, api_version: &str, kind: &str) -> KindId {
        self.kinds.id(&api_version.into(), &kind.into())
    }

    /// The kind of that number.
    pub fn kind(&self, id: KindId) -> &Kind {
        self.kinds.get(id)
    }

    /// A new monitor of objects of that kind.
    pub fn source(&mut self, api_version: &str, kind: &str) -> Source {
        let kind = self.kind_id(api_version, kind);
        self.kinds.hold(kind);
        self.sources.add(kind)
    }

    /// How many objects a monitor was the first to see.
    pub fn objects_of(&self, source: Source) -> usize {
        self.sources.get(source.number).map_or(0, |census| census.objects as usize)
    }

    /// How many nodes there are.
    pub fn len(&self) -> usize {
        self.nodes.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// How many nodes are virtual. Costs a look at every node.
    pub fn virtual_nodes(&self) -> usize {
        self.nodes.iter().filter(|node| node.is_virtual()).count()
    }

    /// The node of that uid.
    pub fn node(&self, uid: &Uid) -> Option<&Node> {
        self.nodes.find(uid).map(|id| self.nodes.get(id))
    }

    /// Remembers that there is no object of that identity, and never will be.
    pub fn remember_absent(&mut self, identity: Identity) {
        self.absent.insert(identity);
    }

    /// Whether what `reference` of an object in `namespace` names is known to be gone.
    fn is_absent(&mut self, reference: &OwnerRef, namespace: &str) -> bool {
        let Some(kind) = self.kinds.find(&reference.api_version, &reference.kind) else { return false };
        let name = (&*reference.name).into();
        let mut identity = Identity { kind, namespace: "".into(), name, uid: reference.uid.clone() };
        if self.absent.contains(&identity) {
            return true;
        }
        identity.namespace = namespace.into();
        !namespace.is_empty() && self.absent.contains(&identity)
    }

    /// What a monitor of `kind` sees of an object.
    fn identity_of(kind: KindId, meta: &Meta) -> Identity {
        Identity { kind, namespace: meta.namespace.clone(), name: Arc::clone(&meta.name), uid: meta.uid.clone() }
    }
}

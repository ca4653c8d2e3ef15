//! What one sync looks at.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};

use common::{intern::Text, refs::Owner};
use jiff::Timestamp;

use crate::{
    decide::{
        eligibility::Eligibility,
        revisions::Revisions,
        standing::{Criteria, NodeView, Tally},
    },
    objects::{CachedPod, ControllerRevision, DaemonSet, DaemonTemplate},
};

/// A cached Pod.
pub type PodRef = Arc<CachedPod>;
/// A cached revision.
pub type RevisionRef = Arc<ControllerRevision>;

/// Everything that one sync decides on.
#[derive(Clone, Debug)]
pub struct Snapshot {
    /// The set.
    pub set: Arc<DaemonSet>,
    /// Its Pod template.
    pub template: Arc<DaemonTemplate>,
    /// The set as an owner.
    pub owner: Owner,
    /// Its revisions.
    pub revisions: Revisions,
    /// Revisions that the server has refused to change, and when this is tried again.
    pub refused_revisions: RefusedChanges,
    /// Pods that the server has refused to adopt, release or relabel, and when this is tried again.
    pub refused_pods: RefusedChanges,
    /// Pods without a controller that it selects.
    pub adopt: Vec<PodRef>,
    /// Whether these Pods are adopted now.
    pub turn: Turn,
    /// Its Pods that it no longer selects.
    pub release: Vec<PodRef>,
    /// Its Pods that carry the hash of a revision that is deleted because another one holds the same.
    pub relabel: Vec<PodRef>,
    /// Its Pods that lack the label of their hash, by which Pods are watched.
    pub unlabelled: Vec<PodRef>,
    /// The hashes of earlier revisions that Pods carry.
    pub live_hashes: BTreeSet<Text>,
    /// Its nodes.
    pub nodes: Nodes,
    /// Nodes for which a Pod may have been created by a request that was not answered, and how long it may still take effect.
    pub lost_creates: BTreeMap<Text, Duration>,
    /// How many of these nodes have a Pod, so that the one that may have been created is a second one.
    pub unseen_second_pods: usize,
    /// Nodes for which no Pod is created now: those of lost creates, and those of Pods that are not adopted yet.
    pub held_back: BTreeSet<Text>,
    /// Why no Pods are managed now: the caches do not show a write of this process.
    pub blocked: Option<Blocked>,
    /// Whether its namespace is terminating: the server refuses every Pod.
    pub terminating_namespace: bool,
    /// The operator's settings.
    pub limits: Limits,
    /// The time of the sync, by which availability is judged.
    pub now: Timestamp,
}

/// What a sync does first if there are Pods to adopt.
///
/// Adopting and managing take turns: Pods that keep coming would otherwise keep the set from being managed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Turn {
    /// It adopts them, and leaves everything else to the next sync.
    #[default]
    Adopts,
    /// It manages the Pods that the set has, and leaves these to the next sync.
    Manages,
}

/// Objects that the server has refused to change.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RefusedChanges {
    /// Their names.
    pub names: Vec<Text>,
    /// How long until the first of them is tried again.
    pub retry: Option<Duration>,
}

/// Why no Pods are managed for the time being.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Blocked {
    /// What the caches do not show yet.
    pub why: String,
    /// How long at most.
    pub at_most: Duration,
}

/// The operator's settings that decisions depend on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// How many Pods one sync creates at most, and how many it deletes at most.
    pub burst: usize,
    /// Whether tolerations may compare numbers (gate `TaintTolerationComparisonOperators`).
    pub compares_taints: bool,
}

/// The nodes of a set: their counts, and those on which something is to be done.
///
/// The lists are in the order of the nodes' names and no longer than one sync can use. Lists of creations and deletions begin after
/// the [cursor](Cursors) and wrap around.
#[derive(Clone, Debug)]
pub struct Nodes {
    /// By what Pods are judged.
    pub criteria: Criteria,
    /// With which node each list begins.
    pub cursors: Cursors,
    /// The counts of all nodes.
    pub tally: Tally,
    /// Nodes on which a Pod is created.
    pub create: Listed,
    /// Nodes on which Pods are deleted, whatever the update strategy.
    pub delete: Listed,
    /// Nodes whose outdated Pod is not available.
    pub replace: Listed,
    /// Nodes whose outdated Pod is deleted at once.
    pub remove: Listed,
    /// Nodes on which no Pod should run and whose outdated Pod is available.
    pub sunset: Listed,
    /// Nodes whose outdated Pod is replaced within the limit.
    pub candidates: Listed,
    /// The first few nodes that count against the limit.
    pub blocking: Listed,
    /// How many Pods neither run on a node nor name one.
    pub untargeted: usize,
    /// When the passing of time alone next changes something.
    pub due: Option<Timestamp>,
}

/// The nodes after which creations and deletions begin.
///
/// A Pod that the server always refuses would otherwise take the first place in every sync, and the nodes after it would get no turn.
#[derive(Clone, Debug, Default)]
pub struct Cursors {
    /// The node of the creation.
    pub create: Cursor,
    /// The node of the deletion.
    pub delete: Cursor,
}

/// The node of the last request that the server refused. `None` means that the order begins with the first name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Cursor(pub Option<Text>);

impl Cursor {
    /// Sorts work by the names of its nodes, beginning after the cursor and wrapping around. Without a refusal the order stays.
    pub fn order<T>(&self, work: &mut [T], node: impl Fn(&T) -> &Text) {
        if let Some(refused) = &self.0 {
            let position = |one: &T| (node(one) <= refused, node(one).clone());
            work.sort_by_cached_key(position);
        }
    }
}

/// The first nodes of one sort, and their number.
#[derive(Clone, Debug, Default)]
pub struct Listed {
    /// The first of them.
    pub nodes: Vec<NodePods>,
    /// How many there are.
    pub count: usize,
}

impl Listed {
    /// How many are left out.
    pub fn unlisted(&self) -> usize {
        self.count.saturating_sub(self.nodes.len())
    }
}

/// A node and the Pods that are meant for it.
#[derive(Clone, Debug)]
pub struct NodePods {
    /// Its name.
    pub name: Text,
    /// What the DaemonSet does there.
    pub eligibility: Eligibility,
    /// Its Pods, in the order of [`rank`](crate::decide::standing::rank).
    pub pods: Vec<PodRef>,
    /// Until when a Pod that failed there is left alone.
    pub failed_until: Option<Timestamp>,
    /// How long the next Pod that fails there is left alone, if one is deleted now.
    pub failed_delay: Duration,
}

impl NodePods {
    /// As decisions look at it.
    pub fn view(&self) -> NodeView<'_> {
        NodeView { eligibility: self.eligibility, pods: &self.pods, failed_until: self.failed_until }
    }
}

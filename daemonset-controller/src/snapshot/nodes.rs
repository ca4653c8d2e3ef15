//! The nodes of a set with their Pods, and the criteria by which Pods are judged.

use std::{
    collections::BTreeSet,
    ops::{AddAssign, SubAssign},
    time::Duration,
};

use common::intern::Text;
use jiff::Timestamp;

use crate::objects::PodRef;

/// The counts of a set's nodes, and the nodes that need an action.
///
/// The lists are ordered by the names of the nodes, and no longer than one sync can use. Lists of creations and deletions begin
/// after the [cursor](Cursors) and wrap around.
#[derive(Clone, Debug)]
pub struct Nodes {
    /// The properties of the set by which Pods are judged.
    pub criteria: Criteria,
    /// The nodes after which the lists begin.
    pub cursors: Cursors,
    /// The sum of the counts of all nodes.
    pub tally: Tally,
    /// Nodes that need a Pod.
    pub create: Listed,
    /// Nodes on which Pods are deleted regardless of the update strategy.
    pub delete: Listed,
    /// Nodes whose outdated Pod is not available, and is replaced outside the limit.
    pub replace: Listed,
    /// Nodes whose outdated Pod is deleted without waiting.
    pub remove: Listed,
    /// Nodes on which no Pod should run, and whose outdated Pod is available.
    pub sunset: Listed,
    /// Nodes whose outdated Pod is replaced within the limit.
    pub candidates: Listed,
    /// The first few nodes that count against the limit.
    pub blocking: Listed,
    /// Number of Pods that are neither bound nor pinned to a node.
    pub untargeted: usize,
    /// The first time at which a node changes without an event.
    pub due: Option<Timestamp>,
}

/// The nodes after which creations and deletions begin.
///
/// Without cursors, a Pod that the server always refuses would come first in every sync, and the nodes after it would get no
/// turn.
#[derive(Clone, Debug, Default)]
pub struct Cursors {
    /// The node of the last refused creation.
    pub create: Cursor,
    /// The node of the last refused deletion.
    pub delete: Cursor,
}

/// The node of the last refused request. With `None`, the order begins with the first name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Cursor(pub Option<Text>);

impl Cursor {
    /// Sorts work by node name, beginning after the cursor and wrapping around. Without a refusal, the order does not change.
    pub fn order<T>(&self, work: &mut [T], node: impl Fn(&T) -> &Text) {
        if let Some(refused) = &self.0 {
            let position = |one: &T| (node(one) <= refused, node(one).clone());
            work.sort_by_cached_key(position);
        }
    }
}

/// The first nodes of one kind, and the number of all nodes of this kind.
#[derive(Clone, Debug, Default)]
pub struct Listed {
    /// The first nodes, in the order of the list.
    pub nodes: Vec<NodePods>,
    /// Number of all nodes of this kind.
    pub count: usize,
}

impl Listed {
    /// Returns the number of nodes that the list leaves out.
    pub fn unlisted(&self) -> usize {
        self.count.saturating_sub(self.nodes.len())
    }
}

/// A node and the Pods that are bound or pinned to it, as listed in a snapshot.
#[derive(Clone, Debug)]
pub struct NodePods {
    /// `metadata.name` of the node.
    pub name: Text,
    /// Whether a Pod should run on the node.
    pub eligibility: Eligibility,
    /// The Pods of the node, ordered by [`rank`].
    pub pods: Vec<PodRef>,
    /// The time before which a failed Pod on the node is not deleted.
    pub failed_until: Option<Timestamp>,
    /// Delay of the next failed Pod on the node, if a failed Pod is deleted now.
    pub failed_delay: Duration,
}

impl NodePods {
    /// Returns the view of the node on which decisions are made.
    pub fn view(&self) -> NodeView<'_> {
        NodeView { eligibility: self.eligibility, pods: &self.pods, failed_until: self.failed_until }
    }
}

/// Whether Pods of a DaemonSet may run on a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Eligibility {
    /// A Pod should run on the node.
    Runs,
    /// No Pod is created, and an existing Pod stays: the node has a `NoSchedule` taint that is not tolerated.
    Stays,
    /// No Pod may run on the node, and existing Pods are deleted.
    Leaves,
    /// The cache does not have the node.
    Vanished,
}

impl Eligibility {
    /// Whether a Pod should run on the node, and is created if it is missing.
    pub fn should_run(self) -> bool {
        self == Self::Runs
    }

    /// Whether an existing Pod may stay.
    pub fn should_continue(self) -> bool {
        matches!(self, Self::Runs | Self::Stays)
    }
}

/// The properties of a set by which the Pods of every node are judged.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Criteria {
    /// The hash in the label of the current revision.
    pub hash: Text,
    /// The hashes of other revisions with the same template.
    pub same_hashes: BTreeSet<Text>,
    /// The value of the label `pod-template-generation` on Pods of the current template.
    pub template_generation: Option<Text>,
    /// How long a Pod must be ready before it is available, in seconds (`spec.minReadySeconds`).
    pub min_ready_seconds: i32,
    /// Whether a node may have a new Pod beside the old one (`maxSurge`).
    pub allows_surge: bool,
    /// The order of deletion and creation when an outdated Pod is replaced.
    pub replacement: Replacement,
}

/// The order of deletion and creation when an outdated Pod is replaced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Replacement {
    /// Users delete outdated Pods.
    OnDelete,
    /// The old Pod is deleted before the new one is created (`maxUnavailable`).
    DeleteFirst,
    /// The new Pod is created before the old one is deleted (`maxSurge`).
    CreateFirst,
}

impl Criteria {
    /// Whether a Pod has the hash of a revision of the current template.
    pub fn is_of_revision(&self, pod: &PodRef) -> bool {
        !self.hash.is_empty() && (pod.hash() == self.hash.as_str() || self.same_hashes.contains(pod.hash()))
    }

    /// Whether a Pod has the current template, according to the hash of the revision or the generation of the template.
    ///
    /// Upstream: `pkg/controller/daemon/util`, `IsPodUpdated`.
    pub fn is_updated(&self, pod: &PodRef) -> bool {
        self.is_of_revision(pod)
            || (self.template_generation.is_some() && pod.template_generation() == self.template_generation.as_deref())
    }

    /// Whether a Pod has been ready for `min_ready_seconds`.
    pub fn is_available(&self, pod: &PodRef, now: Timestamp) -> bool {
        pod.is_available(self.min_ready_seconds, now)
    }
}

/// One node and the Pods that are bound or pinned to it, as decisions see them.
#[derive(Clone, Debug)]
pub struct NodeView<'a> {
    /// Whether a Pod should run on the node.
    pub eligibility: Eligibility,
    /// The Pods of the node, ordered by [`rank`]. [Leaving](crate::objects::CachedPod::is_leaving) Pods are included.
    pub pods: &'a [PodRef],
    /// The time before which a failed Pod on the node is not deleted.
    pub failed_until: Option<Timestamp>,
}

impl<'a> NodeView<'a> {
    /// Returns the Pods of the node without leaving Pods.
    pub fn present(&self) -> impl Iterator<Item = &'a PodRef> + use<'a> {
        self.pods.iter().filter(|pod| !pod.is_leaving())
    }

    /// Returns the Pods that are not terminating, divided into Pods of the current template and other Pods.
    pub(crate) fn by_template(&self, criteria: &Criteria) -> (Vec<&'a PodRef>, Vec<&'a PodRef>) {
        self.present().filter(|pod| !pod.meta().is_deleting()).partition(|pod| criteria.is_updated(pod))
    }

    /// Returns the Pod of an earlier template, if there is exactly one.
    pub fn outdated(&self, criteria: &Criteria) -> Option<&'a PodRef> {
        match self.by_template(criteria).1[..] {
            [old] => Some(old),
            _ => None,
        }
    }
}

/// The sort key of the Pods of one node: bound Pods first, then older Pods, then by name.
///
/// Upstream: `pkg/controller/daemon`, `podByCreationTimestampAndPhase`.
pub fn rank(pod: &PodRef) -> impl Ord + use<'_> {
    let meta = pod.meta();
    (!pod.is_bound(), meta.created, &*meta.name)
}

/// Numbers of nodes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Nodes on which a Pod should run: the desired nodes.
    pub desired: i32,
    /// Desired nodes that have a Pod.
    pub current: i32,
    /// Desired nodes whose first Pod is ready.
    pub ready: i32,
    /// Desired nodes whose first Pod is available.
    pub available: i32,
    /// Desired nodes whose first Pod has the current template.
    pub updated: i32,
    /// Nodes on which no Pod should run, and that have a Pod.
    pub misscheduled: i32,
    /// Nodes that count against the limit of the rolling update.
    pub blocking: i32,
    /// Existing nodes with an available Pod, desired or not. Counted only with surge.
    pub serving: i32,
}

impl Tally {
    fn each(&mut self, other: &Self, change: impl Fn(&mut i32, i32)) {
        change(&mut self.desired, other.desired);
        change(&mut self.current, other.current);
        change(&mut self.ready, other.ready);
        change(&mut self.available, other.available);
        change(&mut self.updated, other.updated);
        change(&mut self.misscheduled, other.misscheduled);
        change(&mut self.blocking, other.blocking);
        change(&mut self.serving, other.serving);
    }
}

impl AddAssign for Tally {
    fn add_assign(&mut self, other: Self) {
        self.each(&other, |sum, n| *sum += n);
    }
}

impl SubAssign for Tally {
    fn sub_assign(&mut self, other: Self) {
        self.each(&other, |sum, n| *sum -= n);
    }
}

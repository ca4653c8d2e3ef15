//! The nodes of a set with their Pods, and by what these are judged.

use std::{
    collections::BTreeSet,
    ops::{AddAssign, SubAssign},
    time::Duration,
};

use common::intern::Text;
use jiff::Timestamp;

use crate::objects::PodRef;

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
    /// Its Pods, in the order of [`rank`].
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

/// What a DaemonSet does on a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Eligibility {
    /// A Pod should run there.
    Runs,
    /// No Pod is created there, and a Pod that is there stays: the node has a `NoSchedule` taint that is not tolerated.
    Stays,
    /// No Pod may run there.
    Leaves,
    /// The cache has no such node.
    Vanished,
}

impl Eligibility {
    /// Whether a Pod should run there.
    pub fn should_run(self) -> bool {
        self == Self::Runs
    }

    /// Whether a Pod that is there may stay.
    pub fn should_continue(self) -> bool {
        matches!(self, Self::Runs | Self::Stays)
    }
}

/// By what the Pods of every node are judged.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Criteria {
    /// The hash of the current revision.
    pub hash: Text,
    /// The hashes of other revisions of the same template.
    pub same_hashes: BTreeSet<Text>,
    /// The generation of the template, as the label of Pods has it.
    pub template_generation: Option<Text>,
    /// How long a Pod must be ready before it is available, in seconds.
    pub min_ready_seconds: i32,
    /// Whether a node may have a new Pod beside the old one.
    pub allows_surge: bool,
    /// How outdated Pods are replaced.
    pub replacement: Replacement,
}

/// How outdated Pods are replaced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Replacement {
    /// Users delete them.
    OnDelete,
    /// The old Pod is deleted before the new one is created (`maxUnavailable`).
    DeleteFirst,
    /// The new Pod is created before the old one is deleted (`maxSurge`).
    CreateFirst,
}

impl Criteria {
    /// Whether a Pod carries the hash of a revision of the current template.
    pub fn is_of_revision(&self, pod: &PodRef) -> bool {
        !self.hash.is_empty() && (pod.hash() == self.hash.as_str() || self.same_hashes.contains(pod.hash()))
    }

    /// Whether a Pod is of the current template: by the hash of the revision, or by the generation of the template.
    ///
    /// Upstream: `pkg/controller/daemon/util`, `IsPodUpdated`.
    pub fn is_updated(&self, pod: &PodRef) -> bool {
        self.is_of_revision(pod)
            || (self.template_generation.is_some() && pod.template_generation() == self.template_generation.as_deref())
    }

    /// Whether a Pod has been ready for long enough.
    pub fn is_available(&self, pod: &PodRef, now: Timestamp) -> bool {
        pod.is_available(self.min_ready_seconds, now)
    }
}

/// One node and the Pods that are meant for it.
#[derive(Clone, Debug)]
pub struct NodeView<'a> {
    /// What the DaemonSet does there.
    pub eligibility: Eligibility,
    /// Its Pods in the order of [`rank`], those that are [leaving](crate::objects::CachedPod::is_leaving) included.
    pub pods: &'a [PodRef],
    /// Until when a Pod that failed there is left alone.
    pub failed_until: Option<Timestamp>,
}

impl<'a> NodeView<'a> {
    /// Its Pods without those that are leaving.
    pub fn present(&self) -> impl Iterator<Item = &'a PodRef> + use<'a> {
        self.pods.iter().filter(|pod| !pod.is_leaving())
    }

    /// The Pods that are not terminating: those of the current template, and the others.
    pub(crate) fn by_template(&self, criteria: &Criteria) -> (Vec<&'a PodRef>, Vec<&'a PodRef>) {
        self.present().filter(|pod| !pod.meta().is_deleting()).partition(|pod| criteria.is_updated(pod))
    }

    /// The Pod of an earlier template, if it is the only one.
    pub fn outdated(&self, criteria: &Criteria) -> Option<&'a PodRef> {
        match self.by_template(criteria).1[..] {
            [old] => Some(old),
            _ => None,
        }
    }
}

/// The order of the Pods of one node: those that are bound first, then the older, then by name.
///
/// Upstream: `pkg/controller/daemon`, `podByCreationTimestampAndPhase`.
pub fn rank(pod: &PodRef) -> impl Ord + use<'_> {
    let meta = pod.meta();
    (!pod.is_bound(), meta.created, &*meta.name)
}

/// Counts of nodes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Nodes on which a Pod should run.
    pub desired: i32,
    /// Of these, those that have a Pod.
    pub current: i32,
    /// Of these, those whose first Pod is ready.
    pub ready: i32,
    /// Of these, those whose first Pod is available.
    pub available: i32,
    /// Of these, those whose first Pod is of the current template.
    pub updated: i32,
    /// Nodes on which no Pod should run, and that have one.
    pub misscheduled: i32,
    /// Nodes that count against the limit of the rolling update.
    pub blocking: i32,
    /// Existing nodes with an available Pod, whether one should run there or not (with surge only).
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

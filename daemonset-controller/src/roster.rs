//! The nodes of one DaemonSet with their Pods and counts, kept up to date by events.
//!
//! A roster is derived from the stores of the informers: it is built when it is first needed, each event changes the node that
//! the event concerns, and it may be dropped at any time. The cost of an update grows with the number of changed nodes, and the
//! cost of a snapshot with the number of nodes on which a sync can act. Neither depends on the total number of nodes.

mod hashes;
mod totals;
mod undecided;

use std::{
    collections::{BTreeMap, BTreeSet},
    ops::Bound,
    sync::Arc,
    time::Duration,
};

use common::{intern::Text, meta::Uid, selector::Selector};
use jiff::Timestamp;
use smallvec::SmallVec;

pub(crate) use self::undecided::Change;
use self::{hashes::Hashes, totals::Totals, undecided::Undecided};
use crate::{
    decide::{
        rolling::{Limits, criteria, sunsets},
        standing::{Standing, standing},
    },
    objects::{DaemonSet, DaemonTemplate, PodRef},
    snapshot::nodes::{Criteria, Cursor, Cursors, Eligibility, Listed, NodePods, NodeView, Nodes, Replacement, rank},
};

/// Greatest number of blocking nodes that an explanation names.
const NAMED: usize = 3;

/// The back-off of failed Pods by node, which an update of a roster needs.
pub(crate) trait Surroundings {
    /// Returns the time before which a failed Pod on the node is not deleted.
    fn failed_until(&self, node: &Text) -> Option<Timestamp>;
    /// Returns the delay of the next failed Pod on the node, if a failed Pod is deleted now.
    fn failed_delay(&self, node: &Text) -> Duration;
}

/// The nodes of one DaemonSet, with their Pods and the sums over all nodes.
pub(crate) struct Roster {
    selector: Selector,
    pub(crate) template: Arc<DaemonTemplate>,
    criteria: Criteria,
    /// Nodes on which a Pod should run, and nodes that have Pods.
    nodes: BTreeMap<Text, Node>,
    /// Pods that are neither bound nor pinned to a node, by name.
    untargeted: BTreeMap<Arc<str>, PodRef>,
    /// Pods that the selector does not match, by name.
    unselected: BTreeMap<Arc<str>, PodRef>,
    /// The hashes in the labels of the Pods that the selector matches.
    pub(crate) hashes: Hashes,
    /// Nodes whose eligibility is to be decided again.
    pub(crate) undecided: Undecided,
    /// Nodes whose standing is to be decided again.
    changed: BTreeSet<Text>,
    /// The sums of the decided standings.
    totals: Totals,
    /// Number of decided standings since the last call of [`take_decided`](Self::take_decided).
    decided: u64,
}

/// The list of a roster that holds a Pod.
enum Place<'p> {
    /// Pods that the selector does not match.
    Unselected,
    /// Pods that are neither bound nor pinned to a node.
    Untargeted,
    /// Pods of this node.
    Node(&'p Text),
}

/// A node on which a Pod should run, or that has Pods.
struct Node {
    eligibility: Eligibility,
    /// The Pods of the node, ordered by [`rank`].
    pods: SmallVec<[PodRef; 1]>,
    /// The part of this node in the totals.
    standing: Standing,
}

impl Node {
    fn new(eligibility: Eligibility) -> Self {
        Self { eligibility, pods: SmallVec::new(), standing: Standing::default() }
    }

    fn insert(&mut self, pod: &PodRef) {
        let at = self.pods.partition_point(|other| rank(other) < rank(pod));
        self.pods.insert(at, Arc::clone(pod));
    }

    /// Removes a Pod, and returns whether the node had it.
    fn remove(&mut self, pod: &PodRef) -> bool {
        let at = self.pods.iter().position(|known| known.meta().uid == pod.meta().uid);
        at.map(|at| self.pods.remove(at)).is_some()
    }
}

impl Roster {
    /// Builds the roster of a set with these Pods and nodes. All nodes are undecided.
    pub(crate) fn new(
        set: &DaemonSet,
        template: Arc<DaemonTemplate>,
        pods: Vec<PodRef>,
        nodes: impl Iterator<Item = Text>,
    ) -> Self {
        let mut roster = Self {
            selector: set.selector.clone(),
            template,
            criteria: criteria(set, "", &BTreeSet::new(), 0),
            nodes: BTreeMap::new(),
            untargeted: BTreeMap::new(),
            unselected: BTreeMap::new(),
            hashes: Hashes::default(),
            undecided: Undecided::default(),
            changed: BTreeSet::new(),
            totals: Totals::default(),
            decided: 0,
        };
        for node in nodes {
            roster.node_changed(&node);
        }
        for pod in pods.iter().filter(|pod| pod.is_controlled_by(&set.metadata.name, &set.metadata.uid)) {
            roster.insert(pod);
        }
        roster
    }

    /// Whether the selector of the set is still the selector of the roster.
    pub(crate) fn fits(&self, set: &DaemonSet) -> bool {
        self.selector == set.selector
    }

    /// Replaces the template. If the placement differs, all `nodes` must be decided again.
    pub(crate) fn set_template(&mut self, template: &Arc<DaemonTemplate>, nodes: impl FnOnce() -> Vec<Text>) {
        if Arc::ptr_eq(&self.template, template) {
            return;
        }
        let is_other = self.template.placement != template.placement;
        self.template = Arc::clone(template);
        if is_other {
            let known: Vec<Text> = self.nodes.keys().cloned().collect();
            for node in nodes().iter().chain(&known) {
                self.node_changed(node);
            }
        }
    }

    fn place_of<'p>(&self, pod: &'p PodRef) -> Place<'p> {
        if !self.selector.matches(&pod.meta().labels) {
            Place::Unselected
        } else if pod.target().is_empty() {
            Place::Untargeted
        } else {
            Place::Node(pod.target())
        }
    }

    /// Adds a Pod that the set controls.
    pub(crate) fn insert(&mut self, pod: &PodRef) {
        let name = Arc::clone(&pod.meta().name);
        match self.place_of(pod) {
            Place::Unselected => {
                self.unselected.insert(name, Arc::clone(pod));
                return;
            }
            Place::Untargeted => {
                self.untargeted.insert(name, Arc::clone(pod));
            }
            Place::Node(target) => {
                let node = self.nodes.entry(target.clone()).or_insert_with(|| {
                    // A node without Pods on which no Pod should run is not kept, so its eligibility is unknown.
                    self.undecided.add(target);
                    Node::new(Eligibility::Vanished)
                });
                node.insert(pod);
                self.changed.insert(target.clone());
            }
        }
        self.hashes.add(pod);
    }

    /// Removes a Pod that the set controlled, given the version that was inserted.
    pub(crate) fn remove(&mut self, pod: &PodRef) {
        let name = &pod.meta().name;
        let is_removed = match self.place_of(pod) {
            Place::Unselected => {
                self.unselected.remove(name);
                return;
            }
            Place::Untargeted => self.untargeted.remove(name).is_some(),
            Place::Node(target) => self.nodes.get_mut(target).is_some_and(|node| node.remove(pod)),
        };
        if is_removed {
            self.hashes.remove(pod);
            self.changed.insert(pod.target().clone());
        }
    }

    /// Records that a node was added, changed or deleted.
    pub(crate) fn node_changed(&mut self, node: &Text) {
        self.undecided.add(node);
    }

    /// Records that a node was deleted. A node that the roster does not list is no longer undecided.
    pub(crate) fn node_gone(&mut self, node: &Text) {
        if self.nodes.contains_key(node) {
            self.node_changed(node);
        } else {
            self.undecided.remove(node);
        }
    }

    /// Stores the eligibility that was decided because of `change`. Has no effect if the node has changed again since.
    pub(crate) fn decide_node(&mut self, name: Text, change: Change, eligibility: Eligibility) {
        if !self.undecided.settle(&name, change) {
            return;
        }
        match self.nodes.get_mut(&name) {
            Some(node) => node.eligibility = eligibility,
            None if eligibility.should_run() => {
                self.nodes.insert(name.clone(), Node::new(eligibility));
            }
            None => return,
        }
        self.changed.insert(name);
    }

    /// Records that the back-off of a node has changed, so that its standing is decided again.
    pub(crate) fn back_off_changed(&mut self, node: &Text) {
        self.changed.insert(node.clone());
    }

    /// Returns the last decided eligibility of a node, if the roster lists the node.
    pub(crate) fn decided_eligibility(&self, node: &Text) -> Option<Eligibility> {
        self.nodes.get(node).map(|node| node.eligibility)
    }

    /// Whether a node has a Pod whose uid is not in `known`.
    pub(crate) fn has_other_pod_on(&self, node: &Text, known: &[Uid]) -> bool {
        self.nodes.get(node).is_some_and(|node| node.pods.iter().any(|pod| !known.contains(&pod.meta().uid)))
    }

    /// Counts the nodes that do not need a first Pod. A Pod that is created there is a second Pod.
    pub(crate) fn count_with_pod<'a>(&self, nodes: impl Iterator<Item = &'a Text>) -> usize {
        nodes.filter(|node| !self.totals.lists.create.contains(*node)).count()
    }

    /// Whether the set has Pods on a node.
    pub(crate) fn has_pods_on(&self, node: &Text) -> bool {
        self.nodes.get(node).is_some_and(|node| !node.pods.is_empty())
    }

    /// Returns the Pods of the set that the selector does not match.
    pub(crate) fn unselected(&self) -> Vec<PodRef> {
        self.unselected.values().cloned().collect()
    }

    /// Returns the Pods of the set that have one of these hashes.
    pub(crate) fn with_hashes(&self, hashes: &BTreeSet<Text>) -> Vec<PodRef> {
        if !hashes.iter().any(|hash| self.hashes.has(hash)) {
            return Vec::new();
        }
        let placed = self.nodes.values().flat_map(|node| &node.pods);
        placed.chain(self.untargeted.values()).filter(|pod| hashes.contains(pod.hash())).cloned().collect()
    }

    /// Returns the number of decided standings since the last call.
    pub(crate) fn take_decided(&mut self) -> u64 {
        std::mem::take(&mut self.decided)
    }

    /// Brings standings and totals up to date with the events, the criteria and the time. The eligibility of nodes must be
    /// decided before.
    ///
    /// `hash` is the hash of the current revision; `same_hashes` are other hashes under which the template is stored.
    pub(crate) fn update(
        &mut self,
        set: &DaemonSet,
        hash: &str,
        same_hashes: &BTreeSet<Text>,
        now: Timestamp,
        around: &dyn Surroundings,
    ) {
        self.changed.extend(self.totals.take_expired(now));
        self.judge(criteria(set, hash, same_hashes, self.totals.tally.desired), now, around);
        // A surge in percent may have become zero, or positive again, with the number of desired nodes.
        let criteria = criteria(set, hash, same_hashes, self.totals.tally.desired);
        if criteria != self.criteria {
            self.judge(criteria, now, around);
        }
    }

    /// Decides the standing of the changed nodes; with new criteria, the standing of every node.
    fn judge(&mut self, criteria: Criteria, now: Timestamp, around: &dyn Surroundings) {
        if self.criteria != criteria {
            self.criteria = criteria;
            self.changed.extend(self.nodes.keys().cloned());
        }
        for name in std::mem::take(&mut self.changed) {
            let Some(node) = self.nodes.get_mut(&name) else { continue };
            self.totals.subtract(&name, &node.standing);
            if node.pods.is_empty() && !node.eligibility.should_run() {
                self.nodes.remove(&name);
                continue;
            }
            let failed_until = around.failed_until(&name);
            let view = NodeView { eligibility: node.eligibility, pods: &node.pods, failed_until };
            node.standing = standing(&view, &self.criteria, now);
            self.totals.add(&name, &node.standing);
            self.decided += 1;
        }
    }

    /// Returns the counts, and the nodes on which a sync can act. No list is longer than `burst`, or than the limits of the
    /// update allow.
    ///
    /// Nodes that are held back are in no list of creations. Otherwise they would take places in every sync, and the nodes after
    /// them would get no turn.
    pub(crate) fn nodes(
        &self,
        set: &DaemonSet,
        burst: usize,
        cursors: &Cursors,
        held_back: &BTreeSet<Text>,
        around: &dyn Surroundings,
    ) -> Nodes {
        let none = BTreeSet::new();
        let take_without = |list: &BTreeSet<Text>, without: &BTreeSet<Text>, at_most: usize, cursor: &Cursor| {
            let names = after(list, cursor).filter(|name| !without.contains(*name)).take(at_most);
            Listed {
                nodes: names.filter_map(|name| self.node_pods(name, around)).collect(),
                count: list.len() - without.iter().filter(|name| list.contains(*name)).count(),
            }
        };
        let take = |list: &BTreeSet<Text>, at_most, cursor: &Cursor| take_without(list, &none, at_most, cursor);
        let Cursors { create, delete } = cursors;
        let Totals { tally, lists, .. } = &self.totals;
        let replacement = self.criteria.replacement;
        let (replace, waits) = match replacement {
            Replacement::CreateFirst => (create, held_back),
            Replacement::DeleteFirst | Replacement::OnDelete => (delete, &none),
        };
        let room = Limits::new(set, tally.desired).map_or(0, |limits| limits.candidates(tally, replacement));
        Nodes {
            criteria: self.criteria.clone(),
            tally: *tally,
            cursors: cursors.clone(),
            create: take_without(&lists.create, held_back, burst, create),
            delete: take(&lists.delete, burst, delete),
            replace: take_without(&lists.replace, waits, burst, replace),
            remove: take(&lists.remove, burst, delete),
            sunset: take(&lists.sunset, burst.min(sunsets(tally)), delete),
            candidates: take_without(&lists.candidates, waits, burst.min(room), replace),
            blocking: take(&lists.blocking, NAMED, &Cursor::default()),
            untargeted: self.untargeted.len(),
            due: self.totals.due(),
        }
    }

    fn node_pods(&self, name: &Text, around: &dyn Surroundings) -> Option<NodePods> {
        let node = self.nodes.get(name)?;
        Some(NodePods {
            name: name.clone(),
            eligibility: node.eligibility,
            pods: node.pods.to_vec(),
            failed_until: around.failed_until(name),
            failed_delay: around.failed_delay(name),
        })
    }
}

/// Returns the nodes after the cursor, and then the nodes up to the cursor.
fn after<'a>(list: &'a BTreeSet<Text>, cursor: &'a Cursor) -> impl Iterator<Item = &'a Text> {
    let refused = cursor.0.as_ref();
    let later = list.range::<Text, _>((refused.map_or(Bound::Unbounded, Bound::Excluded), Bound::Unbounded));
    let earlier = refused.map(|refused| list.range::<Text, _>((Bound::Unbounded, Bound::Included(refused))));
    later.chain(earlier.into_iter().flatten())
}

#[cfg(test)]
mod tests;

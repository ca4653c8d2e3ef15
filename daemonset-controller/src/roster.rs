//! The nodes of one DaemonSet with their Pods and counts, kept up to date by events.
//!
//! A cache of what the informers have: it is built from their stores when it is first needed, each event changes the node that the
//! event concerns, and it may be dropped at any time. Bringing it up to date costs as much as there are nodes of which something has
//! changed since, and taking a snapshot of it as much as a sync can act on, whatever the number of nodes.

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

/// How many nodes that block a rollout an explanation names.
const NAMED: usize = 3;

/// What a roster asks about nodes while it is brought up to date.
pub(crate) trait Surroundings {
    /// Until when a Pod that failed on a node is left alone.
    fn failed_until(&self, node: &Text) -> Option<Timestamp>;
    /// How long the next Pod that fails on a node is left alone, if one is deleted now.
    fn failed_delay(&self, node: &Text) -> Duration;
}

/// The nodes of one DaemonSet.
pub(crate) struct Roster {
    selector: Selector,
    pub(crate) template: Arc<DaemonTemplate>,
    criteria: Criteria,
    /// Nodes on which a Pod should run, and nodes that have Pods.
    nodes: BTreeMap<Text, Node>,
    /// Pods that neither run on a node nor name one, by name.
    untargeted: BTreeMap<Arc<str>, PodRef>,
    /// Pods that the selector does not match, by name.
    unselected: BTreeMap<Arc<str>, PodRef>,
    /// The hashes that the other Pods carry.
    pub(crate) hashes: Hashes,
    /// Nodes whose eligibility is to be decided again.
    pub(crate) undecided: Undecided,
    /// Nodes whose standing is to be decided again.
    changed: BTreeSet<Text>,
    /// The sums of the decided standings.
    totals: Totals,
    /// How often a standing was decided.
    decided: u64,
}

/// Where a roster keeps a Pod.
enum Place<'p> {
    /// Among those that the selector does not match.
    Unselected,
    /// Among those that neither run on a node nor name one.
    Untargeted,
    /// With this node.
    Node(&'p Text),
}

/// A node on which a Pod should run, or that has Pods.
struct Node {
    eligibility: Eligibility,
    /// In the order of their rank.
    pods: SmallVec<[PodRef; 1]>,
    /// What the node contributes to the totals.
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

    /// Removes a Pod; `false` if it is not there.
    fn remove(&mut self, pod: &PodRef) -> bool {
        let at = self.pods.iter().position(|known| known.meta().uid == pod.meta().uid);
        at.map(|at| self.pods.remove(at)).is_some()
    }
}

impl Roster {
    /// The roster of a set with these Pods on these nodes. Everything is yet to be decided.
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

    /// Whether it is still of use for a set: its Pods are selected as before.
    pub(crate) fn fits(&self, set: &DaemonSet) -> bool {
        self.selector == set.selector
    }

    /// Takes over the template of the set. If its placement is another one, all `nodes` are to be decided again.
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
                    // Only nodes of interest are kept, so that nothing is known of this one.
                    self.undecided.add(target);
                    Node::new(Eligibility::Vanished)
                });
                node.insert(pod);
                self.changed.insert(target.clone());
            }
        }
        self.hashes.add(pod);
    }

    /// Removes a Pod that the set controlled, as it was inserted.
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

    /// Notes that a node came, went or changed.
    pub(crate) fn node_changed(&mut self, node: &Text) {
        self.undecided.add(node);
    }

    /// Notes that a node went. Nothing is kept of one on which the set has nothing.
    pub(crate) fn node_gone(&mut self, node: &Text) {
        if self.nodes.contains_key(node) {
            self.node_changed(node);
        } else {
            self.undecided.remove(node);
        }
    }

    /// Takes over what was decided about a node because of a change. It counts for nothing if there was another change since.
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

    /// Notes that the back-off of a node has changed.
    pub(crate) fn back_off_changed(&mut self, node: &Text) {
        self.changed.insert(node.clone());
    }

    /// What the set did on a node when that was last decided.
    pub(crate) fn decided_eligibility(&self, node: &Text) -> Option<Eligibility> {
        self.nodes.get(node).map(|node| node.eligibility)
    }

    /// Whether a node has a Pod that is not among those known.
    pub(crate) fn has_other_pod_on(&self, node: &Text, known: &[Uid]) -> bool {
        self.nodes.get(node).is_some_and(|node| node.pods.iter().any(|pod| !known.contains(&pod.meta().uid)))
    }

    /// How many of these nodes need no first Pod: one that is created there is a second one.
    pub(crate) fn count_with_pod<'a>(&self, nodes: impl Iterator<Item = &'a Text>) -> usize {
        nodes.filter(|node| !self.totals.lists.create.contains(*node)).count()
    }

    /// Whether the set has Pods on a node.
    pub(crate) fn has_pods_on(&self, node: &Text) -> bool {
        self.nodes.get(node).is_some_and(|node| !node.pods.is_empty())
    }

    /// Its Pods that the selector does not match.
    pub(crate) fn unselected(&self) -> Vec<PodRef> {
        self.unselected.values().cloned().collect()
    }

    /// Its Pods that carry one of these hashes.
    pub(crate) fn with_hashes(&self, hashes: &BTreeSet<Text>) -> Vec<PodRef> {
        if !hashes.iter().any(|hash| self.hashes.has(hash)) {
            return Vec::new();
        }
        let placed = self.nodes.values().flat_map(|node| &node.pods);
        placed.chain(self.untargeted.values()).filter(|pod| hashes.contains(pod.hash())).cloned().collect()
    }

    /// How often a standing was decided, since the last call.
    pub(crate) fn take_decided(&mut self) -> u64 {
        std::mem::take(&mut self.decided)
    }

    /// Brings everything up to date with the events so far, the criteria and the time. The eligibility of nodes is decided before.
    ///
    /// `hash` is that of the current revision; the template is also stored under `same_hashes`.
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
        // A percentage may be of no node at all, or of some again.
        let criteria = criteria(set, hash, same_hashes, self.totals.tally.desired);
        if criteria != self.criteria {
            self.judge(criteria, now, around);
        }
    }

    /// Decides the standing of the nodes that have changed, by new criteria that of every node.
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

    /// What a sync looks at. No list is longer than `burst`, nor than what the limits of the update leave room for.
    ///
    /// Nodes that are held back are in no list of creations. They would take the places of nodes whose turn it is, in every sync for
    /// as long as they are held back.
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

/// The nodes after a cursor, and then those up to it.
fn after<'a>(list: &'a BTreeSet<Text>, cursor: &'a Cursor) -> impl Iterator<Item = &'a Text> {
    let refused = cursor.0.as_ref();
    let later = list.range::<Text, _>((refused.map_or(Bound::Unbounded, Bound::Excluded), Bound::Unbounded));
    let earlier = refused.map(|refused| list.range::<Text, _>((Bound::Unbounded, Bound::Included(refused))));
    later.chain(earlier.into_iter().flatten())
}

#[cfg(test)]
mod tests;

//! The nodes of one DaemonSet with their Pods and counts, kept up to date by events.
//!
//! A cache of what the informers have: it is built from their stores when it is first needed, each event changes the node that the
//! event concerns, and it may be dropped at any time. Bringing it up to date costs as much as there are nodes of which something has
//! changed since, and taking a snapshot of it as much as a sync can act on, whatever the number of nodes.

use std::{
    collections::{BTreeMap, BTreeSet},
    ops::Bound,
    sync::Arc,
    time::Duration,
};

use common::{
    intern::Text,
    meta::{Meta, Uid},
    selector::Selector,
};
use jiff::Timestamp;
use smallvec::SmallVec;

use crate::{
    decide::{
        eligibility::Eligibility,
        rolling::{Limits, sunsets},
        standing::{Criteria, NodeView, Replacement, Rollout, Standing, Tally, rank, standing},
    },
    objects::{DAEMON_SETS, DaemonSet, DaemonTemplate},
    snapshot::{Cursor, Cursors, Listed, NodePods, Nodes, PodRef},
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
    template: Arc<DaemonTemplate>,
    criteria: Criteria,
    /// Nodes on which a Pod should run, and nodes that have Pods.
    nodes: BTreeMap<Text, Node>,
    /// Pods that neither run on a node nor name one, by name.
    untargeted: BTreeMap<Arc<str>, PodRef>,
    /// Pods that the selector does not match, by name.
    unselected: BTreeMap<Arc<str>, PodRef>,
    /// Pods that lack the label of their hash, by name.
    unlabelled: BTreeMap<Arc<str>, PodRef>,
    /// How many Pods carry a hash.
    hashes: BTreeMap<Text, usize>,
    tally: Tally,
    lists: Lists,
    /// When the passing of time changes a node.
    timers: BTreeSet<(Timestamp, Text)>,
    /// Nodes whose eligibility is to be decided again, each with the change that asks for it.
    undecided: BTreeMap<Text, Change>,
    /// The last change that asked for a decision.
    last_change: Change,
    /// Nodes whose standing is to be decided again.
    changed: BTreeSet<Text>,
    /// How often a standing was decided.
    decided: u64,
}

/// A change that asks for the eligibility of a node: of the node, or of the placement. Each has a number of its own.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Change(u64);

struct Node {
    eligibility: Eligibility,
    pods: SmallVec<[PodRef; 1]>,
    standing: Standing,
}

/// The nodes on which something is to be done, by what it is.
#[derive(Default)]
struct Lists {
    create: BTreeSet<Text>,
    delete: BTreeSet<Text>,
    blocking: BTreeSet<Text>,
    replace: BTreeSet<Text>,
    candidates: BTreeSet<Text>,
    remove: BTreeSet<Text>,
    sunset: BTreeSet<Text>,
}

impl Lists {
    /// The lists of a standing.
    fn of(&mut self, standing: &Standing) -> impl Iterator<Item = &mut BTreeSet<Text>> {
        let rollout = match standing.rollout {
            Rollout::Settled => None,
            Rollout::Blocking => Some(&mut self.blocking),
            Rollout::Replace => Some(&mut self.replace),
            Rollout::Candidate => Some(&mut self.candidates),
            Rollout::Remove => Some(&mut self.remove),
            Rollout::Sunset => Some(&mut self.sunset),
        };
        let create = standing.creates.then_some(&mut self.create);
        let delete = standing.deletes.then_some(&mut self.delete);
        [create, delete, rollout].into_iter().flatten()
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
            criteria: Criteria::new(set, "", 0),
            nodes: BTreeMap::new(),
            untargeted: BTreeMap::new(),
            unselected: BTreeMap::new(),
            unlabelled: BTreeMap::new(),
            hashes: BTreeMap::new(),
            tally: Tally::default(),
            lists: Lists::default(),
            timers: BTreeSet::new(),
            undecided: BTreeMap::new(),
            last_change: Change::default(),
            changed: BTreeSet::new(),
            decided: 0,
        };
        for node in nodes {
            roster.node_changed(&node);
        }
        for pod in pods.iter().filter(|pod| is_controller(&set.metadata.name, &set.metadata.uid, pod.meta())) {
            roster.insert(pod);
        }
        roster
    }

    /// Whether it is still of use for a set: its Pods are selected as before.
    pub(crate) fn fits(&self, set: &DaemonSet) -> bool {
        self.selector == set.selector
    }

    /// Takes over the template of the set. If its placement is another one, all `nodes` are to be decided again.
    pub(crate) fn place(&mut self, template: &Arc<DaemonTemplate>, nodes: impl FnOnce() -> Vec<Text>) {
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

    /// Adds a Pod that the set controls.
    pub(crate) fn insert(&mut self, pod: &PodRef) {
        let name = Arc::clone(&pod.meta().name);
        if !self.selector.matches(&pod.meta().labels) {
            self.unselected.insert(name, Arc::clone(pod));
            return;
        }
        if pod.is_unlabelled() {
            self.unlabelled.insert(Arc::clone(&name), Arc::clone(pod));
        }
        *self.hashes.entry(Text::new(pod.hash())).or_insert(0) += 1;
        let target = pod.target();
        if target.is_empty() {
            self.untargeted.insert(name, Arc::clone(pod));
            return;
        }
        let node = self.nodes.entry(target.clone()).or_insert_with(|| {
            // Only nodes of interest are kept, so that nothing is known of this one.
            self.last_change.0 += 1;
            self.undecided.insert(target.clone(), self.last_change);
            Node { eligibility: Eligibility::Vanished, pods: SmallVec::new(), standing: Standing::default() }
        });
        let at = node.pods.partition_point(|other| rank(other) < rank(pod));
        node.pods.insert(at, Arc::clone(pod));
        self.changed.insert(target.clone());
    }

    /// Removes a Pod that the set controlled, as it was inserted.
    pub(crate) fn remove(&mut self, pod: &PodRef) {
        let meta = pod.meta();
        if self.unselected.get(&meta.name).is_some_and(|known| known.meta().uid == meta.uid) {
            self.unselected.remove(&meta.name);
            return;
        }
        self.unlabelled.remove(&meta.name);
        let target = pod.target();
        let removed = if target.is_empty() {
            self.untargeted.remove(&meta.name).is_some()
        } else {
            self.nodes.get_mut(target).is_some_and(|node| {
                let at = node.pods.iter().position(|known| known.meta().uid == meta.uid);
                at.map(|at| node.pods.remove(at)).is_some()
            })
        };
        if !removed {
            return;
        }
        self.changed.insert(target.clone());
        if let Some(count) = self.hashes.get_mut(pod.hash()) {
            *count -= 1;
            if *count == 0 {
                self.hashes.remove(pod.hash());
            }
        }
    }

    /// Notes that a node came, went or changed.
    pub(crate) fn node_changed(&mut self, node: &Text) {
        self.last_change.0 += 1;
        self.undecided.insert(node.clone(), self.last_change);
    }

    /// Notes that a node went. Nothing is kept of one on which the set has nothing.
    pub(crate) fn node_gone(&mut self, node: &Text) {
        if self.nodes.contains_key(node) {
            self.node_changed(node);
        } else {
            self.undecided.remove(node);
        }
    }

    /// The first nodes whose eligibility is to be decided, at most so many.
    pub(crate) fn undecided(&self, at_most: usize) -> Vec<(Text, Change)> {
        self.undecided.iter().take(at_most).map(|(node, change)| (node.clone(), *change)).collect()
    }

    /// How many nodes there are whose eligibility is to be decided.
    pub(crate) fn undecided_nodes(&self) -> usize {
        self.undecided.len()
    }

    /// Takes over what was decided about a node because of a change. It counts for nothing if there was another change since.
    pub(crate) fn decide_node(&mut self, name: Text, change: Change, eligibility: Eligibility) {
        if self.undecided.get(&name) != Some(&change) {
            return;
        }
        self.undecided.remove(&name);
        match self.nodes.get_mut(&name) {
            Some(node) => node.eligibility = eligibility,
            None if eligibility.should_run() => {
                let node = Node { eligibility, pods: SmallVec::new(), standing: Standing::default() };
                self.nodes.insert(name.clone(), node);
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
        nodes.filter(|node| !self.lists.create.contains(*node)).count()
    }

    /// Whether the set has Pods on a node.
    pub(crate) fn has_pods_on(&self, node: &Text) -> bool {
        self.nodes.get(node).is_some_and(|node| !node.pods.is_empty())
    }

    /// Where the Pods of the set may run.
    pub(crate) fn template(&self) -> &Arc<DaemonTemplate> {
        &self.template
    }

    /// Its Pods that the selector does not match.
    pub(crate) fn unselected(&self) -> Vec<PodRef> {
        self.unselected.values().cloned().collect()
    }

    /// Its Pods that lack the label of their hash.
    pub(crate) fn unlabelled(&self) -> Vec<PodRef> {
        self.unlabelled.values().cloned().collect()
    }

    /// Its Pods that carry one of these hashes.
    pub(crate) fn with_hashes(&self, hashes: &BTreeSet<Text>) -> Vec<PodRef> {
        if !hashes.iter().any(|hash| self.has_hash(hash)) {
            return Vec::new();
        }
        let placed = self.nodes.values().flat_map(|node| &node.pods);
        placed.chain(self.untargeted.values()).filter(|pod| hashes.contains(pod.hash())).cloned().collect()
    }

    /// Whether a Pod carries that hash.
    pub(crate) fn has_hash(&self, hash: &str) -> bool {
        self.hashes.contains_key(hash)
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
        let criteria = |desired| Criteria::new(set, hash, desired).with_same_hashes(same_hashes);
        while let Some((due, name)) = self.timers.first().filter(|(due, _)| *due <= now).cloned() {
            self.timers.remove(&(due, name.clone()));
            self.changed.insert(name);
        }
        self.judge(criteria(self.tally.desired), now, around);
        // A percentage may be of no node at all, or of some again.
        let criteria = criteria(self.tally.desired);
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
            let old = std::mem::take(&mut node.standing);
            self.tally -= old.tally;
            self.lists.of(&old).for_each(|list| {
                list.remove(&name);
            });
            if let Some(due) = old.due {
                self.timers.remove(&(due, name.clone()));
            }
            if node.pods.is_empty() && !node.eligibility.should_run() {
                self.nodes.remove(&name);
                continue;
            }
            let failed_until = around.failed_until(&name);
            let view = NodeView { eligibility: node.eligibility, pods: &node.pods, failed_until };
            self.decided += 1;
            node.standing = standing(&view, &self.criteria, now);
            self.tally += node.standing.tally;
            self.lists.of(&node.standing).for_each(|list| {
                list.insert(name.clone());
            });
            if let Some(due) = node.standing.due {
                self.timers.insert((due, name));
            }
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
        let (tally, replacement) = (self.tally, self.criteria.replacement);
        let (replace, waits) = match replacement {
            Replacement::CreateFirst => (create, held_back),
            Replacement::DeleteFirst | Replacement::OnDelete => (delete, &none),
        };
        let room = Limits::new(set, tally.desired).map_or(0, |limits| limits.candidates(&tally, replacement));
        Nodes {
            criteria: self.criteria.clone(),
            tally,
            cursors: cursors.clone(),
            create: take_without(&self.lists.create, held_back, burst, create),
            delete: take(&self.lists.delete, burst, delete),
            replace: take_without(&self.lists.replace, waits, burst, replace),
            remove: take(&self.lists.remove, burst, delete),
            sunset: take(&self.lists.sunset, burst.min(sunsets(&tally)), delete),
            candidates: take_without(&self.lists.candidates, waits, burst.min(room), replace),
            blocking: take(&self.lists.blocking, NAMED, &Cursor::default()),
            untargeted: self.untargeted.len(),
            due: self.timers.first().map(|(due, _)| *due),
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

/// Whether the controller of a Pod is the DaemonSet of that name and uid. The set must be in the namespace of the Pod.
///
/// Events find the roster of a Pod by the name of its controller, so that a Pod that names another set belongs to no roster.
pub(crate) fn is_controller(set: &str, uid: &Uid, pod: &Meta) -> bool {
    pod.controller().is_some_and(|controller| {
        controller.kind == DAEMON_SETS.kind && *controller.name == *set && controller.uid == *uid
    })
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

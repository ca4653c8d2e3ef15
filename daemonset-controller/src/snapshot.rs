//! The input of one sync.

pub mod nodes;
pub mod revisions;

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};

use common::{intern::Text, refs::Owner};
use jiff::Timestamp;

use crate::objects::{DaemonSet, DaemonTemplate, PodRef};
use nodes::Nodes;
use revisions::Revisions;

/// A set and everything that a decision about it depends on, as the caches showed it at one time.
#[derive(Clone, Debug)]
pub struct Snapshot {
    /// The set that is synced.
    pub set: Arc<DaemonSet>,
    /// The parsed `spec.template`.
    pub template: Arc<DaemonTemplate>,
    /// The set in its role as an owner of Pods and revisions.
    pub owner: Owner,
    /// The revisions of the set, and the changes that they need.
    pub revisions: Revisions,
    /// Revisions that the server has refused to change, and the time until the next retry.
    pub refused_revisions: RefusedChanges,
    /// Pods that the server has refused to adopt, release or relabel, and the time until the next retry.
    pub refused_pods: RefusedChanges,
    /// Orphans that the selector matches.
    pub adopt: Vec<PodRef>,
    /// Whether this sync adopts the orphans.
    pub turn: Turn,
    /// Pods of the set that the selector no longer matches, to be released.
    pub release: Vec<PodRef>,
    /// Pods that have the hash of a duplicate of the current revision, to be relabelled with the hash of the current revision.
    pub relabel: Vec<PodRef>,
    /// Pods of the set that lack the label of their hash, by which Pods are watched. The label is restored with an empty value,
    /// because their revision is unknown.
    pub unlabelled: Vec<PodRef>,
    /// The hashes of earlier revisions that Pods still have.
    pub live_hashes: BTreeSet<Text>,
    /// The counts of the set's nodes, and the nodes on which this sync can act.
    pub nodes: Nodes,
    /// Nodes for which the answer to a creation was lost, and how long the creation may still take effect.
    pub lost_creates: BTreeMap<Text, Duration>,
    /// How many of the nodes in `lost_creates` do not need a first Pod, so that the lost creation is a second Pod.
    pub unseen_second_pods: usize,
    /// Nodes for which no Pod is created now, because of a lost answer or because an orphan there is not adopted yet.
    pub held_back: BTreeSet<Text>,
    /// The reason why no Pods are created or deleted now: the caches do not show a write of this process.
    pub blocked: Option<Blocked>,
    /// Whether the namespace is terminating, so that the server refuses every Pod.
    pub terminating_namespace: bool,
    /// Feature gates and tunes.
    pub limits: Limits,
    /// The time of the sync, by which availability is judged.
    pub now: Timestamp,
}

/// The first task of a sync if there are Pods to adopt.
///
/// Adoption and management take turns. Otherwise a steady supply of orphans would prevent the management of the set.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Turn {
    /// The sync adopts the orphans, and leaves everything else to the next sync.
    #[default]
    Adopts,
    /// The sync manages the Pods of the set, and leaves the orphans to the next sync.
    Manages,
}

/// Objects that the server has refused to change.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RefusedChanges {
    /// Names of the objects.
    pub names: Vec<Text>,
    /// Time until the first change is retried.
    pub retry: Option<Duration>,
}

/// The reason why no Pods are created or deleted for the time being.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Blocked {
    /// The write that the caches do not show yet, in words.
    pub why: String,
    /// Longest time until the caches are checked again.
    pub at_most: Duration,
}

/// Feature gates and tunes that decisions depend on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Greatest number of Pods that one sync creates, and that it deletes (tune `burst-replicas`).
    pub burst: usize,
    /// Whether tolerations may compare numbers (gate `TaintTolerationComparisonOperators`).
    pub compares_taints: bool,
}

//! What one sync looks at.

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
    /// Its Pods that it no longer selects, and releases.
    pub release: Vec<PodRef>,
    /// Its Pods that carry the hash of a revision that is deleted because another one holds the same. They get the hash of that one.
    pub relabel: Vec<PodRef>,
    /// Its Pods that lack the label of their hash, by which Pods are watched. They get it back without a value: nobody knows their
    /// revision.
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

//! The Pods that a pass may remove, and the nodes that are missing.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};

use common::{clock::Instant, intern::Text};

use super::quarantine::Quarantine;
use crate::objects::{CachedPod, Node};

/// The most missing nodes whose Pods are removed in one pass. If more are due, the next pass follows at once.
pub const NODES_PER_PASS: usize = 100;
/// How many ended Pods are taken up at once; bounds the memory of a pass that removes many, and the time of one look at the cache.
pub(crate) const CHUNK: usize = 500;

/// The part of the caches that a pass can act on.
#[derive(Clone, Debug)]
pub(crate) struct Snapshot {
    /// The first of the ended Pods that are to be removed, in their order.
    pub(crate) ended: Vec<Arc<CachedPod>>,
    /// The number of Pods that have ended.
    pub(crate) ended_count: usize,
    /// Nodes that are out of service, each with its terminating Pods.
    pub(crate) terminating: Vec<(Arc<Node>, Vec<Arc<CachedPod>>)>,
    /// Terminating Pods without a node.
    pub(crate) unscheduled: Vec<Arc<CachedPod>>,
    /// Nodes that Pods name and that do not exist.
    pub(crate) missing: BTreeSet<Text>,
    /// Nodes whose quarantine is over, at most [`NODES_PER_PASS`], each with its Pods.
    pub(crate) pods_of_due: BTreeMap<Text, Vec<Arc<CachedPod>>>,
    /// The quarantine as the last pass left it.
    pub(crate) quarantine: Quarantine,
    /// The configured limits.
    pub(crate) limits: Limits,
    /// The time of the pass.
    pub(crate) now: Instant,
}

/// The configured limits of a pass.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    /// How many Pods that have ended are kept; all if the number is not positive.
    pub(crate) threshold: i64,
    /// The pause between two passes.
    pub(crate) period: Duration,
    /// How long a node is in quarantine.
    pub(crate) quarantine_period: Duration,
}

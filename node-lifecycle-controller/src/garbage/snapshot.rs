//! The Pods that a pass may remove, and the missing nodes.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};

use common::{clock::Instant, intern::Text};

use super::quarantine::Quarantine;
use crate::objects::{CachedPod, Node};

/// Maximum number of missing nodes whose Pods one pass removes. If more are due, the next pass follows at once.
pub const NODES_PER_PASS: usize = 100;
/// Number of ended Pods in a chunk. Limits the memory of a pass that removes many Pods, and the time of one read of the cache.
pub(crate) const CHUNK: usize = 500;

/// The part of the caches on which a pass can act.
#[derive(Clone, Debug)]
pub(crate) struct Snapshot {
    /// The first chunk of ended Pods to remove, in the order of removal.
    pub(crate) ended: Vec<Arc<CachedPod>>,
    /// Number of Pods that have ended.
    pub(crate) ended_count: usize,
    /// Nodes that are out of service, each with its terminating Pods.
    pub(crate) terminating: Vec<(Arc<Node>, Vec<Arc<CachedPod>>)>,
    /// Terminating Pods without a node.
    pub(crate) unscheduled: Vec<Arc<CachedPod>>,
    /// Nodes that do not exist although Pods are assigned to them.
    pub(crate) missing: BTreeSet<Text>,
    /// Missing nodes whose quarantine has ended, at most [`NODES_PER_PASS`], each with its Pods.
    pub(crate) pods_of_due: BTreeMap<Text, Vec<Arc<CachedPod>>>,
    /// The quarantine after the last pass.
    pub(crate) quarantine: Quarantine,
    /// Threshold and periods from flags and tunes.
    pub(crate) limits: Limits,
    /// Time of the pass.
    pub(crate) now: Instant,
}

/// Threshold and periods of a pass, from flags and tunes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    /// Number of ended Pods that are kept; 0 or less keeps all.
    pub(crate) threshold: i64,
    /// Pause between two passes.
    pub(crate) period: Duration,
    /// How long a missing node stays in quarantine.
    pub(crate) quarantine_period: Duration,
}

//! The snapshot of a pass: the Pods that the pass may remove, and the missing nodes.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};

use common::{clock::Instant, intern::Text};

use super::quarantine::NodeQuarantine;
use crate::objects::{CachedPod, Node};

/// Maximum number of missing nodes from which one pass removes Pods. If there are more, the next pass follows at once.
pub const MAX_NODES_PER_PASS: usize = 100;
/// Number of finished Pods that a pass reads and removes at a time. Limits the memory of a pass that removes many Pods, and the
/// time of one read of the cache.
pub(crate) const MAX_FINISHED_PODS_PER_CHUNK: usize = 500;

/// The part of the caches that concerns a pass, and the settings of the pass.
#[derive(Clone, Debug)]
pub(crate) struct Snapshot {
    /// The first finished Pods to remove, at most [`MAX_FINISHED_PODS_PER_CHUNK`], in the order of removal.
    pub(crate) finished_pods_to_remove: Vec<Arc<CachedPod>>,
    /// Number of all finished Pods in the cache.
    pub(crate) finished_pod_count: usize,
    /// Nodes that are out of service, each with its terminating Pods.
    pub(crate) terminating_pods_of_out_of_service_nodes: Vec<(Arc<Node>, Vec<Arc<CachedPod>>)>,
    /// Terminating Pods that were never scheduled, so that no kubelet finishes their deletion.
    pub(crate) terminating_pods_without_node: Vec<Arc<CachedPod>>,
    /// Nodes that do not exist although Pods are assigned to them.
    pub(crate) names_of_missing_nodes: BTreeSet<Text>,
    /// Missing nodes with a finished quarantine, at most [`MAX_NODES_PER_PASS`], each with its Pods.
    pub(crate) pods_of_nodes_after_quarantine: BTreeMap<Text, Vec<Arc<CachedPod>>>,
    /// The missing nodes after the last pass, each with the start of its quarantine.
    pub(crate) quarantine: NodeQuarantine,
    pub(crate) settings: PodGcSettings,
    pub(crate) now: Instant,
}

/// Threshold and periods of a pass, from flags and settings of `--tune`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PodGcSettings {
    /// Number of finished Pods that are kept; 0 or less keeps all.
    pub(crate) finished_pod_threshold: i64,
    /// Pause between two passes.
    pub(crate) pass_period: Duration,
    /// How long a node must be missing before its Pods are removed.
    pub(crate) quarantine_period: Duration,
}

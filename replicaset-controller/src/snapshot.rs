//! The input of one sync of a set.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use common::{pod_creation_pauses::PodCreationPause, prelude::*};
use jiff::Timestamp;

use crate::{
    objects::{ReplicaSet, Status},
    pod_cache::CachedPod,
};

/// A cached Pod. Clones share its memory with the cache.
pub type SharedPod = Arc<CachedPod>;

/// A set and its Pods as the caches showed them at one time, and everything else that a decision depends on.
#[derive(Clone, Debug)]
pub struct Snapshot {
    /// The set as the cache shows it.
    pub set: Arc<ReplicaSet>,
    /// The owner reference and deletion state of the set.
    pub owner: Owner,
    /// The active Pods to keep, to adopt and to release.
    pub claims: DependentClaims<SharedPod>,
    /// Count of terminating Pods that the set controls and selects.
    pub terminating_pod_count: usize,
    /// The pause in which no Pods are created; `None` if Pods may be created.
    pub pod_creation_pause: Option<PodCreationPause>,
    /// Count of active Pods by node: of all sets with the same owner, or of this set only. Empty if no Pods are ranked.
    pub colocated_pod_counts_by_node: BTreeMap<Text, usize>,
    /// The writes for the set that the caches do not show yet. Until they do, no Pods are created or deleted.
    pub pending_writes: Option<PendingWrites>,
    /// The back-off after failed Pods; `None` if Pods may be created.
    pub failed_pod_backoff: Option<FailedPodBackoff>,
    /// The feature gates and `--tune` values that affect decisions.
    pub decision_settings: DecisionSettings,
    /// Wall-clock time of the sync.
    pub now: Timestamp,
}

/// The back-off of a set with Pods that fail without becoming ready (`--tune failed-pod-backoff=true`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FailedPodBackoff {
    /// Count of Pods that have failed since a Pod of the set was last ready.
    pub failed_pod_count: usize,
    /// Time until the next Pod may be created.
    pub remaining_delay: Duration,
}

/// The feature gates and `--tune` values, and the facts about the server, that affect decisions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DecisionSettings {
    /// Maximum count of Pods that one sync creates or deletes.
    pub burst_replicas: usize,
    /// Whether the deletion cost of Pods is used (feature gate `PodDeletionCost`).
    pub uses_deletion_cost: bool,
    /// Whether the status counts terminating Pods (feature gate `DeploymentReplicaSetTerminatingReplicas`).
    pub counts_terminating_pods: bool,
    /// Whether the server drops `status.terminatingReplicas`. A change of this field alone then causes no write.
    pub drops_terminating_replicas: bool,
    /// Whether a sync waits until the caches show the statuses that this process wrote.
    pub waits_for_own_writes: bool,
    /// Whether a Pod chosen for deletion lowers the count of its node in the ranking of the Pods chosen after it.
    pub reranks_remaining_pods: bool,
}

impl DecisionSettings {
    /// Whether `status` differs from `stored_status` enough to be written.
    pub fn is_status_worth_writing(&self, status: &Status, stored_status: &Status) -> bool {
        if self.drops_terminating_replicas {
            let terminating_replicas = stored_status.terminating_replicas;
            return Status { terminating_replicas, ..status.clone() } != *stored_status;
        }
        status != stored_status
    }
}

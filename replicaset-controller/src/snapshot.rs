//! Everything that one sync reads of the caches.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use common::{intern::Text, refs::Claims, refs::Owner};
use jiff::Timestamp;

use crate::{
    objects::{ReplicaSet, Status},
    pod_cache::CachedPod,
};

/// A cached Pod.
pub type PodRef = Arc<CachedPod>;

/// Everything one sync may look at.
#[derive(Clone, Debug)]
pub struct Snapshot {
    /// The set.
    pub set: Arc<ReplicaSet>,
    /// The set as an owner of Pods.
    pub owner: Owner,
    /// Its active Pods: kept, to be adopted, to be released.
    pub claims: Claims<PodRef>,
    /// How many Pods it controls and selects that are going away.
    pub terminating: usize,
    /// Whether its namespace terminates: the server refuses every Pod.
    pub terminating_namespace: bool,
    /// Active Pods of the sets of its owner, or its own, by node; read only where Pods may have to be ranked.
    pub colocated: BTreeMap<Text, usize>,
    /// Why Pods may be neither created nor deleted now: something this process did is not seen yet.
    pub blocked: Option<Blocked>,
    /// Why no Pod may be created for a while: those made before fail.
    pub failing: Option<Failing>,
    /// How far a sync may go.
    pub limits: Limits,
    /// The time of the sync.
    pub now: Timestamp,
}

/// Why nothing is created or deleted for the time being.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Blocked {
    /// What is waited for.
    pub why: String,
    /// How long at most.
    pub at_most: Duration,
}

/// Pods fail without ever being ready (`--tune failed-pod-backoff=true`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Failing {
    /// How many of them failed.
    pub pods: usize,
    /// For how long no other is created.
    pub left: Duration,
}

/// What the operator has set, as far as decisions depend on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// The most Pods one sync creates or deletes.
    pub burst: usize,
    /// Whether Pods may name the cost of their deletion (gate `PodDeletionCost`).
    pub deletion_cost: bool,
    /// Whether the status counts terminating Pods (gate `DeploymentReplicaSetTerminatingReplicas`).
    pub counts_terminating: bool,
    /// Whether the server was found not to keep that count: it goes along with every status, and alone is no reason for one.
    pub terminating_dropped: bool,
    /// Whether a sync waits until the caches show the statuses that this process wrote.
    pub reads_own_writes: bool,
    /// Whether a Pod chosen to go lowers the count of its node for those that are chosen after it.
    pub reranks: bool,
}

impl Limits {
    /// Whether a status is worth a write onto the stored one.
    pub fn worth_writing(&self, status: &Status, stored: &Status) -> bool {
        if self.terminating_dropped && status.terminating_replicas != stored.terminating_replicas {
            let others = Status { terminating_replicas: stored.terminating_replicas, ..status.clone() };
            return others != *stored;
        }
        status != stored
    }
}

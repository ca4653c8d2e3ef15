//! Deciding: a snapshot in, a plan out. Pure: no requests, no clock, no randomness.

pub mod explain;
pub mod failure;
pub mod manage;
mod rank;
pub mod status;
pub mod timer;

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use common::{intern::Text, refs::Claims, refs::Owner};
use jiff::Timestamp;

pub use manage::{Manage, Victim, Why};

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

/// What one sync does.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The set it is about.
    pub set: Arc<ReplicaSet>,
    /// Pods to adopt.
    pub adopt: Vec<PodRef>,
    /// Pods to release.
    pub release: Vec<PodRef>,
    /// Pods to create or delete, if every adoption succeeds.
    pub manage: Manage,
    /// How that goes if every request is granted.
    pub expected: Managed,
    /// The status, if it goes like that.
    pub status: Status,
    /// The first few Pods that are not ready.
    pub unready: Vec<PodRef>,
    /// When the next Pod becomes available by the passing of time.
    pub available_in: Option<Duration>,
    /// When the passing of time may change the decision.
    pub requeue_after: Option<Duration>,
}

/// How managing Pods went.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Managed {
    /// As planned; also if there was nothing to do.
    Done,
    /// It was not allowed.
    NotAllowed,
    /// As planned, but for Pods that have changed since they were ranked.
    Changed,
    /// A request failed.
    Failed {
        /// What was being done.
        reason: FailureReason,
        /// The text of the error.
        message: String,
    },
}

/// What was being done when managing Pods failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FailureReason {
    /// Pods were being created.
    Create,
    /// Pods were being deleted.
    Delete,
}

impl FailureReason {
    /// As it stands in the condition.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Create => "FailedCreate",
            Self::Delete => "FailedDelete",
        }
    }
}

/// How many Pods that are not ready a plan names.
const NAMED: usize = 3;

/// Decides what one sync does.
///
/// Pods are claimed first, then created or deleted, never both; the status tells of the Pods as they were before that.
/// Upstream: `pkg/controller/replicaset`, `syncReplicaSet`.
pub fn decide(snapshot: &Snapshot) -> Plan {
    let claims = &snapshot.claims;
    let claimed: Vec<&PodRef> = claims.keep.iter().chain(&claims.adopt).collect();
    let manage = manage::manage(snapshot, &claimed);
    let expected = if manage.is_allowed() { Managed::Done } else { Managed::NotAllowed };
    let status = status::status(snapshot, &claimed, &expected, snapshot.now);
    let available_in = timer::next_check(snapshot, &claimed, &status, snapshot.now, snapshot.now);
    Plan {
        set: Arc::clone(&snapshot.set),
        adopt: claims.adopt.clone(),
        release: claims.release.clone(),
        requeue_after: timer::requeue_after(snapshot, &manage, available_in),
        manage,
        unready: claims.keep.iter().filter(|pod| !pod.is_ready()).take(NAMED).cloned().collect(),
        available_in,
        expected,
        status,
    }
}

impl Plan {
    /// Whether nothing can be done because the set's selector breaks the rules.
    pub fn stuck(&self) -> bool {
        self.set.selector.problem().is_some()
    }
}

#[cfg(test)]
mod tests;

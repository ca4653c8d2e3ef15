//! The input of one sync of a Deployment.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use common::prelude::*;
use jiff::Timestamp;

use crate::{
    limits::RolloutLimits,
    objects::{Deployment, ReplicaSet},
};

/// How `status.terminatingReplicas` is written, depending on the feature gates of this process and of the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TerminatingReplicasSupport {
    /// The field is written like any other field.
    Reported,
    /// The server dropped the field before. The field is written with other changes, but its change alone causes no write.
    DroppedByServer,
    /// The field is written as null, because the feature gate of this process is off.
    Disabled,
}

/// A Deployment with its ReplicaSets at one time.
#[derive(Clone, Debug)]
pub struct Snapshot {
    /// The Deployment from the cache.
    pub deployment: Arc<Deployment>,
    /// The owner reference and deletion state of the Deployment.
    pub owner: Owner,
    /// The ReplicaSets to keep, to adopt and to release; the kept ones are sorted by creation time and then by name.
    pub claims: DependentClaims<Arc<ReplicaSet>>,
    /// Time until the next attempt of refused releases; `None` if no release was refused.
    pub release_retry_after: Option<Duration>,
    /// Number of unfinished Pods of each ReplicaSet: empty unless `Recreate` waits for old Pods, `None` if the Pods are needed
    /// and have not been read yet.
    pub unfinished_pod_counts: Option<BTreeMap<Uid, usize>>,
    /// The desired number of Pods, maxSurge and maxUnavailable.
    pub rollout_limits: RolloutLimits,
    /// Wall-clock time of the sync.
    pub now: Timestamp,
    /// How the status reports terminating Pods.
    pub terminating_replicas_support: TerminatingReplicasSupport,
    /// Whether the cache shows every ReplicaSet that earlier leaders created for the Deployment.
    pub are_predecessor_sets_cached: bool,
}

/// Sorts ReplicaSets by creation time, and by name within the same second.
pub fn sort_by_creation_time(sets: &mut [Arc<ReplicaSet>]) {
    sets.sort_by(|a, b| {
        let (a, b) = (&a.metadata, &b.metadata);
        (a.creation_timestamp, &a.name).cmp(&(b.creation_timestamp, &b.name))
    });
}

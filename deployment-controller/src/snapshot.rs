//! Everything one sync of a Deployment may look at.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use common::{
    meta::Uid,
    refs::{Claims, Owner},
};
use jiff::Timestamp;

use crate::{
    limits::Limits,
    objects::{Deployment, ReplicaSet},
};

/// Whether the gate `DeploymentReplicaSetTerminatingReplicas` is on, here and at the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TerminatingReplicas {
    /// `status.terminatingReplicas` is written.
    Reported,
    /// It goes along with what is written, and alone is no reason to write: the server was found not to keep it.
    Dropped,
    /// It is kept empty.
    Absent,
}

/// A Deployment, its ReplicaSets, and the time.
#[derive(Clone, Debug)]
pub struct Snapshot {
    /// The Deployment.
    pub deployment: Arc<Deployment>,
    /// The same as an owner.
    pub owner: Owner,
    /// Its ReplicaSets: those it keeps by creation time and then name, those it wants, and those it gives up.
    pub claims: Claims<Arc<ReplicaSet>>,
    /// In how long what could not be released, and is kept, may be tried again; nothing if there is none such.
    pub release_again: Option<Duration>,
    /// How many Pods that have not run to their end each ReplicaSet controls; only known under the strategy `Recreate`.
    pub running_pods: BTreeMap<Uid, usize>,
    /// How many Pods there may and must be.
    pub limits: Limits,
    /// The time.
    pub now: Timestamp,
    /// Position of the gate.
    pub terminating_replicas: TerminatingReplicas,
    /// Whether the caches show every ReplicaSet that predecessors of this process have created for it.
    pub shows_predecessors_sets: bool,
}

/// Sorts ReplicaSets by creation time, those of the same second by name.
pub fn sort_by_creation(sets: &mut [Arc<ReplicaSet>]) {
    sets.sort_by(|a, b| {
        let (a, b) = (&a.metadata, &b.metadata);
        (a.created, &a.name).cmp(&(b.created, &b.name))
    });
}

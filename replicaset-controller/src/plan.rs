//! The plan of one sync, with its reasons.

use std::{fmt, sync::Arc, time::Duration};

use common::{conditions, controller::Explain, pods::Phase};

use crate::{
    objects::{ReplicaSet, Status},
    snapshot::{Failing, PodRef},
};

/// Condition type: creating or deleting Pods fails.
pub const REPLICA_FAILURE: &str = "ReplicaFailure";

/// The decision of one sync.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The set to sync.
    pub set: Arc<ReplicaSet>,
    /// Orphans to adopt.
    pub adopt: Vec<PodRef>,
    /// Pods to release.
    pub release: Vec<PodRef>,
    /// Pods to create or delete, provided that every adoption succeeds.
    pub manage: Manage,
    /// The result of [`Self::manage`] if every request is granted.
    pub expected: Managed,
    /// The status to write, provided that the result is as expected.
    pub status: Status,
    /// The first unready Pods, for `/debug/explain`.
    pub unready: Vec<PodRef>,
    /// Time until the next ready Pod becomes available.
    pub available_in: Option<Duration>,
    /// Time after which the decision may change without an event.
    pub requeue_after: Option<Duration>,
}

/// The result of creating or deleting Pods.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Managed {
    /// All requests succeeded, or none was necessary.
    Done,
    /// Pods must not be created or deleted now.
    NotAllowed,
    /// All requests succeeded, except for Pods that have changed since the snapshot.
    Changed,
    /// A request failed.
    Failed {
        /// Whether a creation or a deletion failed.
        reason: FailureReason,
        /// Message of the error.
        message: String,
    },
}

/// Whether a creation or a deletion failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FailureReason {
    /// Creating a Pod failed.
    Create,
    /// Deleting a Pod failed.
    Delete,
}

impl FailureReason {
    /// Returns `reason` of the condition.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Create => "FailedCreate",
            Self::Delete => "FailedDelete",
        }
    }
}

/// What a sync does about the number of Pods.
#[derive(Clone, Debug)]
pub enum Manage {
    /// The number of Pods is right.
    Nothing,
    /// Pods must not be created or deleted now, for this reason.
    NotAllowed(String),
    /// Pods are missing, but the set would not own a Pod created from its template.
    Impossible(&'static str),
    /// Pods are missing, and their creation is delayed after failures.
    Later(Failing),
    /// Pods are missing.
    Create {
        /// Number of Pods to create in this sync.
        count: usize,
        /// Number of missing Pods.
        missing: usize,
    },
    /// More Pods exist than `spec.replicas`.
    Delete {
        /// Pods to delete in this sync.
        victims: Vec<Victim>,
        /// Number of surplus Pods.
        surplus: usize,
        /// Ages of the chosen ready Pods, as multiples of the youngest ready Pod's age; empty if all Pods are deleted.
        age_ratios: Vec<u64>,
    },
}

impl Manage {
    /// Returns whether Pods may be created or deleted now.
    pub fn is_allowed(&self) -> bool {
        !matches!(self, Self::NotAllowed(_) | Self::Later(_))
    }

    /// Returns whether Pods are created or deleted.
    pub fn acts(&self) -> bool {
        matches!(self, Self::Create { .. } | Self::Delete { .. })
    }
}

/// A Pod to delete, with the reason.
#[derive(Clone, Debug)]
pub struct Victim {
    /// The Pod from the cache.
    pub pod: PodRef,
    /// Why this Pod is deleted rather than another one.
    pub why: Why,
}

/// Why a Pod was chosen for deletion rather than the Pods that stay.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Why {
    /// All Pods are deleted.
    NoneWanted,
    /// The Pod is not assigned to a node.
    Unassigned,
    /// The Pod is in this phase and not `Running`.
    Phase(Phase),
    /// The Pod is not ready.
    NotReady,
    /// The Pod has a lower deletion cost, given here.
    Cost(i32),
    /// The node has more Pods of the same owner; their number is given here.
    Colocated(usize),
    /// The Pod is younger by magnitude, was restarted more often, or has a smaller UID.
    Age,
}

impl fmt::Display for Why {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoneWanted => f.write_str("no Pod is wanted"),
            Self::Unassigned => f.write_str("it is not assigned to a node"),
            Self::Phase(phase) => write!(f, "its phase is {phase:?}"),
            Self::NotReady => f.write_str("it is not ready"),
            Self::Cost(cost) => write!(f, "its deletion cost is {cost}"),
            Self::Colocated(n) => write!(f, "its node has {n} Pods of the same owner"),
            Self::Age => f.write_str("it is ranked first by age, restarts and uid"),
        }
    }
}

impl Explain for Plan {
    fn situation(&self) -> String {
        let s = &self.status;
        let terminating = s.terminating_replicas.map_or_else(String::new, |n| format!(", {n} terminating"));
        format!(
            "{} Pods wanted: {} active, {} ready, {} available{terminating}",
            self.set.replicas, s.replicas, s.ready_replicas, s.available_replicas
        )
    }

    fn waiting(&self) -> Vec<String> {
        let mut out = Vec::new();
        if let Some(problem) = self.set.selector.problem() {
            return vec![problem.to_string()];
        }
        match &self.manage {
            Manage::NotAllowed(why) => out.push(format!("Pods are neither created nor deleted: {why}")),
            Manage::Impossible(problem) => out.push(format!("no Pod can be created: {problem}")),
            Manage::Later(Failing { pods, left }) => {
                out.push(format!("{pods} Pods failed without ever being ready: next creation in {}", seconds(*left)));
            }
            Manage::Nothing | Manage::Create { .. } | Manage::Delete { .. } => {}
        }
        let s = &self.status;
        let unready = s.replicas - s.ready_replicas;
        if unready > 0 {
            let more = if self.unready.len() < unready.unsigned_abs() as usize { ", ..." } else { "" };
            let names: Vec<&str> = self.unready.iter().map(name).collect();
            out.push(format!("{unready} of {} Pods are not ready: {}{more}", s.replicas, names.join(", ")));
        }
        if let Some(wait) = self.available_in {
            let early = s.ready_replicas - s.available_replicas;
            out.push(format!("{early} ready Pods are not available yet, the next in {}", seconds(wait)));
        }
        // The stored condition is shown, because the planned status does not contain the result of this sync yet.
        if let Some(c) = conditions::get(&self.set.status.conditions, REPLICA_FAILURE) {
            out.push(format!("{}: {}", c.reason, c.message));
        }
        out
    }

    fn requeue_after(&self) -> Option<Duration> {
        self.requeue_after
    }
}

fn name(pod: &PodRef) -> &str {
    &pod.meta().name
}

fn seconds(wait: Duration) -> String {
    format!("{}s", wait.as_secs() + u64::from(wait.subsec_nanos() > 0))
}

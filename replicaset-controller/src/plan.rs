//! What one sync does, and why.

use std::{fmt, sync::Arc, time::Duration};

use common::{conditions, controller::Explain, pods::Phase};

use crate::{
    objects::{ReplicaSet, Status},
    snapshot::{Failing, PodRef},
};

/// Type of the condition that tells of a failure to create or delete Pods.
pub const REPLICA_FAILURE: &str = "ReplicaFailure";

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

/// What is done about the number of Pods.
#[derive(Clone, Debug)]
pub enum Manage {
    /// It is as wanted.
    Nothing,
    /// Nothing may be done now.
    NotAllowed(String),
    /// Pods are missing, and the template makes none that the set could call its own.
    Impossible(&'static str),
    /// Pods are missing, and none is created for a while.
    Later(Failing),
    /// Pods are missing.
    Create {
        /// How many to create now.
        count: usize,
        /// How many are missing.
        missing: usize,
    },
    /// There are too many Pods.
    Delete {
        /// Which to delete now.
        victims: Vec<Victim>,
        /// How many there are too many.
        surplus: usize,
        /// Of each chosen Pod that is ready, its age as a multiple of the age of the youngest ready Pod; none where
        /// there was no choice.
        age_ratios: Vec<u64>,
    },
}

impl Manage {
    /// Whether managing was allowed at all.
    pub fn is_allowed(&self) -> bool {
        !matches!(self, Self::NotAllowed(_) | Self::Later(_))
    }

    /// Whether it changes anything.
    pub fn acts(&self) -> bool {
        matches!(self, Self::Create { .. } | Self::Delete { .. })
    }
}

/// A Pod to delete.
#[derive(Clone, Debug)]
pub struct Victim {
    /// The Pod.
    pub pod: PodRef,
    /// Why this one.
    pub why: Why,
}

/// Why a Pod was chosen before those that stay.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Why {
    /// All go.
    NoneWanted,
    /// It is on no node yet.
    Unassigned,
    /// It does not run.
    Phase(Phase),
    /// It is not ready.
    NotReady,
    /// Its user minds least.
    Cost(i32),
    /// Its node has the most Pods of its owner.
    Colocated(usize),
    /// It is younger, by magnitude, or was restarted more often, or its uid is smaller.
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
        // The stored one: the planned one does not know yet how it will go.
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

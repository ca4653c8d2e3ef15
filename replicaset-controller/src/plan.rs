//! The plan of one sync, with its reasons.

use std::{fmt, sync::Arc, time::Duration};

use common::{conditions, controller::SyncPlan, pod_creation_pauses::PodCreationPause, pods::Phase};

use crate::{
    objects::{ReplicaSet, Status},
    snapshot::{FailedPodBackoff, SharedPod},
};

/// Condition type: creating or deleting Pods fails.
pub const REPLICA_FAILURE: &str = "ReplicaFailure";

/// The decision of one sync.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The set as the cache showed it.
    pub set: Arc<ReplicaSet>,
    /// The Pods to create or delete if every adoption succeeds.
    pub pod_changes: PodChanges,
    /// The result of [`Self::pod_changes`] if every request is granted.
    pub expected_outcome: PodChangesOutcome,
    /// The status to write if the requests for Pods have the [expected](Self::expected_outcome) result.
    pub status: Status,
    /// At most three unready Pods, to be named in `/debug/explain`.
    pub first_unready_pods: Vec<SharedPod>,
    /// Time until the next ready Pod becomes available; `None` if all ready Pods are available.
    pub time_until_next_available: Option<Duration>,
    /// Time after which the decision may change without an event; `None` if only an event can change it.
    pub requeue_after: Option<Duration>,
}

/// The result of creating or deleting Pods.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PodChangesOutcome {
    /// All requests succeeded, or none was necessary.
    Done,
    /// Pods must not be created or deleted now.
    NotAllowed,
    /// All requests succeeded, except for Pods that have changed since the snapshot.
    PodsHaveChanged,
    /// The API server refused a creation or a deletion of a Pod, or its answer was lost.
    RequestFailed {
        /// The failed operation, which determines the reason in the condition `ReplicaFailure`.
        operation: FailedPodOperation,
        /// Message of the error, for the condition `ReplicaFailure`.
        message: String,
    },
}

/// A kind of request for Pods that has failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FailedPodOperation {
    /// The creation of a Pod; the reason in the condition is `FailedCreate`.
    Create,
    /// The deletion of a Pod; the reason in the condition is `FailedDelete`.
    Delete,
}

impl FailedPodOperation {
    /// Returns the reason in the condition `ReplicaFailure`.
    pub fn condition_reason(self) -> &'static str {
        match self {
            Self::Create => "FailedCreate",
            Self::Delete => "FailedDelete",
        }
    }
}

/// The Pods that a sync creates or deletes, or the reason why it does neither.
#[derive(Clone, Debug)]
pub enum PodChanges {
    /// The count of Pods equals `spec.replicas`.
    NoChange,
    /// Pods must not be created or deleted now, for this reason.
    NotAllowed(String),
    /// Pods are missing, and no Pods are created for a while.
    CreationPaused(PodCreationPause),
    /// Pods are missing, but the set would not own a Pod created from its template.
    UnusableTemplate(&'static str),
    /// Pods are missing, and their creation is delayed after failures.
    DelayedAfterFailures(FailedPodBackoff),
    /// Pods are missing and are to be created.
    Create {
        /// Count of Pods to create in this sync; at most `burst-replicas`.
        pods_to_create_count: usize,
        /// Count of Pods that are missing to reach `spec.replicas`; at least the count of Pods to create in this sync.
        missing_pod_count: usize,
    },
    /// More Pods exist than `spec.replicas`, and some are to be deleted.
    Delete {
        /// Pods to delete in this sync; at most `burst-replicas`.
        pod_deletions: Vec<PodDeletion>,
        /// Count of claimed Pods beyond `spec.replicas`; at least the count of Pods to delete in this sync.
        surplus_pod_count: usize,
        /// Ages of the chosen ready Pods, as multiples of the youngest ready Pod's age; empty if all Pods are deleted.
        age_ratios: Vec<u64>,
    },
}

impl PodChanges {
    /// Whether Pods may be created or deleted now.
    pub fn is_pod_change_allowed(&self) -> bool {
        !matches!(self, Self::NotAllowed(_) | Self::CreationPaused(_) | Self::DelayedAfterFailures(_))
    }
}

/// A Pod to delete, with the reason.
#[derive(Clone, Debug)]
pub struct PodDeletion {
    /// The Pod as the cache showed it. The deletion has its UID and version as preconditions.
    pub pod: SharedPod,
    /// The first rule that ranks this Pod before the Pods that are kept.
    pub deletion_reason: DeletionReason,
}

/// The first rule that ranks a deleted Pod before the first Pod that is kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DeletionReason {
    /// Every Pod of the set is deleted, so no rule is needed.
    AllPodsDeleted,
    /// The Pod has no node, and the first kept Pod is assigned to a node.
    NotAssignedToNode,
    /// The Pod is in this phase and not `Running`, and the first kept Pod is in another phase.
    PhaseNotRunning(Phase),
    /// The Pod is not ready, and the first kept Pod is ready.
    NotReady,
    /// The deletion cost of the Pod, which is lower than that of the first kept Pod.
    LowerDeletionCost(i32),
    /// The count of Pods of the same owner on the Pod's node, which is higher than on the node of the first kept Pod.
    ColocatedPods(usize),
    /// Compared with the first kept Pod, the age has a lower binary logarithm, the restarts are more, or the UID is smaller.
    AgeRestartsOrUid,
}

impl fmt::Display for DeletionReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::AllPodsDeleted => f.write_str("no Pod is wanted"),
            Self::NotAssignedToNode => f.write_str("it is not assigned to a node"),
            Self::PhaseNotRunning(phase) => write!(f, "its phase is {phase:?}"),
            Self::NotReady => f.write_str("it is not ready"),
            Self::LowerDeletionCost(cost) => write!(f, "its deletion cost is {cost}"),
            Self::ColocatedPods(n) => write!(f, "its node has {n} Pods of the same owner"),
            Self::AgeRestartsOrUid => f.write_str("it is ranked first by age, restarts and uid"),
        }
    }
}

impl SyncPlan for Plan {
    fn situation(&self) -> String {
        let s = &self.status;
        let terminating = s.terminating_replicas.map_or_else(String::new, |n| format!(", {n} terminating"));
        format!(
            "{} Pods wanted: {} active, {} ready, {} available{terminating}",
            self.set.replicas, s.replicas, s.ready_replicas, s.available_replicas
        )
    }

    fn wait_reasons(&self) -> Vec<String> {
        let mut out = Vec::new();
        if let Some(problem) = self.set.selector.validation_error() {
            return vec![problem.to_string()];
        }
        match &self.pod_changes {
            PodChanges::NotAllowed(why) => out.push(format!("Pods are neither created nor deleted: {why}")),
            PodChanges::CreationPaused(pause) => out.push(format!("no Pods are created: {pause}")),
            PodChanges::UnusableTemplate(problem) => out.push(format!("no Pod can be created: {problem}")),
            PodChanges::DelayedAfterFailures(FailedPodBackoff { failed_pod_count, remaining_delay }) => {
                let delay = seconds(*remaining_delay);
                out.push(format!("{failed_pod_count} Pods failed without ever being ready: next creation in {delay}"));
            }
            PodChanges::NoChange | PodChanges::Create { .. } | PodChanges::Delete { .. } => {}
        }
        let s = &self.status;
        let unready = s.replicas - s.ready_replicas;
        if unready > 0 {
            let more = if self.first_unready_pods.len() < unready.unsigned_abs() as usize { ", ..." } else { "" };
            let names: Vec<&str> = self.first_unready_pods.iter().map(|pod| &*pod.meta().name).collect();
            out.push(format!("{unready} of {} Pods are not ready: {}{more}", s.replicas, names.join(", ")));
        }
        if let Some(wait) = self.time_until_next_available {
            let early = s.ready_replicas - s.available_replicas;
            out.push(format!("{early} ready Pods are not available yet, the next in {}", seconds(wait)));
        }
        // The stored condition is shown, because the planned status does not contain this sync's creations and deletions yet.
        if let Some(c) = conditions::get(&self.set.status.conditions, REPLICA_FAILURE) {
            out.push(format!("{}: {}", c.reason, c.message));
        }
        out
    }

    fn requeue_after(&self) -> Option<Duration> {
        self.requeue_after
    }
}

fn seconds(wait: Duration) -> String {
    format!("{}s", wait.as_secs() + u64::from(wait.subsec_nanos() > 0))
}

//! The state of a rollout for `/debug/explain`: Pod counts, and reasons why the rollout does not continue.

use std::{fmt, sync::Arc};

use crate::limits::RolloutLimits;

/// Pod counts of a Deployment, summed from the statuses of its ReplicaSets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PodCounts {
    /// Desired number of Pods, maxSurge and maxUnavailable.
    pub rollout_limits: RolloutLimits,
    /// Pods of the new ReplicaSet.
    pub updated_pod_count: i64,
    /// Pods of all old ReplicaSets.
    pub old_pod_count: i64,
    /// Ready Pods of all ReplicaSets.
    pub ready_pod_count: i64,
    /// Available Pods of all ReplicaSets.
    pub available_pod_count: i64,
}

impl fmt::Display for PodCounts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            rollout_limits: limits,
            updated_pod_count: updated,
            old_pod_count: old,
            ready_pod_count: ready,
            available_pod_count: available,
        } = self;
        write!(f, "{} desired, {updated} updated, {old} old, {ready} ready, {available} available", limits.replicas)?;
        write!(f, "; at most {} (maxSurge {}), ", limits.max_pods(), limits.max_surge)?;
        write!(f, "at least {} available (maxUnavailable {})", limits.min_available_pods(), limits.max_unavailable)
    }
}

/// A reason why a rollout does not continue.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WaitReason {
    /// The selector is empty and would match every Pod.
    EmptySelector,
    /// The Pods that `Recreate` needs have not been read yet.
    PodsNotRead,
    /// The Deployment is being deleted.
    DeploymentDeleting,
    /// `spec.paused` is true.
    Paused {
        /// Whether a rollout starts when the pause ends.
        is_rollout_pending: bool,
    },
    /// The progress deadline has passed.
    DeadlineExceeded {
        /// Seconds since the condition `Progressing` reported the exceeded deadline.
        seconds_since_report: i64,
    },
    /// The new ReplicaSet, named here, is being deleted. A replacement is created only after the deletion.
    NewReplicaSetDeleting(Arc<str>),
    /// A ReplicaSet has the condition `ReplicaFailure`, because it cannot create or delete Pods.
    ReplicaFailure {
        /// Name of the ReplicaSet with the condition.
        set: Arc<str>,
        /// Message of the condition `ReplicaFailure`.
        message: Box<str>,
    },
    /// Old Pods have not finished, under the strategy `Recreate`.
    OldPodsUnfinished {
        /// Name of the ReplicaSet that controls the Pods.
        set: Arc<str>,
        /// Number of unfinished Pods.
        count: i64,
    },
    /// The new ReplicaSet has not created all its Pods yet.
    PodsMissing {
        /// Name of the new ReplicaSet.
        set: Arc<str>,
        /// `status.replicas` of the ReplicaSet.
        actual: i64,
        /// `spec.replicas` of the ReplicaSet.
        desired: i64,
    },
    /// An old ReplicaSet has not removed all surplus Pods yet.
    SurplusPods {
        /// Name of the old ReplicaSet.
        set: Arc<str>,
        /// Number of Pods above the size of the ReplicaSet.
        count: i64,
    },
    /// Pods of the new ReplicaSet are not available yet.
    PodsNotAvailable {
        /// Number of Pods of the new ReplicaSet that are not available yet.
        count: i64,
        /// Number of available Pods of all ReplicaSets.
        available_pods: i64,
        /// The limits that stop the rollout until more Pods are available.
        limits: RolloutLimits,
    },
}

impl fmt::Display for WaitReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::EmptySelector => f.write_str("the selector is empty and would select all Pods"),
            Self::PodsNotRead => f.write_str("the Pods, which the strategy Recreate needs, have not been read yet"),
            Self::DeploymentDeleting => f.write_str("being deleted: only the status is written"),
            Self::Paused { is_rollout_pending: false } => f.write_str("paused"),
            Self::Paused { is_rollout_pending: true } => f.write_str("paused: the template is not rolled out"),
            Self::DeadlineExceeded { seconds_since_report: seconds } => {
                write!(f, "progress deadline exceeded {seconds}s ago")
            }
            Self::NewReplicaSetDeleting(set) => {
                write!(
                    f,
                    "ReplicaSet {set} has the current template and is being deleted; a replacement follows once it is gone"
                )
            }
            Self::ReplicaFailure { set, message } => {
                write!(f, "ReplicaSet {set} cannot create or delete Pods: {message}")
            }
            Self::OldPodsUnfinished { set, count } => write!(f, "old Pods of {set} still run (Recreate): {count}"),
            Self::PodsMissing { set, actual, desired } => {
                write!(f, "ReplicaSet {set} has {actual} of {desired} Pods")
            }
            Self::SurplusPods { set, count } => write!(f, "ReplicaSet {set} has {count} Pods to remove"),
            Self::PodsNotAvailable { count, available_pods: available, limits } => {
                let (noun, verb) = if *count == 1 { ("Pod", "is") } else { ("Pods", "are") };
                write!(
                    f,
                    "{count} new {noun} {verb} not available yet (minimum available {}, ",
                    limits.min_available_pods()
                )?;
                write!(f, "{available} available now; maxUnavailable {})", limits.max_unavailable)
            }
        }
    }
}

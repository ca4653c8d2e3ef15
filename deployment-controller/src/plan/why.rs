//! The state of a rollout for `/debug/explain`: numbers of Pods, and reasons why the rollout does not continue.

use std::{fmt, sync::Arc};

use crate::limits::Limits;

/// Numbers of Pods of a Deployment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Situation {
    /// Desired number of Pods, maxSurge and maxUnavailable.
    pub limits: Limits,
    /// Pods of the new ReplicaSet.
    pub updated: i64,
    /// Pods of all old ReplicaSets.
    pub old: i64,
    /// Ready Pods of all ReplicaSets.
    pub ready: i64,
    /// Available Pods of all ReplicaSets.
    pub available: i64,
}

impl fmt::Display for Situation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { limits, updated, old, ready, available } = self;
        write!(f, "{} desired, {updated} updated, {old} old, {ready} ready, {available} available", limits.replicas)?;
        write!(f, "; at most {} (maxSurge {}), ", limits.most(), limits.surge)?;
        write!(f, "at least {} available (maxUnavailable {})", limits.min_available(), limits.unavailable)
    }
}

/// A reason why a rollout does not continue.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Why {
    /// The selector is empty and would match every Pod.
    SelectsAll,
    /// The Deployment is being deleted.
    Deleting,
    /// `spec.paused` is true.
    Paused {
        /// Whether a rollout starts when the pause ends.
        pending: bool,
    },
    /// The progress deadline has passed.
    DeadlineExceeded {
        /// Seconds since the condition `Progressing` reported the exceeded deadline.
        seconds: i64,
    },
    /// The new ReplicaSet, named here, is being deleted; a replacement is created only after it is gone.
    NewSetDeleting(Arc<str>),
    /// A ReplicaSet has the condition `ReplicaFailure`: it cannot create or delete Pods.
    ReplicaFailure {
        /// Name of the ReplicaSet with the condition.
        set: Arc<str>,
        /// Message of the condition `ReplicaFailure`.
        message: Box<str>,
    },
    /// Old Pods have not finished, under the strategy `Recreate`.
    OldPodsRun {
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
        wanted: i64,
    },
    /// An old ReplicaSet has not removed all surplus Pods yet.
    PodsLeft {
        /// Name of the old ReplicaSet.
        set: Arc<str>,
        /// Number of Pods above the size of the ReplicaSet.
        count: i64,
    },
    /// Pods of the new ReplicaSet are not available yet.
    NotAvailable {
        /// Number of Pods still to become available.
        count: i64,
        /// Available Pods of all ReplicaSets.
        available: i64,
        /// The limits that stop the rollout until more Pods are available.
        limits: Limits,
    },
}

impl fmt::Display for Why {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::SelectsAll => f.write_str("the selector is empty and would select all Pods"),
            Self::Deleting => f.write_str("being deleted: only the status is written"),
            Self::Paused { pending: false } => f.write_str("paused"),
            Self::Paused { pending: true } => f.write_str("paused: the template is not rolled out"),
            Self::DeadlineExceeded { seconds } => write!(f, "progress deadline exceeded {seconds}s ago"),
            Self::NewSetDeleting(set) => {
                write!(
                    f,
                    "ReplicaSet {set} has the current template and is being deleted; a replacement follows once it is gone"
                )
            }
            Self::ReplicaFailure { set, message } => {
                write!(f, "ReplicaSet {set} cannot create or delete Pods: {message}")
            }
            Self::OldPodsRun { set, count } => write!(f, "old Pods of {set} still run (Recreate): {count}"),
            Self::PodsMissing { set, actual, wanted } => write!(f, "ReplicaSet {set} has {actual} of {wanted} Pods"),
            Self::PodsLeft { set, count } => write!(f, "ReplicaSet {set} has {count} Pods to remove"),
            Self::NotAvailable { count, available, limits } => {
                let (noun, verb) = if *count == 1 { ("Pod", "is") } else { ("Pods", "are") };
                write!(
                    f,
                    "{count} new {noun} {verb} not available yet (minimum available {}, ",
                    limits.min_available()
                )?;
                write!(f, "{available} available now; maxUnavailable {})", limits.unavailable)
            }
        }
    }
}

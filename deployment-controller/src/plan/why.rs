//! Why a rollout is where it is: the situation in numbers, and what is waited for.

use std::{fmt, sync::Arc};

use crate::limits::Limits;

/// The Pods of a Deployment in numbers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Situation {
    /// Limits.
    pub limits: Limits,
    /// Pods of the newest ReplicaSet.
    pub updated: i64,
    /// Pods of the others.
    pub old: i64,
    /// Pods that are ready.
    pub ready: i64,
    /// Pods that are available.
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

/// Something a Deployment waits for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Why {
    /// Its selector would select everything.
    SelectsAll,
    /// It is being deleted.
    Deleting,
    /// It is paused.
    Paused {
        /// Whether there is something to roll out.
        pending: bool,
    },
    /// Its progress deadline has passed.
    DeadlineExceeded {
        /// For how many seconds that has been known.
        seconds: i64,
    },
    /// The newest ReplicaSet is being deleted; nothing takes its place before it is gone.
    NewSetDeleting(Arc<str>),
    /// A ReplicaSet cannot create or delete Pods.
    ReplicaFailure {
        /// Its name.
        set: Arc<str>,
        /// Why not.
        message: Box<str>,
    },
    /// Old Pods still run, under the strategy `Recreate`.
    OldPodsRun {
        /// Of this ReplicaSet.
        set: Arc<str>,
        /// How many.
        count: i64,
    },
    /// A ReplicaSet has not created all its Pods yet.
    PodsMissing {
        /// Its name.
        set: Arc<str>,
        /// How many it has.
        actual: i64,
        /// How many it should have.
        wanted: i64,
    },
    /// A ReplicaSet has not removed all Pods it should.
    PodsLeft {
        /// Its name.
        set: Arc<str>,
        /// How many are too many.
        count: i64,
    },
    /// New Pods are not available yet.
    NotAvailable {
        /// How many.
        count: i64,
        /// How many Pods are available.
        available: i64,
        /// The limits that hold the rollout back meanwhile.
        limits: Limits,
    },
}

impl fmt::Display for Why {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::SelectsAll => f.write_str("the selector is empty and would select all Pods"),
            Self::Deleting => f.write_str("being deleted: only the status is kept"),
            Self::Paused { pending: false } => f.write_str("paused"),
            Self::Paused { pending: true } => f.write_str("paused: the template is not rolled out"),
            Self::DeadlineExceeded { seconds } => write!(f, "progress deadline exceeded {seconds}s ago"),
            Self::NewSetDeleting(set) => {
                write!(
                    f,
                    "ReplicaSet {set} has the current template and is being deleted; another one follows once it is gone"
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

//! What is decided before the first request of a sync: the revisions, the work on Pods in phases, the status.

mod explain;
pub mod mismatch;
pub mod revisions;

use std::{fmt, sync::Arc, time::Duration};

use common::{explain::Lines, io::Pace, meta::OwnerRef, selector::SelectorError};

use crate::{
    objects::{StatefulSet, Status},
    snapshot::{ClaimRef, PodRef},
};
use mismatch::{Mismatch, Mismatches};
use revisions::{RevisionRole, Revisions};

/// What one sync does.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The set.
    pub set: Arc<StatefulSet>,
    /// Why nothing can be done at all.
    pub problem: Option<Problem>,
    /// The current and the update revision.
    pub revisions: Revisions,
    /// The work on Pods, if every adoption succeeds and the new revision gets its name.
    pub reconcile: Reconcile,
    /// The status, if the work on Pods succeeds, too.
    pub status: Status,
    /// The claims that do not match their templates.
    pub mismatches: Mismatches,
    /// The mismatches that are reported.
    pub reports: Vec<Mismatch>,
    /// When the next Pod becomes available by the passing of time.
    pub available_in: Option<Duration>,
}

/// Why nothing can be done for a set.
#[derive(Clone, Debug, thiserror::Error)]
pub enum Problem {
    /// The selector breaks the rules.
    #[error(transparent)]
    Selector(#[from] SelectorError),
    /// The set has more claims than one sync can compare with its Pods.
    #[error("{pods} Pods with {templates} claims each are more than the {limit} claims that a StatefulSet may have")]
    TooManyClaims {
        /// The number of its Pods.
        pods: usize,
        /// The number of its templates of claims.
        templates: usize,
        /// The greatest number of claims.
        limit: usize,
    },
}

/// The work on Pods.
#[derive(Clone, Debug, Default)]
pub struct Reconcile {
    /// Phases that are done one after the other until one of them fails.
    pub phases: Vec<Phase>,
    /// The status that counts the Pods before this work.
    pub counted: Status,
    /// The limit of unavailable Pods and their number (gate `MaxUnavailableStatefulSet`).
    pub unavailable: Option<Unavailable>,
    /// What the sync waits for.
    pub waiting: Lines,
    /// The claims that must be gone before Pods are created.
    pub claims_to_await: Vec<String>,
    /// How many Pods are left to later syncs because this one has enough to create.
    pub deferred: i64,
}

/// Unavailable Pods against their limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Unavailable {
    /// How many Pods may be unavailable.
    pub limit: i32,
    /// How many Pods are unavailable; `None` if the sync did not get as far as the rolling update.
    pub now: Option<i32>,
}

/// Work on several Pods.
#[derive(Clone, Debug)]
pub struct Phase {
    /// How they follow each other: in order, or in batches of 1, 2, 4, ...; none after a failure.
    pub pace: Pace,
    /// One entry for each Pod.
    pub work: Vec<Work>,
}

/// Work on one Pod.
#[derive(Clone, Debug)]
pub enum Work {
    /// Creates the claims that are missing, then the Pod.
    Create {
        /// The ordinal.
        ordinal: i32,
        /// The claims that must exist first.
        claims: Claims,
        /// The revision that the Pod is made from.
        role: RevisionRole,
    },
    /// Creates some of the claims that are missing. The Pod follows in a later sync, after the others.
    CreateClaims {
        /// The ordinal.
        ordinal: i32,
        /// The claims to create.
        claims: Claims,
    },
    /// Deletes the Pod.
    Delete {
        /// The Pod.
        pod: PodRef,
        /// The reason.
        why: Why,
    },
    /// Creates or changes what an existing Pod needs.
    Repair(Repair),
}

/// What an existing Pod needs.
#[derive(Clone, Debug)]
pub struct Repair {
    /// The Pod.
    pub pod: PodRef,
    /// Its ordinal.
    pub ordinal: i32,
    /// Claims that are missing.
    pub claims: Claims,
    /// What its claims need.
    pub ownership: Ownership,
    /// What the Pod itself lacks.
    pub wrong: Option<Wrong>,
    /// The occasion of the repair.
    pub occasion: Occasion,
}

/// What claims need so that the garbage collector deletes them with their owners.
#[derive(Clone, Debug, Default)]
pub struct Ownership {
    /// Claims whose owner references change, with the new references.
    pub owners: Vec<(ClaimRef, Vec<OwnerRef>)>,
    /// Claims to report because another controller manages them.
    pub conflicting: Vec<String>,
}

/// The occasion of a [`Repair`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Occasion {
    /// The Pod is pending, possibly because claims are missing.
    Pending,
    /// The Pod is in range and lacks something.
    Wanted,
    /// The Pod is out of range, and its claims may have to be deleted with it.
    Condemned,
}

/// What a Pod lacks.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Wrong {
    /// Whether it has another name than the set gives the Pod of its ordinal.
    pub name: bool,
    /// Whether labels of its identity are missing.
    pub labels: bool,
    /// Volumes that do not mount their claims: name of the volume, name of the claim.
    pub volumes: Vec<(String, String)>,
}

/// The claims of a Pod that it cannot use.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Claims {
    /// Claims that do not exist, as many as one sync creates for a Pod: position of the template, name.
    pub missing: Vec<(usize, String)>,
    /// How many further claims do not exist. They are left to later syncs.
    pub deferred: usize,
    /// Claims that are terminating.
    pub terminating: Vec<String>,
}

/// Why a Pod is deleted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Why {
    /// It has finished.
    Finished,
    /// It is out of range.
    Condemned,
    /// It has another revision than the update revision.
    Outdated {
        /// Whether it has the current revision.
        is_current: bool,
    },
    /// It has another revision than the update revision, was never ready, and blocks the others.
    Stuck {
        /// Whether it has the current revision.
        is_current: bool,
    },
}

impl fmt::Display for Why {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Finished => "it has finished and is replaced",
            Self::Condemned => "its ordinal is out of range",
            Self::Outdated { .. } => "it does not have the update revision",
            Self::Stuck { .. } => "it does not have the update revision, was never ready, and blocks the other Pods",
        })
    }
}

impl Claims {
    /// Whether every claim exists and none is terminating.
    pub fn are_usable(&self) -> bool {
        self.missing.is_empty() && self.terminating.is_empty()
    }
}

impl Work {
    /// Whether `status.currentReplicas` is lowered by the work.
    pub fn lowers_current(&self) -> bool {
        matches!(self, Self::Delete { why: Why::Outdated { is_current: true } | Why::Stuck { is_current: true }, .. })
    }
}

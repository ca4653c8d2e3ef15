//! What one sync looks at.

use std::{collections::BTreeMap, sync::Arc};

use common::refs::{Claims, Owner};
use jiff::Timestamp;

use crate::objects::{CachedPod, Claim, ControllerRevision, StatefulSet};

/// A cached Pod.
pub type PodRef = Arc<CachedPod>;
/// A cached revision.
pub type RevisionRef = Arc<ControllerRevision>;
/// A cached claim.
pub type ClaimRef = Arc<Claim>;

/// Everything one sync may look at.
#[derive(Clone, Debug)]
pub struct Snapshot {
    /// The set.
    pub set: Arc<StatefulSet>,
    /// The set as an owner.
    pub owner: Owner,
    /// Revisions it selects: its own, and those of nobody.
    pub revisions: Claims<RevisionRef>,
    /// Its Pods: kept, to be adopted, to be released.
    pub pods: Claims<PodRef>,
    /// The claims of all Pods it has or wants, as far as they are there, by name.
    pub claims: BTreeMap<String, ClaimRef>,
    /// What the operator has set.
    pub limits: Limits,
    /// The time of the sync.
    pub now: Timestamp,
}

/// What the operator has set, as far as decisions depend on it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Limits {
    /// Whether a rollout may have several Pods unavailable (gate `MaxUnavailableStatefulSet`).
    pub max_unavailable: bool,
    /// Whether a revision that differs only by defaults is the same (gate `StatefulSetSemanticRevisionComparison`).
    pub semantic_comparison: bool,
    /// Whether an outdated Pod that blocks the others because it does not get ready is replaced.
    pub replaces_stuck_pods: bool,
}

//! What one sync looks at.

use std::{collections::BTreeMap, sync::Arc};

use common::{
    refs::{Claims, Owner},
    revision::template::PodTemplate,
};
use jiff::Timestamp;

use crate::{
    objects::{CachedPod, Claim, ControllerRevision, StatefulSet},
    reports::Reported,
};

/// A cached Pod.
pub type PodRef = Arc<CachedPod>;
/// A cached revision.
pub type RevisionRef = Arc<ControllerRevision>;
/// A cached claim.
pub type ClaimRef = Arc<Claim>;

/// Everything that one sync decides on.
#[derive(Clone, Debug)]
pub struct Snapshot {
    /// The set.
    pub set: Arc<StatefulSet>,
    /// Its Pod template.
    pub template: Arc<PodTemplate>,
    /// The set as an owner.
    pub owner: Owner,
    /// The revisions it selects: its own, and those without a controller.
    pub revisions: Claims<RevisionRef>,
    /// Its Pods: kept, to be adopted, to be released.
    pub pods: Claims<PodRef>,
    /// The claims of its Pods, and of the Pods that this sync may create
    /// ([`missing_ordinals`](crate::decide::situation::missing_ordinals)), by name. Claims that do not exist are left out.
    pub claims: BTreeMap<String, ClaimRef>,
    /// The differences between claims and their templates that were reported of the set.
    pub reported: Reported,
    /// The operator's settings.
    pub limits: Limits,
    /// The time of the sync, by which availability is judged.
    pub now: Timestamp,
}

impl Snapshot {
    /// Its Pods without the label of their name. The watch does not show them.
    pub fn unlabelled(&self) -> impl Iterator<Item = &PodRef> {
        self.pods.keep.iter().chain(&self.pods.adopt).filter(|pod| pod.is_unlabelled())
    }
}

/// The operator's settings that decisions depend on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Limits {
    /// Whether a rolling update may make several Pods unavailable (gate `MaxUnavailableStatefulSet`).
    pub max_unavailable: bool,
    /// Whether revisions that differ only by defaults are equal (gate `StatefulSetSemanticRevisionComparison`).
    pub semantic_comparison: bool,
    /// Whether an outdated Pod that was never ready and blocks the others is replaced (tune `replace-stuck-pods`).
    pub replaces_stuck_pods: bool,
    /// Whether the next sync waits until the caches show what this one wrote (gate `StaleControllerConsistencyStatefulSet`).
    pub reads_own_writes: bool,
}

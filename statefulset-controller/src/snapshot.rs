//! The input of the decision in one sync.

use std::{collections::BTreeMap, sync::Arc};

use common::{prelude::*, revision::template::PodTemplateWithRevisionData};
use jiff::Timestamp;

use crate::{
    objects::{CachedPod, CachedRevision, CachedVolumeClaim, StatefulSet},
    reports::ReportedMismatches,
};

/// A Pod, shared with the cache.
pub type SharedPod = Arc<CachedPod>;
/// A revision, shared with the cache.
pub type SharedRevision = Arc<CachedRevision>;
/// A PersistentVolumeClaim, shared with the cache.
pub type SharedVolumeClaim = Arc<CachedVolumeClaim>;

/// A set and everything that a decision about it depends on, as the caches showed it at one time.
#[derive(Clone, Debug)]
pub struct Snapshot {
    /// The set as the cache showed it.
    pub set: Arc<StatefulSet>,
    /// The parsed `spec.template`.
    pub template: Arc<PodTemplateWithRevisionData>,
    /// The set in its role as an owner of Pods and revisions.
    pub owner: Owner,
    /// The revisions that the selector matches, to keep or to adopt: revisions of the set, and orphans.
    pub revisions: DependentClaims<SharedRevision>,
    /// Pods to keep, to adopt and to release.
    pub pods: DependentClaims<SharedPod>,
    /// Existing claims by name: the claims of all Pods of the set, and of the Pods that this sync may create
    /// ([`missing_ordinals`](crate::decide::ordinals::missing_ordinals)).
    pub volume_claims: BTreeMap<String, SharedVolumeClaim>,
    /// The claim mismatches of the set that were reported in Events.
    pub reported_mismatches: ReportedMismatches,
    /// Feature gates and settings of `--tune`, constant while the process runs.
    pub features: FeatureSettings,
    /// The time of the sync. The availability of Pods is determined for this time.
    pub now: Timestamp,
}

impl Snapshot {
    /// Returns the kept and adopted Pods that lack the label of their name. The watch does not show such Pods.
    pub fn pods_without_name_label(&self) -> impl Iterator<Item = &SharedPod> {
        self.pods.to_keep.iter().chain(&self.pods.to_adopt).filter(|pod| pod.lacks_name_label())
    }
}

/// Feature gates and settings of `--tune` that decisions depend on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FeatureSettings {
    /// Whether a rolling update may make several Pods unavailable (gate `MaxUnavailableStatefulSet`).
    pub is_max_unavailable_enabled: bool,
    /// Whether revisions that differ only by API defaults are equal (gate `StatefulSetSemanticRevisionComparison`).
    pub compares_revisions_semantically: bool,
    /// Whether an outdated Pod that was never ready and blocks other Pods is replaced (`--tune replace-stuck-pods`).
    pub replaces_stuck_pods: bool,
    /// Whether the next sync waits for the caches to show the writes of this sync (gate
    /// `StaleControllerConsistencyStatefulSet`).
    pub awaits_own_writes: bool,
}

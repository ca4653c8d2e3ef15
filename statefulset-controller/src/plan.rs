//! The plan of a sync: the revisions, the work on Pods in phases, and the status.

pub mod revisions;

use std::{fmt, sync::Arc, time::Duration};

use common::{explain::BoundedLines, prelude::*, selector::SelectorError};

use crate::{
    objects::{StatefulSet, Status},
    snapshot::{SharedPod, SharedVolumeClaim},
};
use revisions::{RevisionRole, Revisions};

/// The decisions of one sync, before its first request.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The set as the cache showed it.
    pub set: Arc<StatefulSet>,
    /// The reason why the set is not managed, so that nothing is written; `None` if the set is managed.
    pub unmanaged_reason: Option<UnmanagedReason>,
    /// The current and the update revision, and the write that precedes the work on Pods.
    pub revisions: Revisions,
    /// The work on Pods if every adoption succeeds and the new revision gets its planned name.
    pub pod_plan: PodPlan,
    /// The status to write if the work on Pods also succeeds.
    pub status: Status,
    /// The claims of Pods in range that do not satisfy their templates.
    pub volume_claim_mismatches: VolumeClaimMismatches,
    /// The mismatches that this sync reports in Events.
    pub mismatches_to_report: Vec<VolumeClaimMismatch>,
    /// Time until the next ready Pod becomes available; `None` if no ready Pod is unavailable.
    pub time_to_next_availability: Option<Duration>,
}

/// The reason why a set is not managed.
#[derive(Clone, Debug, thiserror::Error)]
pub enum UnmanagedReason {
    /// `spec.selector` is invalid.
    #[error(transparent)]
    Selector(#[from] SelectorError),
    /// The Pods of the set have more claims than a sync may compare.
    #[error("{pods} Pods with {templates} claims each are more than the {limit} claims that a StatefulSet may have")]
    TooManyClaims {
        /// The number of Pods of the set, including the Pods to adopt.
        pods: usize,
        /// The number of templates in `spec.volumeClaimTemplates`.
        templates: usize,
        /// The greatest allowed number of claims of the set.
        limit: usize,
    },
}

/// The work on Pods, and the reasons why the set does not progress.
#[derive(Clone, Debug, Default)]
pub struct PodPlan {
    /// Phases in their order. After a failed phase, the remaining phases are skipped.
    pub phases: Vec<WorkPhase>,
    /// The status before the work begins, which counts the existing Pods.
    pub status_before_work: Status,
    /// The number of unavailable Pods and its limit. `None` without the gate `MaxUnavailableStatefulSet`.
    pub unavailable_pods: Option<UnavailablePods>,
    /// The reasons why the set does not progress, for `/debug/explain`.
    pub waiting_reasons: BoundedLines,
    /// Names of the claims that must be deleted before Pods can be created.
    pub volume_claims_to_await: Vec<String>,
    /// Number of Pods that later syncs create or complete, because this sync has reached a limit.
    pub deferred_pod_count: i64,
}

/// The number of unavailable Pods and the limit on this number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UnavailablePods {
    /// `maxUnavailable` as a number of Pods, at least 1.
    pub max_unavailable: i32,
    /// How many Pods are unavailable; `None` if the plan ended before the rolling update.
    pub count: Option<i32>,
}

/// Work on several Pods. The next phase begins after all of this work has succeeded.
#[derive(Clone, Debug)]
pub struct WorkPhase {
    /// The order of the work: one Pod after the other, in batches of 1, 2, 4, ..., or all Pods at the same time.
    pub concurrency: GroupConcurrency,
    /// The work, in the order in which it begins.
    pub work: Vec<PodWork>,
}

/// One piece of work on a single Pod.
#[derive(Clone, Debug)]
pub enum PodWork {
    /// Creates the claims that are missing, then the Pod.
    Create {
        /// The ordinal in the name of the new Pod.
        ordinal: i32,
        /// The claims of the Pod that are missing or terminating.
        claims: UnusableVolumeClaims,
        /// The revision that the Pod is created from.
        revision_role: RevisionRole,
    },
    /// Creates some of the missing claims. Later syncs create the other claims, and then the Pod.
    CreateClaims {
        /// The ordinal in the name of the Pod that later syncs create.
        ordinal: i32,
        /// The claims of the Pod. The sync creates the claims in [`UnusableVolumeClaims::missing_claims`].
        claims: UnusableVolumeClaims,
    },
    /// Deletes a finished, condemned, outdated or stuck Pod.
    Delete {
        /// The Pod. Its UID and version are preconditions of the deletion.
        pod: SharedPod,
        /// The reason, as `/debug/explain` shows it.
        why: DeletionReason,
    },
    /// Creates missing claims of an existing Pod, and corrects owner references, labels and volumes.
    Repair(PodRepair),
}

/// The changes that an existing Pod and its claims need.
#[derive(Clone, Debug)]
pub struct PodRepair {
    /// The Pod as the cache showed it.
    pub pod: SharedPod,
    /// The ordinal in the Pod's name.
    pub ordinal: i32,
    /// The Pod's claims that are missing or terminating.
    pub unusable_volume_claims: UnusableVolumeClaims,
    /// The changes of owner references of the Pod's claims.
    pub ownership_changes: OwnershipChanges,
    /// The errors in the Pod itself; `None` if it is correct.
    pub pod_errors: Option<PodErrors>,
    /// The reason for the repair: the state of the Pod.
    pub occasion: RepairOccasion,
}

impl PodRepair {
    /// Creates a repair that changes nothing.
    pub fn new(pod: &SharedPod, ordinal: i32, occasion: RepairOccasion) -> Self {
        let (unusable_volume_claims, ownership_changes) = Default::default();
        Self { pod: pod.clone(), ordinal, unusable_volume_claims, ownership_changes, pod_errors: None, occasion }
    }
}

/// Changes of the owner references of claims. The garbage collector deletes a claim after its owners.
#[derive(Clone, Debug, Default)]
pub struct OwnershipChanges {
    /// The claims to patch, each with its new owner references.
    pub new_owners_by_volume_claim: Vec<(SharedVolumeClaim, Vec<OwnerRef>)>,
    /// Names of the claims to report because another controller manages them.
    pub conflicting_volume_claims: Vec<String>,
}

/// The reason for a [`PodRepair`]: the state of the Pod.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RepairOccasion {
    /// The Pod is pending, possibly because claims are missing.
    Pending,
    /// The Pod is in range, and it or its claims need a change.
    InRange,
    /// The Pod is out of range, and its claims may have to be deleted with it.
    Condemned,
}

/// The errors in a Pod that a [`PodRepair`] corrects.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PodErrors {
    /// Whether the name differs from `<set>-<ordinal>`. A Pod cannot be renamed, so a wrong name is only reported.
    pub has_wrong_name: bool,
    /// Whether labels with the Pod's name or ordinal are missing.
    pub lacks_identity_labels: bool,
    /// Volumes that do not mount their claims: volume name, claim name.
    pub wrong_volumes: Vec<(String, String)>,
}

/// The claims of a Pod that are missing or terminating.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct UnusableVolumeClaims {
    /// Claims that this sync creates: index of the template, name of the claim.
    pub missing_claims: Vec<(usize, String)>,
    /// Number of further missing claims, which later syncs create.
    pub deferred_claim_count: usize,
    /// Names of terminating claims.
    pub terminating_claims: Vec<String>,
}

/// The reason for the deletion of a Pod.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DeletionReason {
    /// The phase is `Succeeded` or `Failed`.
    Finished,
    /// The ordinal is out of range.
    Condemned,
    /// The Pod does not have the update revision.
    Outdated {
        /// Whether the Pod has the current revision.
        is_current: bool,
    },
    /// The Pod does not have the update revision, was never ready, and blocks the other Pods.
    Stuck {
        /// Whether the Pod has the current revision.
        is_current: bool,
    },
}

impl fmt::Display for DeletionReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Finished => "it has finished and is replaced",
            Self::Condemned => "its ordinal is out of range",
            Self::Outdated { .. } => "it does not have the update revision",
            Self::Stuck { .. } => "it does not have the update revision, was never ready, and blocks the other Pods",
        })
    }
}

impl UnusableVolumeClaims {
    /// Returns whether every claim exists and none is terminating.
    pub fn are_usable(&self) -> bool {
        self.missing_claims.is_empty() && self.terminating_claims.is_empty()
    }
}

impl PodWork {
    /// Returns whether the work lowers `status.currentReplicas`.
    pub fn lowers_current_replicas(&self) -> bool {
        matches!(
            self,
            Self::Delete {
                why: DeletionReason::Outdated { is_current: true } | DeletionReason::Stuck { is_current: true },
                ..
            }
        )
    }
}

/// The claims of Pods in range that do not match their templates, grouped by difference.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct VolumeClaimMismatches {
    /// The differences, at most [`MAX_MISMATCHES`](crate::decide::mismatch::MAX_MISMATCHES).
    pub listed_mismatches: Vec<VolumeClaimMismatch>,
    /// Number of claims with a difference that is not listed.
    pub unlisted_volume_claim_count: usize,
}

/// Claims that differ from their template in the same way.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VolumeClaimMismatch {
    /// `metadata.name` of the claim template.
    pub template_name: Text,
    /// Name of the first claim with this difference.
    pub first_volume_claim_name: String,
    /// The difference in words.
    pub shortfall: String,
    /// Number of other claims of the template with the same difference.
    pub further_volume_claim_count: usize,
}

impl VolumeClaimMismatch {
    /// Returns the template and the difference, without the names of claims: one report covers all claims with this difference.
    pub fn describe_difference(&self) -> String {
        format!("{}: {}", self.template_name, self.shortfall)
    }
}

impl fmt::Display for VolumeClaimMismatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { template_name, first_volume_claim_name, shortfall, further_volume_claim_count } = self;
        write!(
            f,
            "PersistentVolumeClaim {first_volume_claim_name} does not match volumeClaimTemplate {template_name} and is used as it is: {shortfall}"
        )?;
        match further_volume_claim_count {
            0 => Ok(()),
            1 => f.write_str(" (1 more claim likewise)"),
            count => write!(f, " ({count} more claims likewise)"),
        }
    }
}

impl SyncPlan for Plan {
    fn situation(&self) -> String {
        if self.unmanaged_reason.is_some() {
            return String::new();
        }
        let counted = &self.pod_plan.status_before_work;
        format!(
            "{} Pods wanted: {} exist, {} ready, {} available; {} of revision {}, {} of revision {}",
            self.set.replicas,
            counted.replicas,
            counted.ready_replicas,
            counted.available_replicas,
            counted.current_replicas,
            counted.current_revision,
            counted.updated_replicas,
            counted.update_revision,
        )
    }

    fn wait_reasons(&self) -> Vec<String> {
        if let Some(reason) = &self.unmanaged_reason {
            return vec![reason.to_string()];
        }
        let mut waiting = self.pod_plan.waiting_reasons.clone().into_vec();
        if self.pod_plan.deferred_pod_count > 0 {
            waiting.push(format!("{} more Pods are left to the next syncs", self.pod_plan.deferred_pod_count));
        }
        let VolumeClaimMismatches { listed_mismatches, unlisted_volume_claim_count } = &self.volume_claim_mismatches;
        waiting.extend(listed_mismatches.iter().map(ToString::to_string));
        if *unlisted_volume_claim_count > 0 {
            waiting.push(format!("{unlisted_volume_claim_count} more claims do not match their volumeClaimTemplates"));
        }
        if let Some(wait) = self.time_to_next_availability {
            let seconds = wait.as_secs() + u64::from(wait.subsec_nanos() > 0);
            waiting.push(format!("ready Pods are not available yet, the next in {seconds}s"));
        }
        waiting
    }

    fn requeue_after(&self) -> Option<Duration> {
        self.time_to_next_availability
    }
}

//! Pure functions from a [`Snapshot`] to a [`Plan`]: no requests, no clock, no randomness.
//!
//! If an earlier part of a sync ends differently than planned (a Pod could not be adopted, the name of a revision was taken),
//! the later parts are decided again from the actual outcome. See [`plan_pod_work`], [`revisions::with_created_revision`],
//! [`revisions::revisions_to_delete`] and [`status`].

pub mod mismatch;
pub mod ordinals;
pub mod retention;
pub mod revisions;
pub mod rolling;
pub mod scaling;
pub mod status;

use std::sync::Arc;

use crate::{
    objects::StatefulSet,
    plan::{Plan, PodPlan, UnavailablePods, UnmanagedReason, VolumeClaimMismatches, revisions::Revisions},
    snapshot::{SharedPod, Snapshot},
};
use ordinals::PodsByOrdinal;

/// The greatest number of claims that the Pods of a set may have together.
///
/// Every sync compares each claim with its Pod, and a cluster has at most 150,000 Pods.
pub const MAX_VOLUME_CLAIMS_PER_SET: usize = 200_000;

/// Decides the plan of one sync. Upstream: `pkg/controller/statefulset`, `UpdateStatefulSet`.
pub fn decide(snapshot: &Snapshot) -> Plan {
    let set = &snapshot.set;
    let revisions = revisions::choose_revisions(snapshot, revisions::sorted_revisions(snapshot));
    let claimed: Vec<SharedPod> = snapshot.pods.to_keep.iter().chain(&snapshot.pods.to_adopt).cloned().collect();
    let mut plan = Plan {
        set: Arc::clone(set),
        unmanaged_reason: unmanaged_reason(set, claimed.len()),
        pod_plan: PodPlan::default(),
        status: set.status.declared.clone(),
        volume_claim_mismatches: VolumeClaimMismatches::default(),
        mismatches_to_report: Vec::new(),
        time_to_next_availability: None,
        revisions,
    };
    if plan.unmanaged_reason.is_none() && !snapshot.owner.is_deleting {
        plan.volume_claim_mismatches = mismatch::find_mismatches(snapshot);
        plan.mismatches_to_report = mismatch::unreported_mismatches(&plan.volume_claim_mismatches, snapshot);
    }
    if plan.unmanaged_reason.is_none() {
        plan.pod_plan = plan_pod_work(snapshot, &claimed, &plan.revisions);
        let work = plan.pod_plan.phases.iter().flat_map(|phase| &phase.work);
        let lowered = work.filter(|work| work.lowers_current_replicas()).count() as i32;
        plan.status = status::status_after_work(set, &plan.pod_plan.status_before_work, lowered);
        plan.time_to_next_availability =
            status::time_to_next_availability(set, &claimed, &plan.status, snapshot.now, snapshot.now);
    }
    plan
}

/// Returns the reason why a set with this number of Pods is not managed; `None` if the set is managed.
pub fn unmanaged_reason(set: &StatefulSet, pods: usize) -> Option<UnmanagedReason> {
    let templates = set.volume_claim_templates.len();
    let too_many = pods.saturating_mul(templates) > MAX_VOLUME_CLAIMS_PER_SET;
    let claims =
        too_many.then_some(UnmanagedReason::TooManyClaims { pods, templates, limit: MAX_VOLUME_CLAIMS_PER_SET });
    set.selector.validation_error().cloned().map(UnmanagedReason::from).or(claims)
}

/// Decides the work on Pods.
///
/// A terminating set only gets a status. For any other set, the steps are: label Pods that lack the label of their name, create
/// and repair Pods in range, delete Pods out of range, delete outdated Pods. With `OrderedReady`, each step begins after the
/// previous step is complete. Upstream: `updateStatefulSet`.
pub fn plan_pod_work(snapshot: &Snapshot, claimed_pods: &[SharedPod], revisions: &Revisions) -> PodPlan {
    let ordinals = PodsByOrdinal::new(snapshot, claimed_pods, revisions);
    let mut plan = PodPlan { status_before_work: status::count_pods(&ordinals), ..PodPlan::default() };
    if snapshot.features.is_max_unavailable_enabled {
        plan.unavailable_pods =
            Some(UnavailablePods { max_unavailable: rolling::max_unavailable(&snapshot.set), count: None });
    }
    if snapshot.owner.is_deleting {
        plan.waiting_reasons.push(|| "the set is being deleted: its Pods are left to the garbage collector".to_owned());
        return plan;
    }
    scaling::plan_pod_labels(&ordinals, &mut plan);
    if scaling::plan_pods_in_range(&ordinals, &mut plan).is_break() {
        return plan;
    }
    if scaling::plan_condemned_pods(&ordinals, &mut plan).is_break() {
        return plan;
    }
    rolling::plan_rolling_update(&ordinals, &mut plan);
    plan
}

#[cfg(test)]
mod tests;

//! Creation of the Pods in range, and deletion of the Pods out of range.

use std::{
    collections::BTreeSet,
    ops::ControlFlow::{self, Break, Continue},
    sync::Arc,
};

use common::{io::GroupConcurrency, pods::Phase as PodPhase};

use super::{
    ordinals::{self, OrdinalSlot, PodsByOrdinal},
    retention::VolumeClaimOwners,
};
use crate::{
    objects::{POD_NAME_LABEL, StatefulSet, UpdateStrategy, VolumeClaimTemplate, has_leading_zero},
    plan::{
        DeletionReason, OwnershipChanges, PodErrors, PodPlan, PodRepair, PodWork, RepairOccasion, UnusableVolumeClaims,
        WorkPhase, revisions::RevisionRole,
    },
    snapshot::{SharedPod, Snapshot},
};

/// Maximum number of claims that one sync creates for a Pod, and of existing claims that one sync patches for a Pod.
///
/// The requests for the claims of a Pod are sent one after the other, and occupy a worker that other sets wait for.
pub const MAX_VOLUME_CLAIM_WRITES_PER_POD: usize = 100;
/// The largest batch of Pods with `Parallel`. Upstream: `MaxBatchSize`.
const MAX_BATCH_SIZE: usize = 500;

/// Whether the sync continues with the next Pod or phase. Has an effect only with `OrderedReady`.
type SyncFlow = ControlFlow<()>;

fn pace(set: &StatefulSet) -> GroupConcurrency {
    if set.is_ordered_ready() { GroupConcurrency::Sequential } else { GroupConcurrency::SlowStart(MAX_BATCH_SIZE) }
}

/// Adds a phase for `work`, and returns whether the next phase follows in the same sync.
fn add_phase(plan: &mut PodPlan, set: &StatefulSet, work: Vec<PodWork>, flow: SyncFlow) -> SyncFlow {
    if !work.is_empty() {
        plan.phases.push(WorkPhase { concurrency: pace(set), work });
    }
    if set.is_ordered_ready() { flow } else { Continue(()) }
}

/// Adds the label of the Pod's name to Pods that lack it, before any other work, because changes of such Pods are not watched.
///
/// Upstream adds the label once the Pod is ready and its turn has come: `processReplica`, `updateIdentity`.
pub fn plan_pod_labels(ordinals: &PodsByOrdinal<'_>, plan: &mut PodPlan) {
    let mut work = Vec::new();
    for pod in ordinals.snapshot.pods.to_keep.iter().filter(|pod| pod.lacks_name_label()) {
        let Some(ordinal) = pod.ordinal() else { continue };
        let pod_errors = Some(PodErrors { lacks_identity_labels: true, ..PodErrors::default() });
        work.push(PodWork::Repair(PodRepair { pod_errors, ..PodRepair::new(pod, ordinal, RepairOccasion::InRange) }));
    }
    if !work.is_empty() {
        plan.phases.push(WorkPhase { concurrency: GroupConcurrency::AllConcurrent, work });
    }
}

/// Creates a Pod for every ordinal in range, and repairs the Pods that exist, by ascending ordinal.
///
/// With `OrderedReady`, the first unavailable Pod ends the sync. Upstream: `processReplica`.
pub fn plan_pods_in_range(ordinals: &PodsByOrdinal<'_>, plan: &mut PodPlan) -> SyncFlow {
    let set = ordinals.set();
    let (mut work, mut flow) = (Vec::new(), Continue(()));
    for pod in &ordinals.duplicate_pods {
        plan.waiting_reasons.push(|| format!("Pod {} is ignored: another Pod has its ordinal", pod.meta().name));
    }
    for slot in &ordinals.slots_in_range {
        flow = match &slot.pod {
            None => missing(ordinals, slot.ordinal, plan, &mut work),
            Some(pod) => present(ordinals, slot, pod, plan, &mut work),
        };
        if flow.is_break() && set.is_ordered_ready() {
            break;
        }
    }
    if !set.is_ordered_ready() {
        plan.deferred_pod_count += ordinals.deferred_pod_count;
    }
    add_phase(plan, set, work, flow)
}

fn missing(ordinals: &PodsByOrdinal<'_>, ordinal: i32, plan: &mut PodPlan, work: &mut Vec<PodWork>) -> SyncFlow {
    let (snapshot, set) = (ordinals.snapshot, ordinals.set());
    let pod = || set.pod_name(ordinal);
    if let Some(claim) = ordinals::find_stale_volume_claim(snapshot, ordinal) {
        plan.waiting_reasons
            .push(|| format!("Pod {} is not created: claim {claim} of the previous Pod is still to be deleted", pod()));
        plan.volume_claims_to_await.push(claim);
        return Break(());
    }
    let claims = unusable_claims(snapshot, ordinal);
    for claim in &claims.terminating_claims {
        plan.waiting_reasons.push(|| format!("Pod {} is not created: claim {claim} is being deleted", pod()));
        plan.volume_claims_to_await.push(claim.clone());
    }
    if claims.deferred_claim_count > 0 {
        plan.waiting_reasons
            .push(|| format!("{} claims of Pod {} are left to the next syncs", claims.deferred_claim_count, pod()));
        plan.deferred_pod_count += 1;
        work.push(PodWork::CreateClaims { ordinal, claims });
    } else {
        work.push(PodWork::Create { ordinal, claims, revision_role: ordinals.revision_for_ordinal(ordinal) });
    }
    Break(())
}

fn present(
    ordinals: &PodsByOrdinal<'_>,
    slot: &OrdinalSlot,
    pod: &SharedPod,
    plan: &mut PodPlan,
    work: &mut Vec<PodWork>,
) -> SyncFlow {
    let set = ordinals.set();
    let name = &pod.meta().name;
    if pod.phase.is_terminal() {
        if pod.meta().is_deleting() {
            plan.waiting_reasons
                .push(|| format!("Pod {name} has finished and is terminating: it is replaced after its deletion"));
        } else {
            work.push(PodWork::Delete { pod: pod.clone(), why: DeletionReason::Finished });
        }
        return Break(());
    }
    let is_pending = pod.phase == PodPhase::Pending;
    let pod_errors = pod_errors_of(set, slot.ordinal, pod);
    if is_pending {
        // Missing claims keep a Pod pending. With `OrderedReady`, all other repairs wait until the Pod is ready.
        let unusable_volume_claims = unusable_claims(ordinals.snapshot, slot.ordinal);
        plan.volume_claims_to_await.extend(unusable_volume_claims.terminating_claims.iter().cloned());
        let pod_errors = pod_errors.clone().filter(|_| !set.is_ordered_ready());
        let pod_repair = PodRepair::new(pod, slot.ordinal, RepairOccasion::Pending);
        plan_repair(ordinals, PodRepair { unusable_volume_claims, pod_errors, ..pod_repair }, plan, work);
    }
    if set.is_ordered_ready()
        && let Some(problem) = blocking(ordinals, pod)
    {
        if !is_pending {
            // The owner references do not wait: a Pod may never become ready, and its claims are deleted with the set.
            plan_repair(ordinals, PodRepair::new(pod, slot.ordinal, RepairOccasion::InRange), plan, work);
        }
        plan.waiting_reasons
            .push(|| format!("Pod {name} {problem}: the Pods after it and updates wait for it (OrderedReady)"));
        if is_stuck(ordinals, slot, pod) {
            let why = DeletionReason::Stuck { is_current: ordinals.has_current_revision(pod) };
            work.push(PodWork::Delete { pod: pod.clone(), why });
        }
        return Break(());
    }
    if !is_pending {
        let mut pod_repair = PodRepair::new(pod, slot.ordinal, RepairOccasion::InRange);
        if pod_errors.as_ref().is_some_and(|errors| !errors.wrong_volumes.is_empty()) {
            pod_repair.unusable_volume_claims = unusable_claims(ordinals.snapshot, slot.ordinal);
        }
        plan_repair(ordinals, PodRepair { pod_errors, ..pod_repair }, plan, work);
    }
    Continue(())
}

/// Returns the reason why a Pod blocks other Pods with `OrderedReady`; `None` if it does not.
fn blocking(ordinals: &PodsByOrdinal<'_>, pod: &SharedPod) -> Option<&'static str> {
    if pod.meta().is_deleting() {
        Some("is terminating")
    } else if !pod.is_running_and_ready() {
        Some("is not ready")
    } else if ordinals.is_unavailable(pod) {
        Some("is not available yet")
    } else {
        None
    }
}

/// Returns whether a blocking Pod is deleted because it is outdated and was never ready (`--tune replace-stuck-pods`).
///
/// A Pod that was ready may become ready again, and its deletion could cost a quorum. The deletion could also cost a quorum
/// while a Pod with a higher ordinal is still being replaced. Both cases are left to users. Upstream leaves every such deletion
/// to users; its documentation calls this a forced rollback.
fn is_stuck(ordinals: &PodsByOrdinal<'_>, slot: &OrdinalSlot, pod: &SharedPod) -> bool {
    let gave_up = |pod: &SharedPod| ordinals.is_outdated(pod) && pod.was_never_ready();
    ordinals.snapshot.features.replaces_stuck_pods
        && matches!(ordinals.set().update_strategy, UpdateStrategy::RollingUpdate(_))
        && ordinals.revision_for_ordinal(slot.ordinal) == RevisionRole::Update
        && gave_up(pod)
        && ordinals
            .descending_ordinals(i64::from(slot.ordinal) + 1)
            .all(|(_, above)| above.is_some_and(|above| !ordinals.is_unavailable(above) || gave_up(above)))
}

fn unusable_claims(snapshot: &Snapshot, ordinal: i32) -> UnusableVolumeClaims {
    let set = &snapshot.set;
    let mut claims = UnusableVolumeClaims::default();
    for (at, template) in set.volume_claim_templates.iter().enumerate() {
        let name = set.volume_claim_name(template, ordinal);
        match snapshot.volume_claims.get(&name) {
            None if claims.missing_claims.len() < MAX_VOLUME_CLAIM_WRITES_PER_POD => {
                claims.missing_claims.push((at, name));
            }
            None => claims.deferred_claim_count += 1,
            Some(claim) if claim.metadata.is_deleting() => claims.terminating_claims.push(name),
            Some(_) => {}
        }
    }
    claims
}

/// Returns the errors in the Pod of an ordinal; `None` if the Pod is correct. Upstream: `identityMatches`, `storageMatches`.
///
/// A missing label with the Pod's name is not an error here: the adoption or [`plan_pod_labels`] adds the label.
fn pod_errors_of(set: &StatefulSet, ordinal: i32, pod: &SharedPod) -> Option<PodErrors> {
    let has_wrong_name = has_leading_zero(&pod.meta().name);
    let lacks_identity_labels = pod.meta().labels.get(POD_NAME_LABEL).is_some_and(|label| label != &*pod.meta().name);
    let mounts_claim = |(volume, claim): &(String, String)| pod.volume_claim_name(volume) == Some(claim.as_str());
    let volume_and_claim =
        |template: &VolumeClaimTemplate| (template.name.to_string(), set.volume_claim_name(template, ordinal));
    let volumes = set.volume_claim_templates.iter().map(volume_and_claim);
    let wrong_volumes: Vec<_> = volumes.filter(|volume| !mounts_claim(volume)).collect();
    (has_wrong_name || lacks_identity_labels || !wrong_volumes.is_empty()).then_some(PodErrors {
        has_wrong_name,
        lacks_identity_labels,
        wrong_volumes,
    })
}

/// Returns the changes of the owner references of an ordinal's existing claims.
pub fn ownership_changes(snapshot: &Snapshot, ordinal: i32, owners: &VolumeClaimOwners) -> OwnershipChanges {
    let (set, mut ownership) = (&snapshot.set, OwnershipChanges::default());
    for template in &set.volume_claim_templates {
        let name = set.volume_claim_name(template, ordinal);
        let Some(claim) = snapshot.volume_claims.get(&name) else { continue };
        let verdict = owners.check_owner_references(&claim.metadata.owners);
        if verdict.has_conflicting_owner {
            ownership.conflicting_volume_claims.push(name);
        }
        ownership.new_owners_by_volume_claim.extend(verdict.new_owners.map(|change| (claim.clone(), change)));
    }
    ownership
}

/// Adds the changes of owner references to a repair, and the repair to the work if the Pod or its claims need a change.
fn plan_repair(ordinals: &PodsByOrdinal<'_>, mut pod_repair: PodRepair, plan: &mut PodPlan, work: &mut Vec<PodWork>) {
    let PodRepair { pod, ordinal, unusable_volume_claims, pod_errors, occasion, .. } = &pod_repair;
    let (meta, is_condemned) = (pod.meta(), *occasion == RepairOccasion::Condemned);
    let owners = VolumeClaimOwners::new(ordinals.set(), &meta.name, &meta.uid, is_condemned);
    let mut changes = ownership_changes(ordinals.snapshot, *ordinal, &owners);
    let OwnershipChanges { new_owners_by_volume_claim, conflicting_volume_claims } = &mut changes;
    if unusable_volume_claims.deferred_claim_count > 0
        || new_owners_by_volume_claim.len() > MAX_VOLUME_CLAIM_WRITES_PER_POD
    {
        new_owners_by_volume_claim.truncate(MAX_VOLUME_CLAIM_WRITES_PER_POD);
        plan.deferred_pod_count += 1;
    }
    // Upstream reports a conflicting owner each time it processes the owner references of the claims: at each sync of a pending
    // Pod, and otherwise only when the references change.
    if new_owners_by_volume_claim.is_empty() && *occasion != RepairOccasion::Pending {
        conflicting_volume_claims.clear();
    }
    let needs_owners = !new_owners_by_volume_claim.is_empty() || !conflicting_volume_claims.is_empty();
    if needs_owners || !unusable_volume_claims.are_usable() || pod_errors.is_some() {
        pod_repair.ownership_changes = changes;
        work.push(PodWork::Repair(pod_repair));
    }
}

/// Deletes the Pods out of range by descending ordinal, after the owner references of their claims are written.
///
/// With `OrderedReady`, one Pod is deleted at a time: an available Pod, or the Pod that blocks all others. Upstream:
/// `processCondemned`.
pub fn plan_condemned_pods(ordinals: &PodsByOrdinal<'_>, plan: &mut PodPlan) -> SyncFlow {
    let set = ordinals.set();
    let (mut claims, mut unprepared) = (Vec::new(), BTreeSet::new());
    for (ordinal, pod) in &ordinals.condemned_pods {
        let deferred = plan.deferred_pod_count;
        plan_repair(ordinals, PodRepair::new(pod, *ordinal, RepairOccasion::Condemned), plan, &mut claims);
        if plan.deferred_pod_count > deferred {
            unprepared.insert(*ordinal);
        }
    }
    let _ = add_phase(plan, set, claims, Continue(()));
    let first = ordinals.first_blocking_condemned_pod().cloned();
    let is_first = |pod: &SharedPod| first.as_ref().is_some_and(|first| Arc::ptr_eq(first, pod));
    let (mut work, mut flow) = (Vec::new(), Continue(()));
    for (ordinal, pod) in &ordinals.condemned_pods {
        let name = &pod.meta().name;
        if pod.meta().is_deleting() {
            plan.waiting_reasons.push(|| format!("Pod {name} is terminating"));
        } else if set.is_ordered_ready() && blocking(ordinals, pod).is_some() && !is_first(pod) {
            plan.waiting_reasons
                .push(|| format!("Pod {name} is not deleted: it and a Pod with a lower ordinal are unavailable"));
        } else if unprepared.contains(ordinal) {
            plan.waiting_reasons
                .push(|| format!("Pod {name} is not deleted: not all of its claims have their owner references yet"));
        } else {
            work.push(PodWork::Delete { pod: pod.clone(), why: DeletionReason::Condemned });
        }
        flow = Break(());
        if set.is_ordered_ready() {
            break;
        }
    }
    add_phase(plan, set, work, flow)
}

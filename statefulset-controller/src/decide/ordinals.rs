//! The Pods of a set by ordinal. Ordinals without a Pod are limited to the number that one sync handles.

use std::{collections::BTreeMap, sync::Arc};

use super::retention;
use crate::{
    objects::{StatefulSet, UpdateStrategy, has_leading_zero},
    plan::revisions::{RevisionRole, Revisions},
    snapshot::{SharedPod, SharedVolumeClaim, Snapshot},
};

/// The greatest number of Pods that one sync creates with `Parallel`. The next sync creates the following Pods.
pub const MAX_POD_CREATIONS_PER_SYNC: usize = 1000;
/// The greatest number of claims that one sync looks up for new Pods. At least one Pod is created, regardless of its claims.
pub const MAX_VOLUME_CLAIM_LOOKUPS_PER_SYNC: usize = 5000;

/// An ordinal in range, with its Pod if the Pod exists.
#[derive(Clone, Debug)]
pub struct OrdinalSlot {
    /// An ordinal of the set's range.
    pub ordinal: i32,
    /// The Pod of the ordinal; `None` if it does not exist.
    pub pod: Option<SharedPod>,
}

/// The Pods of a set by ordinal, with the snapshot and the revisions of the sync.
#[derive(Clone, Debug)]
pub struct PodsByOrdinal<'a> {
    /// The snapshot of the sync.
    pub snapshot: &'a Snapshot,
    /// The current and the update revision.
    pub revisions: &'a Revisions,
    /// All Pods of the set, adopted Pods included.
    pub claimed_pods: &'a [SharedPod],
    /// The ordinals in range that have a Pod or are among [`missing_ordinals`], ascending.
    pub slots_in_range: Vec<OrdinalSlot>,
    /// Number of ordinals in range that have no Pod and are left to later syncs.
    pub deferred_pod_count: i64,
    /// Number of ordinals in range that have no Pod.
    pub missing_pod_count: i64,
    /// Pods out of range, by descending ordinal. Pods without an ordinal are ignored.
    pub condemned_pods: Vec<(i32, SharedPod)>,
    /// Pods in range that are ignored because another Pod has the ordinal, such as `web-01` beside `web-1`.
    pub duplicate_pods: Vec<SharedPod>,
}

/// Returns the ordinals in range without a Pod that one sync handles, ascending.
///
/// With `OrderedReady`, returns only the first missing ordinal. With `Parallel`, returns the ordinals for which one sync
/// creates Pods, and the ordinals between them that wait for a claim (`waits` is true). At most as many ordinals wait as there
/// are claims. The cost depends on the existing Pods, the existing claims and the two limits, never on the size of the range.
pub fn missing_ordinals(
    set: &StatefulSet,
    has_pod: impl Fn(i32) -> bool,
    mut waits: impl FnMut(i32) -> bool,
) -> Vec<i32> {
    let (mut missing, mut creates, mut claims) = (Vec::new(), 0, 0);
    for ordinal in set.ordinals().filter(|ordinal| !has_pod(*ordinal)) {
        let created = !waits(ordinal);
        missing.push(ordinal);
        if created {
            creates += 1;
            claims += set.volume_claim_templates.len();
        }
        if set.is_ordered_ready()
            || creates >= MAX_POD_CREATIONS_PER_SYNC
            || claims >= MAX_VOLUME_CLAIM_LOOKUPS_PER_SYNC
        {
            break;
        }
    }
    missing
}

impl<'a> PodsByOrdinal<'a> {
    /// Divides the Pods into Pods in range, Pods out of range and Pods with the ordinal of another Pod. Sorts them by ordinal.
    pub fn new(snapshot: &'a Snapshot, claimed_pods: &'a [SharedPod], revisions: &'a Revisions) -> Self {
        let set = &*snapshot.set;
        let mut present: BTreeMap<i32, &SharedPod> = BTreeMap::new();
        let (mut condemned_pods, mut duplicate_pods) = (Vec::new(), Vec::new());
        for pod in claimed_pods {
            let Some(ordinal) = pod.ordinal() else { continue };
            if set.contains_ordinal(ordinal) {
                // Pods without leading zeros have precedence. Upstream keeps the Pod that its cache lists last.
                let rank = |pod: &SharedPod| (has_leading_zero(&pod.meta().name), Arc::clone(&pod.meta().name));
                let other = present.get(&ordinal).copied();
                if other.is_none_or(|other| rank(pod) < rank(other)) {
                    present.insert(ordinal, pod);
                    duplicate_pods.extend(other.cloned());
                } else {
                    duplicate_pods.push(pod.clone());
                }
            } else {
                condemned_pods.push((ordinal, pod.clone()));
            }
        }
        condemned_pods.sort_by(|(a, one), (b, other)| b.cmp(a).then_with(|| one.meta().name.cmp(&other.meta().name)));
        let waits = |ordinal| find_stale_volume_claim(snapshot, ordinal).is_some();
        let absent = missing_ordinals(set, |ordinal| present.contains_key(&ordinal), waits);
        let range = set.ordinals();
        let count = i64::from(*range.end()) - i64::from(*range.start()) + 1;
        let missing_pod_count = count - present.len() as i64;
        let deferred_pod_count = missing_pod_count - absent.len() as i64;
        let mut slots_in_range: Vec<OrdinalSlot> =
            present.into_iter().map(|(ordinal, pod)| OrdinalSlot { ordinal, pod: Some(pod.clone()) }).collect();
        slots_in_range.extend(absent.into_iter().map(|ordinal| OrdinalSlot { ordinal, pod: None }));
        slots_in_range.sort_by_key(|slot| slot.ordinal);
        Self {
            snapshot,
            revisions,
            claimed_pods,
            slots_in_range,
            deferred_pod_count,
            missing_pod_count,
            condemned_pods,
            duplicate_pods,
        }
    }

    /// Returns the set as the cache showed it.
    pub fn set(&self) -> &'a StatefulSet {
        &self.snapshot.set
    }

    /// Returns the Pods in range, by ascending ordinal.
    pub fn pods_in_range(&self) -> impl DoubleEndedIterator<Item = &SharedPod> {
        self.slots_in_range.iter().filter_map(|slot| slot.pod.as_ref())
    }

    fn pod(&self, ordinal: i32) -> Option<&SharedPod> {
        let at = self.slots_in_range.binary_search_by_key(&ordinal, |slot| slot.ordinal).ok()?;
        self.slots_in_range.get(at)?.pod.as_ref()
    }

    /// Returns the ordinals in range from the highest down to `lowest`, with their Pods.
    ///
    /// A caller must stop at the first ordinal without a Pod, so that its work depends on the number of Pods.
    pub fn descending_ordinals(&self, lowest: i64) -> impl Iterator<Item = (i32, Option<&SharedPod>)> {
        let range = self.set().ordinals();
        let lowest = i64::from(*range.start()).max(lowest);
        let ordinals = (lowest..=i64::from(*range.end())).rev().filter_map(|ordinal| i32::try_from(ordinal).ok());
        ordinals.map(|ordinal| (ordinal, self.pod(ordinal)))
    }

    /// Returns the lowest ordinal that a rolling update may replace: the start of the range plus the partition.
    pub fn lowest_updatable_ordinal(&self) -> i64 {
        let set = self.set();
        i64::from(set.first_ordinal) + i64::from(set.partition())
    }

    /// Returns whether a Pod is terminating or not available.
    pub fn is_unavailable(&self, pod: &SharedPod) -> bool {
        pod.is_unavailable(self.set().min_ready_seconds, self.snapshot.now)
    }

    /// Returns whether a Pod blocks the Pods after it with `OrderedReady`: it is unavailable, or not running and ready.
    ///
    /// The condition `Ready` alone is not enough: on a lost node, the condition `Ready` of a failed Pod can still be `True`.
    pub fn blocks_later_ordinals(&self, pod: &SharedPod) -> bool {
        self.is_unavailable(pod) || !pod.is_running_and_ready()
    }

    /// Returns the blocking Pod out of range with the lowest ordinal; `None` if a Pod in range is missing or blocks.
    pub fn first_blocking_condemned_pod(&self) -> Option<&SharedPod> {
        // `slots_in_range` contains the first missing ordinal of the range. A missing Pod blocks the Pods out of range.
        let blocks = |slot: &OrdinalSlot| slot.pod.as_ref().is_none_or(|pod| self.blocks_later_ordinals(pod));
        if self.slots_in_range.iter().any(blocks) {
            return None;
        }
        self.condemned_pods.iter().rfind(|(_, pod)| self.blocks_later_ordinals(pod)).map(|(_, pod)| pod)
    }

    /// Returns the revision from which the Pod of an ordinal is created. Upstream: `newVersionedStatefulSetPod`.
    pub fn revision_for_ordinal(&self, ordinal: i32) -> RevisionRole {
        let set = self.set();
        let below = |count: i32| i64::from(ordinal) < i64::from(set.first_ordinal) + i64::from(count);
        let stays = match &set.update_strategy {
            UpdateStrategy::OnDelete => false,
            UpdateStrategy::RollingUpdate(Some(rolling)) => below(rolling.partition),
            UpdateStrategy::RollingUpdate(None) => below(set.status.current_replicas),
        };
        if stays { RevisionRole::Current } else { RevisionRole::Update }
    }

    /// Returns whether the label of a Pod names the update revision.
    pub fn has_update_revision(&self, pod: &SharedPod) -> bool {
        pod.revision_name() == self.revisions.update_revision.name.as_str()
    }

    /// Returns whether the label of a Pod names the current revision.
    pub fn has_current_revision(&self, pod: &SharedPod) -> bool {
        pod.revision_name() == self.revisions.current_revision.name.as_str()
    }

    /// Returns whether a rolling update must delete a Pod. The Pod has an outdated revision, and is neither terminating nor
    /// finished. A finished Pod is deleted regardless of its revision.
    pub fn is_outdated(&self, pod: &SharedPod) -> bool {
        !self.has_update_revision(pod) && !pod.meta().is_deleting() && !pod.phase.is_terminal()
    }
}

/// Returns a claim of the ordinal that is about to be deleted with an earlier Pod; `None` if there is no such claim.
pub fn find_stale_volume_claim(snapshot: &Snapshot, ordinal: i32) -> Option<String> {
    let set = &snapshot.set;
    let pod = set.pod_name(ordinal);
    let mut names = set.volume_claim_templates.iter().map(|template| set.volume_claim_name(template, ordinal));
    let is_stale = |claim: &SharedVolumeClaim| {
        retention::is_volume_claim_stale(set.volume_claim_retention_policy, &claim.metadata.owners, &pod)
    };
    names.find(|name| snapshot.volume_claims.get(name).is_some_and(is_stale))
}

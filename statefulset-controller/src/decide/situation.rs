//! The Pods of a set by ordinal, as far as one sync can act on them.

use std::{collections::BTreeMap, sync::Arc};

use super::retention;
use crate::{
    objects::{StatefulSet, Update, has_leading_zero},
    plan::revisions::{RevisionRole, Revisions},
    snapshot::{PodRef, Snapshot},
};

/// The most Pods that one sync creates where Pods do not wait for each other. The next sync creates the following ones.
pub const MAX_CREATES_PER_SYNC: usize = 1000;
/// The most claims that one sync looks up for Pods that it creates. At least one Pod is created, however many claims it has.
pub const MAX_CLAIMS_PER_SYNC: usize = 5000;

/// An ordinal in range, and its Pod if there is one.
#[derive(Clone, Debug)]
pub struct Slot {
    /// The ordinal.
    pub ordinal: i32,
    /// The Pod.
    pub pod: Option<PodRef>,
}

/// What is decided on.
#[derive(Clone, Debug)]
pub struct Situation<'a> {
    /// What the sync sees.
    pub snapshot: &'a Snapshot,
    /// The current and the update revision.
    pub revisions: &'a Revisions,
    /// All Pods of the set.
    pub claimed: &'a [PodRef],
    /// The ordinals in range that have a Pod or are among [`missing_ordinals`], ascending.
    pub wanted: Vec<Slot>,
    /// How many ordinals in range have no Pod and are left to later syncs.
    pub deferred: i64,
    /// How many ordinals in range have no Pod.
    pub missing: i64,
    /// Pods out of range, by descending ordinal. Pods without an ordinal are left alone.
    pub condemned: Vec<(i32, PodRef)>,
    /// Pods in range whose ordinal another Pod has: `web-01` beside `web-1`. They are left alone.
    pub shadowed: Vec<PodRef>,
}

/// The ordinals in range without a Pod that one sync looks at, ascending.
///
/// Where Pods wait for each other that is the first one. Otherwise it is as many as one sync creates, and among them all those
/// for which `waits` says that their Pod cannot be created yet because of a claim: there are at most as many of these as there
/// are claims. The work depends on the Pods and claims that exist and on the two limits, and never on the size of the range.
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
            claims += set.claims.len();
        }
        if set.is_monotonic() || creates >= MAX_CREATES_PER_SYNC || claims >= MAX_CLAIMS_PER_SYNC {
            break;
        }
    }
    missing
}

impl<'a> Situation<'a> {
    /// Sorts the Pods by ordinal.
    pub fn new(snapshot: &'a Snapshot, claimed: &'a [PodRef], revisions: &'a Revisions) -> Self {
        let set = &*snapshot.set;
        let mut present: BTreeMap<i32, &PodRef> = BTreeMap::new();
        let (mut condemned, mut shadowed) = (Vec::new(), Vec::new());
        for pod in claimed {
            let Some(ordinal) = pod.ordinal() else { continue };
            if set.wants(ordinal) {
                // Upstream keeps whichever of them its cache lists last.
                let rank = |pod: &PodRef| (has_leading_zero(&pod.meta().name), Arc::clone(&pod.meta().name));
                let other = present.get(&ordinal).copied();
                if other.is_none_or(|other| rank(pod) < rank(other)) {
                    present.insert(ordinal, pod);
                    shadowed.extend(other.cloned());
                } else {
                    shadowed.push(pod.clone());
                }
            } else {
                condemned.push((ordinal, pod.clone()));
            }
        }
        condemned.sort_by(|(a, one), (b, other)| b.cmp(a).then_with(|| one.meta().name.cmp(&other.meta().name)));
        let waits = |ordinal| stale_claim(snapshot, ordinal).is_some();
        let absent = missing_ordinals(set, |ordinal| present.contains_key(&ordinal), waits);
        let range = set.ordinals();
        let count = i64::from(*range.end()) - i64::from(*range.start()) + 1;
        let missing = count - present.len() as i64;
        let deferred = missing - absent.len() as i64;
        let mut wanted: Vec<Slot> =
            present.into_iter().map(|(ordinal, pod)| Slot { ordinal, pod: Some(pod.clone()) }).collect();
        wanted.extend(absent.into_iter().map(|ordinal| Slot { ordinal, pod: None }));
        wanted.sort_by_key(|slot| slot.ordinal);
        Self { snapshot, revisions, claimed, wanted, deferred, missing, condemned, shadowed }
    }

    /// The set.
    pub fn set(&self) -> &'a StatefulSet {
        &self.snapshot.set
    }

    /// The Pods in range, by ascending ordinal.
    pub fn present(&self) -> impl DoubleEndedIterator<Item = &PodRef> {
        self.wanted.iter().filter_map(|slot| slot.pod.as_ref())
    }

    /// The Pod of an ordinal in range.
    fn pod(&self, ordinal: i32) -> Option<&PodRef> {
        let at = self.wanted.binary_search_by_key(&ordinal, |slot| slot.ordinal).ok()?;
        self.wanted.get(at)?.pod.as_ref()
    }

    /// The ordinals in range from the highest down to `lowest`, with their Pods.
    ///
    /// A caller stops at the first one without a Pod, so that its work depends on the number of Pods.
    pub fn descending(&self, lowest: i64) -> impl Iterator<Item = (i32, Option<&PodRef>)> {
        let range = self.set().ordinals();
        let lowest = i64::from(*range.start()).max(lowest);
        let ordinals = (lowest..=i64::from(*range.end())).rev().filter_map(|ordinal| i32::try_from(ordinal).ok());
        ordinals.map(|ordinal| (ordinal, self.pod(ordinal)))
    }

    /// The lowest ordinal that a rolling update may replace.
    pub fn lowest_updated(&self) -> i64 {
        let set = self.set();
        i64::from(set.start) + i64::from(set.partition())
    }

    /// Whether a Pod is terminating or not available.
    pub fn is_unavailable(&self, pod: &PodRef) -> bool {
        pod.is_unavailable(self.set().min_ready_seconds, self.snapshot.now)
    }

    /// Whether a Pod blocks the Pods after it where Pods wait for each other: it is not available, or not running and ready.
    ///
    /// The phase counts beside the condition, because a kubelet that has lost its node can leave a Failed Pod with a Ready
    /// condition that is still true.
    pub fn is_blocking(&self, pod: &PodRef) -> bool {
        self.is_unavailable(pod) || !pod.is_running_and_ready()
    }

    /// The Pod out of range that blocks the others: the one with the lowest ordinal, if no ordinal in range blocks them.
    pub fn first_unavailable_condemned(&self) -> Option<&PodRef> {
        // The first missing ordinal of the range is among those looked at.
        let blocks = |slot: &Slot| slot.pod.as_ref().is_none_or(|pod| self.is_blocking(pod));
        if self.wanted.iter().any(blocks) {
            return None;
        }
        self.condemned.iter().rfind(|(_, pod)| self.is_blocking(pod)).map(|(_, pod)| pod)
    }

    /// The revision that a Pod of that ordinal is made from. Upstream: `newVersionedStatefulSetPod`.
    pub fn revision_for(&self, ordinal: i32) -> RevisionRole {
        let set = self.set();
        let below = |count: i32| i64::from(ordinal) < i64::from(set.start) + i64::from(count);
        let stays = match &set.update {
            Update::OnDelete => false,
            Update::Rolling(Some(rolling)) => below(rolling.partition),
            Update::Rolling(None) => below(set.status.current_replicas),
        };
        if stays { RevisionRole::Current } else { RevisionRole::Update }
    }

    /// Whether a Pod has the update revision.
    pub fn is_updated(&self, pod: &PodRef) -> bool {
        pod.revision() == self.revisions.update.name.as_str()
    }

    /// Whether a Pod has the current revision.
    pub fn is_current(&self, pod: &PodRef) -> bool {
        pod.revision() == self.revisions.current.name.as_str()
    }

    /// Whether a rolling update has yet to delete a Pod: it has another revision and neither terminates nor has finished. A
    /// finished Pod is deleted whatever its revision.
    pub fn is_outdated(&self, pod: &PodRef) -> bool {
        !self.is_updated(pod) && !pod.meta().is_deleting() && !pod.phase.is_terminal()
    }
}

/// The claim of that ordinal that is about to be garbage collected with an earlier Pod, if there is one.
pub fn stale_claim(snapshot: &Snapshot, ordinal: i32) -> Option<String> {
    let set = &snapshot.set;
    let pod = set.pod_name(ordinal);
    let mut names = set.claims.iter().map(|template| set.claim_name(template, ordinal));
    names.find(|name| {
        let claim = snapshot.claims.get(name);
        claim.is_some_and(|claim| retention::is_stale(set.retention, &claim.metadata.owners, &pod))
    })
}

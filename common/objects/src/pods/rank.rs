//! The order in which surplus Pods are deleted.

use std::cmp::Reverse;

use jiff::Timestamp;

use super::{Phase, Pod, RestartCounts};
use crate::meta::Uid;

/// A Pod that may be deleted, with the criteria for the order of deletion that the Pod itself does not contain.
#[derive(Clone, Copy, Debug)]
pub struct DeletionCandidate<'a> {
    /// The Pod, which contains all other criteria: node, phase, readiness, restarts and age.
    pub pod: &'a Pod,
    /// Deletion cost; 0 for all Pods if the feature gate `PodDeletionCost` is off.
    pub deletion_cost: i32,
    /// Number of active Pods on the node, including this Pod, of the same ReplicaSet or of ReplicaSets with the same owner.
    pub colocated_pod_count: usize,
}

/// Sort key of the rules before the rules about times: node, phase, readiness, deletion cost, and colocated Pods.
type KeyBeforeTimes = (bool, u8, bool, i32, Reverse<usize>);

/// Sort key: unassigned Pods before assigned ones, then by phase, then Pods that are not ready before ready ones.
fn readiness_key(pod: &Pod) -> (bool, u8, bool) {
    let phase = match pod.phase {
        Phase::Running => 2,
        Phase::Unknown => 1,
        Phase::Pending | Phase::Succeeded | Phase::Failed | Phase::Other => 0,
    };
    (!pod.node_name.is_empty(), phase, pod.is_ready())
}

/// Sort key: a missing time before all times, later times before earlier ones.
fn latest_first(time: Option<Timestamp>) -> (bool, Reverse<Option<Timestamp>>) {
    (time.is_some(), Reverse(time))
}

/// Returns the order in which Pods are deleted, as positions in `pods`, without deletion costs and colocated Pods.
///
/// The UID decides between Pods that are otherwise equal. Upstream: `pkg/controller`, `ActivePods`.
pub fn deletion_order_without_ranks(pods: &[&Pod]) -> Vec<usize> {
    let mut order: Vec<usize> = (0..pods.len()).collect();
    order.sort_by_cached_key(|at| {
        let pod = pods[*at];
        let ready = latest_first(pod.ready_since());
        (
            readiness_key(pod),
            ready,
            Reverse(pod.restart_counts),
            latest_first(pod.meta.creation_timestamp),
            pod.meta.uid.clone(),
        )
    });
    order
}

/// Returns the order in which Pods are deleted, as positions in `candidates`, by all rules. The first Pod is deleted first.
///
/// Times are compared by the magnitude of the age at `now` ([`log2_of_age`]). Between ages of one magnitude the UID decides, so
/// the choice is random. Upstream's relation is not transitive within a magnitude, because Pods with exactly the same time
/// fall through to the next rule. No sorted list can agree with such a relation for every pair. This function sorts by a total
/// order, which agrees with upstream for every pair that differs in magnitude or in a rule before the times. Within a
/// magnitude, Pods with the same time form a group, and groups are ordered by their smallest UID. Upstream: `pkg/controller`,
/// `ActivePodsWithRanks`.
pub fn rank_for_deletion<'a>(candidates: &[DeletionCandidate<'a>], now: Timestamp) -> Vec<usize> {
    let mut keys: Vec<Key<'a>> =
        candidates.iter().enumerate().map(|(position, candidate)| Key::new(position, candidate, now)).collect();
    set_smallest_uid_of_groups(
        &mut keys,
        |key| (key.first, key.ready_bucket, key.ready),
        |key, uid| key.ready_group = uid,
    );
    let by_creation =
        |key: &Key<'a>| (key.first, key.ready_bucket, key.ready_group, key.restarts, key.created_bucket, key.created);
    set_smallest_uid_of_groups(&mut keys, by_creation, |key, uid| key.creation_group = uid);
    keys.sort();
    keys.into_iter().map(|key| key.position).collect()
}

/// Returns the magnitude of an age: ⌊log2(nanoseconds from `time` to `now`)⌋, or -1 if `time` is not in the past.
pub fn log2_of_age(time: Timestamp, now: Timestamp) -> i32 {
    let age = now.as_nanosecond() - time.as_nanosecond();
    if age <= 0 { -1 } else { age.ilog2() as i32 }
}

/// Sort key of a candidate. The fields are compared in order. The last two fields only serve to form the groups.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct Key<'a> {
    first: KeyBeforeTimes,
    ready_bucket: Option<i32>,
    /// Smallest UID among the Pods that became ready at the same time.
    ready_group: &'a Uid,
    restarts: Reverse<RestartCounts>,
    created_bucket: Option<i32>,
    /// Smallest UID among the Pods that were created at the same time.
    creation_group: &'a Uid,
    uid: &'a Uid,
    position: usize,
    ready: Option<Timestamp>,
    created: Option<Timestamp>,
}

impl<'a> Key<'a> {
    fn new(position: usize, candidate: &DeletionCandidate<'a>, now: Timestamp) -> Self {
        let pod = candidate.pod;
        let (assigned, phase, is_ready) = readiness_key(pod);
        let (ready, created, uid) = (pod.ready_since(), pod.meta.creation_timestamp, &pod.meta.uid);
        Self {
            position,
            first: (assigned, phase, is_ready, candidate.deletion_cost, Reverse(candidate.colocated_pod_count)),
            ready,
            ready_bucket: ready.map(|time| log2_of_age(time, now)),
            ready_group: uid,
            restarts: Reverse(pod.restart_counts),
            created,
            created_bucket: created.map(|time| log2_of_age(time, now)),
            creation_group: uid,
            uid,
        }
    }
}

/// Groups the keys for which `by` returns equal results, and passes each key with the smallest UID of its group to `set`.
fn set_smallest_uid_of_groups<'a, K: Ord>(
    keys: &mut [Key<'a>],
    by: impl Fn(&Key<'a>) -> K,
    mut set: impl FnMut(&mut Key<'a>, &'a Uid),
) {
    keys.sort_by_key(&by);
    for members in keys.chunk_by_mut(|a, b| by(a) == by(b)) {
        if let Some(smallest) = members.iter().map(|key| key.uid).min() {
            for key in members {
                set(key, smallest);
            }
        }
    }
}

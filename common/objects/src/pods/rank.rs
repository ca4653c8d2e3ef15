//! Which Pods go first when there are too many.

use std::cmp::Reverse;

use jiff::Timestamp;

use super::{Phase, Pod, Restarts};
use crate::meta::Uid;

/// A Pod that may be chosen for deletion, and what does not stand in the Pod itself.
#[derive(Clone, Copy, Debug)]
pub struct Candidate<'a> {
    /// The Pod.
    pub pod: &'a Pod,
    /// Its deletion cost; 0 for all where the gate `PodDeletionCost` is off.
    pub cost: i32,
    /// Active Pods on its node that belong to the same controller's controller, itself included.
    pub colocated: usize,
}

/// What decides before any time is looked at.
type First = (bool, u8, bool, i32, Reverse<usize>);

/// Unassigned before assigned, then by phase, then not ready before ready.
fn readiness(pod: &Pod) -> (bool, u8, bool) {
    let phase = match pod.phase {
        Phase::Running => 2,
        Phase::Unknown => 1,
        Phase::Pending | Phase::Succeeded | Phase::Failed | Phase::Other => 0,
    };
    (!pod.node.is_empty(), phase, pod.is_ready())
}

/// No time at all before any time, later before earlier.
fn latest_first(time: Option<Timestamp>) -> (bool, Reverse<Option<Timestamp>>) {
    (time.is_some(), Reverse(time))
}

/// The plain order of deletion, as positions in `pods`: the first is deleted first.
///
/// Ties go by uid. Upstream: `pkg/controller`, `ActivePods`.
pub fn sort_for_deletion(pods: &[&Pod]) -> Vec<usize> {
    let mut order: Vec<usize> = (0..pods.len()).collect();
    order.sort_by_cached_key(|at| {
        let pod = pods[*at];
        let ready = latest_first(pod.ready_since());
        (readiness(pod), ready, Reverse(pod.restarts), latest_first(pod.meta.created), pod.meta.uid.clone())
    });
    order
}

/// The ranked order of deletion, as positions in `candidates`: the first is deleted first.
///
/// Times are compared by the magnitude of the age at `now` ([`log2_bucket`]), within one magnitude by uid, so that of
/// Pods of about one age a random one goes. Upstream's relation for that is not transitive (Pods of the very same second
/// fall through to the next rule), so no sort can honour every pair of it. This order is total and honours every pair
/// that differs in a rule before the times or in magnitude; within one magnitude Pods of the very same second stay
/// together, such groups ordered by their smallest uid. Upstream: `pkg/controller`, `ActivePodsWithRanks`.
pub fn rank_for_deletion<'a>(candidates: &[Candidate<'a>], now: Timestamp) -> Vec<usize> {
    let mut keys: Vec<Key<'a>> =
        candidates.iter().enumerate().map(|(position, candidate)| Key::new(position, candidate, now)).collect();
    group(&mut keys, |key| (key.first, key.ready_bucket, key.ready), |key, uid| key.ready_group = uid);
    let by_creation =
        |key: &Key<'a>| (key.first, key.ready_bucket, key.ready_group, key.restarts, key.created_bucket, key.created);
    group(&mut keys, by_creation, |key, uid| key.creation_group = uid);
    keys.sort();
    keys.into_iter().map(|key| key.position).collect()
}

/// The magnitude of an age: ⌊log2(nanoseconds from `time` to `now`)⌋, or -1 if `time` is not in the past.
pub fn log2_bucket(time: Timestamp, now: Timestamp) -> i32 {
    let age = now.as_nanosecond() - time.as_nanosecond();
    if age <= 0 { -1 } else { age.ilog2() as i32 }
}

/// What a candidate is sorted by, in the order of the fields; the times only form the groups.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct Key<'a> {
    first: First,
    ready_bucket: Option<i32>,
    /// The smallest uid among those that were ready at the same time.
    ready_group: &'a Uid,
    restarts: Reverse<Restarts>,
    created_bucket: Option<i32>,
    /// The smallest uid among those that were created at the same time.
    creation_group: &'a Uid,
    uid: &'a Uid,
    position: usize,
    ready: Option<Timestamp>,
    created: Option<Timestamp>,
}

impl<'a> Key<'a> {
    fn new(position: usize, candidate: &Candidate<'a>, now: Timestamp) -> Self {
        let pod = candidate.pod;
        let (assigned, phase, is_ready) = readiness(pod);
        let (ready, created, uid) = (pod.ready_since(), pod.meta.created, &pod.meta.uid);
        Self {
            position,
            first: (assigned, phase, is_ready, candidate.cost, Reverse(candidate.colocated)),
            ready,
            ready_bucket: ready.map(|time| log2_bucket(time, now)),
            ready_group: uid,
            restarts: Reverse(pod.restarts),
            created,
            created_bucket: created.map(|time| log2_bucket(time, now)),
            creation_group: uid,
            uid,
        }
    }
}

/// Tells the members of each group of equal keys the smallest uid in it.
fn group<'a, K: Ord>(keys: &mut [Key<'a>], by: impl Fn(&Key<'a>) -> K, mut set: impl FnMut(&mut Key<'a>, &'a Uid)) {
    keys.sort_by_key(&by);
    for members in keys.chunk_by_mut(|a, b| by(a) == by(b)) {
        if let Some(smallest) = members.iter().map(|key| key.uid).min() {
            for key in members {
                set(key, smallest);
            }
        }
    }
}

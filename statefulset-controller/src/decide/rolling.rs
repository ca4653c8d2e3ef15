//! Pods of another revision go, so that they come back updated.

use common::intstr::Round;

use super::situation::Situation;
use crate::{
    objects::{StatefulSet, Update},
    plan::{Pace, Phase, Reconcile, Unavailable, Why, Work},
    snapshot::PodRef,
};

/// How many Pods may be unavailable: at least one, and a percentage rounded down.
pub fn most_unavailable(set: &StatefulSet) -> i32 {
    let Update::Rolling(Some(rolling)) = &set.update else { return 1 };
    let most = rolling.max_unavailable.as_ref().and_then(|most| most.resolve(set.replicas, Round::Down).ok());
    most.unwrap_or(1).max(1)
}

/// Deletes Pods of another revision, from the highest number, none below the partition.
///
/// Upstream: `processReplica` has come this far only if nothing else is to be done, where Pods wait for each other.
pub fn update(situation: &Situation<'_>, plan: &mut Reconcile) {
    if situation.set().update == Update::OnDelete {
        return;
    }
    // A Pod that this very sync deletes is neither there nor deleted twice.
    let over = |pod: &PodRef| pod.phase.is_terminal();
    let outdated = |pod: &PodRef| !situation.is_updated(pod) && !pod.meta().is_deleting() && !over(pod);
    let victims = if situation.snapshot.limits.max_unavailable {
        several(situation, plan, outdated)
    } else {
        one(situation, plan, outdated).into_iter().collect()
    };
    let work: Vec<Work> = victims
        .into_iter()
        .map(|pod| Work::Delete { why: Why::Outdated { is_current: situation.is_current(&pod) }, pod })
        .collect();
    if !work.is_empty() {
        plan.phases.push(Phase { pace: Pace::InOrder, work });
    }
}

/// The highest Pod of another revision, unless one above it is not available.
fn one(situation: &Situation<'_>, plan: &mut Reconcile, outdated: impl Fn(&PodRef) -> bool) -> Option<PodRef> {
    let from = usize::try_from(situation.set().partition()).unwrap_or(usize::MAX);
    for slot in situation.wanted.iter().skip(from).rev() {
        match &slot.pod {
            Some(pod) if outdated(pod) => return Some(pod.clone()),
            Some(pod) if !situation.is_unavailable(pod) => {}
            _ => {
                let name = situation.set().pod_name(slot.ordinal);
                plan.waiting.push(format!("the rollout waits for Pod {name} to be available"));
                return None;
            }
        }
    }
    None
}

/// As many as may be unavailable besides those that are; and all that are unavailable already and of another revision, which
/// costs nothing and gets a rollout out of a bad one (kubernetes/kubernetes#137409).
fn several(situation: &Situation<'_>, plan: &mut Reconcile, outdated: impl Fn(&PodRef) -> bool) -> Vec<PodRef> {
    let set = situation.set();
    let most = most_unavailable(set);
    let is_unavailable = |pod: &PodRef| situation.is_unavailable(pod);
    let now = situation.wanted.iter().filter(|slot| slot.pod.as_ref().is_none_or(is_unavailable)).count() as i32;
    plan.unavailable = Some(Unavailable { most, now: Some(now) });
    let mut left = most.saturating_sub(now);
    let from = usize::try_from(set.partition()).unwrap_or(usize::MAX);
    let mut victims = Vec::new();
    let candidates = situation.wanted.iter().skip(from).rev().filter_map(|slot| slot.pod.as_ref());
    let mut waits = 0;
    for pod in candidates.filter(|pod| outdated(pod)) {
        if is_unavailable(pod) {
            victims.push(pod.clone());
        } else if left > 0 {
            left -= 1;
            victims.push(pod.clone());
        } else {
            waits += 1;
        }
    }
    if waits > 0 {
        plan.waiting.push(format!("{waits} Pods of another revision wait: {now} of at most {most} are unavailable"));
    }
    victims
}

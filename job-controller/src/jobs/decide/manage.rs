//! How many Pods to create, or which to delete.

use std::{collections::BTreeMap, time::Duration};

use common::{map::HashSet, pods::sort_for_deletion};

use super::{end, failure::is_counted};
use crate::{
    jobs::{
        plan::{Claimed, End, Failures, Manage, NewPod, PodWrites, Situation, Verdict, Victim, Why},
        snapshot::{Record, Snapshot},
    },
    objects::Job,
};

/// Where a sync stands once Pods were managed.
#[derive(Clone, Debug)]
pub struct Managed {
    /// Active Pods.
    pub active: usize,
    /// Active Pods that are ready.
    pub ready: usize,
    /// Pods that are going.
    pub terminating: usize,
    /// Whether the active Pods lost their finalizers before they were deleted: nothing is left to be done about them.
    pub spared: bool,
    /// Whether the number of Pods was looked at: not if the Job ends or is deleted, nor if nothing was allowed.
    pub scaled: bool,
    /// How the Job ends, if it does.
    pub end: Option<End>,
}

/// Decides what is done about the number of Pods. Never creates and deletes in one plan.
///
/// Upstream: `pkg/controller/job`, `manageJob` and `deleteActivePods`.
pub fn manage(snapshot: &Snapshot, situation: &Situation) -> Manage {
    let job = &*snapshot.job;
    let all = |why: Why| situation.active.iter().map(|at| Victim { at: *at, why }).collect();
    match (&situation.end, &snapshot.blocked) {
        // Who seems to run may have failed, and would not be counted.
        (Some(end), Some(blocked)) if end.verdict == Verdict::Success && blocked.is_stale => {
            return Manage::NotAllowed(blocked.why.clone());
        }
        (Some(end), _) if end.verdict == Verdict::Success => return Manage::DeleteUncounted(all(Why::Ends)),
        (Some(_), _) => return Manage::End(all(Why::Ends)),
        (None, _) => {}
    }
    if job.metadata.is_deleting() {
        return Manage::Deleting;
    }
    if let Some(blocked) = &snapshot.blocked {
        return Manage::NotAllowed(blocked.why.clone());
    }
    if job.suspend {
        return Manage::Suspend(all(Why::Suspended));
    }
    let (active, wanted) = (situation.active.len(), wanted(job, situation));
    let mut victims = choose(job, situation, active.saturating_sub(wanted));
    if !victims.is_empty() {
        victims.truncate(snapshot.limits.pods);
        return Manage::Remove(victims);
    }
    let going = if job.only_replaces_failed() { situation.terminating } else { 0 };
    let missing = wanted.saturating_sub(active + going);
    match missing {
        0 => Manage::Nothing,
        _ if snapshot.terminating_namespace => Manage::NotAllowed("the namespace is terminating".to_owned()),
        _ => create(snapshot, situation, missing),
    }
}

/// How many Pods are to be active.
fn wanted(job: &Job, situation: &Situation) -> usize {
    let parallelism = job.parallelism as usize;
    match job.completions {
        Some(completions) => (completions as usize).saturating_sub(situation.succeeded).min(parallelism),
        None if situation.succeeded > 0 => situation.active.len(),
        None => parallelism,
    }
}

/// The Pods that go: wrong ones in any case, and at least so many.
fn choose(job: &Job, situation: &Situation, surplus: usize) -> Vec<Victim> {
    let pod = |at: usize| &**situation.pods[at].pod;
    let rank = |group: &[usize]| {
        let pods: Vec<&common::pods::Pod> = group.iter().map(|at| pod(*at)).collect();
        sort_for_deletion(&pods).into_iter().map(|position| group[position]).collect::<Vec<usize>>()
    };
    let mut victims = Vec::new();
    let mut rest = situation.active.clone();
    if job.is_indexed() {
        let mut groups: BTreeMap<u32, Vec<usize>> = BTreeMap::new();
        for at in rest.drain(..) {
            match situation.pods[at].pod.index.filter(|index| *index < job.indexes()) {
                Some(index) => groups.entry(index).or_default().push(at),
                None => victims.push(Victim { at, why: Why::NoIndex }),
            }
        }
        for group in groups.into_values() {
            let mut ranked = if group.len() > 1 { rank(&group) } else { group };
            rest.extend(ranked.pop());
            victims.extend(ranked.into_iter().map(|at| Victim { at, why: Why::SameIndex }));
        }
    }
    if victims.len() < surplus {
        let more = rank(&rest).into_iter().take(surplus - victims.len());
        victims.extend(more.map(|at| Victim { at, why: Why::Surplus }));
    }
    victims
}

fn create(snapshot: &Snapshot, situation: &Situation, missing: usize) -> Manage {
    let (job, limits, now) = (&*snapshot.job, &snapshot.limits, snapshot.now);
    let count = missing.min(limits.pods);
    if job.backoff_limit_per_index.is_none() {
        let wait = situation.backoff.remaining(limits, now);
        if !wait.is_zero() {
            return Manage::Postpone { missing, wait: wait.max(limits.batch) };
        }
    }
    if !job.is_indexed() {
        return Manage::Create { pods: vec![NewPod::default(); count], missing, wait: None };
    }
    let mut taken: HashSet<u32> = situation.active_pods().filter_map(|c| c.pod.index).collect();
    if job.only_replaces_failed() {
        let going = situation.pods.iter().filter(|c| c.pod.is_terminating());
        taken.extend(going.filter_map(|c| c.pod.index));
    }
    let mut over = situation.completed.with(taken);
    if let Some(given_up) = &situation.given_up {
        over = over.union(given_up);
    }
    let (mut pods, mut wait) = (Vec::new(), None::<Duration>);
    for index in over.missing(job.indexes()) {
        if pods.len() == count {
            break;
        }
        if job.backoff_limit_per_index.is_none() {
            pods.push(NewPod { index: Some(index), failures: None });
            continue;
        }
        // An index that has to wait stands in nobody's way.
        let last = situation.kept.get(&index).map(|at| &situation.pods[*at]);
        let delay = last.map_or(Duration::ZERO, |last| {
            let failures = last.pod.failures_before().saturating_add(1);
            Record { failures, last: Some(last.finished) }.remaining(limits, now)
        });
        if delay.is_zero() {
            pods.push(NewPod { index: Some(index), failures: Some(inherited(job, last)) });
        } else {
            wait = Some(wait.map_or(delay, |known| known.min(delay)));
        }
    }
    let wait = wait.map(|wait| wait.max(limits.batch));
    match (pods.is_empty(), wait) {
        (true, None) => Manage::NoIndexLeft { missing },
        (true, Some(wait)) => Manage::Postpone { missing, wait },
        (false, wait) => Manage::Create { pods, missing, wait },
    }
}

/// The counters a Pod begins with: those of the Pod it replaces, and that one's failure.
fn inherited(job: &Job, last: Option<&Claimed>) -> Failures {
    let Some(Claimed { pod, .. }) = last else { return Failures::default() };
    let counted = is_counted(job, pod);
    Failures {
        counted: pod.failure_count.saturating_add(u32::from(counted)),
        ignored: pod.ignored_count.saturating_add(u32::from(!counted)),
    }
}

/// Where the sync stands after requests went like that.
pub fn managed(snapshot: &Snapshot, situation: &Situation, manage: &Manage, outcome: &PodWrites) -> Managed {
    let job = &*snapshot.job;
    let active = (situation.active.len() + outcome.created).saturating_sub(outcome.removed);
    let end = match manage {
        // Pods that are left, or that may appear yet, are Pods that may not be counted any more once the Job has ended.
        Manage::End(victims) | Manage::DeleteUncounted(victims) => {
            let clear = outcome.removed == victims.len() && snapshot.blocked.is_none();
            situation.end.clone().filter(|_| clear)
        }
        _ if situation.end.is_some() => None,
        _ => end::completes(job, situation, active).then(End::completions_reached),
    };
    Managed {
        active,
        ready: situation.ready.saturating_sub(outcome.removed_ready),
        terminating: situation.terminating + outcome.removed,
        spared: manage.spares_victims(),
        scaled: !matches!(
            manage,
            Manage::End(_) | Manage::DeleteUncounted(_) | Manage::NotAllowed(_) | Manage::Deleting
        ),
        end,
    }
}

/// Whether every request was granted and Pods are left for another sync, because one sync writes a limited number of them.
pub fn is_unfinished(snapshot: &Snapshot, manage: &Manage, writes: &PodWrites) -> bool {
    let most = snapshot.limits.pods;
    match manage {
        Manage::Create { pods, missing, .. } => {
            writes.created == pods.len() && pods.len() == most && *missing > pods.len()
        }
        Manage::Remove(victims) => writes.removed == victims.len() && victims.len() == most,
        _ => false,
    }
}

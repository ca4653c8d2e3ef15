//! Decides how many Pods to create, or which Pods to delete.

use std::{collections::BTreeMap, time::Duration};

use common::{map::HashSet, pods::sort_for_deletion};

use super::{end, failure::is_counted};
use crate::{
    jobs::{
        plan::{End, Failures, Manage, Managed, NewPod, OwnPod, PodWrites, Situation, Verdict, Victim, Why},
        snapshot::{Record, Snapshot},
    },
    objects::Job,
};

/// Decides which Pods to create or delete. One plan never does both.
///
/// Upstream: `pkg/controller/job`, `manageJob` and `deleteActivePods`.
pub fn manage(snapshot: &Snapshot, situation: &Situation) -> Manage {
    let job = &*snapshot.job;
    let all = |why: Why| situation.active.iter().map(|position| Victim { position: *position, why }).collect();
    match (&situation.decided_end, &snapshot.unseen_writes) {
        // A Pod that is active in a stale cache may have failed, and its failure would not be counted.
        (Some(end), Some(unseen)) if end.verdict == Verdict::Success && unseen.is_stale => {
            return Manage::NotAllowed(unseen.why.clone());
        }
        (Some(end), _) if end.verdict == Verdict::Success => return Manage::DeleteUncounted(all(Why::Ends)),
        (Some(_), _) => return Manage::DeleteAsFailed(all(Why::Ends)),
        (None, _) => {}
    }
    if job.metadata.is_deleting() {
        return Manage::Deleting;
    }
    if let Some(unseen) = &snapshot.unseen_writes {
        return Manage::NotAllowed(unseen.why.clone());
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
    let not_replaced = if job.only_replaces_failed() { situation.terminating } else { 0 };
    let missing = wanted.saturating_sub(active + not_replaced);
    match missing {
        0 => Manage::Nothing,
        _ if snapshot.terminating_namespace => Manage::NotAllowed("the namespace is terminating".to_owned()),
        _ => create(snapshot, situation, missing),
    }
}

/// Returns the wanted number of active Pods.
fn wanted(job: &Job, situation: &Situation) -> usize {
    let parallelism = job.parallelism as usize;
    match job.completions {
        Some(completions) => (completions as usize).saturating_sub(situation.succeeded).min(parallelism),
        None if situation.succeeded > 0 => situation.active.len(),
        None => parallelism,
    }
}

/// Selects the Pods to delete: every Pod with an invalid or duplicate index, and more Pods until there are at least `surplus`.
fn choose(job: &Job, situation: &Situation, surplus: usize) -> Vec<Victim> {
    let pod = |position: usize| &**situation.pods[position].pod;
    let rank = |group: &[usize]| {
        let pods: Vec<&common::pods::Pod> = group.iter().map(|position| pod(*position)).collect();
        sort_for_deletion(&pods).into_iter().map(|ranked| group[ranked]).collect::<Vec<usize>>()
    };
    let mut victims = Vec::new();
    let mut rest = situation.active.clone();
    if job.is_indexed() {
        let mut groups: BTreeMap<u32, Vec<usize>> = BTreeMap::new();
        for position in rest.drain(..) {
            match situation.pods[position].pod.index.filter(|index| *index < job.indexes()) {
                Some(index) => groups.entry(index).or_default().push(position),
                None => victims.push(Victim { position, why: Why::NoIndex }),
            }
        }
        for group in groups.into_values() {
            let mut ranked = if group.len() > 1 { rank(&group) } else { group };
            rest.extend(ranked.pop());
            victims.extend(ranked.into_iter().map(|position| Victim { position, why: Why::SameIndex }));
        }
    }
    if victims.len() < surplus {
        let more = rank(&rest).into_iter().take(surplus - victims.len());
        victims.extend(more.map(|position| Victim { position, why: Why::Surplus }));
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
    let mut taken: HashSet<u32> =
        situation.active.iter().filter_map(|position| situation.pods[*position].pod.index).collect();
    if job.only_replaces_failed() {
        let terminating = situation.pods.iter().filter(|own| own.pod.is_terminating());
        taken.extend(terminating.filter_map(|own| own.pod.index));
    }
    let mut unavailable = situation.completed.clone().with(taken);
    if let Some(failed) = &situation.failed_indexes {
        unavailable = unavailable.union(failed);
    }
    let (mut pods, mut wait) = (Vec::new(), None::<Duration>);
    for index in unavailable.missing(job.indexes()) {
        if pods.len() == count {
            break;
        }
        if job.backoff_limit_per_index.is_none() {
            pods.push(NewPod { index: Some(index), failures: None });
            continue;
        }
        // An index in back-off delays no other index.
        let last = situation.predecessors.get(&index).map(|position| &situation.pods[*position]);
        let delay = last.map_or(Duration::ZERO, |last| {
            let failures = last.pod.failures_before().saturating_add(1);
            Record { failures, last: Some(last.finished) }.remaining(limits, now)
        });
        if delay.is_zero() {
            pods.push(NewPod { index: Some(index), failures: Some(inherited(job, last)) });
        } else {
            wait = Some(wait.map_or(delay, |shortest| shortest.min(delay)));
        }
    }
    let wait = wait.map(|wait| wait.max(limits.batch));
    match (pods.is_empty(), wait) {
        (true, None) => Manage::NoIndexLeft { missing },
        (true, Some(wait)) => Manage::Postpone { missing, wait },
        (false, wait) => Manage::Create { pods, missing, wait },
    }
}

/// Returns the failure counters of a new Pod: the counters of the Pod that it replaces, plus the failure of that Pod.
fn inherited(job: &Job, last: Option<&OwnPod>) -> Failures {
    let Some(OwnPod { pod, .. }) = last else { return Failures::default() };
    let counted = is_counted(job, pod);
    Failures {
        counted: pod.failure_count.saturating_add(u32::from(counted)),
        ignored: pod.ignored_count.saturating_add(u32::from(!counted)),
    }
}

/// Returns the numbers of Pods after these writes, and the end of the Job if the status may announce it.
pub fn managed(snapshot: &Snapshot, situation: &Situation, manage: &Manage, writes: &PodWrites) -> Managed {
    let job = &*snapshot.job;
    let active = (situation.active.len() + writes.created).saturating_sub(writes.removed);
    let end_to_write = match manage {
        // Remaining Pods, and Pods that may still appear in the cache, would not be counted after the end of the Job.
        Manage::DeleteAsFailed(victims) | Manage::DeleteUncounted(victims) => {
            let clear = writes.removed == victims.len() && snapshot.unseen_writes.is_none();
            situation.decided_end.clone().filter(|_| clear)
        }
        _ if situation.decided_end.is_some() => None,
        _ => end::completes(job, situation, active).then(End::completions_reached),
    };
    Managed {
        active,
        ready: situation.ready.saturating_sub(writes.removed_ready),
        terminating: situation.terminating + writes.removed,
        end_to_write,
    }
}

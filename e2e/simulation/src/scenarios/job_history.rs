//! Recounts Jobs from what became of their Pods: the states each of them went through until it lost its finalizer.
//!
//! What a status says is the controller's own account. Here each Pod tells for itself what its Job must have counted, and
//! the account is compared with the sum. Only where something happened to a Pod while the controller was looking at it is
//! there more than one answer.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};

use common::clock::Instant;
use serde_json::Value;

use super::{
    job_reads::{
        CONTROLLER, JOBS, LISTS, MANAGED_BY, PODS, index, indexes, is_finished, is_ignored, is_indexed, is_tracked,
        named, only_replaces_failed, untracks,
    },
    rules,
};
use crate::{
    json::{controller_uid, has_finished, is_deleting, is_true, name, number, selects, text, uid},
    world::{Logged, World},
};

/// By how much less than it may a controller is behind the truth when it takes a finalizer away: it has looked at the Pod
/// in the same sync, and a Pod brings its Job after a second at the earliest.
const AT_ONCE: Duration = Duration::from_millis(1200);

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Fate {
    Success,
    Failure,
    Index(i64),
    Nothing,
}

/// What a Pod in that state adds to a Job in that state when its finalizer goes.
fn fate(job: &Value, pod: &Value) -> Fate {
    let (phase, index) = (text(pod, "/status/phase"), index(job, pod));
    if is_indexed(job) && index.is_none() {
        return Fate::Nothing;
    }
    if phase == "Succeeded" {
        return match index.filter(|_| is_indexed(job)) {
            // An index that was given up stays so.
            Some(index) if indexes(job, "failedIndexes").contains(&index) => Fate::Nothing,
            Some(index) => Fate::Index(index),
            None => Fate::Success,
        };
    }
    let goes = is_deleting(pod) && !only_replaces_failed(job);
    // Whoever still runs when a Job fails has failed with it.
    if !goes && phase != "Failed" && !is_true(job, "FailureTarget") || is_ignored(job, pod) {
        return Fate::Nothing;
    }
    Fate::Failure
}

/// One Job and its Pods, as the log tells of them.
#[derive(Default)]
struct History {
    job: Option<Arc<Value>>,
    pods: BTreeMap<String, Vec<(Instant, Arc<Value>)>>,
    /// When the status first named a Pod, and the Job as it was then.
    named: BTreeMap<String, (Instant, Arc<Value>)>,
    /// The Pods from which somebody else took the finalizer, as they were.
    taken: BTreeMap<String, Arc<Value>>,
    /// What became of those that have lost their finalizer.
    fates: BTreeMap<String, BTreeSet<Fate>>,
}

impl History {
    fn of(world: &World, job: &Value) -> Self {
        let mut this = Self::default();
        let window = world.lag().saturating_sub(AT_ONCE);
        for logged in world.log() {
            match logged.resource().as_str() {
                JOBS => this.on_job(uid(job), logged),
                PODS => this.on_pod(uid(job), logged, window),
                _ => {}
            }
        }
        this
    }

    fn on_job(&mut self, job: &str, logged: &Logged) {
        let Some(after) = logged.after().filter(|after| uid(after) == job) else { return };
        for pod in LISTS.into_iter().flat_map(|list| named(&after, list)) {
            self.named.entry(pod.to_owned()).or_insert_with(|| (logged.at, Arc::clone(&after)));
            if let Some(taken) = self.taken.get(pod) {
                // Its Job did not know, and counts it as what it seemed to be.
                self.fates.entry(pod.to_owned()).or_default().insert(fate(&after, taken));
            }
        }
        // An index that there is no more is forgotten, and runs again should there be one again.
        let wanted = number(&after, "/spec/completions");
        for fates in self.fates.values_mut() {
            if fates.iter().any(|fate| matches!(fate, Fate::Index(index) if *index >= wanted)) {
                fates.insert(Fate::Nothing);
            }
        }
        self.job = Some(after);
    }

    fn on_pod(&mut self, job: &str, logged: &Logged, window: Duration) {
        let (before, after) = (logged.before(), logged.after());
        let mine = |pod: &Value| controller_uid(pod) == job && is_tracked(pod);
        if let Some(before) = before.filter(|pod| mine(pod))
            && !after.as_deref().is_some_and(mine)
        {
            let released = after.as_deref().is_some_and(|pod| controller_uid(pod) != job);
            self.lets_go(&before, logged, released, window);
            if !logged.by(CONTROLLER) {
                self.taken.insert(uid(&before).to_owned(), before);
            }
        }
        if let Some(pod) = after {
            self.pods.entry(uid(&pod).to_owned()).or_default().push((logged.at, pod));
        }
    }

    /// A Pod loses its finalizer, or its Job.
    fn lets_go(&mut self, pod: &Value, logged: &Logged, released: bool, window: Duration) {
        let Some(job) = self.job.as_deref() else { return };
        let named = self.named.get(uid(pod));
        let known = named.map_or(logged.at, |(at, _)| *at).min(logged.at);
        // A Pod that is named counts as what it was for the Job of that time, which may have lost an index since.
        let judged = named.map_or(job, |(_, then)| &**then);
        let since = known.checked_sub(window).unwrap_or(known);
        let states = self.pods.get(uid(pod)).map_or(&[][..], Vec::as_slice);
        let first = states.partition_point(|(at, _)| *at <= since).saturating_sub(1);
        let fates = self.fates.entry(uid(pod).to_owned()).or_default();
        fates.extend(states[first..].iter().map(|(_, state)| fate(judged, state)));
        // What somebody else takes away nobody need have seen; what is not the Job's any more it does not count.
        if released || !selects(job, "/spec/selector", pod) || is_finished(job) || !logged.by(CONTROLLER) {
            fates.insert(Fate::Nothing);
        }
    }

    /// How many Pods have met that fate for certain, and how many may have.
    fn count(&self, fate: Fate) -> (i64, i64) {
        let certain = self.fates.values().filter(|fates| fates.len() == 1 && fates.contains(&fate)).count();
        let possible = self.fates.values().filter(|fates| fates.contains(&fate)).count();
        (certain as i64, possible as i64)
    }

    /// The indexes that a Pod has completed for certain, and those that one may have completed.
    fn done(&self) -> (BTreeSet<i64>, BTreeSet<i64>) {
        let index = |fate: &Fate| if let Fate::Index(index) = fate { Some(*index) } else { None };
        let certain = self.fates.values().filter(|fates| fates.len() == 1).flatten().filter_map(index).collect();
        (certain, self.fates.values().flatten().filter_map(index).collect())
    }
}

/// Each Pod that has lost its finalizer is in the counts as what it was by then, and nothing else is.
pub(super) fn counts_what_became_of_pods(world: &World) -> Option<String> {
    for job in world.list(JOBS).filter(|job| text(job, MANAGED_BY).is_empty() && !is_deleting(job)) {
        let (history, who) = (History::of(world, job), name(job));
        let told = || format!("{:?}", history.fates);
        for (counter, fate) in [("succeeded", Fate::Success), ("failed", Fate::Failure)] {
            if fate == Fate::Success && is_indexed(job) {
                continue;
            }
            let (says, (least, most)) = (number(job, &format!("/status/{counter}")), history.count(fate));
            if !(least..=most).contains(&says) {
                let told = told();
                return Some(format!("{who} says that {says} Pods have {counter}, and {least} to {most} have: {told}"));
            }
        }
        let (says, (certain, possible)) = (indexes(job, "completedIndexes"), history.done());
        let given_up = indexes(job, "failedIndexes");
        let lost = certain.iter().find(|index| !says.contains(index) && !given_up.contains(index));
        if let Some(index) = lost.or_else(|| says.difference(&possible).next()).filter(|_| is_indexed(job)) {
            return Some(format!("{who} says that {says:?} are complete, and {index} is another: {}", told()));
        }
    }
    None
}

/// What each status says in the end is what was counted, and everything that ended was.
pub(super) fn counts_are_the_truth(world: &World) -> Option<String> {
    for job in world.list(JOBS).filter(|job| text(job, MANAGED_BY).is_empty()) {
        let (mut counters, who) = (BTreeMap::new(), name(job));
        for (before, after) in world
            .log()
            .iter()
            .filter_map(|logged| rules::JOBS.status(logged))
            .filter(|(_, after)| uid(after) == uid(job))
        {
            for list in LISTS {
                let left = named(&before, list).difference(&named(&after, list)).count() as i64;
                *counters.entry(list).or_insert(0) += left;
            }
        }
        if is_indexed(job) {
            let done: BTreeSet<i64> = indexes(job, "completedIndexes");
            // Who was released afterwards has succeeded all the same.
            let controlled = |state: &Value| controller_uid(state) == uid(job);
            let states = world.log().iter().filter(|logged| logged.resource() == PODS).filter_map(Logged::after);
            let ever: BTreeSet<String> = states.filter(|s| controlled(s)).map(|s| uid(&s).to_owned()).collect();
            let succeeded = |i: &&i64| {
                world
                    .ever()
                    .filter(|((resource, _, _), pod, _)| resource == PODS && ever.contains(uid(pod)))
                    .any(|(_, pod, _)| index(job, pod) == Some(**i) && text(pod, "/status/phase") == "Succeeded")
            };
            counters.insert("succeeded", done.iter().filter(succeeded).count() as i64);
        }
        for list in LISTS {
            let says = number(job, &format!("/status/{list}"));
            if counters.get(list) != Some(&says) && (says != 0 || counters.contains_key(list)) {
                return Some(format!("{who} says that {says} Pods have {list}, and it is {counters:?}"));
            }
        }
    }
    None
}

/// The Pods that have ended untracked: the controller removed their finalizer in order to delete them while they were running,
/// and they ended before they could be deleted.
///
/// Nothing counts them, and the Job does their work again.
pub(crate) fn pods_ended_untracked(world: &World) -> BTreeSet<&str> {
    let stripped = world.log().iter().filter_map(untracks).filter(|pod| !has_finished(pod));
    let stripped: BTreeSet<String> = stripped.map(|pod| uid(&pod).to_owned()).collect();
    world.list(PODS).filter(|pod| has_finished(pod)).map(|pod| uid(pod)).filter(|uid| stripped.contains(*uid)).collect()
}

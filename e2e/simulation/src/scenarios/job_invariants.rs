//! What always holds of Jobs and their Pods, and what holds in the end, read off the API server's true state.
//!
//! Counting is checked against the Pods themselves: what a status says of a Pod must be true of that Pod, each Pod is said
//! only once to have ended, and none loses its finalizer before that.

use std::{sync::Arc, time::Duration};

use serde_json::Value;

use super::{
    job_history,
    job_reads::{
        CONTROLLER, ENDS, INDEX, INDEX_FAILURES, JOBS, LEDGER, LISTS, MANAGED_BY, PODS, SHORT, active, all_pods,
        counted, index, indexes, is_active, is_decided, is_finished, is_ignored, is_indexed, is_suspended, is_tracked,
        named, only_replaces_failed, recent_pods, untracks,
    },
    rules,
};
use crate::{
    json::{
        annotation, at, condition, controller, controller_uid, has_finished, is_deleting, is_true, name, number,
        selects, text, uid,
    },
    scenario::{Invariant, Promise},
    stage::NAMESPACE,
    world::{Logged, World},
};

pub(super) const INVARIANTS: &[Invariant] = &[
    Invariant { name: "counts-each-pod-once", claims: "JOB-40, JOB-41, JOB-75", check: counts_each_pod_once },
    Invariant {
        name: "counts-what-happened",
        claims: "JOB-29, JOB-32, JOB-42, JOB-43, JOB-54, JOB-95",
        check: counts_what_happened,
    },
    Invariant { name: "finalizers-go-last", claims: "JOB-21, JOB-40", check: finalizers_go_last },
    Invariant { name: "finalizers-go-before-it-counts", claims: "JOB-40", check: finalizers_go_before_it_counts },
    Invariant { name: "lists-are-sound", claims: "JOB-44, JOB-71, JOB-72, JOB-75", check: lists_are_sound },
    Invariant { name: "the-end-is-announced", claims: "JOB-53", check: the_end_is_announced },
    Invariant { name: "the-end-is-final", claims: "JOB-52, JOB-58, JOB-93", check: the_end_is_final },
    Invariant { name: "creates-only-for-the-running", claims: "JOB-14, JOB-91", check: creates_only_for_the_running },
    Invariant { name: "creates-what-is-wanted", claims: "JOB-15, JOB-17", check: creates_what_is_wanted },
    Invariant { name: "one-pod-an-index", claims: "JOB-25, JOB-27", check: one_pod_an_index },
    Invariant { name: "pods-are-born-tracked", claims: "JOB-23, JOB-25", check: pods_are_born_tracked },
    Invariant { name: "deletes-for-a-reason", claims: "JOB-28, JOB-54, JOB-56, JOB-92", check: deletes_for_a_reason },
    Invariant { name: "foreign-jobs-are-untouched", claims: "JOB-5", check: foreign_jobs_are_untouched },
    Invariant {
        name: "foreign-pods-are-untouched",
        claims: "JOB-11, JOB-12, JOB-61",
        check: foreign_pods_are_untouched,
    },
    Invariant { name: "removed-in-time", claims: "JOB-62", check: removed_in_time },
];

/// Where [`SHORT`] is how many Pods one status names.
pub(super) const SHORT_LISTS: &[Invariant] =
    &[Invariant { name: "lists-are-short", claims: "JOB-44", check: lists_are_short }];

pub(super) const PROMISES: &[Promise] = &[
    Promise { name: "jobs-get-there", claims: "JOB-15, JOB-40, JOB-53, JOB-54, JOB-56", check: jobs_get_there },
    Promise { name: "counts-are-the-truth", claims: "JOB-41", check: job_history::counts_are_the_truth },
    Promise {
        name: "counts-what-became-of-pods",
        claims: "JOB-41, JOB-43, JOB-47",
        check: job_history::counts_what_became_of_pods,
    },
    Promise { name: "no-finalizer-is-left", claims: "JOB-14, JOB-61", check: no_finalizer_is_left },
];

fn counts_each_pod_once(world: &World, logged: &Logged) -> Option<String> {
    let (before, after) = rules::JOBS.status(logged)?;
    let (counted, who) = (counted(world, &after), name(&after));
    for list in LISTS {
        let (old, new) = (named(&before, list), named(&after, list));
        let other = LISTS.into_iter().find(|l| *l != list).map(|l| named(&after, l)).unwrap_or_default();
        for uid in old.union(&new) {
            if let Some(to) = counted.get(*uid) {
                return Some(format!("{who}: Pod {uid} was counted as {to} and is counted again"));
            }
        }
        let left: Vec<&&str> = old.difference(&new).collect();
        if let Some(uid) = left.iter().find(|uid| other.contains(**uid)) {
            return Some(format!("{who}: Pod {uid} is counted as {list} and named as the opposite"));
        }
        if list == "succeeded" && is_indexed(&after) {
            continue;
        }
        let pointer = format!("/status/{list}");
        let (was, is) = (number(&before, &pointer), number(&after, &pointer));
        if is - was != left.len() as i64 {
            return Some(format!("{who}: {} Pods were counted as {list}, which goes from {was} to {is}", left.len()));
        }
    }
    let done = indexes(&after, "completedIndexes").len() as i64;
    (is_indexed(&after) && number(&after, "/status/succeeded") != done)
        .then(|| format!("{who}: {done} indexes are complete and {} have succeeded", after["status"]["succeeded"]))
}

/// What a status says for the first time is true of the Pods it is about.
fn counts_what_happened(world: &World, logged: &Logged) -> Option<String> {
    let (before, job) = rules::JOBS.status(logged)?;
    let (who, indexed) = (name(&job), is_indexed(&job));
    for list in LISTS {
        for uid in named(&job, list).difference(&named(&before, list)) {
            let Some(pod) = world.by_uid(PODS, uid) else { return Some(format!("{who}: there never was a Pod {uid}")) };
            let phase = text(pod, "/status/phase");
            let true_of_it = match list {
                "succeeded" => phase == "Succeeded",
                // Whoever still runs when a Job fails has failed with it.
                _ => phase == "Failed" || is_true(&job, "FailureTarget") || goes(world, &job, pod),
            };
            let mine = recent_pods(world, pod).any(|pod| controller_uid(pod) == self::uid(&job) && is_tracked(pod));
            let indexed_so = !indexed || (list == "failed" && index(&job, pod).is_some());
            if !true_of_it || !mine || !indexed_so {
                let going = if is_deleting(pod) { ", going" } else { "" };
                return Some(format!("{who}: Pod {} ({phase}{going}) is named as {list}", name(pod)));
            }
        }
    }
    let of = |i: i64| all_pods(world, &job).filter(move |pod| annotation(pod, INDEX) == i.to_string());
    for i in indexes(&job, "completedIndexes").difference(&indexes(&before, "completedIndexes")) {
        if !of(*i).any(|pod| text(pod, "/status/phase") == "Succeeded") {
            return Some(format!("{who}: no Pod of index {i} has succeeded"));
        }
    }
    for i in indexes(&job, "failedIndexes").difference(&indexes(&before, "failedIndexes")) {
        let (limit, policy) = (number(&job, "/spec/backoffLimitPerIndex"), at(&job, "/spec/podFailurePolicy"));
        let enough =
            |pod: &&Arc<Value>| policy.is_some() || annotation(pod, INDEX_FAILURES).parse().unwrap_or(0) >= limit;
        let fails = |pod: &Arc<Value>| text(pod, "/status/phase") == "Failed" || goes(world, &job, pod);
        if !of(*i).filter(enough).any(|pod| fails(pod) && !is_deleted_unfinished_by_controller(world, pod)) {
            return Some(format!("{who}: no Pod of index {i} has failed so often"));
        }
    }
    None
}

/// Whether the controller has deleted a Pod that had not finished. Such a Pod fails no index.
fn is_deleted_unfinished_by_controller(world: &World, pod: &Value) -> bool {
    world.log().iter().any(|logged| {
        let before = logged.before().filter(|before| uid(before) == uid(pod) && logged.deletes());
        before.is_some_and(|before| logged.by(CONTROLLER) && !has_finished(&before) && !is_deleting(&before))
    })
}

/// Whether a Pod is going and counts as failed because of that.
fn goes(world: &World, job: &Value, pod: &Value) -> bool {
    let replaces_all = rules::JOBS.recent(world, job).any(|job| !only_replaces_failed(job));
    replaces_all && is_deleting(pod)
}

/// A Pod that is over, or goes and counts as failed, loses its finalizer once the status names it, or if it does not count.
fn finalizers_go_last(world: &World, logged: &Logged) -> Option<String> {
    let pod = untracks(logged)?;
    let job = rules::JOBS.owner(world, &pod)?;
    let now = world.get(JOBS, NAMESPACE, name(job)).filter(|now| uid(now) == uid(job))?;
    if is_deleting(now) || is_finished(now) {
        return None;
    }
    let phase = text(&pod, "/status/phase");
    let (succeeded, failed) = (phase == "Succeeded", phase == "Failed");
    let index = index(now, &pod);
    let is_named = LISTS.iter().any(|list| named(now, list).contains(uid(&pod)))
        || counted(world, now).contains_key(uid(&pod))
        || (succeeded && index.is_some_and(|i| indexes(now, "completedIndexes").contains(&i)));
    // The write names the version of the Pod that was judged: it is of this state and of no earlier one.
    let counts_not = (is_indexed(now) && index.is_none())
        // An index that was given up stays so.
        || (succeeded && index.is_some_and(|i| indexes(now, "failedIndexes").contains(&i)))
        || (failed && is_ignored(now, &pod))
        || !selects(now, "/spec/selector", &pod);
    // One that does not count goes uncounted if it is too many, is not to run, or is not needed.
    let counts = has_finished(&pod) || (is_deleting(&pod) && !only_replaces_failed(now));
    let needless = || is_spared(world, now) || surplus(world, now, &pod).is_some();
    if is_named || counts_not || (!counts && needless()) {
        return None;
    }
    let going = if is_deleting(&pod) { ", going" } else { "" };
    Some(format!("Pod {} ({phase}{going}) loses its finalizer and nobody has named it", name(&pod)))
}

/// Whether the Job has succeeded, or may have, so that whoever runs is not needed.
fn is_spared(world: &World, job: &Value) -> bool {
    let succeeded = |pod: &Arc<Value>| text(pod, "/status/phase") == "Succeeded";
    let policy = at(job, "/spec/successPolicy").is_some() && !is_true(job, "FailureTarget");
    // A Pod that was counted may have been released since.
    let any = || !indexes(job, "completedIndexes").is_empty() || all_pods(world, job).any(succeeded);
    is_true(job, "SuccessCriteriaMet") || (policy && any())
}

/// What is counted cannot be taken back: the finalizer is gone by then.
fn finalizers_go_before_it_counts(world: &World, logged: &Logged) -> Option<String> {
    let (before, after) = rules::JOBS.status(logged)?;
    for list in LISTS {
        for uid in named(&before, list).difference(&named(&after, list)) {
            if let Some(pod) = world.list(PODS).find(|pod| self::uid(pod) == *uid && is_tracked(pod)) {
                return Some(format!("{}: Pod {} is counted and has its finalizer", name(&after), name(pod)));
            }
        }
    }
    None
}

fn lists_are_sound(_: &World, logged: &Logged) -> Option<String> {
    let (_, job) = rules::JOBS.status(logged)?;
    let (succeeded, failed) = (named(&job, "succeeded"), named(&job, "failed"));
    if let Some(both) = succeeded.intersection(&failed).next() {
        return Some(format!("{}: Pod {both} is named as both", name(&job)));
    }
    if let Some(both) = indexes(&job, "completedIndexes").intersection(&indexes(&job, "failedIndexes")).next() {
        return Some(format!("{}: index {both} is complete and has failed", name(&job)));
    }
    let (ready, active) = (number(&job, "/status/ready"), number(&job, "/status/active"));
    (succeeded.len() + failed.len() > LEDGER || ready > active)
        .then(|| format!("{}: {ready} of {active} ready, {} named", name(&job), succeeded.len() + failed.len()))
}

fn lists_are_short(_: &World, logged: &Logged) -> Option<String> {
    let (_, job) = rules::JOBS.status(logged)?;
    let names: usize = LISTS.iter().map(|list| named(&job, list).len()).sum();
    (names > SHORT).then(|| format!("{} names {names} Pods", name(&job)))
}

fn the_end_is_announced(_: &World, logged: &Logged) -> Option<String> {
    let (before, job) = rules::JOBS.status(logged)?;
    for (interim, terminal) in ENDS {
        if !is_true(&job, terminal) || is_true(&before, terminal) {
            continue;
        }
        if !is_true(&before, interim) {
            return Some(format!("{} is {terminal} and was not {interim} before", name(&job)));
        }
        let left = LISTS.iter().map(|list| named(&job, list).len() as i64).sum::<i64>();
        let (active, terminating) = (number(&job, "/status/active"), number(&job, "/status/terminating"));
        if left + active + terminating > 0 {
            return Some(format!(
                "{} is {terminal} with {left} named, {active} active, {terminating} terminating",
                name(&job)
            ));
        }
    }
    None
}

fn the_end_is_final(_: &World, logged: &Logged) -> Option<String> {
    let (before, after) = rules::JOBS.status(logged)?;
    for kind in ENDS.iter().flat_map(|(interim, terminal)| [interim, terminal]) {
        let same = ["status", "reason", "message", "lastTransitionTime"]
            .iter()
            .all(|field| condition(&before, kind, field) == condition(&after, kind, field));
        if is_true(&before, kind) && !same {
            return Some(format!("{}: condition {kind} was true and is changed", name(&after)));
        }
    }
    if is_finished(&before) && before["status"] != after["status"] {
        return Some(format!("{} has finished and its status is changed", name(&after)));
    }
    let completion = |job: &Value| text(job, "/status/completionTime").to_owned();
    (completion(&after).is_empty() == is_true(&after, "Complete"))
        .then(|| format!("{}: completionTime is {:?}", name(&after), completion(&after)))
}

fn creates_only_for_the_running(world: &World, logged: &Logged) -> Option<String> {
    let (pod, job) = rules::JOBS.created(world, logged)?;
    let runs = |job: &Arc<Value>| !is_suspended(job) && !is_deleting(job) && !is_decided(job) && !is_finished(job);
    (!rules::JOBS.recent(world, job).any(runs))
        .then(|| format!("Pod {} is created, and Job {} is suspended, going, over, or gone", name(&pod), name(job)))
}

fn creates_what_is_wanted(world: &World, logged: &Logged) -> Option<String> {
    let (_, job) = rules::JOBS.created(world, logged)?;
    let (active, given) = active(world, job);
    let active = active.len() as i64 - given;
    let most = |pointer: &str| rules::JOBS.recent(world, job).map(|job| number(job, pointer)).max().unwrap_or(0);
    let parallelism = most("/spec/parallelism");
    if active > parallelism {
        return Some(format!("{} gets active Pod number {active} and wants {parallelism} at once", name(job)));
    }
    let going =
        rules::JOBS.dependents_of(world, job).filter(|pod| is_deleting(pod) && !has_finished(pod)).count() as i64;
    if rules::JOBS.recent(world, job).all(|job| only_replaces_failed(job)) && active + going > parallelism {
        return Some(format!("{} has {active} active and {going} going, and wants {parallelism}", name(job)));
    }
    // Who has succeeded long ago is known to have.
    let done = |pod: &&Arc<Value>| recent_pods(world, pod).all(|pod| text(pod, "/status/phase") == "Succeeded");
    // Who was not to run any more when the finalizer went is not counted, however it ended.
    let counted = counted(world, job);
    let counts = |pod: &&Arc<Value>| is_tracked(pod) || counted.contains_key(uid(pod));
    let selected = rules::JOBS.dependents_of(world, job).filter(|pod| selects(job, "/spec/selector", pod));
    let done = selected.filter(counts).filter(done).count() as i64;
    let completions = most("/spec/completions");
    (at(job, "/spec/completions").is_some() && !is_indexed(job) && active + done > completions)
        .then(|| format!("{} has {active} active and {done} succeeded, and wants {completions}", name(job)))
}

fn one_pod_an_index(world: &World, logged: &Logged) -> Option<String> {
    let (pod, job) = rules::JOBS.created(world, logged).filter(|(_, job)| is_indexed(job))?;
    let most = |pointer: &str| rules::JOBS.recent(world, job).map(|job| number(job, pointer)).max().unwrap_or(0);
    let Ok(index) = annotation(&pod, INDEX).parse::<i64>() else {
        return Some(format!("Pod {} is created without an index", name(&pod)));
    };
    if index >= most("/spec/completions") {
        return Some(format!("Pod {} is created for index {index}, and there is none", name(&pod)));
    }
    let of = |pod: &Value, i: i64| annotation(pod, INDEX) == i.to_string();
    let (active, _) = active(world, job);
    let double = active.iter().find(|other| of(other, index) && uid(other) != uid(&pod));
    // One that somebody else has given to the Job lately may be unknown.
    let known = |other: &Arc<Value>| recent_pods(world, other).all(|state| controller_uid(state) == uid(job));
    if let Some(other) = double.filter(|other| known(other)) {
        return Some(format!("Pod {} is created for index {index}, which has Pod {}", name(&pod), name(other)));
    }
    let over = |i: i64| {
        let in_all = |field| rules::JOBS.recent(world, job).all(|job| indexes(job, field).contains(&i));
        in_all("completedIndexes") || in_all("failedIndexes")
    };
    if over(index) {
        return Some(format!("Pod {} is created for index {index}, which is over", name(&pod)));
    }
    if at(job, "/spec/backoffLimitPerIndex").is_some() {
        return None;
    }
    // Those of one batch come in any order.
    let ended = |i: i64| rules::JOBS.dependents_of(world, job).any(|pod| of(pod, i) && !is_active(pod));
    let pending = |i: &i64| !over(*i) && !ended(*i) && !active.iter().any(|pod| of(pod, *i));
    let before = (0..index).filter(pending).count() as i64;
    (before >= most("/spec/parallelism"))
        .then(|| format!("Pod {} is created for index {index}, and {before} lower ones have none", name(&pod)))
}

fn pods_are_born_tracked(world: &World, logged: &Logged) -> Option<String> {
    let pod = logged.after().filter(|_| rules::JOBS.writes(logged) && logged.creates())?;
    let Some(job) = rules::JOBS.owner(world, &pod) else {
        return Some(format!("Pod {} is created for no Job", name(&pod)));
    };
    if !is_tracked(&pod) || !selects(job, "/spec/selector", &pod) {
        return Some(format!("Pod {} is created without finalizer or labels", name(&pod)));
    }
    let index = annotation(&pod, INDEX);
    let label = at(&pod, "/metadata/labels").and_then(|labels| labels.get(INDEX)).and_then(Value::as_str);
    let hostname = text(&pod, "/spec/hostname");
    (is_indexed(job) && (label != Some(index) || hostname != format!("{}-{index}", name(job))))
        .then(|| format!("Pod {} of index {index} has label {label:?} and hostname {hostname}", name(&pod)))
}

/// Why an active Pod of a running Job may go uncounted, if it may.
fn surplus(world: &World, job: &Value, pod: &Value) -> Option<&'static str> {
    if rules::JOBS.recent(world, job).any(|job| is_suspended(job)) {
        return Some("suspended");
    }
    let least = |pointer: &str| rules::JOBS.recent(world, job).map(|job| number(job, pointer)).min().unwrap_or(0);
    let (active, _) = active(world, job);
    // Every one that was active lately may be taken to be so, also if it is gone.
    let was_active = |pod: &&Arc<Value>| recent_pods(world, pod).any(|pod| is_active(pod));
    let known = || world.list_recent(PODS).filter(|pod| controller_uid(pod) == uid(job)).filter(was_active);
    let most = known().count().max(active.len()) as i64;
    let done = world.ever().filter(|((resource, _, _), pod, _)| resource == PODS && controller_uid(pod) == uid(job));
    let done = done.filter(|(_, pod, _)| text(pod, "/status/phase") == "Succeeded").count() as i64;
    let wanted = match at(job, "/spec/completions") {
        Some(_) => least("/spec/parallelism").min((least("/spec/completions") - done).max(0)),
        None => least("/spec/parallelism"),
    };
    if most > wanted {
        return Some("too many");
    }
    if is_indexed(job) {
        let index = annotation(pod, INDEX);
        let valid = index.parse().is_ok_and(|i: i64| i < least("/spec/completions"));
        let same = known().filter(|other| annotation(other, INDEX) == index).count();
        if !valid || same > 1 {
            return Some("wrong index");
        }
    }
    None
}

/// Why a Job may be ending, if it may.
fn ends(world: &World, job: &Value) -> Option<&'static str> {
    if rules::JOBS.recent(world, job).any(|job| is_decided(job)) {
        return Some("decided");
    }
    let failed = all_pods(world, job).filter(|pod| text(pod, "/status/phase") == "Failed" || goes(world, job, pod));
    let failed: Vec<&Arc<Value>> = failed.collect();
    if failed.len() as i64 > number(job, "/spec/backoffLimit") {
        return Some("too many failures");
    }
    if at(job, "/spec/podFailurePolicy").is_some() && !failed.is_empty() {
        return Some("failure policy");
    }
    if at(job, "/spec/backoffLimitPerIndex").is_some() && !failed.is_empty() {
        return Some("failed indexes");
    }
    let succeeded = !indexes(job, "completedIndexes").is_empty()
        || all_pods(world, job).any(|pod| text(pod, "/status/phase") == "Succeeded");
    if at(job, "/spec/successPolicy").is_some() && succeeded {
        return Some("success policy");
    }
    let deadline = at(job, "/spec/activeDeadlineSeconds").and_then(Value::as_u64).map(Duration::from_secs)?;
    let started = world.log().iter().find(|logged| {
        logged.resource() == JOBS
            && logged.after().is_some_and(|j| uid(&j) == uid(job) && !text(&j, "/status/startTime").is_empty())
    })?;
    // The time it says it started at is that of the decision.
    (world.now() - started.at + world.skew() + world.lag() >= deadline).then_some("too late")
}

fn deletes_for_a_reason(world: &World, logged: &Logged) -> Option<String> {
    // Whoever goes already goes.
    let pod = logged.deleted(CONTROLLER, PODS).filter(|pod| !is_deleting(pod))?;
    // The deletion names the version of the Pod that was judged.
    let Some(job) = rules::JOBS.owner(world, &pod) else {
        return Some(format!("Pod {} is deleted and is no Job's", name(&pod)));
    };
    let present = rules::JOBS.recent(world, job).any(|job| !is_deleting(job) && !is_finished(job));
    (!present || (surplus(world, job, &pod).is_none() && ends(world, job).is_none()))
        .then(|| format!("Pod {} of Job {} is deleted for no reason", name(&pod), name(job)))
}

fn foreign_jobs_are_untouched(world: &World, logged: &Logged) -> Option<String> {
    let object = logged.before().or_else(|| logged.after()).filter(|_| logged.by(CONTROLLER))?;
    let job = match logged.resource().as_str() {
        // Removing a finished one is not managing it.
        JOBS if !logged.deletes() => Some(&object),
        PODS => rules::JOBS.owner(world, &object),
        _ => None,
    };
    job.filter(|job| !text(job, MANAGED_BY).is_empty())
        .map(|job| format!("Job {} is another's, and {} is written", name(job), name(&object)))
}

fn foreign_pods_are_untouched(world: &World, logged: &Logged) -> Option<String> {
    let pod = logged.before().filter(|_| rules::JOBS.writes(logged))?;
    if controller(&pod).is_some_and(|owner| owner["kind"] != "Job") {
        return Some(format!("Pod {} is another controller's", name(&pod)));
    }
    let after = logged.after().filter(|after| controller_uid(after) != controller_uid(&pod))?;
    if controller(&after).is_none() {
        // Released: it does not have the labels any more.
        let job = rules::JOBS.owner(world, &pod).filter(|job| selects(job, "/spec/selector", &pod))?;
        return Some(format!("Pod {} is released by {}, which selects it", name(&pod), name(job)));
    }
    if controller(&pod).is_some() {
        return Some(format!("Pod {} is taken away from its Job", name(&pod)));
    }
    rules::JOBS.only_the_living_adopt(world, logged)
}

fn removed_in_time(world: &World, logged: &Logged) -> Option<String> {
    let job = logged.deleted(CONTROLLER, JOBS)?;
    let ends = |logged: &&Logged| {
        logged.resource() == JOBS && logged.after().is_some_and(|j| uid(&j) == uid(&job) && is_finished(&j))
    };
    let ended = world.log().iter().find(ends).map(|logged| logged.at);
    let ttl = at(&job, "/spec/ttlSecondsAfterFinished").and_then(Value::as_u64).map(Duration::from_secs);
    match (ended, ttl) {
        (Some(ended), Some(ttl)) if world.now() - ended + world.skew() + world.lag() >= ttl => None,
        _ => Some(format!("{} is removed: it ended at {ended:?} and is to stay for {ttl:?}", name(&job))),
    }
}

/// A Job that is left alone has ended, or is suspended, or has the Pods it wants; and says so.
fn jobs_get_there(world: &World) -> Option<String> {
    for job in world.list(JOBS).filter(|job| text(job, MANAGED_BY).is_empty()) {
        let wrong = |what: String| Some(format!("Job {}: {what}", name(job)));
        if is_deleting(job) {
            return wrong("it is still being deleted".to_owned());
        }
        let active = rules::JOBS.dependents_of(world, job).filter(|pod| is_active(pod)).count() as i64;
        let says = number(job, "/status/active");
        if says != active {
            return wrong(format!("{active} Pods are active, and it says {says}"));
        }
        if LISTS.iter().any(|list| !named(job, list).is_empty()) || number(job, "/status/terminating") != 0 {
            return wrong(format!("not everything is counted: {}", job["status"]));
        }
        let wanted = number(job, "/spec/parallelism");
        if !is_finished(job) && if is_suspended(job) { active > 0 } else { active != wanted } {
            return wrong(format!("it has not ended and has {active} Pods of {wanted}"));
        }
        if is_finished(job) != is_decided(job) || (is_finished(job) && active > 0) {
            return wrong(format!("it is over and is not: {}", job["status"]));
        }
    }
    None
}

fn no_finalizer_is_left(world: &World) -> Option<String> {
    for pod in world.list(PODS).filter(|pod| is_tracked(pod)) {
        let job = world.list(JOBS).find(|job| uid(job) == controller_uid(pod));
        let counts = job.is_some_and(|job| !text(job, MANAGED_BY).is_empty() || (!is_finished(job) && is_active(pod)));
        if !counts {
            return Some(format!("Pod {} ({}) has its finalizer for ever", name(pod), text(pod, "/status/phase")));
        }
    }
    None
}

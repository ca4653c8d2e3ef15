//! What is read off Jobs, their Pods and the writes to them, for [`super::job_invariants`].

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use serde_json::{Value, json};

use super::rules;
use crate::{
    json::{
        annotation, at, controller_uid, has_finalizer, has_finished, is_deleting, is_true, items, name, number, text,
        uid,
    },
    stage::NAMESPACE,
    world::{Logged, World},
};

pub(super) const CONTROLLER: &str = rules::JOBS.controller;
pub(super) const JOBS: &str = rules::JOBS.owners;
pub(super) const PODS: &str = "pods";
pub(super) const FINALIZER: &str = "batch.kubernetes.io/job-tracking";
pub(super) const INDEX: &str = "batch.kubernetes.io/job-completion-index";
pub(super) const INDEX_FAILURES: &str = "batch.kubernetes.io/job-index-failure-count";
pub(super) const MANAGED_BY: &str = "/spec/managedBy";
pub(super) const LEDGER: usize = 500;
/// The same where it is as few as can be.
pub(super) const SHORT: usize = 2;

/// The lists of Pods being counted, each with the counter they go to.
pub(super) const LISTS: [&str; 2] = ["succeeded", "failed"];
/// What says that a Job's end is decided, and what says that it has come.
pub(super) const ENDS: [(&str, &str); 2] = [("SuccessCriteriaMet", "Complete"), ("FailureTarget", "Failed")];

pub(super) fn is_active(pod: &Value) -> bool {
    !is_deleting(pod) && !has_finished(pod)
}

pub(super) fn is_tracked(pod: &Value) -> bool {
    has_finalizer(pod, FINALIZER)
}

pub(super) fn is_decided(job: &Value) -> bool {
    ENDS.iter().any(|(interim, _)| is_true(job, interim))
}

pub(super) fn is_finished(job: &Value) -> bool {
    ENDS.iter().any(|(_, terminal)| is_true(job, terminal))
}

pub(super) fn is_indexed(job: &Value) -> bool {
    text(job, "/spec/completionMode") == "Indexed"
}

pub(super) fn is_suspended(job: &Value) -> bool {
    at(job, "/spec/suspend") == Some(&json!(true))
}

/// Whether only Pods that have failed are replaced and counted, and not those that go.
pub(super) fn only_replaces_failed(job: &Value) -> bool {
    text(job, "/spec/podReplacementPolicy") == "Failed" || at(job, "/spec/podFailurePolicy").is_some()
}

pub(super) fn index(job: &Value, pod: &Value) -> Option<i64> {
    let index = annotation(pod, INDEX).parse().ok()?;
    (0..number(job, "/spec/completions")).contains(&index).then_some(index)
}

pub(super) fn named<'a>(job: &'a Value, list: &str) -> BTreeSet<&'a str> {
    let list = items(job, &format!("/status/uncountedTerminatedPods/{list}"));
    list.iter().filter_map(Value::as_str).collect()
}

/// A set of indexes, as a status writes it.
pub(super) fn indexes(job: &Value, field: &str) -> BTreeSet<i64> {
    let items = text(job, &format!("/status/{field}")).split(',').filter(|item| !item.is_empty());
    let range = |item: &str| {
        let (first, last) = item.split_once('-').unwrap_or((item, item));
        Some(first.parse::<i64>().ok()?..=last.parse::<i64>().ok()?)
    };
    items.filter_map(range).flatten().collect()
}

/// A write of the controller that takes the finalizer off a Pod: the Pod before.
pub(super) fn untracks(logged: &Logged) -> Option<Arc<Value>> {
    let before = logged.before().filter(|pod| rules::JOBS.writes(logged) && is_tracked(pod))?;
    let stays = logged.after().is_some_and(|pod| is_tracked(&pod));
    (!stays).then_some(before)
}

pub(super) fn recent_pods<'a>(world: &'a World, pod: &'a Value) -> impl Iterator<Item = &'a Arc<Value>> {
    world.recently(PODS, NAMESPACE, name(pod)).filter(move |p| uid(p) == uid(pod))
}

/// Every Pod a Job ever had, by its newest state.
pub(super) fn all_pods<'a>(world: &'a World, job: &'a Value) -> impl Iterator<Item = &'a Arc<Value>> {
    let of = move |pod: &&Arc<Value>| controller_uid(pod) == uid(job);
    world.ever().filter(|((resource, _, _), ..)| resource == PODS).map(|(_, pod, _)| pod).filter(of)
}

/// The active Pods a Job has now, and those that somebody else has given to it so lately that it may not know.
pub(super) fn active<'a>(world: &'a World, job: &'a Value) -> (Vec<&'a Arc<Value>>, i64) {
    let lately = world.now().checked_sub(world.lag()).unwrap_or(world.now());
    let log = world.log().iter().rev().take_while(|logged| logged.at >= lately);
    let given = |logged: &&Logged| {
        let mine = |pod: Option<Arc<Value>>| pod.is_some_and(|pod| controller_uid(&pod) == uid(job));
        logged.resource() == PODS && !logged.creates() && !mine(logged.before()) && mine(logged.after())
    };
    (rules::JOBS.dependents_of(world, job).filter(|pod| is_active(pod)).collect(), log.filter(given).count() as i64)
}

/// The Pods that have left the lists so far, with the counter they went to. Without the newest write.
pub(super) fn counted<'a>(world: &'a World, job: &Value) -> BTreeMap<String, &'a str> {
    let mut counted = BTreeMap::new();
    let earlier = world.log().split_last().map_or(&[][..], |(_, earlier)| earlier);
    for (before, after) in
        earlier.iter().filter_map(|logged| rules::JOBS.status(logged)).filter(|(_, after)| uid(after) == uid(job))
    {
        for list in LISTS {
            let left =
                named(&before, list).difference(&named(&after, list)).map(|uid| (*uid).to_owned()).collect::<Vec<_>>();
            counted.extend(left.into_iter().map(|uid| (uid, list)));
        }
    }
    counted
}

/// Whether a rule of the Job's policy says that this failure does not count. The scenarios know rules about exit codes only.
pub(super) fn is_ignored(job: &Value, pod: &Value) -> bool {
    let statuses = items(pod, "/status/containerStatuses").iter();
    let codes: Vec<i64> = statuses.map(|status| number(status, "/state/terminated/exitCode")).collect();
    let meets = |rule: &&Value| {
        let values = items(rule, "/onExitCodes/values");
        codes.iter().any(|code| *code != 0 && values.contains(&json!(code)))
    };
    items(job, "/spec/podFailurePolicy/rules").iter().find(meets).is_some_and(|rule| rule["action"] == "Ignore")
}

//! What always holds of budgets, and what holds in the end, read off the API server's true state.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};

use jiff::{SignedDuration, Timestamp};
use serde_json::Value;

use crate::{
    json::{at, condition, controller, has_finished, is_deleting, is_ready, items, name, number, selects, text, uid},
    scenario::{Invariant, Promise},
    stage::NAMESPACE,
    world::{Logged, World},
};

const CONTROLLER: &str = "disruption-controller";
const BUDGETS: &str = "poddisruptionbudgets.policy";
const PODS: &str = "pods";
/// How long an approved eviction counts, if its Pod is not deleted.
const ENTRY_TIME: Duration = Duration::from_mins(2);

pub(super) const INVARIANTS: &[Invariant] = &[
    Invariant {
        name: "approved-evictions-stay-approved",
        claims: "DISRUPTION-28, DISRUPTION-32, DISRUPTION-37",
        check: approved_evictions_stay_approved,
    },
    Invariant { name: "budgets-keep-their-specs", claims: "DISRUPTION-68", check: budgets_keep_their_specs },
    Invariant {
        name: "only-stale-disruptions-are-reset",
        claims: "DISRUPTION-47, DISRUPTION-48, DISRUPTION-50",
        check: only_stale_disruptions_are_reset,
    },
];

pub(super) const PROMISES: &[Promise] = &[
    Promise {
        name: "budgets-count-what-is-there",
        claims: "DISRUPTION-8, DISRUPTION-9, DISRUPTION-10, DISRUPTION-12, DISRUPTION-33, DISRUPTION-59",
        check: budgets_count_what_is_there,
    },
    Promise { name: "no-disruption-is-stale", claims: "DISRUPTION-51", check: no_disruption_is_stale },
];

/// The entries of evictions that are approved: each a name.
fn entries(budget: &Value) -> Vec<&str> {
    let entries = at(budget, "/status/disruptedPods").and_then(Value::as_object);
    entries.into_iter().flatten().map(|(name, _)| name.as_str()).collect()
}

fn is_healthy(pod: &Value) -> bool {
    is_ready(pod) && !is_deleting(pod)
}

/// A budget allows at most as many evictions as there are healthy Pods above its desired count. A Pod is healthy if the controller
/// may have seen it healthy, unless its eviction was approved before the write. To a clock that is wrong by more than the time of an
/// entry, the entry has ended.
fn approved_evictions_stay_approved(world: &World, logged: &Logged) -> Option<String> {
    let (before, after) = logged.changed(CONTROLLER, BUDGETS).filter(|_| world.skew() < ENTRY_TIME)?;
    let approved = entries(&before);
    let healthy = world.ever().filter(|(id, pod, _)| {
        id.0 == PODS
            && selects(&after, "/spec/selector", pod)
            && !approved.contains(&name(pod))
            && world.recently(PODS, &id.1, &id.2).any(|pod| is_healthy(pod))
    });
    let names: BTreeSet<&str> = healthy.map(|(id, ..)| id.2.as_str()).collect();
    let [allowed, desired] =
        ["disruptionsAllowed", "desiredHealthy"].map(|field| number(&after, &format!("/status/{field}")));
    let most = (names.len() as i64 - desired).max(0);
    (allowed > most).then(|| {
        format!(
            "budget {} allows {allowed} evictions, {desired} Pods must stay, and {names:?} are healthy",
            name(&after)
        )
    })
}

fn budgets_keep_their_specs(_: &World, logged: &Logged) -> Option<String> {
    let (before, after) = logged.changed(CONTROLLER, BUDGETS)?;
    let kept = ["/spec", "/metadata/labels", "/metadata/annotations", "/metadata/finalizers"];
    let lost = kept.into_iter().find(|pointer| before.pointer(pointer) != after.pointer(pointer))?;
    Some(format!("{lost} of budget {} is changed", name(&before)))
}

/// When the condition of a Pod became true; `None` if it is not true, or no condition that is ever reset.
fn disrupted_since(pod: &Value) -> Option<Timestamp> {
    let field = |field| condition(pod, "DisruptionTarget", field);
    let is_stale = field("status") == "True" && field("reason") != "TerminationByKubelet";
    let since = field("lastTransitionTime").parse().unwrap_or(Timestamp::UNIX_EPOCH);
    (is_stale && !is_deleting(pod) && !has_finished(pod)).then_some(since)
}

fn only_stale_disruptions_are_reset(world: &World, logged: &Logged) -> Option<String> {
    let (before, after) = logged.changed(CONTROLLER, PODS)?;
    let now: Timestamp = condition(&after, "DisruptionTarget", "lastTransitionTime").parse().ok()?;
    let skew = SignedDuration::try_from(world.skew()).unwrap_or_default();
    let is_stale = disrupted_since(&before)
        .is_some_and(|since| now.duration_since(since) + skew >= SignedDuration::from_secs(119));
    let others = |pod: &Value| -> Vec<Value> {
        items(pod, "/status/conditions").iter().filter(|each| each["type"] != "DisruptionTarget").cloned().collect()
    };
    let keeps = before.pointer("/spec") == after.pointer("/spec") && others(&before) == others(&after);
    (!is_stale || !keeps).then(|| format!("the disruption of Pod {} is reset too early, or with more", name(&before)))
}

/// The size of the controller of a Pod, and the uid of the object that has it.
fn size_of<'a>(world: &'a World, pod: &Value) -> Option<(&'a str, i64)> {
    let owner = controller(pod)?;
    let get = |owner: &Value| -> Option<&'a Arc<Value>> {
        let resource = match text(owner, "/kind") {
            "ReplicaSet" => "replicasets.apps",
            "Deployment" => "deployments.apps",
            _ => "widgets.sim.example.com",
        };
        world.get(resource, NAMESPACE, text(owner, "/name"))
    };
    let owner = get(owner)?;
    let sized = controller(owner).and_then(get).unwrap_or(owner);
    Some((uid(sized), number(sized, "/spec/replicas")))
}

/// A number, or a percentage of the expected Pods, rounded up.
fn limit(value: &Value, expected: i64) -> i64 {
    let percent = value.as_str().and_then(|text| text.strip_suffix('%')?.parse::<i64>().ok());
    percent.map_or_else(|| value.as_i64().unwrap_or_default(), |percent| (percent * expected + 99) / 100)
}

fn budgets_count_what_is_there(world: &World) -> Option<String> {
    world.list(BUDGETS).find_map(|budget| {
        let pods: Vec<_> = world.list(PODS).filter(|pod| selects(budget, "/spec/selector", pod)).collect();
        let sizes: BTreeMap<&str, i64> = pods.iter().filter_map(|pod| size_of(world, pod)).collect();
        let sum: i64 = sizes.values().sum();
        let spec = &budget["spec"];
        let (expected, desired) = match (&spec["maxUnavailable"], &spec["minAvailable"]) {
            (Value::Null, Value::Number(count)) => (pods.len() as i64, count.as_i64().unwrap_or_default()),
            (Value::Null, percent) => (sum, limit(percent, sum)),
            (most, _) => (sum, (sum - limit(most, sum)).max(0)),
        };
        let healthy = pods.iter().filter(|pod| is_healthy(pod)).count() as i64;
        let allowed = if expected > 0 { (healthy - desired).max(0) } else { 0 };
        let counted = ["expectedPods", "desiredHealthy", "currentHealthy", "disruptionsAllowed"];
        let counted = counted.map(|field| number(budget, &format!("/status/{field}")));
        let is_right = counted == [expected, desired, healthy, allowed]
            && number(budget, "/status/observedGeneration") == number(budget, "/metadata/generation")
            && (condition(budget, "DisruptionAllowed", "status") == "True") == (allowed > 0)
            && entries(budget).is_empty();
        let right = [expected, desired, healthy, allowed];
        (!is_right).then(|| format!("budget {} counts {counted:?}, and {right:?} is true", name(budget)))
    })
}

fn no_disruption_is_stale(world: &World) -> Option<String> {
    let stale = world.list(PODS).find(|pod| disrupted_since(pod).is_some())?;
    Some(format!("Pod {} still has its disruption", name(stale)))
}

//! What always holds of Deployments and their ReplicaSets, and what holds in the end, read off the API server's true state.

use std::sync::Arc;

use serde_json::Value;

use super::rules::{self, says};
use crate::{
    json::{annotation, at, condition, controller_uid, is_deleting, name, number, selects, text, uid},
    scenario::{Invariant, Promise},
    stage::NAMESPACE,
    world::{Logged, World},
};

const CONTROLLER: &str = rules::DEPLOYMENTS.controller;
const DEPLOYMENTS: &str = rules::DEPLOYMENTS.owners;
const REPLICA_SETS: &str = "replicasets.apps";
const REVISION: &str = "deployment.kubernetes.io/revision";
const DESIRED: &str = "deployment.kubernetes.io/desired-replicas";
const ROLLBACK: &str = "deprecated.deployment.rollback.to";

pub(super) const INVARIANTS: &[Invariant] = &[
    Invariant { name: "surge-is-bounded", claims: "DEPLOYMENT-29, DEPLOYMENT-81", check: surge_is_bounded },
    Invariant { name: "availability-is-kept", claims: "DEPLOYMENT-31", check: availability_is_kept },
    Invariant { name: "recreate-waits", claims: "DEPLOYMENT-35", check: recreate_waits },
    Invariant {
        name: "templates-are-untouched",
        claims: "DEPLOYMENT-26, DEPLOYMENT-93",
        check: templates_are_untouched,
    },
    Invariant { name: "revisions-grow", claims: "DEPLOYMENT-17, DEPLOYMENT-20, DEPLOYMENT-21", check: revisions_grow },
    Invariant {
        name: "only-the-finished-are-deleted",
        claims: "DEPLOYMENT-50, DEPLOYMENT-51, DEPLOYMENT-90",
        check: only_the_finished_are_deleted,
    },
    Invariant {
        name: "others-are-untouched",
        claims: "DEPLOYMENT-4, DEPLOYMENT-6, COMMON-27",
        check: others_are_untouched,
    },
    Invariant { name: "pausing-pauses", claims: "DEPLOYMENT-44", check: pausing_pauses },
    Invariant { name: "events-tell-the-truth", claims: "DEPLOYMENT-27", check: events_tell_the_truth },
    Invariant { name: "deadlines-are-fair", claims: "DEPLOYMENT-85, DEPLOYMENT-94", check: deadlines_are_fair },
    Invariant {
        name: "one-set-a-template",
        claims: "DEPLOYMENT-22, DEPLOYMENT-28, DEPLOYMENT-71, DEPLOYMENT-76",
        check: one_set_a_template,
    },
    Invariant { name: "pods-are-not-its-business", claims: "DEPLOYMENT-92", check: pods_are_not_its_business },
];

pub(super) const PROMISES: &[Promise] = &[Promise {
    name: "deployments-get-there",
    claims: "DEPLOYMENT-17, DEPLOYMENT-20, DEPLOYMENT-34, DEPLOYMENT-50, DEPLOYMENT-53, DEPLOYMENT-58",
    check: deployments_get_there,
}];

/// A write of the controller to a ReplicaSet, with the Deployment it is for.
struct SetWrite<'a> {
    before: Option<Arc<Value>>,
    after: Option<Arc<Value>>,
    deployment: &'a Arc<Value>,
}

impl<'a> SetWrite<'a> {
    fn of(world: &'a World, logged: &Logged) -> Option<Self> {
        if !logged.by(CONTROLLER) || logged.resource() != REPLICA_SETS || !logged.through("") {
            return None;
        }
        let (before, after) = (logged.before(), logged.after());
        let owner =
            [&after, &before].into_iter().flatten().map(|set| controller_uid(set)).find(|uid| !uid.is_empty())?;
        let deployment = world.by_uid(DEPLOYMENTS, owner)?;
        Some(Self { before, after, deployment })
    }

    fn sizes(&self) -> (i64, i64) {
        (size(self.before.as_ref()), size(self.after.as_ref()))
    }

    /// The states the Deployment may be taken to be in.
    fn recent(&self, world: &'a World) -> Vec<&'a Arc<Value>> {
        rules::DEPLOYMENTS.recent(world, self.deployment).collect()
    }

    /// Whether the write is part of scaling and not of a rollout: it tells the set of another wanted size.
    fn scales(&self) -> bool {
        let desired = |set: &Option<Arc<Value>>| set.as_ref().map(|set| annotation(set, DESIRED).to_owned());
        self.before.is_some() && desired(&self.before) != desired(&self.after)
    }

    /// Whether another ReplicaSet that has Pods was sized for another number of replicas, as one is that a user took away and
    /// gave back after the Deployment was scaled: the controller then distributes the replicas anew, available or not.
    fn rescales(&self, world: &World) -> bool {
        let wanted: Vec<String> = self.recent(world).iter().map(|d| number(d, "/spec/replicas").to_string()).collect();
        let mut others = world.list_recent(REPLICA_SETS).filter(|set| controller_uid(set) == uid(self.deployment));
        others.any(|set| {
            let desired = annotation(set, DESIRED);
            size(Some(set)) > 0 && !desired.is_empty() && !wanted.iter().any(|wanted| wanted == desired)
        })
    }
}

fn size(set: Option<&Arc<Value>>) -> i64 {
    set.map_or(0, |set| number(set, "/spec/replicas"))
}

fn sets<'a>(world: &'a World, deployment: &'a Value) -> impl Iterator<Item = &'a Arc<Value>> {
    world.list(REPLICA_SETS).filter(move |set| controller_uid(set) == uid(deployment))
}

fn fencepost(deployment: &Value, field: &str, up: bool) -> i64 {
    let replicas = number(deployment, "/spec/replicas");
    let value = at(deployment, "/spec/strategy/rollingUpdate").and_then(|r| r.get(field));
    match value {
        Some(Value::Number(n)) => n.as_i64().unwrap_or(0),
        Some(Value::String(percent)) => {
            let percent: i64 = percent.trim_end_matches('%').parse().unwrap_or(0);
            (replicas * percent + if up { 99 } else { 0 }) / 100
        }
        _ => 0,
    }
}

fn max_surge(deployment: &Value) -> i64 {
    fencepost(deployment, "maxSurge", true)
}

fn max_unavailable(deployment: &Value) -> i64 {
    let unavailable = fencepost(deployment, "maxUnavailable", false);
    let unavailable = if unavailable == 0 && max_surge(deployment) == 0 { 1 } else { unavailable };
    unavailable.min(number(deployment, "/spec/replicas"))
}

fn is_rolling(deployment: &Value) -> bool {
    text(deployment, "/spec/strategy/type") == "RollingUpdate"
}

fn is_paused(deployment: &Value) -> bool {
    deployment["spec"]["paused"] == true
}

fn template_without_hash(set: &Value) -> Value {
    let mut template = set["spec"]["template"].clone();
    if let Some(labels) = template.pointer_mut("/metadata/labels").and_then(Value::as_object_mut) {
        labels.remove("pod-template-hash");
    }
    template
}

fn is_new(set: &Value, deployment: &Value) -> bool {
    template_without_hash(set) == deployment["spec"]["template"]
}

fn surge_is_bounded(world: &World, logged: &Logged) -> Result<(), String> {
    let Some(write) = SetWrite::of(world, logged) else { return Ok(()) };
    let (before, after) = write.sizes();
    let adopted = write.before.as_ref().is_some_and(|set| controller_uid(set).is_empty());
    if after <= before || adopted {
        return Ok(());
    }
    let total: i64 = sets(world, write.deployment).map(|set| size(Some(set))).sum();
    let recent = write.recent(world);
    if !recent.iter().any(|d| is_rolling(d) && !is_paused(d)) {
        return Ok(());
    }
    let bound = recent.iter().map(|d| number(d, "/spec/replicas") + max_surge(d)).max().unwrap_or(0);
    if total > bound {
        return Err(format!("a write raises the sum of sizes to {total}, which may be {bound}"));
    }
    Ok(())
}

fn availability_is_kept(world: &World, logged: &Logged) -> Result<(), String> {
    let Some(write) = SetWrite::of(world, logged) else { return Ok(()) };
    let (before, after) = write.sizes();
    let recent = write.recent(world);
    let Some(shrunk) = write.after.as_ref().filter(|_| after < before && !write.scales()) else { return Ok(()) };
    if recent.iter().any(|d| is_new(shrunk, d) || !is_rolling(d) || is_paused(d)) || write.rescales(world) {
        return Ok(());
    }
    // What ReplicaSets say of themselves is what is known of Pods; it may be known a little late, as may that one is gone.
    let available = |set: &Value, size: i64| {
        let recent = world.recently(REPLICA_SETS, NAMESPACE, name(set));
        recent.map(|set| number(set, "/status/availableReplicas")).max().unwrap_or(0).min(size)
    };
    let with = |size_of_shrunk: i64| -> i64 {
        let of =
            |set: &Arc<Value>| if uid(set) == uid(shrunk) { size_of_shrunk } else { number(set, "/spec/replicas") };
        let known = world.list_recent(REPLICA_SETS).filter(|set| controller_uid(set) == uid(write.deployment));
        known.map(|set| available(set, of(set))).sum()
    };
    let least = recent.iter().map(|d| number(d, "/spec/replicas") - max_unavailable(d)).min().unwrap_or(0);
    let (was, is) = (with(before), with(after));
    if is < was && is < least {
        return Err(format!("a shrink of {} leaves {is} available, of which there must be {least}", name(shrunk)));
    }
    Ok(())
}

fn recreate_waits(world: &World, logged: &Logged) -> Result<(), String> {
    let Some(write) = SetWrite::of(world, logged) else { return Ok(()) };
    let (before, after) = write.sizes();
    let recent = write.recent(world);
    let Some(grown) = write.after.as_ref().filter(|_| after > before && !write.scales()) else { return Ok(()) };
    if recent.iter().any(|d| is_rolling(d) || is_paused(d)) {
        return Ok(());
    }
    for set in sets(world, write.deployment).filter(|set| uid(set) != uid(grown)) {
        // A Pod that its labels have taken out of the Deployment does not count, also as long as it is not released.
        let selected = |pod: &Value| {
            let wanted = at(write.deployment, "/spec/selector/matchLabels").and_then(Value::as_object);
            wanted.into_iter().flatten().all(|(key, value)| pod["metadata"]["labels"][key] == *value)
        };
        let pods = world.list("pods").filter(|pod| controller_uid(pod) == uid(set));
        for pod in pods.filter(|pod| selected(pod)) {
            let states = world.recent("pods", NAMESPACE, name(pod));
            let ran = |state: Option<&Arc<Value>>| {
                state.is_some_and(|pod| !matches!(text(pod, "/status/phase"), "Succeeded" | "Failed"))
            };
            if states.iter().copied().all(ran) {
                return Err(format!("{} grows while Pod {} of {} runs", name(grown), name(pod), name(set)));
            }
        }
    }
    Ok(())
}

fn templates_are_untouched(_: &World, logged: &Logged) -> Result<(), String> {
    let (Some(before), Some(after), true) = (logged.before(), logged.after(), logged.by(CONTROLLER)) else {
        return Ok(());
    };
    match logged.resource().as_str() {
        REPLICA_SETS => {
            for field in ["template", "selector"] {
                if before["spec"][field] != after["spec"][field] {
                    return Err(format!("the {field} of {} was changed", name(&after)));
                }
            }
        }
        DEPLOYMENTS if annotation(&before, ROLLBACK).is_empty() => {
            if before["spec"] != after["spec"] {
                return Err(format!("the spec of Deployment {} was changed", name(&after)));
            }
            if before["metadata"]["generation"] != after["metadata"]["generation"] {
                return Err(format!("the generation of Deployment {} was changed", name(&after)));
            }
        }
        _ => {}
    }
    Ok(())
}

fn revision(object: &Value) -> i64 {
    annotation(object, REVISION).parse().unwrap_or(0)
}

fn revisions_grow(world: &World, logged: &Logged) -> Result<(), String> {
    let (Some(before), Some(after), true) = (logged.before(), logged.after(), logged.by(CONTROLLER)) else {
        return Ok(());
    };
    // Who takes a Deployment's sets away takes their revisions along: it counts on from those that are left.
    let taken_away =
        logged.resource() == DEPLOYMENTS && sets(world, &after).all(|set| revision(set) < revision(&before));
    if revision(&after) < revision(&before) && !taken_away {
        return Err(format!(
            "the revision of {} falls from {} to {}",
            name(&after),
            revision(&before),
            revision(&after)
        ));
    }
    if number(&after, "/status/collisionCount") < number(&before, "/status/collisionCount") {
        return Err(format!("the collision count of {} falls", name(&after)));
    }
    Ok(())
}

fn only_the_finished_are_deleted(world: &World, logged: &Logged) -> Result<(), String> {
    if !logged.by(CONTROLLER) || logged.resource() != REPLICA_SETS || !logged.deletes() {
        return Ok(());
    }
    let Some(set) = logged.before() else { return Ok(()) };
    let behind = number(&set, "/metadata/generation") > number(&set, "/status/observedGeneration");
    if number(&set, "/spec/replicas") != 0 || number(&set, "/status/replicas") != 0 || behind {
        return Err(format!("{} is deleted and has {}, or is not observed", name(&set), set["spec"]["replicas"]));
    }
    let Some(deployment) = world.by_uid(DEPLOYMENTS, controller_uid(&set)) else {
        return Err(format!("{} is deleted and is not a Deployment's", name(&set)));
    };
    // A deletion names the version that was judged, and a set that is not selected is released.
    if !selects(deployment, "/spec/selector", &set) {
        return Err(format!("{} is deleted, and its labels have taken it out of {}", name(&set), name(deployment)));
    }
    if world.recently(DEPLOYMENTS, NAMESPACE, name(deployment)).all(|d| is_new(&set, d)) {
        return Err(format!("{} is deleted and is the newest", name(&set)));
    }
    Ok(())
}

fn others_are_untouched(world: &World, logged: &Logged) -> Result<(), String> {
    rules::DEPLOYMENTS.others_stay(world, logged)?;
    let is_lone = |set: Option<Arc<Value>>| set.is_some_and(|set| controller_uid(&set).is_empty());
    let is_change = rules::DEPLOYMENTS.writes(logged) && !logged.creates();
    if is_change && is_lone(logged.before()) && is_lone(logged.after()) {
        return Err(format!("{} is written and nobody's", logged.write.name));
    }
    rules::DEPLOYMENTS.only_the_living_adopt(world, logged)
}

fn pausing_pauses(world: &World, logged: &Logged) -> Result<(), String> {
    let Some(write) = SetWrite::of(world, logged) else { return Ok(()) };
    let recent = write.recent(world);
    if recent.is_empty() || !recent.iter().all(|d| is_paused(d)) {
        return Ok(());
    }
    let (before, after) = write.sizes();
    let Some(set) = &write.after else { return Ok(()) };
    if write.before.is_none() {
        return Err(format!("{} is created while the Deployment is paused", name(set)));
    }
    // More than there may be in all, as when a ReplicaSet comes back that was away, is taken back also during a pause.
    let total: i64 = sets(world, write.deployment).map(|set| size(Some(set))).sum();
    let bound = recent.iter().map(|d| number(d, "/spec/replicas") + max_surge(d)).max().unwrap_or(0);
    if after < before && total >= bound {
        return Ok(());
    }
    let active = sets(world, write.deployment).filter(|other| uid(other) == uid(set) || size(Some(other)) > 0).count();
    if before != after && !write.scales() && active > 1 && after > 0 {
        return Err(format!("{} goes from {before} to {after} while the Deployment is paused", name(set)));
    }
    Ok(())
}

fn events_tell_the_truth(world: &World, logged: &Logged) -> Result<(), String> {
    let Some(event) = logged.after().filter(|_| logged.by(CONTROLLER) && logged.resource() == "events") else {
        return Ok(());
    };
    let (reason, message) = (text(&event, "/reason"), text(&event, "/message"));
    if reason != "ScalingReplicaSet" || message.starts_with("(combined") {
        return Ok(());
    }
    let told = number(&event, "/count").max(1);
    let says = |write: &&Logged| {
        let (before, after) = (write.before(), write.after());
        let (from, to) = (size(before.as_ref()), size(after.as_ref()));
        let direction = if to > from { "up" } else { "down" };
        write.by(CONTROLLER)
            && write.resource() == REPLICA_SETS
            && message == format!("Scaled {direction} replica set {} from {from} to {to}", write.write.name)
    };
    let made = world.log().iter().filter(says).count() as i64;
    if told > made {
        return Err(format!("{message:?} is told {told} times and was done {made} times"));
    }
    Ok(())
}

fn deadlines_are_fair(world: &World, logged: &Logged) -> Result<(), String> {
    const LATE: &str = "ProgressDeadlineExceeded";
    let (Some(before), Some(after)) = (logged.before(), logged.after()) else { return Ok(()) };
    if !logged.by(CONTROLLER) || logged.resource() != DEPLOYMENTS {
        return Ok(());
    }
    let (was, is) = (condition(&before, "Progressing", "reason"), condition(&after, "Progressing", "reason"));
    if is != LATE || was == LATE {
        return Ok(());
    }
    if world.recently(DEPLOYMENTS, NAMESPACE, name(&after)).all(|d| is_paused(d)) {
        return Err(format!("{} misses its deadline while it is paused", name(&after)));
    }
    if was == "NewReplicaSetAvailable" {
        return Err(format!("{} misses its deadline after it was rolled out", name(&after)));
    }
    Ok(())
}

fn one_set_a_template(world: &World, logged: &Logged) -> Result<(), String> {
    let Some(write) = SetWrite::of(world, logged).filter(|write| write.before.is_none()) else { return Ok(()) };
    let Some(created) = &write.after else { return Ok(()) };
    // What came only just now, or was touched by others, cannot be known of.
    let known = |set: &&Arc<Value>| {
        let states = world.recent(REPLICA_SETS, NAMESPACE, name(set));
        states.iter().all(|s| s.is_some_and(|s| controller_uid(s) == uid(write.deployment)))
    };
    let same = |set: &&Arc<Value>| uid(set) != uid(created) && is_like(set, created);
    if let Some(other) = sets(world, write.deployment).filter(same).find(known) {
        return Err(format!("{} is created and {} has the same template", name(created), name(other)));
    }
    Ok(())
}

/// Whether two sets have one template, but for its hash.
fn is_like(set: &Value, other: &Value) -> bool {
    template_without_hash(set) == template_without_hash(other)
}

fn pods_are_not_its_business(_: &World, logged: &Logged) -> Result<(), String> {
    if logged.by(CONTROLLER) && logged.resource() == "pods" {
        return Err(format!("it writes Pod {}", logged.write.name));
    }
    Ok(())
}

/// A Deployment that is left alone is rolled out, and says so.
///
/// One whose Pods can never be ready is not: a rollback leads there if somebody has deleted the revision in between.
fn deployments_get_there(world: &World) -> Result<(), String> {
    let can_be_ready = |d: &&Arc<Value>| d["spec"]["template"]["metadata"]["annotations"]["sim/never-ready"].is_null();
    let left_alone = |d: &&Arc<Value>| !is_paused(d) && !is_deleting(d);
    for deployment in world.list(DEPLOYMENTS).filter(left_alone).filter(can_be_ready) {
        let (who, wanted) = (name(deployment), number(deployment, "/spec/replicas"));
        let wrong = |what: &str| Err(format!("Deployment {who}: {what}"));
        let counts = ["replicas", "updatedReplicas", "readyReplicas", "availableReplicas"].map(|field| (field, wanted));
        says(deployment, &counts)?;
        let reason = condition(deployment, "Progressing", "reason");
        if reason != "NewReplicaSetAvailable" {
            return wrong(&format!("it is rolled out and its reason is {reason:?}"));
        }
        let current: Vec<_> = sets(world, deployment).filter(|set| is_new(set, deployment)).collect();
        let active: Vec<_> = sets(world, deployment).filter(|set| size(Some(set)) > 0).collect();
        let total: i64 = active.iter().map(|set| size(Some(set))).sum();
        if total != wanted || active.iter().any(|set| !is_new(set, deployment)) || (wanted > 0 && active.len() != 1) {
            return wrong("its Pods are not all in one ReplicaSet of its template");
        }
        let Some(newest) = active.first().or(current.first()) else { return wrong("it has no ReplicaSet") };
        if revision(newest) != revision(deployment) {
            return wrong("its revision is not its ReplicaSet's");
        }
        let old = || sets(world, deployment).filter(|set| uid(set) != uid(newest));
        if old().any(|set| revision(set) >= revision(newest)) {
            return wrong("an old ReplicaSet has a revision that is not older");
        }
        let limit = deployment["spec"]["revisionHistoryLimit"].as_i64().unwrap_or(i64::MAX);
        if old().count() as i64 > limit {
            return wrong("it keeps more old ReplicaSets than it should");
        }
    }
    Ok(())
}

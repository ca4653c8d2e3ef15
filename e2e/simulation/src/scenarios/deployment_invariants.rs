//! What always holds of Deployments and their ReplicaSets, and what holds in the end, read off the API server's true state.

use std::sync::Arc;

use serde_json::Value;

use super::rules::{self, says};
use crate::{
    json::{annotation, at, condition, controller_uid, has_finished, is_deleting, name, number, selects, text, uid},
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
    claims: "DEPLOYMENT-17, DEPLOYMENT-20, DEPLOYMENT-34, DEPLOYMENT-50, DEPLOYMENT-53, DEPLOYMENT-58, DEPLOYMENT-65",
    check: deployments_get_there,
}];

struct SetWrite<'a> {
    before: Option<Arc<Value>>,
    after: Option<Arc<Value>>,
    deployment: &'a Arc<Value>,
}

impl<'a> SetWrite<'a> {
    fn of(world: &'a World, logged: &Logged) -> Option<Self> {
        let (before, after) = (logged.before(), logged.after());
        let owner = |set: &Arc<Value>| Some(controller_uid(set).to_owned()).filter(|uid| !uid.is_empty());
        let deployment = world.by_uid(DEPLOYMENTS, &[&after, &before].into_iter().flatten().find_map(owner)?)?;
        (logged.is_of(CONTROLLER, REPLICA_SETS) && logged.through("")).then_some(Self { before, after, deployment })
    }

    fn sizes(&self) -> (i64, i64) {
        (size(self.before.as_ref()), size(self.after.as_ref()))
    }

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

fn surge_is_bounded(world: &World, logged: &Logged) -> Option<String> {
    let write = SetWrite::of(world, logged)?;
    let (before, after) = write.sizes();
    let adopted = write.before.as_ref().is_some_and(|set| controller_uid(set).is_empty());
    let recent = write.recent(world);
    let rolls = recent.iter().any(|d| is_rolling(d) && !is_paused(d));
    let total: i64 = sets(world, write.deployment).map(|set| size(Some(set))).sum();
    let bound = recent.iter().map(|d| number(d, "/spec/replicas") + max_surge(d)).max().unwrap_or(0);
    (after > before && !adopted && rolls && total > bound)
        .then(|| format!("a write raises the sum of sizes to {total}, which may be {bound}"))
}

fn availability_is_kept(world: &World, logged: &Logged) -> Option<String> {
    let write = SetWrite::of(world, logged)?;
    let (before, after) = write.sizes();
    let recent = write.recent(world);
    let shrunk = write.after.as_ref().filter(|_| after < before && !write.scales())?;
    if recent.iter().any(|d| is_new(shrunk, d) || !is_rolling(d) || is_paused(d)) || write.rescales(world) {
        return None;
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
    (is < was && is < least)
        .then(|| format!("a shrink of {} leaves {is} available, of which there must be {least}", name(shrunk)))
}

fn recreate_waits(world: &World, logged: &Logged) -> Option<String> {
    let write = SetWrite::of(world, logged)?;
    let (before, after) = write.sizes();
    let recent = write.recent(world);
    let grown = write.after.as_ref().filter(|_| after > before && !write.scales())?;
    if recent.iter().any(|d| is_rolling(d) || is_paused(d)) {
        return None;
    }
    let runs = |state: Option<&Arc<Value>>| state.is_some_and(|pod| !has_finished(pod));
    let stays = |pod: &&Arc<Value>| world.recent("pods", NAMESPACE, name(pod)).into_iter().all(runs);
    // A Pod that its labels have taken out of the Deployment does not count, also as long as it is not released.
    let selected = |pod: &&Arc<Value>| selects(write.deployment, "/spec/selector", pod);
    sets(world, write.deployment).filter(|set| uid(set) != uid(grown)).find_map(|set| {
        let mut pods = world.list("pods").filter(|pod| controller_uid(pod) == uid(set)).filter(selected);
        let pod = pods.find(stays)?;
        Some(format!("{} grows while Pod {} of {} runs", name(grown), name(pod), name(set)))
    })
}

fn templates_are_untouched(_: &World, logged: &Logged) -> Option<String> {
    let (before, after) = logged.change().filter(|_| logged.by(CONTROLLER))?;
    let is_changed = |field: &&str| at(&before, field) != at(&after, field);
    let fields: &[&str] = match logged.resource().as_str() {
        REPLICA_SETS => &["/spec/template", "/spec/selector"],
        DEPLOYMENTS if annotation(&before, ROLLBACK).is_empty() => &["/spec", "/metadata/generation"],
        _ => &[],
    };
    let field = fields.iter().copied().find(is_changed)?;
    Some(format!("{field} of {} {} was changed", text(&after, "/kind"), name(&after)))
}

fn revision(object: &Value) -> i64 {
    annotation(object, REVISION).parse().unwrap_or(0)
}

fn revisions_grow(world: &World, logged: &Logged) -> Option<String> {
    let (before, after) = logged.change().filter(|_| logged.by(CONTROLLER))?;
    // Who takes a Deployment's sets away takes their revisions along: it counts on from those that are left.
    let taken_away =
        logged.resource() == DEPLOYMENTS && sets(world, &after).all(|set| revision(set) < revision(&before));
    let (was, is) = (revision(&before), revision(&after));
    if is < was && !taken_away {
        return Some(format!("the revision of {} falls from {was} to {is}", name(&after)));
    }
    (number(&after, "/status/collisionCount") < number(&before, "/status/collisionCount"))
        .then(|| format!("the collision count of {} falls", name(&after)))
}

fn only_the_finished_are_deleted(world: &World, logged: &Logged) -> Option<String> {
    let set = logged.deleted(CONTROLLER, REPLICA_SETS)?;
    let behind = number(&set, "/metadata/generation") > number(&set, "/status/observedGeneration");
    if number(&set, "/spec/replicas") != 0 || number(&set, "/status/replicas") != 0 || behind {
        return Some(format!("{} is deleted and has {}, or is not observed", name(&set), set["spec"]["replicas"]));
    }
    let Some(deployment) = world.by_uid(DEPLOYMENTS, controller_uid(&set)) else {
        return Some(format!("{} is deleted and is not a Deployment's", name(&set)));
    };
    // A deletion names the version that was judged, and a set that is not selected is released.
    if !selects(deployment, "/spec/selector", &set) {
        return Some(format!("{} is deleted, and its labels have taken it out of {}", name(&set), name(deployment)));
    }
    world
        .recently(DEPLOYMENTS, NAMESPACE, name(deployment))
        .all(|d| is_new(&set, d))
        .then(|| format!("{} is deleted and is the newest", name(&set)))
}

fn others_are_untouched(world: &World, logged: &Logged) -> Option<String> {
    let is_lone = |set: Option<Arc<Value>>| set.is_some_and(|set| controller_uid(&set).is_empty());
    let is_change = rules::DEPLOYMENTS.writes(logged) && !logged.creates();
    let is_nobodys = is_change && is_lone(logged.before()) && is_lone(logged.after());
    let others = rules::DEPLOYMENTS.others_stay(world, logged);
    others
        .or_else(|| is_nobodys.then(|| format!("{} is written and nobody's", logged.write.name)))
        .or_else(|| rules::DEPLOYMENTS.only_the_living_adopt(world, logged))
}

fn pausing_pauses(world: &World, logged: &Logged) -> Option<String> {
    let write = SetWrite::of(world, logged)?;
    let recent = write.recent(world);
    if recent.is_empty() || !recent.iter().all(|d| is_paused(d)) {
        return None;
    }
    let (before, after) = write.sizes();
    let set = write.after.as_ref()?;
    if write.before.is_none() {
        return Some(format!("{} is created while the Deployment is paused", name(set)));
    }
    // More than there may be in all, as when a ReplicaSet comes back that was away, is taken back also during a pause.
    let total: i64 = sets(world, write.deployment).map(|set| size(Some(set))).sum();
    let bound = recent.iter().map(|d| number(d, "/spec/replicas") + max_surge(d)).max().unwrap_or(0);
    if after < before && total >= bound {
        return None;
    }
    let active = sets(world, write.deployment).filter(|other| uid(other) == uid(set) || size(Some(other)) > 0).count();
    (before != after && !write.scales() && active > 1 && after > 0)
        .then(|| format!("{} goes from {before} to {after} while the Deployment is paused", name(set)))
}

fn events_tell_the_truth(world: &World, logged: &Logged) -> Option<String> {
    let event = logged.after().filter(|_| logged.is_of(CONTROLLER, "events"))?;
    let (reason, message) = (text(&event, "/reason"), text(&event, "/message"));
    if reason != "ScalingReplicaSet" || message.starts_with("(combined") {
        return None;
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
    (told > made).then(|| format!("{message:?} is told {told} times and was done {made} times"))
}

fn deadlines_are_fair(world: &World, logged: &Logged) -> Option<String> {
    const LATE: &str = "ProgressDeadlineExceeded";
    let (before, after) = logged.changed(CONTROLLER, DEPLOYMENTS)?;
    let (was, is) = (condition(&before, "Progressing", "reason"), condition(&after, "Progressing", "reason"));
    if is != LATE || was == LATE {
        return None;
    }
    if world.recently(DEPLOYMENTS, NAMESPACE, name(&after)).all(|d| is_paused(d)) {
        return Some(format!("{} misses its deadline while it is paused", name(&after)));
    }
    (was == "NewReplicaSetAvailable").then(|| format!("{} misses its deadline after it was rolled out", name(&after)))
}

fn one_set_a_template(world: &World, logged: &Logged) -> Option<String> {
    let write = SetWrite::of(world, logged).filter(|write| write.before.is_none())?;
    let created = write.after.as_ref()?;
    // What came only just now, or was touched by others, cannot be known of.
    let known = |set: &&Arc<Value>| {
        let states = world.recent(REPLICA_SETS, NAMESPACE, name(set));
        states.iter().all(|s| s.is_some_and(|s| controller_uid(s) == uid(write.deployment)))
    };
    let same = |set: &&Arc<Value>| uid(set) != uid(created) && is_like(set, created);
    if let Some(other) = sets(world, write.deployment).filter(same).find(known) {
        return Some(format!("{} is created and {} has the same template", name(created), name(other)));
    }
    None
}

/// Whether two sets have one template, but for its hash.
fn is_like(set: &Value, other: &Value) -> bool {
    template_without_hash(set) == template_without_hash(other)
}

fn pods_are_not_its_business(_: &World, logged: &Logged) -> Option<String> {
    (logged.is_of(CONTROLLER, "pods")).then(|| format!("it writes Pod {}", logged.write.name))
}

/// A Deployment that is left alone is rolled out, and says so.
///
/// One whose Pods can never be ready is not: a rollback leads there if somebody has deleted the revision in between.
fn deployments_get_there(world: &World) -> Option<String> {
    let can_be_ready = |d: &&Arc<Value>| d["spec"]["template"]["metadata"]["annotations"]["sim/never-ready"].is_null();
    let left_alone = |d: &&Arc<Value>| !is_paused(d) && !is_deleting(d);
    for deployment in world.list(DEPLOYMENTS).filter(left_alone).filter(can_be_ready) {
        let (who, wanted) = (name(deployment), number(deployment, "/spec/replicas"));
        let wrong = |what: &str| Some(format!("Deployment {who}: {what}"));
        let counts = ["replicas", "updatedReplicas", "readyReplicas", "availableReplicas"].map(|field| (field, wanted));
        if let Some(wrong) = says(deployment, &counts) {
            return Some(wrong);
        }
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
    None
}

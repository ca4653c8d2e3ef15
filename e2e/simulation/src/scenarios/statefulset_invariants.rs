//! What always holds of StatefulSets and their Pods, and what holds in the end, read off the API server's true state.
//!
//! A controller may act on any state of the last moments. So an invariant about another object is violated only if no recent
//! state of that object allows the write. What a Pod itself must be like when it is deleted is asked of the Pod as it was at
//! that write, because deletions name the version that was judged.

use std::sync::Arc;

use common::intstr::{IntOrString, Rounding};
use serde_json::{Value, json};

use super::{
    availability::was_available,
    rules::{STATEFUL_SETS, says, without},
};
use crate::{
    json::{
        at, controller_uid, has_finished, is_deleting, is_ready, items, label, name, number, owners, selects, text, uid,
    },
    scenario::{Invariant, Promise},
    stage::NAMESPACE,
    world::{Logged, World},
};

const CONTROLLER: &str = STATEFUL_SETS.controller;
const REVISIONS: &str = "controllerrevisions.apps";
const CLAIMS: &str = "persistentvolumeclaims";
const PODS: &str = "pods";
const SELECTOR: &str = "/spec/selector";
const REVISION_LABEL: &str = "controller-revision-hash";

pub(super) const INVARIANTS: &[Invariant] = &[
    Invariant {
        name: "only-wanted-ordinals-are-created",
        claims: "STATEFULSET-6, STATEFULSET-15, STATEFULSET-20, STATEFULSET-21",
        check: creates_what_is_wanted,
    },
    Invariant { name: "ordinals-come-in-order", claims: "STATEFULSET-20", check: ordinals_come_in_order },
    Invariant { name: "surplus-goes-from-the-highest", claims: "STATEFULSET-22", check: surplus_goes_from_the_highest },
    Invariant {
        name: "only-the-outdated-are-updated",
        claims: "STATEFULSET-27, STATEFULSET-29",
        check: only_the_outdated_are_updated,
    },
    Invariant { name: "used-revisions-stay", claims: "STATEFULSET-38, STATEFULSET-84", check: used_revisions_stay },
    Invariant {
        name: "deleted-sets-write-nothing",
        claims: "STATEFULSET-19, STATEFULSET-83",
        check: deleted_sets_write_nothing,
    },
    Invariant {
        name: "claims-only-get-owners",
        claims: "STATEFULSET-45, STATEFULSET-47",
        check: claims_only_get_owners,
    },
    Invariant {
        name: "claims-know-before-their-pods-go",
        claims: "STATEFULSET-43, STATEFULSET-44, STATEFULSET-46",
        check: claims_know_first,
    },
    Invariant {
        name: "stateful-statuses-make-sense",
        claims: "STATEFULSET-50, STATEFULSET-91",
        check: statuses_make_sense,
    },
    Invariant { name: "pods-of-others-stay", claims: "STATEFULSET-9", check: pods_of_others_stay },
    Invariant {
        name: "only-living-sets-adopt",
        claims: "STATEFULSET-8, COMMON-27",
        check: |world, logged| STATEFUL_SETS.only_the_living_adopt(world, logged),
    },
];

/// What holds besides without the gate `MaxUnavailableStatefulSet`.
pub(super) const ONE_BY_ONE: &[Invariant] = &[Invariant {
    name: "updates-go-one-by-one",
    claims: "STATEFULSET-27, STATEFULSET-28",
    check: updates_go_one_by_one,
}];

/// What holds besides with it.
pub(super) const LIMITED: &[Invariant] =
    &[Invariant { name: "updates-keep-to-their-limit", claims: "STATEFULSET-30", check: updates_keep_to_their_limit }];

pub(super) const PROMISES: &[Promise] = &[Promise {
    name: "stateful-sets-get-there",
    claims: "STATEFULSET-7, STATEFULSET-17, STATEFULSET-20, STATEFULSET-22, STATEFULSET-27, STATEFULSET-31, STATEFULSET-41, STATEFULSET-43, STATEFULSET-50",
    check: stateful_sets_get_there,
}];

fn serves(pod: &Value) -> bool {
    is_ready(pod) && !is_deleting(pod)
}

fn is_ordered(set: &Value) -> bool {
    text(set, "/spec/podManagementPolicy") != "Parallel"
}

/// The first ordinal of a set and the one after its last.
fn range(set: &Value) -> (i64, i64) {
    let start = number(set, "/spec/ordinals/start");
    (start, (start + number(set, "/spec/replicas")).min(i64::from(i32::MAX) + 1))
}

fn wants(set: &Value, ordinal: i64) -> bool {
    let (first, end) = range(set);
    (first..end).contains(&ordinal)
}

fn ordinal(set: &Value, pod: &str) -> Option<i64> {
    let digits = pod.strip_prefix(name(set))?.strip_prefix('-')?;
    let ordinal: i64 = digits.parse().ok()?;
    (ordinal.to_string() == digits).then_some(ordinal)
}

fn pod_name(set: &Value, ordinal: i64) -> String {
    format!("{}-{ordinal}", name(set))
}

pub(super) fn claim_names(set: &Value, ordinal: i64) -> impl Iterator<Item = String> {
    let templates = items(set, "/spec/volumeClaimTemplates").iter();
    templates.map(move |template| format!("{}-{}-{ordinal}", name(template), name(set)))
}

fn pod_was(world: &World, set: &Value, ordinal: i64, test: fn(&Value) -> bool) -> bool {
    world.recently(PODS, NAMESPACE, &pod_name(set, ordinal)).any(|pod| test(pod))
}

fn ordinal_was_available(world: &World, set: &Value, ordinal: i64) -> bool {
    was_available(world, set, &pod_name(set, ordinal))
}

/// Whether a Pod was made from the template that a set has in that state.
fn is_updated(world: &World, set: &Value, pod: &Value) -> bool {
    let Some(revision) = world.get(REVISIONS, NAMESPACE, label(pod, REVISION_LABEL)) else { return false };
    let mut template = revision["data"]["spec"]["template"].clone();
    if let Some(members) = template.as_object_mut() {
        members.remove("$patch");
    }
    template == set["spec"]["template"]
}

fn created<'a>(world: &'a World, logged: &Logged) -> Option<(Arc<Value>, &'a Arc<Value>, i64)> {
    let (pod, set) = STATEFUL_SETS.created(world, logged)?;
    let ordinal = ordinal(set, name(&pod))?;
    Some((pod, set, ordinal))
}

fn deleted<'a>(world: &'a World, logged: &Logged) -> Option<(Arc<Value>, &'a Arc<Value>, i64)> {
    let (pod, set) = STATEFUL_SETS.deleted(world, logged)?;
    let ordinal = ordinal(set, name(&pod))?;
    Some((pod, set, ordinal))
}

/// The same if a rolling update is the only reason that there can be.
fn updated<'a>(world: &'a World, logged: &Logged) -> Option<(Arc<Value>, &'a Arc<Value>, i64)> {
    let (pod, set, ordinal) = deleted(world, logged)?;
    let in_range = STATEFUL_SETS.recent(world, set).all(|set| wants(set, ordinal));
    (in_range && !has_finished(&pod)).then_some((pod, set, ordinal))
}

fn creates_what_is_wanted(world: &World, logged: &Logged) -> Option<String> {
    let pod = logged.after().filter(|_| STATEFUL_SETS.writes(logged) && logged.creates())?;
    let Some((pod, set, ordinal)) = created(world, logged) else {
        return Some(format!("Pod {} is created for no StatefulSet", name(&pod)));
    };
    if !STATEFUL_SETS.recent(world, set).any(|set| wants(set, ordinal)) {
        return Some(format!("Pod {} is created and out of range", name(&pod)));
    }
    let claims = items(&pod, "/spec/volumes").iter();
    let mounted: Vec<&str> = claims.map(|volume| text(volume, "/persistentVolumeClaim/claimName")).collect();
    let missing = claim_names(set, ordinal).find(|claim| !mounted.contains(&claim.as_str()))?;
    Some(format!("Pod {} is created without claim {missing}", name(&pod)))
}

fn ordinals_come_in_order(world: &World, logged: &Logged) -> Option<String> {
    let (pod, set, ordinal) = created(world, logged).filter(|(_, set, _)| is_ordered(set))?;
    let ready = |set: &Value| {
        (range(set).0..ordinal).all(|lower| {
            ordinal_was_available(world, set, lower) && pod_was(world, set, lower, |pod| !has_finished(pod))
        })
    };
    (!STATEFUL_SETS.recent(world, set).any(|set| wants(set, ordinal) && ready(set)))
        .then(|| format!("Pod {} is created before the ones below it serve", name(&pod)))
}

fn surplus_goes_from_the_highest(world: &World, logged: &Logged) -> Option<String> {
    let (pod, set, ordinal) = deleted(world, logged)?;
    let allowed = |set: &Arc<Value>| {
        if wants(set, ordinal) {
            // Another invariant asks for the reason.
            return true;
        }
        let (first, end) = range(set);
        let above = STATEFUL_SETS.dependents_of(world, set).filter(|other| {
            let other = self::ordinal(set, name(other)).filter(|other| *other > ordinal && !wants(set, *other));
            other.is_some_and(|other| {
                let states = world.recent(PODS, NAMESPACE, &pod_name(set, other));
                states.iter().all(|state| state.is_some_and(|pod| controller_uid(pod) == uid(set)))
            })
        });
        !is_ordered(set) || ((first..end).all(|wanted| ordinal_was_available(world, set, wanted)) && above.count() == 0)
    };
    (!STATEFUL_SETS.recent(world, set).any(allowed))
        .then(|| format!("Pod {} is deleted before it is its turn", name(&pod)))
}

fn only_the_outdated_are_updated(world: &World, logged: &Logged) -> Option<String> {
    let (pod, set, ordinal) = updated(world, logged)?;
    let allowed = |set: &Arc<Value>| {
        let partition = number(set, "/spec/updateStrategy/rollingUpdate/partition");
        text(set, "/spec/updateStrategy/type") == "RollingUpdate"
            && ordinal >= range(set).0 + partition
            && !is_updated(world, set, &pod)
    };
    (!STATEFUL_SETS.recent(world, set).any(allowed))
        .then(|| format!("Pod {} is deleted, and nothing asks for that", name(&pod)))
}

fn updates_go_one_by_one(world: &World, logged: &Logged) -> Option<String> {
    let (pod, set, ordinal) = updated(world, logged)?;
    let allowed = |set: &Arc<Value>| {
        let (first, end) = range(set);
        let lowest = if is_ordered(set) { first } else { ordinal + 1 };
        (lowest..end).filter(|other| *other != ordinal).all(|other| ordinal_was_available(world, set, other))
    };
    (!STATEFUL_SETS.recent(world, set).any(allowed))
        .then(|| format!("Pod {} is updated while another one is unavailable", name(&pod)))
}

fn updates_keep_to_their_limit(world: &World, logged: &Logged) -> Option<String> {
    let (pod, set, ordinal) = updated(world, logged).filter(|(pod, ..)| serves(pod))?;
    let allowed = |set: &Arc<Value>| {
        let (first, end) = range(set);
        let given = at(set, "/spec/updateStrategy/rollingUpdate/maxUnavailable").cloned().unwrap_or(json!(1));
        let given: Option<IntOrString> = serde_json::from_value(given).ok();
        let replicas = i32::try_from(number(set, "/spec/replicas")).unwrap_or(i32::MAX);
        let limit = given.and_then(|limit| limit.resolve(replicas, Rounding::Down).ok()).unwrap_or(1).max(1);
        let others = (first..end).filter(|other| *other != ordinal);
        let unavailable = others.filter(|other| !ordinal_was_available(world, set, *other)).count() as i64;
        unavailable < i64::from(limit)
    };
    (!STATEFUL_SETS.recent(world, set).any(allowed))
        .then(|| format!("Pod {} serves and is updated beyond the limit", name(&pod)))
}

fn used_revisions_stay(world: &World, logged: &Logged) -> Option<String> {
    let gone = logged.deleted(CONTROLLER, REVISIONS)?;
    let Some(set) = STATEFUL_SETS.owner(world, &gone) else {
        return Some(format!("revision {} is deleted and is no StatefulSet's", name(&gone)));
    };
    let who = name(&gone);
    let always_names = |pod: &&Arc<Value>| {
        let states = world.recent(PODS, NAMESPACE, name(pod));
        states
            .iter()
            .all(|state| state.is_some_and(|s| label(s, REVISION_LABEL) == who && controller_uid(s) == uid(set)))
    };
    if let Some(pod) = STATEFUL_SETS.dependents_of(world, set).find(always_names) {
        return Some(format!("revision {who} is deleted, and Pod {} has it", name(pod)));
    }
    for field in ["/status/currentRevision", "/status/updateRevision"] {
        if STATEFUL_SETS.recent(world, set).all(|set| text(set, field) == who) {
            return Some(format!("revision {who} is deleted, and {field} names it"));
        }
    }
    None
}

fn deleted_sets_write_nothing(world: &World, logged: &Logged) -> Option<String> {
    let makes = logged.resource() != STATEFUL_SETS.owners
        && (logged.creates() || (logged.deletes() && logged.resource() == PODS));
    if makes { STATEFUL_SETS.the_deleted_write_nothing(world, logged) } else { None }
}

fn claims_only_get_owners(_: &World, logged: &Logged) -> Option<String> {
    if logged.deleted(CONTROLLER, CLAIMS).is_some() {
        return Some(format!("claim {} is deleted", logged.write.name));
    }
    let (before, after) = logged.changed(CONTROLLER, CLAIMS)?;
    if without(&before, &["ownerReferences"]) != without(&after, &["ownerReferences"]) {
        return Some(format!("more than the owners of claim {} was changed", name(&after)));
    }
    let foreign = |claim: &Value| -> Vec<Value> {
        owners(claim).filter(|o| !matches!(text(o, "/kind"), "StatefulSet" | "Pod")).cloned().collect()
    };
    (foreign(&before) != foreign(&after))
        .then(|| format!("an owner of claim {} that is neither set nor Pod was changed", name(&after)))
}

fn claims_know_first(world: &World, logged: &Logged) -> Option<String> {
    let (pod, set, ordinal) = deleted(world, logged)?;
    let goes_with_pod = |set: &Arc<Value>| {
        !wants(set, ordinal) && text(set, "/spec/persistentVolumeClaimRetentionPolicy/whenScaled") == "Delete"
    };
    if !STATEFUL_SETS.recent(world, set).all(goes_with_pod) {
        return None;
    }
    // The Pod, or an earlier owner of that name.
    let leads = |owner: &Value| {
        let is_earlier = |kind: &str, object: &Value| {
            text(owner, "/kind") == kind && text(owner, "/name") == name(object) && text(owner, "/uid") != uid(object)
        };
        text(owner, "/uid") == uid(&pod) || is_earlier("Pod", &pod) || is_earlier("StatefulSet", set)
    };
    let is_ready = |claim: Option<&Arc<Value>>| claim.is_none_or(|claim| owners(claim).any(leads));
    let mut claims = claim_names(set, ordinal);
    let claim = claims.find(|claim| !world.recent(CLAIMS, NAMESPACE, claim).into_iter().any(is_ready))?;
    Some(format!("Pod {} is deleted, and claim {claim} does not belong to it", name(&pod)))
}

fn statuses_make_sense(_: &World, logged: &Logged) -> Option<String> {
    let falling: &[&[&str]] = &[
        &["replicas", "readyReplicas", "availableReplicas"],
        &["replicas", "currentReplicas"],
        &["replicas", "updatedReplicas"],
    ];
    STATEFUL_SETS.statuses_make_sense(logged, &["observedGeneration", "collisionCount"], falling)
}

fn pods_of_others_stay(world: &World, logged: &Logged) -> Option<String> {
    let pod = logged.before().filter(|_| STATEFUL_SETS.writes(logged))?;
    let set = STATEFUL_SETS.owner(world, &pod).filter(|_| logged.deletes());
    let is_another = set.is_some_and(|set| ordinal(set, name(&pod)).is_none());
    let others = STATEFUL_SETS.others_stay(world, logged);
    others.or_else(|| is_another.then(|| format!("Pod {} is another controller's", name(&pod))))
}

/// A set that is left alone has exactly the Pods of its range, and its status says so. Of a set that waits for a Pod that never
/// becomes ready, only that much is asked.
fn stateful_sets_get_there(world: &World) -> Option<String> {
    for set in world.list(STATEFUL_SETS.owners).filter(|set| !is_deleting(set)) {
        let wrong = |what: String| Some(format!("StatefulSet {}: {what}", name(set)));
        if let Some(wrong) = says(set, &[]) {
            return Some(wrong);
        }
        let there: Vec<i64> =
            STATEFUL_SETS.dependents_of(world, set).filter_map(|pod| ordinal(set, name(pod))).collect();
        let (first, end) = range(set);
        // A claim that goes with a Pod that is gone is the garbage collector's to delete, and is waited for. The claims are
        // walked and not the ordinals, of which a hostile set has two thousand million.
        let waits_for_collection = world.list(CLAIMS).any(|claim| {
            let of = name(claim).rsplit_once('-').and_then(|(_, digits)| digits.parse().ok());
            of.is_some_and(|ordinal: i64| {
                (first..end).contains(&ordinal)
                    && !there.contains(&ordinal)
                    && claim_names(set, ordinal).any(|wanted| wanted == name(claim))
                    && is_owned_by_a_pod_that_is_gone(world, claim)
            })
        });
        let blocked = waits_for_collection
            || (is_ordered(set) && STATEFUL_SETS.dependents_of(world, set).any(|pod| !serves(pod)));
        if !blocked && !(there.iter().copied().eq(first..end)) {
            return wrong(format!("it has {there:?} and wants {first} to {}", end - 1));
        }
        for pod in STATEFUL_SETS.dependents_of(world, set) {
            if !selects(set, SELECTOR, pod) {
                return wrong(format!("Pod {} is not released", name(pod)));
            }
            if has_finished(pod) && !is_deleting(pod) {
                return wrong(format!("Pod {} has finished and is not replaced", name(pod)));
            }
        }
        let count = |test: &dyn Fn(&Value) -> bool| {
            STATEFUL_SETS.dependents_of(world, set).filter(|pod| test(pod)).count() as i64
        };
        let counts = [
            ("replicas", there.len() as i64),
            ("readyReplicas", count(&is_ready)),
            ("availableReplicas", count(&is_ready)),
            ("updatedReplicas", count(&|pod| label(pod, REVISION_LABEL) == text(set, "/status/updateRevision"))),
        ];
        if let Some(wrong) = says(set, &counts) {
            return Some(wrong);
        }
        if !blocked {
            if let Some(wrong) = updates_are_done(world, set) {
                return Some(wrong);
            }
            if let Some(wrong) = claims_follow_the_policy(world, set) {
                return Some(wrong);
            }
        }
    }
    None
}

fn is_owned_by_a_pod_that_is_gone(world: &World, claim: &Value) -> bool {
    let mut pods = owners(claim).filter(|owner| text(owner, "/kind") == "Pod");
    pods.any(|owner| !world.list(PODS).any(|pod| uid(pod) == text(owner, "/uid")))
}

/// Whether a user has deleted a claim after its Pod was created. Such a claim is created again with the next Pod, not before.
fn a_user_deleted_it_under_its_pod(world: &World, set: &Value, of: i64, claim: &str) -> bool {
    let newest_first = || world.log().iter().rev();
    let deleted = newest_first().find(|logged| logged.resource() == CLAIMS && logged.write.name == claim);
    let created = newest_first()
        .find(|logged| logged.resource() == PODS && logged.creates() && ordinal(set, &logged.write.name) == Some(of));
    match (deleted, created) {
        (Some(deleted), Some(created)) => deleted.by_user() && deleted.deletes() && deleted.at > created.at,
        _ => false,
    }
}

fn updates_are_done(world: &World, set: &Value) -> Option<String> {
    if text(set, "/spec/updateStrategy/type") == "OnDelete" {
        return None;
    }
    let lowest = range(set).0 + number(set, "/spec/updateStrategy/rollingUpdate/partition");
    for pod in STATEFUL_SETS
        .dependents_of(world, set)
        .filter(|pod| ordinal(set, name(pod)).is_some_and(|ordinal| ordinal >= lowest))
    {
        if !is_updated(world, set, pod) {
            return Some(format!("StatefulSet {}: Pod {} is not updated", name(set), name(pod)));
        }
    }
    let (current, update) = (text(set, "/status/currentRevision"), text(set, "/status/updateRevision"));
    (lowest == range(set).0 && current != update)
        .then(|| format!("StatefulSet {}: the rollout to {update} is not complete: {current}", name(set)))
}

/// The claims of Pods in range exist, and the set owns them if it is to take them with it. A claim that an earlier set of that
/// name owned is left to the garbage collector.
fn claims_follow_the_policy(world: &World, set: &Value) -> Option<String> {
    let owned = text(set, "/spec/persistentVolumeClaimRetentionPolicy/whenDeleted") == "Delete";
    for ordinal in STATEFUL_SETS.dependents_of(world, set).filter_map(|pod| ordinal(set, name(pod))) {
        for name in claim_names(set, ordinal) {
            let Some(claim) = world.get(CLAIMS, NAMESPACE, &name) else {
                if a_user_deleted_it_under_its_pod(world, set, ordinal, &name) {
                    continue;
                }
                return Some(format!("claim {name} is missing"));
            };
            let named = |owner: &Value| text(owner, "/kind") == "StatefulSet" || text(owner, "/kind") == "Pod";
            let earlier = |owner: &Value| {
                named(owner)
                    && text(owner, "/uid") != uid(set)
                    && world.by_uid(PODS, text(owner, "/uid")).is_none_or(|pod| {
                        world.get(PODS, NAMESPACE, self::name(pod)).is_none_or(|now| uid(now) != uid(pod))
                    })
            };
            if owners(claim).any(earlier) {
                continue;
            }
            let has = owners(claim).any(|owner| text(owner, "/uid") == uid(set));
            if has != owned {
                return Some(format!("claim {name} is owned by its set: {has}, and should be: {owned}"));
            }
        }
    }
    None
}

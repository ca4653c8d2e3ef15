//! What always holds of DaemonSets and their Pods, and what holds in the end, read off the API server's true state.
//!
//! A controller may act on any state of the last moments. So an invariant about another object is violated only if no recent
//! state of that object allows the write. What a controller did itself it knows at once: the Pods that it created, and those
//! whose deletion it asked for. A Pod that is deleted is judged as it was at that write, because deletions name the version.

use std::{collections::BTreeSet, sync::Arc};

use serde_json::Value;

use super::{
    availability::{is_surely_available, was_available},
    daemonset_view::{
        CONTROLLER, GENERATION, HASH, NODES, PODS, Place, REVISIONS, SELECTOR, TOLERATED, always,
        deleted_by_the_controller, holds_template, is_leaving, is_updated, known_pods, left_behind, max_surge,
        max_unavailable, may_surge, pin, place, recent_places, rolls, runs, target,
    },
    rules::{DAEMON_SETS, says},
};
use crate::{
    json::{
        at, controller, controller_uid, has_finished, is_deleting, is_ready, label, name, number, selects, text, uid,
    },
    scenario::{Invariant, Promise},
    stage::NAMESPACE,
    world::{Logged, World},
};

pub(super) const INVARIANTS: &[Invariant] = &[
    Invariant {
        name: "nodes-get-one-pod",
        claims: "DAEMONSET-21, DAEMONSET-52, DAEMONSET-62",
        check: nodes_get_one_pod,
    },
    Invariant {
        name: "only-eligible-nodes-get-pods",
        claims: "DAEMONSET-12, DAEMONSET-14, DAEMONSET-21",
        check: only_eligible_nodes,
    },
    Invariant {
        name: "daemon-pods-are-pinned",
        claims: "DAEMONSET-15, DAEMONSET-33, DAEMONSET-34",
        check: pods_are_pinned,
    },
    Invariant {
        name: "daemon-pods-go-for-a-reason",
        claims: "DAEMONSET-14, DAEMONSET-22, DAEMONSET-55, DAEMONSET-87",
        check: pods_go_for_a_reason,
    },
    Invariant { name: "updates-leave-enough-available", claims: "DAEMONSET-49", check: enough_stay_available },
    Invariant { name: "surge-keeps-to-its-limit", claims: "DAEMONSET-52", check: surge_keeps_to_its_limit },
    Invariant { name: "surge-leaves-no-gap", claims: "DAEMONSET-52", check: surge_leaves_no_gap },
    Invariant { name: "revisions-are-templates", claims: "DAEMONSET-36, DAEMONSET-39", check: revisions_are_templates },
    Invariant { name: "live-revisions-stay", claims: "DAEMONSET-40, DAEMONSET-41", check: live_revisions_stay },
    Invariant {
        name: "daemon-statuses-make-sense",
        claims: "DAEMONSET-42, DAEMONSET-56, DAEMONSET-57",
        check: statuses_make_sense,
    },
    Invariant {
        name: "deleted-daemon-sets-write-nothing",
        claims: "DAEMONSET-6",
        check: |world, logged| DAEMON_SETS.the_deleted_write_nothing(world, logged),
    },
    Invariant {
        name: "pods-of-other-controllers-stay",
        claims: "DAEMONSET-20, DAEMONSET-44",
        check: |world, logged| DAEMON_SETS.others_stay(world, logged),
    },
    Invariant {
        name: "only-living-daemon-sets-adopt",
        claims: "DAEMONSET-18, COMMON-27",
        check: |world, logged| DAEMON_SETS.only_the_living_adopt(world, logged),
    },
];

pub(super) const PROMISES: &[Promise] = &[
    Promise {
        name: "daemon-sets-get-there",
        claims: "DAEMONSET-18, DAEMONSET-19, DAEMONSET-21, DAEMONSET-22, DAEMONSET-26, DAEMONSET-49, DAEMONSET-56",
        check: daemon_sets_get_there,
    },
    Promise {
        name: "daemon-histories-are-in-order",
        claims: "DAEMONSET-36, DAEMONSET-38, DAEMONSET-39, DAEMONSET-40, DAEMONSET-41",
        check: histories_are_in_order,
    },
];

fn most_desired(world: &World, set: &Value) -> usize {
    let nodes: BTreeSet<&str> = world.list_recent(NODES).map(|node| name(node)).collect();
    nodes.into_iter().filter(|node| recent_places(world, set, node).0 == Some(Place::Runs)).count()
}

fn surely_desired<'a>(world: &'a World, set: &'a Value) -> impl Iterator<Item = &'a Arc<Value>> {
    world.list(NODES).filter(move |node| recent_places(world, set, name(node)).1 == Some(Place::Runs))
}

fn nodes_get_one_pod(world: &World, logged: &Logged) -> Option<String> {
    let (pod, set) = DAEMON_SETS.created(world, logged)?;
    let node = target(&pod);
    let surges = DAEMON_SETS.recent(world, set).any(|set| may_surge(set));
    let takes_the_place = move |other: &Value| if surges { runs(other) } else { !is_leaving(other) };
    let is_like = |other: &Value| !surges || label(other, HASH) == label(&pod, HASH);
    let mut others = known_pods(world, set, node, takes_the_place).filter(|other| uid(other) != uid(&pod));
    let other = others.find(|other| is_like(other))?;
    Some(format!("node {node} gets Pod {} beside {}", name(&pod), name(other)))
}

fn only_eligible_nodes(world: &World, logged: &Logged) -> Option<String> {
    let pod = logged.after().filter(|_| DAEMON_SETS.writes(logged) && logged.creates())?;
    let Some((_, set)) = DAEMON_SETS.created(world, logged) else {
        return Some(format!("Pod {} is created for no DaemonSet", name(&pod)));
    };
    match recent_places(world, set, target(&pod)).0 {
        Some(Place::Runs) => None,
        was => Some(format!("Pod {} is created for node {}, which was {was:?}", name(&pod), target(&pod))),
    }
}

fn pods_are_pinned(world: &World, logged: &Logged) -> Option<String> {
    let (pod, set) = DAEMON_SETS.created(world, logged)?;
    let wrong = |what: &str| Some(format!("Pod {} {what}", name(&pod)));
    if pin(&pod).is_none() {
        return wrong("is not pinned to one node");
    }
    let tolerations = at(&pod, "/spec/tolerations").and_then(Value::as_array);
    let tolerates = |(key, effect): &(&str, &str)| {
        tolerations.is_some_and(|all| all.iter().any(|t| t["key"] == *key && t["effect"] == *effect))
    };
    if !TOLERATED.iter().all(tolerates) {
        return wrong("lacks a toleration of its own");
    }
    let is_of = |set: &Arc<Value>| is_updated(world, set, &pod) && selects(set, SELECTOR, &pod);
    let is_labelled = !label(&pod, GENERATION).is_empty() && !label(&pod, HASH).is_empty();
    if is_labelled && DAEMON_SETS.recent(world, set).any(is_of) {
        return None;
    }
    wrong("is not labelled as one of its set's template")
}

/// Whether the node of a Pod may have been taken for one on which it must not stay.
fn may_have_to_leave(world: &World, set: &Value, pod: &Value) -> bool {
    let states = world.recent(NODES, "", target(pod));
    let unbound = text(pod, "/spec/nodeName").is_empty();
    states.iter().any(|node| match node {
        None => unbound,
        Some(node) => DAEMON_SETS.recent(world, set).any(|set| place(set, node) == Place::Leaves),
    })
}

fn pods_go_for_a_reason(world: &World, logged: &Logged) -> Option<String> {
    let (pod, set) = DAEMON_SETS.deleted(world, logged)?;
    let outdated = |set: &Arc<Value>| rolls(set) && !is_updated(world, set, &pod);
    let has_reason = has_finished(&pod)
        || may_have_to_leave(world, set, &pod)
        || DAEMON_SETS.recent(world, set).any(outdated)
        || has_company(world, set, &pod);
    (!has_reason).then(|| format!("Pod {} is deleted, and nothing asks for that", name(&pod)))
}

/// The Pod that is deleted if it is surely available, its node surely desired, and a rolling update the only reason.
fn updated<'a>(world: &'a World, logged: &Logged) -> Option<(Arc<Value>, &'a Arc<Value>)> {
    let (pod, set) = DAEMON_SETS.deleted(world, logged)?;
    let desired = surely_desired(world, set).any(|node| name(node) == target(&pod));
    // The state after the deletion is not that of an available Pod: it is asked about the moment before.
    let available =
        !has_finished(&pod) && !is_deleting(&pod) && is_ready(&pod) && is_surely_available_now(world, set, &pod);
    (desired && available).then_some((pod, set))
}

/// Whether a Pod is surely available, or was until it began to terminate just now.
fn is_surely_available_now(world: &World, set: &Value, pod: &Value) -> bool {
    DAEMON_SETS.recent(world, set).all(|set| is_surely_available(world, set, name(pod)))
}

fn may_be_available(world: &World, set: &Value, pod: &Value) -> bool {
    DAEMON_SETS.recent(world, set).any(|set| was_available(world, set, name(pod)))
}

/// Whether a node may have been taken for one with an available Pod: not if the controller deleted that one itself.
fn may_serve(world: &World, set: &Value, node: &str) -> bool {
    let there = |pod: &&Arc<Value>| {
        controller_uid(pod) == uid(set) && target(pod) == node && !deleted_by_the_controller(world, pod)
    };
    // A Pod that was taken away from the set lately may still be taken for its own.
    let states = world.list_recent(PODS).flat_map(|pod| world.recently(PODS, NAMESPACE, name(pod)));
    states.filter(there).any(|pod| may_be_available(world, set, pod))
}

fn enough_stay_available(world: &World, logged: &Logged) -> Option<String> {
    let (pod, set) = updated(world, logged)?;
    let node = target(&pod);
    let desired = most_desired(world, set);
    if DAEMON_SETS.recent(world, set).any(|set| may_surge(set)) || has_company(world, set, &pod) {
        return None;
    }
    let limit = DAEMON_SETS.recent(world, set).map(|set| max_unavailable(set, desired)).max().unwrap_or(0);
    let others = surely_desired(world, set).filter(|other| name(other) != node);
    let unavailable = others.filter(|other| !may_serve(world, set, name(other))).count();
    (unavailable >= usize::try_from(limit).unwrap_or(0)).then(|| {
        format!(
            "Pod {} is available and is deleted while {unavailable} other nodes have none, and {limit} are allowed",
            name(&pod)
        )
    })
}

/// Whether another Pod of the set may have run on the same node, which then keeps one.
fn has_company(world: &World, set: &Value, pod: &Value) -> bool {
    let there = |state: &Arc<Value>| controller_uid(state) == uid(set) && target(state) == target(pod) && runs(state);
    let mut others = world.list_recent(PODS).filter(|other| uid(other) != uid(pod));
    others.any(|other| world.recently(PODS, NAMESPACE, name(other)).any(there))
}

/// Whether a node surely has an old Pod that runs and a new one that is not available yet.
fn surges(world: &World, set: &Value, node: &str) -> bool {
    let outdated = |pod: &&Arc<Value>| DAEMON_SETS.recent(world, set).all(|set| !is_updated(world, set, pod));
    let waits = |pod: &&Arc<Value>| {
        let mut sets = DAEMON_SETS.recent(world, set);
        sets.all(|set| is_updated(world, set, pod) && !was_available(world, set, name(pod)))
    };
    known_pods(world, set, node, runs).any(|pod| outdated(&pod))
        && known_pods(world, set, node, runs).any(|pod| waits(&pod))
}

fn surge_keeps_to_its_limit(world: &World, logged: &Logged) -> Option<String> {
    let (pod, set) = DAEMON_SETS.created(world, logged)?;
    let node = target(&pod);
    let is_old = |other: &Value| uid(other) != uid(&pod) && is_surely_available_now(world, set, other);
    if !known_pods(world, set, node, runs).any(|other| is_old(other)) {
        return None;
    }
    let desired = most_desired(world, set);
    let limit = DAEMON_SETS.recent(world, set).map(|set| max_surge(set, desired)).max().unwrap_or(0);
    let others = world.list(NODES).filter(|other| name(other) != node);
    let surging = others.filter(|other| surges(world, set, name(other))).count();
    (surging >= usize::try_from(limit).unwrap_or(0))
        .then(|| format!("Pod {} is created while {surging} other nodes surge, and {limit} may", name(&pod)))
}

fn surge_leaves_no_gap(world: &World, logged: &Logged) -> Option<String> {
    let (pod, set) = updated(world, logged)?;
    let serves = |other: &&Arc<Value>| {
        let there = uid(other) != uid(&pod) && controller_uid(other) == uid(set) && target(other) == target(&pod);
        there && may_be_available(world, set, other)
    };
    let surges = DAEMON_SETS.recent(world, set).all(|set| may_surge(set));
    (surges && !world.list_recent(PODS).any(|other| serves(&other)))
        .then(|| format!("Pod {} is available and is deleted before another one is, despite surge", name(&pod)))
}

fn revisions_are_templates(world: &World, logged: &Logged) -> Option<String> {
    let ours = logged.is_of(CONTROLLER, REVISIONS) && !logged.deletes();
    let revision = logged.after().filter(|_| ours)?;
    let who = name(&revision);
    if label(&revision, HASH).is_empty() {
        return Some(format!("revision {who} has no hash"));
    }
    if !logged.creates() {
        let before = logged.before().filter(|before| before["data"] != revision["data"])?;
        return Some(format!("the data of revision {} was changed", name(&before)));
    }
    let Some(set) = DAEMON_SETS.owner(world, &revision) else {
        return Some(format!("revision {who} is no DaemonSet's"));
    };
    if who != format!("{}-{}", name(set), label(&revision, HASH)) {
        return Some(format!("revision {who} is not named after its hash"));
    }
    (!DAEMON_SETS.recent(world, set).any(|set| holds_template(&revision, set)))
        .then(|| format!("revision {who} does not hold the template of {}", name(set)))
}

fn live_revisions_stay(world: &World, logged: &Logged) -> Option<String> {
    let gone = logged.deleted(CONTROLLER, REVISIONS)?;
    let Some(set) = DAEMON_SETS.owner(world, &gone) else {
        return Some(format!("revision {} is deleted and is no DaemonSet's", name(&gone)));
    };
    let hash = label(&gone, HASH);
    let carries = |pod: &Value| controller_uid(pod) == uid(set) && label(pod, HASH) == hash;
    if let Some(pod) = DAEMON_SETS.dependents_of(world, set).find(|pod| always(world, pod, carries)) {
        return Some(format!("revision {} is deleted, and Pod {} is of it", name(&gone), name(pod)));
    }
    let mut others = world.list(REVISIONS).filter(|r| controller_uid(r) == uid(set) && uid(r) != uid(&gone));
    let is_used = DAEMON_SETS.recent(world, set).all(|set| holds_template(&gone, set));
    (is_used && !others.any(|other| holds_template(other, set)))
        .then(|| format!("revision {} is deleted, and is that of the template", name(&gone)))
}

fn statuses_make_sense(_: &World, logged: &Logged) -> Option<String> {
    let falling: &[&[&str]] = &[
        &["desiredNumberScheduled", "currentNumberScheduled", "numberReady", "numberAvailable"],
        &["currentNumberScheduled", "updatedNumberScheduled"],
    ];
    let (_, after) = DAEMON_SETS.status(logged)?;
    let is = |field: &str| number(&after, &format!("/status/{field}"));
    let missing = is("desiredNumberScheduled") - is("numberAvailable");
    let is_wrong = is("numberUnavailable") != missing || is("numberMisscheduled") < 0;
    let others = DAEMON_SETS.statuses_make_sense(logged, &["observedGeneration", "collisionCount"], falling);
    others.or_else(|| is_wrong.then(|| format!("{} says {}", name(&after), after["status"])))
}

/// A set that is left alone has one Pod on every node where one should run and none where none may, its status says so, and its
/// rolling update has gone as far as its limit allows.
fn daemon_sets_get_there(world: &World) -> Option<String> {
    for set in world.list(DAEMON_SETS.owners).filter(|set| !is_deleting(set)) {
        let wrong = |what: String| Some(format!("DaemonSet {}: {what}", name(set)));
        if let Some(wrong) = says(set, &[]) {
            return Some(wrong);
        }
        let mut counts = [0; 6];
        for node in world.list(NODES) {
            let on_node: Vec<_> = DAEMON_SETS
                .dependents_of(world, set)
                .filter(|pod| target(pod) == name(node) && !is_leaving(pod))
                .collect();
            let place = place(set, node);
            let most = if may_surge(set) { 2 } else { 1 };
            if (place == Place::Runs && on_node.is_empty()) || on_node.len() > most {
                return wrong(format!("node {} has {} Pods", name(node), on_node.len()));
            }
            if let (Place::Leaves, Some(pod)) = (place, on_node.first()) {
                return wrong(format!("Pod {} is on node {}, where it may not be", name(pod), name(node)));
            }
            if let Some(pod) = on_node.iter().find(|pod| has_finished(pod)) {
                return wrong(format!("Pod {} has finished and is not replaced", name(pod)));
            }
            // Of two, the older one counts.
            let Some(first) = on_node.iter().min_by_key(|pod| text(pod, "/metadata/creationTimestamp")) else {
                continue;
            };
            let holds = match place {
                Place::Runs => [true, true, is_ready(first), is_ready(first), is_updated(world, set, first), false],
                Place::Stays | Place::Leaves => [false, false, false, false, false, true],
            };
            counts.iter_mut().zip(holds).for_each(|(count, holds)| *count += i64::from(holds));
        }
        let fields = [
            "desiredNumberScheduled",
            "currentNumberScheduled",
            "numberReady",
            "numberAvailable",
            "updatedNumberScheduled",
            "numberMisscheduled",
        ];
        if let Some(wrong) = says(set, &fields.into_iter().zip(counts).collect::<Vec<_>>()) {
            return Some(wrong);
        }
        if let Some(pod) = left_behind(world, set).filter(|_| rolls(set)) {
            return wrong(format!("Pod {} is not updated", name(pod)));
        }
        if let Some(pod) = DAEMON_SETS.dependents_of(world, set).find(|pod| !selects(set, SELECTOR, pod)) {
            return wrong(format!("Pod {} is not released", name(pod)));
        }
        let adoptable = |pod: &&Arc<Value>| controller(pod).is_none() && runs(pod) && selects(set, SELECTOR, pod);
        if let Some(pod) = world.list(PODS).find(adoptable) {
            return wrong(format!("Pod {} is not adopted", name(pod)));
        }
    }
    None
}

/// The revision of the template exists once, has the highest number, and the history is no longer than its limit.
fn histories_are_in_order(world: &World) -> Option<String> {
    for set in world.list(DAEMON_SETS.owners).filter(|set| !is_deleting(set)) {
        let own = || world.list(REVISIONS).filter(|revision| controller_uid(revision) == uid(set));
        let (current, old): (Vec<_>, Vec<_>) = own().partition(|revision| holds_template(revision, set));
        let wrong = |what: String| Some(format!("the history of {}: {what}", name(set)));
        // One of that name that an earlier set owns is the garbage collector's to delete. Until then it is used.
        let is_left = |revision: &&Arc<Value>| {
            let of_earlier = controller(revision).is_some_and(|owner| text(owner, "/uid") != uid(set));
            of_earlier && holds_template(revision, set) && name(revision).starts_with(name(set))
        };
        if current.is_empty() && world.list(REVISIONS).any(|revision| is_left(&revision)) {
            continue;
        }
        let [current] = &current[..] else { return wrong(format!("its template is stored {} times", current.len())) };
        let number_of = |revision: &Value| number(revision, "/revision");
        if let Some(newer) = old.iter().find(|one| number_of(one) >= number_of(current)) {
            return wrong(format!("{} is not older than {}", name(newer), name(current)));
        }
        if let Some(bare) = own().find(|revision| label(revision, HASH).is_empty()) {
            return wrong(format!("{} has no hash", name(bare)));
        }
        let live = |revision: &&&Arc<Value>| {
            DAEMON_SETS.dependents_of(world, set).any(|pod| label(pod, HASH) == label(revision, HASH))
        };
        let (kept, unused) = (old.len(), old.iter().filter(|revision| !live(revision)).count());
        let limit = usize::try_from(number(set, "/spec/revisionHistoryLimit")).unwrap_or(0);
        if kept > limit && unused > 0 {
            return wrong(format!("{kept} old revisions are kept, and {limit} are asked for"));
        }
    }
    None
}

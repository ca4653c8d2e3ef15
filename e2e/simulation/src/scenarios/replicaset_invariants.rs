//! What always holds of ReplicaSets and their Pods, and what holds in the end, read off the API server's true state.

use std::{sync::Arc, time::Duration};

use serde_json::Value;

use super::rules::{REPLICA_SETS, says, without};
use crate::{
    json::{
        condition, controller, controller_uid, has_finished, is_deleting, is_ready, labels, name, number, owners,
        selects, uid,
    },
    scenario::{Invariant, Promise},
    stage::NAMESPACE,
    world::{Logged, World},
};

const PODS: &str = "pods";
const SELECTOR: &str = "/spec/selector";

pub(super) const INVARIANTS: &[Invariant] = &[
    Invariant {
        name: "creates-only-what-is-missing",
        claims: "REPLICASET-17, REPLICASET-42, REPLICASET-52",
        check: creates_what_is_missing,
    },
    Invariant { name: "deletes-only-what-is-too-much", claims: "REPLICASET-86", check: deletes_what_is_too_much },
    Invariant { name: "the-deleted-make-nothing", claims: "REPLICASET-21", check: the_deleted_make_nothing },
    Invariant {
        name: "deletes-only-its-own",
        claims: "REPLICASET-13, REPLICASET-74, REPLICASET-86",
        check: deletes_only_its_own,
    },
    Invariant { name: "other-pods-are-untouched", claims: "REPLICASET-13", check: other_pods_are_untouched },
    Invariant { name: "pods-are-born-owned", claims: "REPLICASET-19, REPLICASET-80", check: pods_are_born_owned },
    Invariant {
        name: "only-the-living-adopt",
        claims: "REPLICASET-9, REPLICASET-11, REPLICASET-12, COMMON-27",
        check: |world, logged| REPLICA_SETS.only_the_living_adopt(world, logged),
    },
    Invariant { name: "counts-make-sense", claims: "REPLICASET-30, REPLICASET-87", check: counts_make_sense },
    Invariant { name: "the-unready-go-first", claims: "REPLICASET-23", check: the_unready_go_first },
    Invariant { name: "a-release-is-a-release", claims: "REPLICASET-10", check: a_release_is_a_release },
];

pub(super) const PROMISES: &[Promise] = &[Promise {
    name: "sets-get-there",
    claims: "REPLICASET-9, REPLICASET-10, REPLICASET-17, REPLICASET-30, REPLICASET-77, REPLICASET-86",
    check: sets_get_there,
}];

fn is_active(pod: &Value) -> bool {
    !is_deleting(pod) && !has_finished(pod)
}

fn pods<'a>(world: &'a World, set: &'a Value) -> impl Iterator<Item = &'a Arc<Value>> {
    let of = move |pod: &&Arc<Value>| controller_uid(pod) == uid(set) && selects(set, SELECTOR, pod) && is_active(pod);
    world.list(PODS).filter(of)
}

/// How many Pods of a set others have changed so lately that the controller may not know: each may make it create or keep
/// one that it would not, had it known.
fn touched(world: &World, set: &Value) -> i64 {
    let lately = world.now().checked_sub(world.lag()).unwrap_or(world.now());
    let mut pods: Vec<&str> = Vec::new();
    for logged in world.log().iter().rev().take_while(|logged| logged.at >= lately) {
        if logged.resource() != PODS || logged.by(REPLICA_SETS.controller) {
            continue;
        }
        let states = [logged.before(), logged.after()];
        let member = |pod: &Option<Arc<Value>>| {
            pod.as_ref().is_some_and(|pod| {
                let owned = controller_uid(pod) == uid(set) || controller(pod).is_none();
                owned && selects(set, SELECTOR, pod) && is_active(pod)
            })
        };
        if member(&states[0]) != member(&states[1]) && !pods.contains(&logged.write.name.as_str()) {
            pods.push(&logged.write.name);
        }
    }
    pods.len() as i64
}

fn creates_what_is_missing(world: &World, logged: &Logged) -> Option<String> {
    let (_, set) = REPLICA_SETS.created(world, logged)?;
    let wanted = REPLICA_SETS.recent(world, set).map(|set| number(set, "/spec/replicas")).max().unwrap_or(0);
    let (there, touched) = (pods(world, set).count() as i64, touched(world, set));
    (there > wanted + touched).then(|| format!("{} gets Pod number {there} and wants {wanted}", name(set)))
}

fn deletes_what_is_too_much(world: &World, logged: &Logged) -> Option<String> {
    let (_, set) = REPLICA_SETS.deleted(world, logged)?;
    let wanted = REPLICA_SETS.recent(world, set).map(|set| number(set, "/spec/replicas")).min().unwrap_or(0);
    let (there, touched) = (pods(world, set).count() as i64, touched(world, set));
    (there < wanted - touched).then(|| format!("{} is left with {there} Pods and wants {wanted}", name(set)))
}

fn the_deleted_make_nothing(world: &World, logged: &Logged) -> Option<String> {
    let makes = REPLICA_SETS.writes(logged) && (logged.creates() || logged.deletes());
    if makes { REPLICA_SETS.the_deleted_write_nothing(world, logged) } else { None }
}

fn deletes_only_its_own(world: &World, logged: &Logged) -> Option<String> {
    let pod = logged.before().filter(|_| REPLICA_SETS.writes(logged) && logged.deletes())?;
    // The deletion names the version of the Pod that was judged: it is of this state and of no earlier one.
    let owner = REPLICA_SETS.owner(world, &pod);
    (!is_active(&pod) || owner.is_none_or(|set| !selects(set, SELECTOR, &pod)))
        .then(|| format!("Pod {} is deleted and is no ReplicaSet's", name(&pod)))
}

fn other_pods_are_untouched(_: &World, logged: &Logged) -> Option<String> {
    let pod = logged.before().filter(|_| REPLICA_SETS.writes(logged))?;
    let owner = controller(&pod);
    if owner.is_some_and(|owner| owner["kind"] != "ReplicaSet") {
        return Some(format!("Pod {} is another controller's", name(&pod)));
    }
    (!is_active(&pod)).then(|| format!("Pod {} is over or going, and is written", name(&pod)))
}

fn pods_are_born_owned(world: &World, logged: &Logged) -> Option<String> {
    let pod = logged.after().filter(|_| REPLICA_SETS.writes(logged) && logged.creates())?;
    let Some(set) = REPLICA_SETS.owner(world, &pod) else {
        return Some(format!("Pod {} is created for no ReplicaSet", name(&pod)));
    };
    if !selects(set, SELECTOR, &pod) {
        return Some(format!("Pod {} is created for {}, which does not select it", name(&pod), name(set)));
    }
    let wanted = labels(&set["spec"]["template"]);
    (wanted != labels(&pod)).then(|| format!("Pod {} has other labels than the template of {}", name(&pod), name(set)))
}

fn counts_make_sense(_: &World, logged: &Logged) -> Option<String> {
    let falling: &[&[&str]] =
        &[&["replicas", "readyReplicas", "availableReplicas"], &["replicas", "fullyLabeledReplicas"]];
    REPLICA_SETS.statuses_make_sense(logged, &[], falling)
}

/// Asked when a sync that deleted a ready Pod is over: requests of one sync arrive in any order.
///
/// Unready Pods that are kept are no more than there are still too many Pods: those were to be deleted as well, and the
/// server has refused it.
fn the_unready_go_first(world: &World, logged: &Logged) -> Option<String> {
    let syncing = |write: &&Logged| logged.at - write.at < Duration::from_secs(1);
    let at_status =
        logged.by(REPLICA_SETS.controller) && logged.resource() == REPLICA_SETS.owners && logged.through("status");
    let set = logged.after().filter(|_| at_status)?;
    let log = world.log();
    for write in log.iter().rev().take_while(syncing).filter(|write| REPLICA_SETS.writes(write) && write.deletes()) {
        let Some(gone) = write.before().filter(|pod| controller_uid(pod) == uid(&set) && is_ready(pod)) else {
            continue;
        };
        let unready = |pod: &&Arc<Value>| {
            let states = world.recent(PODS, NAMESPACE, name(pod));
            states.iter().all(|s| s.is_some_and(|s| uid(s) == uid(pod) && is_active(s) && !is_ready(s)))
        };
        let wanted = REPLICA_SETS.recent(world, &set).map(|set| number(set, "/spec/replicas")).min().unwrap_or(0);
        let surplus = pods(world, &set).count() as i64 - wanted;
        let ready_before = world.recently(PODS, NAMESPACE, name(&gone)).all(|pod| is_ready(pod) || is_deleting(pod));
        let kept: Vec<_> = pods(world, &set).filter(unready).collect();
        if let Some(kept) = kept.first().filter(|_| ready_before && kept.len() as i64 > surplus) {
            return Some(format!("ready Pod {} is deleted and unready Pod {} is kept", name(&gone), name(kept)));
        }
    }
    None
}

fn a_release_is_a_release(_: &World, logged: &Logged) -> Option<String> {
    let (before, after) = logged.change().filter(|_| REPLICA_SETS.writes(logged) && !logged.deletes())?;
    if without(&before, &["ownerReferences"]) != without(&after, &["ownerReferences"]) {
        return Some(format!("more than the owner of Pod {} was changed", name(&after)));
    }
    let others = |pod: &Value| -> Vec<Value> {
        owners(pod).filter(|reference| reference["controller"] != true).cloned().collect()
    };
    (others(&before) != others(&after))
        .then(|| format!("an owner of Pod {} that is not its controller was changed", name(&after)))
}

/// A set that is left alone has the Pods it wants, no others, and says so.
fn sets_get_there(world: &World) -> Option<String> {
    for set in world.list(REPLICA_SETS.owners).filter(|set| !is_deleting(set)) {
        let (who, wanted) = (name(set), number(set, "/spec/replicas"));
        let wrong = |what: String| Some(format!("ReplicaSet {who}: {what}"));
        let there = pods(world, set).count() as i64;
        if there != wanted {
            return wrong(format!("it has {there} Pods and wants {wanted}"));
        }
        for pod in world.list(PODS) {
            if controller_uid(pod) == uid(set) && !has_finished(pod) && !selects(set, SELECTOR, pod) {
                return wrong(format!("Pod {} is not released", name(pod)));
            }
            if controller(pod).is_none() && is_active(pod) && selects(set, SELECTOR, pod) {
                return wrong(format!("Pod {} is not adopted", name(pod)));
            }
        }
        let ready = pods(world, set).filter(|pod| is_ready(pod)).count() as i64;
        if let Some(wrong) = says(set, &[("replicas", there), ("readyReplicas", ready), ("availableReplicas", ready)]) {
            return Some(wrong);
        }
        if !condition(set, "ReplicaFailure", "status").is_empty() {
            return wrong("it still tells of a failure".to_owned());
        }
    }
    None
}

//! What users do at any moment with the objects of several suites.

#![expect(clippy::unnecessary_wraps, reason = "an interference returns these values as they are")]

use std::time::Duration;

use serde_json::{Value, json};

use crate::{
    json::{controller, is_deleting, name, text},
    scenario::{Deeds, Target, What},
    stage::NAMESPACE,
    world::World,
};

const PODS: &str = "pods";

pub(super) fn at_once(deeds: impl IntoIterator<Item = What>) -> Deeds {
    Some(deeds.into_iter().map(|what| (Duration::ZERO, what)).collect())
}

/// One thing at once, and another one so many seconds later.
pub(super) fn later(first: What, seconds: u64, second: What) -> Deeds {
    Some(vec![(Duration::ZERO, first), (Duration::from_secs(seconds), second)])
}

pub(super) fn one_of<T>(all: Vec<T>, luck: u64) -> Option<T> {
    let index = usize::try_from(luck).unwrap_or(0).checked_rem(all.len())?;
    all.into_iter().nth(index)
}

/// The names of the Pods that have a controller and do not terminate.
pub(super) fn owned_pods(world: &World) -> Vec<String> {
    let owned = world.list(PODS).filter(|pod| controller(pod).is_some() && !is_deleting(pod));
    owned.map(|pod| name(pod).to_owned()).collect()
}

pub(super) fn one_pod(world: &World, luck: u64) -> Option<String> {
    one_of(owned_pods(world), luck)
}

pub(super) fn delete_pod(world: &World, luck: u64) -> Deeds {
    at_once([What::delete(PODS, &one_pod(world, luck)?)])
}

pub(super) fn fail_pod(world: &World, luck: u64) -> Deeds {
    let failed = json!({"status": {"phase": "Failed", "reason": "Evicted"}});
    at_once([What::MergeStatus(Target::new(PODS, &one_pod(world, luck)?), failed)])
}

/// A Pod leaves its controller by its label, and is deleted a while later.
pub(super) fn relabel_pod(world: &World, luck: u64) -> Deeds {
    let pod = one_pod(world, luck)?;
    let relabelled = What::merge(PODS, &pod, json!({"metadata": {"labels": {"app": "other"}}}));
    later(relabelled, 60, What::delete_now(PODS, &pod))
}

/// A user takes a Pod away from its controller, to look into it, and deletes it a while later.
pub(super) fn take_pod(world: &World, luck: u64) -> Deeds {
    let pod = one_pod(world, luck)?;
    let taken = json!({"metadata": {"labels": {"app": "taken"}, "ownerReferences": null}});
    later(What::merge(PODS, &pod, taken), 120, What::delete_now(PODS, &pod))
}

/// Somebody takes a Pod's label away whenever it has it, eight times, faster and slower than a controller follows.
pub(super) fn fight(world: &World, luck: u64) -> Deeds {
    let pod = one_pod(world, luck)?;
    let own = text(world.get(PODS, NAMESPACE, &pod)?, "/metadata/labels/app");
    let label = |app: &str| What::merge(PODS, &pod, json!({"metadata": {"labels": {"app": app}}}));
    let round = |round: u64| {
        let wait = Duration::from_millis(5 + (luck >> round) % 200 * (round + 1));
        [(wait, label("other")), (wait, label(own))]
    };
    Some((0..8).flat_map(round).collect())
}

/// A number in the `spec` of an object is another one below a limit for some seconds.
pub(super) fn scale(world: &World, luck: u64, (resource, name): (&str, &str), field: &str, below: u64) -> Deeds {
    let size = world.get(resource, NAMESPACE, name)?["spec"][field].as_i64()?;
    let scaled = |size: i64| What::merge(resource, name, json!({"spec": {field: size}}));
    later(scaled(i64::try_from(luck % below).unwrap_or(0)), luck % 20, scaled(size))
}

/// An object is suspended, or resumed, for some seconds.
pub(super) fn suspend(world: &World, luck: u64, resource: &str, name: &str) -> Deeds {
    let is_suspended = world.get(resource, NAMESPACE, name)?["spec"]["suspend"] == json!(true);
    let suspend = |suspend: bool| What::merge(resource, name, json!({"spec": {"suspend": suspend}}));
    later(suspend(!is_suspended), luck % 30, suspend(is_suspended))
}

/// An object of the same kind, name and wish, to replace one that is deleted.
pub(super) fn again(world: &World, resource: &str, name: &str) -> Option<Value> {
    let old = world.get(resource, NAMESPACE, name)?;
    let (version, kind) = (&old["apiVersion"], &old["kind"]);
    Some(json!({"apiVersion": version, "kind": kind, "metadata": {"name": name}, "spec": old["spec"]}))
}

/// A set is replaced by another one of its name; its Pods and revisions are deleted with it.
pub(super) fn replace_set(world: &World, resource: &str, name: &str) -> Option<[What; 4]> {
    let again = again(world, resource, name)?;
    let of_set = |resource: &str| What::delete_all(resource, "app", name);
    let revisions = of_set("controllerrevisions.apps");
    Some([What::delete(resource, name), revisions, What::Create(again), of_set(PODS)])
}

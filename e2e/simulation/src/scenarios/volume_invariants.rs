//! What always holds of storage in use and of ephemeral claims, and what holds in the end, read off the API server's true state.

use std::{sync::Arc, time::Duration};

use common::clock::Instant;
use serde_json::Value;

use crate::{
    json::{at, controller_uid, has_finalizer, is_deleting, items, name, text, uid},
    scenario::{Invariant, Promise},
    stage::NAMESPACE,
    world::{Logged, World},
};

const CONTROLLER: &str = "volume-controller";
pub(super) const CLAIMS: &str = "persistentvolumeclaims";
pub(super) const PODS: &str = "pods";
const VOLUMES: &str = "persistentvolumes";
const CLASSES: &str = "volumeattributesclasses.storage.k8s.io";
/// The protected kinds with their finalizers.
const FINALIZERS: [(&str, &str); 3] = [
    (CLAIMS, "kubernetes.io/pvc-protection"),
    (VOLUMES, "kubernetes.io/pv-protection"),
    (CLASSES, "kubernetes.io/vac-protection"),
];
/// How long a list of Pods is used. A Pod that gets its node later is not in the list.
const LIST_LIFETIME: Duration = Duration::from_secs(1);

pub(super) const INVARIANTS: &[Invariant] = &[
    Invariant {
        name: "claims-in-use-keep-their-finalizers",
        claims: "VOLUME-8, VOLUME-17, VOLUME-18, VOLUME-23, VOLUME-25, VOLUME-54",
        check: claims_in_use_keep_their_finalizers,
    },
    Invariant {
        name: "bound-volumes-keep-their-finalizers",
        claims: "VOLUME-8, VOLUME-29, VOLUME-30",
        check: bound_volumes_keep_their_finalizers,
    },
    Invariant {
        name: "named-classes-keep-their-finalizers",
        claims: "VOLUME-8, VOLUME-33, VOLUME-34",
        check: named_classes_keep_their_finalizers,
    },
    Invariant {
        name: "only-the-own-finalizer-changes",
        claims: "VOLUME-7, VOLUME-9, VOLUME-10, VOLUME-12",
        check: only_the_own_finalizer_changes,
    },
    Invariant {
        name: "only-ephemeral-claims-are-created",
        claims: "VOLUME-12, VOLUME-39, VOLUME-40, VOLUME-41, VOLUME-42",
        check: only_ephemeral_claims_are_created,
    },
];

pub(super) const PROMISES: &[Promise] = &[
    Promise {
        name: "unused-storage-is-gone",
        claims: "VOLUME-8, VOLUME-14, VOLUME-15, VOLUME-26, VOLUME-28, VOLUME-32",
        check: unused_storage_is_gone,
    },
    Promise { name: "storage-is-protected", claims: "VOLUME-7, VOLUME-13", check: storage_is_protected },
    Promise {
        name: "ephemeral-volumes-have-their-claims",
        claims: "VOLUME-35, VOLUME-36, VOLUME-38, VOLUME-45",
        check: ephemeral_volumes_have_their_claims,
    },
];

/// The object from which the controller has just removed the finalizer of its kind, as it was.
fn freed(logged: &Logged, resource: &str) -> Option<Arc<Value>> {
    let (_, finalizer) = FINALIZERS.into_iter().find(|(kind, _)| *kind == resource)?;
    let before = logged.before().filter(|_| logged.is_of(CONTROLLER, resource))?;
    let is_left = logged.after().is_some_and(|after| has_finalizer(&after, finalizer));
    (has_finalizer(&before, finalizer) && !is_left).then_some(before)
}

/// Whether a Pod uses a claim of its namespace.
fn uses(pod: &Value, claim: &Value) -> bool {
    let is_shut_down = is_deleting(pod) && at(pod, "/metadata/deletionGracePeriodSeconds").is_some_and(|s| *s == 0);
    let counts_ephemeral = controller_uid(claim) == uid(pod) && !is_shut_down;
    let mut sources = items(pod, "/spec/volumes").iter();
    let is_mounted = sources.any(|volume| text(volume, "/persistentVolumeClaim/claimName") == name(claim))
        || (counts_ephemeral && ephemeral_volumes(pod).any(|(claim_name, _)| claim_name == name(claim)));
    !text(pod, "/spec/nodeName").is_empty() && is_mounted
}

/// The ephemeral volumes of a Pod, each with the name of its claim.
fn ephemeral_volumes(pod: &Value) -> impl Iterator<Item = (String, &Value)> {
    let volumes = items(pod, "/spec/volumes").iter().filter(|volume| at(volume, "/ephemeral").is_some());
    volumes.map(move |volume| (format!("{}-{}", name(pod), text(volume, "/name")), volume))
}

/// When an object had a property first.
fn first(world: &World, resource: &str, object: &Value, holds: impl Fn(&Value) -> bool) -> Option<Instant> {
    let states = world.states(resource, text(object, "/metadata/namespace"), name(object));
    let mut states = states.iter().filter_map(|(at, state)| Some((*at, state.as_ref()?)));
    states.find(|(_, state)| uid(state) == uid(object) && holds(state)).map(|(at, _)| at)
}

/// A claim that a Pod uses at this moment loses no finalizer. A Pod that got its node after the deletion of the claim need not be
/// in the list that decides, if the list may have been requested before that.
fn claims_in_use_keep_their_finalizers(world: &World, logged: &Logged) -> Option<String> {
    let claim = freed(logged, CLAIMS)?;
    if !is_deleting(&claim) {
        return Some(format!("claim {} is not terminating", name(&claim)));
    }
    let deleted = first(world, CLAIMS, &claim, is_deleting)?;
    let oldest_list = world.now().checked_sub(LIST_LIFETIME + world.lag());
    let oldest_list = oldest_list.map_or(deleted, |oldest| oldest.max(deleted));
    let pods = world.list(PODS).filter(|pod| text(pod, "/metadata/namespace") == text(&claim, "/metadata/namespace"));
    let mut users = pods.filter(|pod| uses(pod, &claim));
    let user = users.find(|pod| first(world, PODS, pod, |pod| uses(pod, &claim)).is_some_and(|at| at < oldest_list))?;
    Some(format!("claim {} is freed, and Pod {} uses it", name(&claim), name(user)))
}

fn bound_volumes_keep_their_finalizers(_: &World, logged: &Logged) -> Option<String> {
    let volume = freed(logged, VOLUMES)?;
    let is_free = is_deleting(&volume) && text(&volume, "/status/phase") != "Bound";
    (!is_free).then(|| format!("volume {} is freed, and it is bound or not terminating", name(&volume)))
}

fn names_class(object: &Value, class: &str) -> bool {
    let current = "/status/currentVolumeAttributesClassName";
    let target = "/status/modifyVolumeStatus/targetVolumeAttributesClassName";
    ["/spec/volumeAttributesClassName", current, target].iter().any(|pointer| text(object, pointer) == class)
}

/// An object that has named a class for longer than the controller may be behind.
fn user_of_class(world: &World, resource: &str, class: &str) -> Option<String> {
    let user = world.list(resource).find(|object| {
        let states = world.recent(resource, text(object, "/metadata/namespace"), name(object));
        states.iter().all(|state| state.is_some_and(|state| names_class(state, class)))
    })?;
    Some(format!("class {class} is freed, and {resource} {} names it", name(user)))
}

fn named_classes_keep_their_finalizers(world: &World, logged: &Logged) -> Option<String> {
    let class = freed(logged, CLASSES)?;
    if !is_deleting(&class) {
        return Some(format!("class {} is not terminating", name(&class)));
    }
    [CLAIMS, VOLUMES].into_iter().find_map(|resource| user_of_class(world, resource, name(&class)))
}

/// The object without what a write of the finalizer may change.
fn remainder(object: &Value, finalizer: &str) -> Value {
    let mut object = object.clone();
    if let Some(finalizers) = object.pointer_mut("/metadata/finalizers").and_then(Value::as_array_mut) {
        finalizers.retain(|each| each != finalizer);
    }
    if let Some(metadata) = object.pointer_mut("/metadata").and_then(Value::as_object_mut) {
        metadata.retain(|field, value| {
            let is_empty = value.as_array().is_some_and(Vec::is_empty);
            !is_empty && !matches!(field.as_str(), "resourceVersion" | "managedFields")
        });
    }
    object
}

fn only_the_own_finalizer_changes(_: &World, logged: &Logged) -> Option<String> {
    let resource = logged.resource();
    let (_, finalizer) = FINALIZERS.into_iter().find(|(kind, _)| *kind == resource)?;
    let before = logged.before().filter(|_| logged.by(CONTROLLER))?;
    let is_right = !logged.deletes()
        && match logged.after() {
            // The last finalizer of a terminating object was removed.
            None => is_deleting(&before) && items(&before, "/metadata/finalizers").iter().all(|each| each == finalizer),
            Some(after) => {
                let is_added = has_finalizer(&after, finalizer) && !has_finalizer(&before, finalizer);
                !(is_added && is_deleting(&before)) && remainder(&before, finalizer) == remainder(&after, finalizer)
            }
        };
    (!is_right).then(|| format!("more than the finalizer of {resource} {} is changed", name(&before)))
}

fn only_ephemeral_claims_are_created(world: &World, logged: &Logged) -> Option<String> {
    let claim =
        logged.after().filter(|_| logged.by(CONTROLLER) && logged.creates() && logged.resource() != "events")?;
    let is_made_for = |pod: &&Arc<Value>| {
        let template = ephemeral_volumes(pod).find(|(claim_name, _)| claim_name == name(&claim));
        template.is_some_and(|(_, volume)| {
            let template = &volume["ephemeral"]["volumeClaimTemplate"];
            template["metadata"]["labels"] == claim["metadata"]["labels"]
                && template["spec"]["resources"] == claim["spec"]["resources"]
        })
    };
    let owner = world.by_uid(PODS, controller_uid(&claim)).filter(is_made_for);
    let is_right = logged.resource() == CLAIMS && owner.is_some();
    (!is_right).then(|| format!("{} {} is created for no ephemeral volume", logged.resource(), name(&claim)))
}

fn unused_storage_is_gone(world: &World) -> Option<String> {
    let is_used = |resource: &str, object: &Value| match resource {
        CLAIMS => world.list(PODS).any(|pod| uses(pod, object)),
        VOLUMES => text(object, "/status/phase") == "Bound",
        _ => [CLAIMS, VOLUMES].into_iter().any(|users| world.list(users).any(|user| names_class(user, name(object)))),
    };
    FINALIZERS.into_iter().find_map(|(resource, finalizer)| {
        let is_held = |object: &Value| is_deleting(object) && has_finalizer(object, finalizer);
        let held = world.list(resource).find(|object| is_held(object) && !is_used(resource, object))?;
        Some(format!("{resource} {} is not used and stays", name(held)))
    })
}

fn storage_is_protected(world: &World) -> Option<String> {
    FINALIZERS.into_iter().find_map(|(resource, finalizer)| {
        let bare = world.list(resource).find(|object| !is_deleting(object) && !has_finalizer(object, finalizer))?;
        Some(format!("{resource} {} has no finalizer", name(bare)))
    })
}

/// Each Pod has its claims, unless the name of one is taken.
fn ephemeral_volumes_have_their_claims(world: &World) -> Option<String> {
    world.list(PODS).filter(|pod| !is_deleting(pod)).find_map(|pod| {
        let mut names = ephemeral_volumes(pod).map(|(claim, _)| claim);
        let missing = names.find(|claim| world.get(CLAIMS, NAMESPACE, claim).is_none())?;
        Some(format!("Pod {} lacks claim {missing}", name(pod)))
    })
}

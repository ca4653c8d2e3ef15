//! What always holds of namespaces, and what holds in the end, read off the API server's true state.

use std::sync::Arc;

use sandbox::Change;
use serde_json::Value;

use crate::{
    json::{is_deleting, items, name},
    scenario::{Invariant, Promise},
    world::{Logged, World},
};

const CONTROLLER: &str = "namespace-controller";
/// The namespace of the scenarios.
pub(super) const TEAM: &str = "team";

pub(super) const INVARIANTS: &[Invariant] = &[
    Invariant { name: "a-namespace-goes-last", claims: "NAMESPACE-36", check: a_namespace_goes_last },
    Invariant {
        name: "active-namespaces-keep-content",
        claims: "NAMESPACE-1, NAMESPACE-7",
        check: active_keep_content,
    },
    Invariant { name: "pods-of-a-namespace-go-first", claims: "NAMESPACE-12, NAMESPACE-48", check: pods_go_first },
    Invariant { name: "namespaces-keep-metadata", claims: "NAMESPACE-37, NAMESPACE-41", check: metadata_is_kept },
];

pub(super) const PROMISES: &[Promise] =
    &[Promise { name: "no-namespace-stays", claims: "NAMESPACE-36, NAMESPACE-42", check: no_namespace_stays }];

/// The objects in a namespace, each with its resource.
fn content<'a>(world: &'a World, namespace: &str) -> impl Iterator<Item = (&'a str, &'a Arc<Value>)> {
    world.present().filter(move |(id, _)| id.1 == namespace).map(|(id, object)| (id.0.as_str(), object))
}

fn namespace_of<'a>(world: &'a World, called: &str) -> Option<&'a Arc<Value>> {
    world.present().find(|(id, _)| id.0 == "namespaces" && id.2 == called).map(|(_, namespace)| namespace)
}

/// The namespace of an object that this write has deleted or marked.
fn deletes_content(logged: &Logged) -> Option<&str> {
    let deletes = matches!(logged.write.verb, "delete" | "deletecollection");
    let namespace = logged.write.namespace.as_str();
    (logged.by(CONTROLLER) && deletes && !namespace.is_empty()).then_some(namespace)
}

fn a_namespace_goes_last(world: &World, logged: &Logged) -> Option<String> {
    let is_of_namespace = logged.is_of(CONTROLLER, "namespaces");
    let has_finalizer = |object: &Value| items(object, "/spec/finalizers").iter().any(|each| each == "kubernetes");
    let before = logged.before().filter(|before| is_of_namespace && has_finalizer(before))?;
    let is_finalized =
        logged.write.change == Change::Deleted || logged.after().is_some_and(|after| !has_finalizer(&after));
    let (resource, left) = content(world, name(&before)).next().filter(|_| is_finalized)?;
    Some(format!("namespace {} is finalized and {resource} {} is there", name(&before), name(left)))
}

fn active_keep_content(world: &World, logged: &Logged) -> Option<String> {
    let namespace = deletes_content(logged)?;
    let is_terminating = namespace_of(world, namespace).is_some_and(|namespace| is_deleting(namespace));
    (!is_terminating).then(|| format!("{} is deleted in the active namespace {namespace}", logged.write.name))
}

fn pods_go_first(world: &World, logged: &Logged) -> Option<String> {
    let namespace = deletes_content(logged).filter(|_| logged.resource() != "pods")?;
    let (_, pod) = content(world, namespace).find(|(resource, _)| *resource == "pods")?;
    Some(format!("{} {} is deleted before Pod {}", logged.resource(), logged.write.name, name(pod)))
}

fn metadata_is_kept(_: &World, logged: &Logged) -> Option<String> {
    let (before, after) = logged.changed(CONTROLLER, "namespaces")?;
    let kept = ["/metadata/labels", "/metadata/annotations", "/metadata/finalizers"];
    let lost = kept.into_iter().find(|pointer| before.pointer(pointer) != after.pointer(pointer));
    let others = |object: &Value| -> Vec<Value> {
        items(object, "/spec/finalizers").iter().filter(|each| **each != "kubernetes").cloned().collect()
    };
    let lost = lost.or_else(|| (others(&before) != others(&after)).then_some("/spec/finalizers"));
    lost.map(|pointer| format!("{pointer} of namespace {} is changed", name(&before)))
}

/// A terminating namespace is gone unless a finalizer of somebody holds an object in it, and nothing is left without a namespace.
fn no_namespace_stays(world: &World) -> Option<String> {
    let namespace = namespace_of(world, TEAM);
    let left = content(world, TEAM).next();
    match (namespace, left) {
        (None, Some((resource, object))) => Some(format!("{resource} {} has no namespace", name(object))),
        (Some(namespace), _) if is_deleting(namespace) => {
            let is_held = content(world, TEAM).any(|(_, object)| !items(object, "/metadata/finalizers").is_empty());
            (!is_held).then(|| format!("namespace {TEAM} is still terminating, and nothing holds it"))
        }
        _ => None,
    }
}

//! What users do with objects that own others.

use std::time::Duration;

use common::settings::TunableValue;
use serde_json::{Value, json};

use super::gc_invariants::{INVARIANTS, PROMISES, references};
use crate::{
    json::{annotation, is_deleting, name},
    scenario::{Interference, Owner, Scenario, Step, Suite, What, after, settled},
    world::{Id, World},
};

/// The garbage collector on its own, and objects that no other controller cares for.
pub(super) const SUITE: Suite = Suite {
    name: "gc",
    programs: &[&gc_controller::DEFINITION],
    tunes: TUNES,
    gates: &[],
    scenarios,
    invariants: &[INVARIANTS],
    promises: &[PROMISES],
    interferences: &[
        Interference { name: "keep", act: keep },
        Interference { name: "release", act: release },
        Interference { name: "correct", act: correct },
        Interference { name: "touch", act: touch },
        Interference { name: "delete", act: delete_one },
    ],
};

/// Kinds come and go in one scenario only, and each look at what there is takes longer than everything else in a minute. It
/// is less than users wait for things to settle.
pub(super) const TUNES: &[(&str, TunableValue)] =
    &[("gc-discovery-period", TunableValue::Duration(Duration::from_mins(5)))];

const MAPS: &str = "configmaps";
const SECRETS: &str = "secrets";
const PODS: &str = "pods";
const WIDGETS: &str = "widgets.sim.example.com";
const DEFINITIONS: &str = "customresourcedefinitions.apiextensions.k8s.io";

/// One that owns nothing and that nobody deletes.
const KEEPER: &str = "keeper";
/// The head of what is deleted.
const ROOT: &str = "root";

fn create(object: Value) -> Step {
    after(0.1, What::Create(object))
}

fn map(name: &str) -> Step {
    create(json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}}))
}

fn secret(name: &str) -> Step {
    create(json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name}}))
}

/// A Pod that takes two seconds to end.
fn pod(name: &str) -> Step {
    create(json!({"apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": name, "labels": {"app": "gc"}, "annotations": {"sim/terminate-after": "2"}},
        "spec": {"containers": [{"name": "c", "image": "img:1"}]}}))
}

fn widget(name: &str) -> Value {
    json!({"apiVersion": "sim.example.com/v1", "kind": "Widget", "metadata": {"name": name}})
}

fn definition() -> Value {
    json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": {"name": WIDGETS},
        "spec": {"group": "sim.example.com", "scope": "Namespaced", "names": {"plural": "widgets", "kind": "Widget"},
            "versions": [{"name": "v1", "served": true, "storage": true, "schema":
                {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}}}]}})
}

/// An owner that is not to go before its dependent.
fn blocked(resource: &'static str, name: &'static str) -> Owner {
    Owner { resource, name, blocked: true }
}

/// An owner that may.
fn free(resource: &'static str, name: &'static str) -> Owner {
    Owner { resource, name, blocked: false }
}

fn own(resource: &str, name: &str, owners: &[Owner]) -> Step {
    after(0.1, What::Own(resource.to_owned(), name.to_owned(), owners.to_vec()))
}

fn delete(resource: &str, name: &str, propagation: &str) -> What {
    What::Delete(resource.to_owned(), name.to_owned(), json!({ "propagationPolicy": propagation }))
}

/// A ConfigMap that owns a Secret that owns two Pods.
fn chain() -> Vec<Step> {
    let both = [blocked(SECRETS, "middle")];
    vec![
        map(KEEPER),
        map(ROOT),
        secret("middle"),
        own(SECRETS, "middle", &[blocked(MAPS, ROOT)]),
        pod("leaf-1"),
        own(PODS, "leaf-1", &both),
        pod("leaf-2"),
        own(PODS, "leaf-2", &both),
    ]
}

/// A ConfigMap that owns two Secrets that both own one Pod.
fn diamond() -> Vec<Step> {
    vec![
        map(KEEPER),
        map(ROOT),
        secret("left"),
        own(SECRETS, "left", &[blocked(MAPS, ROOT)]),
        secret("right"),
        own(SECRETS, "right", &[blocked(MAPS, ROOT)]),
        pod("bottom"),
        own(PODS, "bottom", &[blocked(SECRETS, "left"), blocked(SECRETS, "right")]),
    ]
}

/// A ConfigMap and a Secret that own each other, and a Pod that the Secret owns as well.
fn cycle() -> Vec<Step> {
    vec![
        map(KEEPER),
        map(ROOT),
        secret("back"),
        own(SECRETS, "back", &[blocked(MAPS, ROOT)]),
        own(MAPS, ROOT, &[blocked(SECRETS, "back")]),
        pod("leaf"),
        own(PODS, "leaf", &[blocked(SECRETS, "back")]),
    ]
}

fn with(mut steps: Vec<Step>, more: impl IntoIterator<Item = Step>) -> Vec<Step> {
    steps.extend(more);
    steps
}

fn scenarios() -> Vec<Scenario> {
    vec![
        Scenario {
            name: "chain-background",
            about: "an owner is deleted, and what it owns goes after it",
            steps: with(chain(), [settled(delete(MAPS, ROOT, "Background"))]),
        },
        Scenario {
            name: "chain-foreground",
            about: "an owner is deleted, and what it owns goes before it",
            steps: with(chain(), [settled(delete(MAPS, ROOT, "Foreground"))]),
        },
        Scenario {
            name: "chain-orphan",
            about: "an owner is deleted and what it owns stays; and then the same one below",
            steps: with(chain(), [settled(delete(MAPS, ROOT, "Orphan")), settled(delete(SECRETS, "middle", "Orphan"))]),
        },
        Scenario {
            name: "diamond-background",
            about: "an object with two owners goes when both have",
            steps: with(
                diamond(),
                [settled(delete(SECRETS, "left", "Background")), settled(delete(MAPS, ROOT, "Background"))],
            ),
        },
        Scenario {
            name: "diamond-foreground",
            about: "an object whose owners both wait for it",
            steps: with(diamond(), [settled(delete(MAPS, ROOT, "Foreground"))]),
        },
        Scenario {
            name: "diamond-orphan",
            about: "an object loses one of two owners, and stays when the other one goes without it",
            steps: with(
                diamond(),
                [
                    settled(delete(SECRETS, "left", "Foreground")),
                    settled(delete(SECRETS, "right", "Orphan")),
                    settled(delete(MAPS, ROOT, "Background")),
                ],
            ),
        },
        Scenario {
            name: "cycle-background",
            about: "two that own each other, of which one is deleted",
            steps: with(cycle(), [settled(delete(MAPS, ROOT, "Background"))]),
        },
        Scenario {
            name: "cycle-foreground",
            about: "two that own each other and would wait for each other for ever",
            steps: with(cycle(), [settled(delete(MAPS, ROOT, "Foreground"))]),
        },
        Scenario {
            name: "cycle-orphan",
            about: "two that own each other, of which one goes alone",
            steps: with(cycle(), [settled(delete(MAPS, ROOT, "Orphan"))]),
        },
        Scenario {
            name: "owner-recreated",
            about: "an owner is replaced by another one of its name, which owns something else",
            steps: with(
                chain(),
                [
                    settled(delete(MAPS, ROOT, "Background")),
                    after(0.001, map(ROOT).what),
                    secret("other"),
                    own(SECRETS, "other", &[blocked(MAPS, ROOT)]),
                ],
            ),
        },
        Scenario {
            name: "mistaken",
            about: "references to owners that never were, or are of another kind, beside right ones",
            steps: vec![
                map(KEEPER),
                map(ROOT),
                secret("good"),
                own(SECRETS, "good", &[free(MAPS, ROOT)]),
                create(json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "lost", "ownerReferences":
                    [{"apiVersion": "v1", "kind": "ConfigMap", "name": ROOT, "uid": "00000000-0000-0000-0000-000000000001"}]}})),
                create(json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "stuck", "ownerReferences":
                    [{"apiVersion": "example.com/v1", "kind": "Nothing", "name": ROOT, "uid": "00000000-0000-0000-0000-000000000002"}]}})),
                settled(What::merge(MAPS, ROOT, json!({"metadata": {"labels": {"note": "stays"}}}))),
            ],
        },
        Scenario {
            name: "definition",
            about: "a kind is removed with all of its objects, and comes again",
            steps: vec![
                map(KEEPER),
                create(definition()),
                settled(What::Create(widget(ROOT))),
                secret("below"),
                own(SECRETS, "below", &[blocked(WIDGETS, ROOT)]),
                create(widget("leaf")),
                own(WIDGETS, "leaf", &[blocked(SECRETS, "below")]),
                settled(delete(DEFINITIONS, WIDGETS, "Background")),
                settled(What::Create(definition())),
                settled(What::Create(widget(ROOT))),
                create(widget("leaf")),
                own(WIDGETS, "leaf", &[blocked(WIDGETS, ROOT)]),
                settled(delete(WIDGETS, ROOT, "Foreground")),
            ],
        },
    ]
}

/// One of the objects that have an owner and are not being deleted.
fn dependent(world: &World, luck: u64) -> Option<(Id, Value)> {
    let owned = |(id, object): &(&Id, &std::sync::Arc<Value>)| {
        [MAPS, SECRETS, PODS, WIDGETS].contains(&id.0.as_str())
            && !references(object).is_empty()
            && !is_deleting(object)
    };
    let mut all: Vec<_> = world.present().filter(owned).collect();
    let index = usize::try_from(luck).unwrap_or(0).checked_rem(all.len())?;
    let (id, object) = all.swap_remove(index);
    Some((id.clone(), object.as_ref().clone()))
}

fn change(id: &Id, patch: Value) -> (Duration, What) {
    (Duration::ZERO, What::merge(&id.0, &id.2, patch))
}

/// A dependent gets one more owner, which stays.
fn keep(world: &World, luck: u64) -> Vec<(Duration, What)> {
    let keeper = world.list(MAPS).find(|map| name(map) == KEEPER);
    let (Some((id, object)), Some(keeper)) = (dependent(world, luck), keeper) else { return Vec::new() };
    let mut all = references(&object).to_vec();
    all.push(json!({"apiVersion": "v1", "kind": "ConfigMap", "name": KEEPER, "uid": keeper["metadata"]["uid"]}));
    vec![change(&id, json!({"metadata": {"ownerReferences": all}}))]
}

/// A dependent loses its owners.
fn release(world: &World, luck: u64) -> Vec<(Duration, What)> {
    let dependent = dependent(world, luck).into_iter();
    dependent.map(|(id, _)| change(&id, json!({"metadata": {"ownerReferences": null}}))).collect()
}

/// A dependent gets an owner that stays, by a reference that is wrong at first.
fn correct(world: &World, luck: u64) -> Vec<(Duration, What)> {
    let keeper = world.list(MAPS).find(|map| name(map) == KEEPER);
    let (Some((id, object)), Some(keeper)) = (dependent(world, luck), keeper) else { return Vec::new() };
    let with = |kind: &str| {
        let mut all = references(&object).to_vec();
        all.push(json!({"apiVersion": "v1", "kind": kind, "name": KEEPER, "uid": keeper["metadata"]["uid"]}));
        What::merge(&id.0, &id.2, json!({"metadata": {"ownerReferences": all}}))
    };
    vec![(Duration::ZERO, with("Secret")), (Duration::from_millis((luck >> 16) % 40), with("ConfigMap"))]
}

/// A dependent is changed again and again, and its owners are not.
fn touch(world: &World, luck: u64) -> Vec<(Duration, What)> {
    let Some((id, object)) = dependent(world, luck) else { return Vec::new() };
    let count: u64 = annotation(&object, "touched").parse().unwrap_or(0);
    let touched =
        |n: u64| What::merge(&id.0, &id.2, json!({"metadata": {"annotations": {"touched": (count + n).to_string()}}}));
    (1..=12).map(|n| (Duration::from_millis(2 + (luck >> n) % 40), touched(n))).collect()
}

/// A dependent is deleted, one way or the other.
fn delete_one(world: &World, luck: u64) -> Vec<(Duration, What)> {
    let Some((id, _)) = dependent(world, luck) else { return Vec::new() };
    let propagation = ["Background", "Foreground", "Orphan"][usize::try_from(luck >> 8).unwrap_or(0) % 3];
    vec![(Duration::ZERO, delete(&id.0, &id.2, propagation))]
}

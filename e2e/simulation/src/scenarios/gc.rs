//! Objects that own others: the suite, and what users do at any moment.

use std::time::Duration;

use common::settings::TunableValue;
use serde_json::{Value, json};

use super::gc_invariants::{INVARIANTS, PROMISES, references};
use crate::{
    json::{annotation, is_deleting, name},
    scenario::{Interference, Suite, Target, What},
    world::{Id, World},
};

/// The garbage collector on its own, and objects that no other controller cares for.
pub(super) const SUITE: Suite = Suite {
    name: "gc",
    programs: &[&gc_controller::DEFINITION],
    tunes: TUNES,
    gates: &[],
    text: include_str!("gc.txt"),
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
/// One that owns nothing and that nobody deletes.
const KEEPER: &str = "keeper";
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
    vec![(Duration::ZERO, What::Delete(Target::new(&id.0, &id.2), json!({ "propagationPolicy": propagation })))]
}

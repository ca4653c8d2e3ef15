//! Objects that own others: the suite, and what users do at any moment.

use std::time::Duration;

use common::settings::TunableValue;
use serde_json::{Value, json};

use super::{
    gc_invariants::{INVARIANTS, PROMISES},
    interferences::{at_once, one_of},
};
use crate::{
    json::{annotation, is_deleting, name, owners},
    scenario::{Deeds, Interference, Suite, Target, What},
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
fn dependent(world: &World, luck: u64) -> Option<(Id, Value)> {
    let owned = |(id, object): &(&Id, &std::sync::Arc<Value>)| {
        [MAPS, SECRETS, PODS, WIDGETS].contains(&id.0.as_str())
            && owners(object).next().is_some()
            && !is_deleting(object)
    };
    let (id, object) = one_of(world.present().filter(owned).collect(), luck)?;
    Some((id.clone(), object.as_ref().clone()))
}

fn change(id: &Id, metadata: Value) -> What {
    What::merge(&id.0, &id.2, json!({ "metadata": metadata }))
}

/// A dependent with one more owner, which stays; the reference names it as being of this kind.
fn kept(world: &World, (id, object): &(Id, Value), kind: &str) -> Option<What> {
    let keeper = world.list(MAPS).find(|map| name(map) == KEEPER)?;
    let mut all: Vec<Value> = owners(object).cloned().collect();
    all.push(json!({"apiVersion": "v1", "kind": kind, "name": KEEPER, "uid": keeper["metadata"]["uid"]}));
    Some(change(id, json!({ "ownerReferences": all })))
}

fn keep(world: &World, luck: u64) -> Deeds {
    at_once([kept(world, &dependent(world, luck)?, "ConfigMap")?])
}

fn release(world: &World, luck: u64) -> Deeds {
    at_once([change(&dependent(world, luck)?.0, json!({"ownerReferences": null}))])
}

/// A dependent gets an owner that stays, by a reference that is wrong at first.
fn correct(world: &World, luck: u64) -> Deeds {
    let dependent = dependent(world, luck)?;
    let wait = Duration::from_millis((luck >> 16) % 40);
    let with = |kind: &str| kept(world, &dependent, kind);
    Some(vec![(Duration::ZERO, with("Secret")?), (wait, with("ConfigMap")?)])
}

fn touch(world: &World, luck: u64) -> Deeds {
    let (id, object) = dependent(world, luck)?;
    let count: u64 = annotation(&object, "touched").parse().unwrap_or(0);
    let touched = |n: u64| change(&id, json!({"annotations": {"touched": (count + n).to_string()}}));
    Some((1..=12).map(|n| (Duration::from_millis(2 + (luck >> n) % 40), touched(n))).collect())
}

fn delete_one(world: &World, luck: u64) -> Deeds {
    let (id, _) = dependent(world, luck)?;
    let propagation = ["Background", "Foreground", "Orphan"][usize::try_from(luck >> 8).unwrap_or(0) % 3];
    at_once([What::Delete(Target::new(&id.0, &id.2), json!({ "propagationPolicy": propagation }))])
}

//! Namespaces that are deleted: the suite, and what users do at any moment.

use serde_json::json;

use super::{
    interferences::{at_once, one_of},
    namespace_invariants::{INVARIANTS, PROMISES, TEAM},
};
use crate::{
    json::is_deleting,
    scenario::{Deeds, Interference, Suite, Target, What},
    world::World,
};

/// The namespace controller on its own. The sandbox neither empties nor finalizes namespaces.
pub(super) const SUITE: Suite = Suite {
    name: "namespace",
    programs: &[&namespace_controller::DEFINITION],
    tunes: &[],
    gates: &[],
    text: include_str!("namespace.txt"),
    invariants: &[INVARIANTS],
    promises: &[PROMISES],
    interferences: &[
        Interference { name: "label", act: label },
        Interference { name: "touch", act: touch },
        Interference { name: "delete", act: delete },
    ],
};

fn label(world: &World, luck: u64) -> Deeds {
    world.present().find(|(id, _)| id.0 == "namespaces" && id.2 == TEAM)?;
    at_once([What::merge("namespaces", TEAM, json!({"metadata": {"labels": {"luck": (luck % 1000).to_string()}}}))])
}

/// An object in the namespace that nobody has deleted yet.
fn content(world: &World, luck: u64) -> Option<Target> {
    let all = world.present().filter(|(id, object)| id.1 == TEAM && !is_deleting(object));
    let (id, _) = one_of(all.collect::<Vec<_>>(), luck)?;
    Some(Target { namespace: Some(id.1.clone()), ..Target::new(&id.0, &id.2) })
}

fn touch(world: &World, luck: u64) -> Deeds {
    let patch = json!({"metadata": {"labels": {"luck": (luck % 1000).to_string()}}});
    at_once([What::Merge(content(world, luck)?, patch)])
}

fn delete(world: &World, luck: u64) -> Deeds {
    at_once([What::Delete(content(world, luck)?, json!({}))])
}

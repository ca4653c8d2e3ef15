//! ClusterRoles: the suite, and what users do at any moment.

use serde_json::{Value, json};

use super::{
    clusterrole_invariants::{CLUSTER_ROLES, INVARIANTS, PROMISES, is_aggregated},
    interferences::{at_once, later, one_of},
};
use crate::{
    json::name,
    scenario::{Deeds, Interference, Suite, What},
    world::World,
};

pub(super) const SUITE: Suite = Suite {
    name: "clusterrole",
    programs: &[&clusterrole_controller::DEFINITION],
    tunes: &[],
    gates: &[],
    text: include_str!("clusterrole.txt"),
    invariants: &[INVARIANTS],
    promises: &[PROMISES],
    interferences: &[
        Interference { name: "foreign-rules", act: write_foreign_rules },
        Interference { name: "relabel", act: relabel },
        Interference { name: "replace", act: replace },
        Interference { name: "unaggregate", act: unaggregate },
    ],
};

/// A role that is aggregated, or one that is not.
fn pick(world: &World, luck: u64, aggregated: bool) -> Option<Value> {
    let roles = world.list(CLUSTER_ROLES).filter(|role| is_aggregated(role) == aggregated);
    one_of(roles.map(|role| (**role).clone()).collect(), luck)
}

fn write_foreign_rules(world: &World, luck: u64) -> Deeds {
    let rules = json!([{"apiGroups": [""], "resources": ["secrets"], "verbs": ["get"]}]);
    at_once([What::merge(CLUSTER_ROLES, name(&pick(world, luck, true)?), json!({"rules": rules}))])
}

/// A role loses all of its labels for some seconds.
fn relabel(world: &World, luck: u64) -> Deeds {
    let role = pick(world, luck, false)?;
    let labelled = |labels: Value| What::merge(CLUSTER_ROLES, name(&role), json!({"metadata": {"labels": labels}}));
    later(labelled(Value::Null), luck % 20, labelled(role["metadata"]["labels"].clone()))
}

/// An aggregated role is deleted and created again without rules.
fn replace(world: &World, luck: u64) -> Deeds {
    let role = pick(world, luck, true)?;
    let metadata = json!({"name": name(&role), "labels": role["metadata"]["labels"]});
    let again = json!({"apiVersion": role["apiVersion"], "kind": role["kind"], "metadata": metadata,
        "aggregationRule": role["aggregationRule"]});
    later(What::delete(CLUSTER_ROLES, name(&role)), luck % 20, What::Create(again))
}

/// A role gets rules of its own instead of its selectors.
fn unaggregate(world: &World, luck: u64) -> Deeds {
    let rules = json!([{"apiGroups": [""], "resources": ["events"], "verbs": ["get"]}]);
    let patch = json!({"aggregationRule": null, "rules": rules});
    at_once([What::merge(CLUSTER_ROLES, name(&pick(world, luck, true)?), patch)])
}

//! What always holds of ClusterRoles, and what holds in the end.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use serde_json::{Value, json};

use super::rules::without;
use crate::{
    json::{items, name, selects},
    scenario::{Invariant, Promise},
    world::{Logged, World},
};

const CONTROLLER: &str = "clusterrole-controller";
pub(super) const CLUSTER_ROLES: &str = "clusterroles.rbac.authorization.k8s.io";

pub(super) const INVARIANTS: &[Invariant] = &[
    Invariant {
        name: "writes-only-rules-of-aggregated-roles",
        claims: "CLUSTERROLE-2, CLUSTERROLE-19, CLUSTERROLE-21, CLUSTERROLE-23, CLUSTERROLE-37",
        check: writes_only_rules_of_aggregated_roles,
    },
    Invariant {
        name: "written-rules-have-a-source",
        claims: "CLUSTERROLE-12, CLUSTERROLE-14",
        check: written_rules_have_a_source,
    },
];

pub(super) const PROMISES: &[Promise] = &[Promise {
    name: "aggregated-rules-are-the-union",
    claims: "CLUSTERROLE-10, CLUSTERROLE-12, CLUSTERROLE-16, CLUSTERROLE-22",
    check: aggregated_rules_are_the_union,
}];

pub(super) fn is_aggregated(role: &Value) -> bool {
    role["aggregationRule"].is_object()
}

fn writes_only_rules_of_aggregated_roles(_: &World, logged: &Logged) -> Option<String> {
    if !logged.by(CONTROLLER) {
        return None;
    }
    let what = format!("{} {}", logged.resource(), logged.write.name);
    let Some((before, after)) = logged.change().filter(|_| logged.resource() == CLUSTER_ROLES) else {
        return Some(format!("{what} is created, deleted, or no ClusterRole"));
    };
    if !is_aggregated(&before) {
        return Some(format!("{what} is written and not aggregated"));
    }
    let without_rules = |role: &Value| {
        let mut role = without(role, &[]);
        role["rules"] = Value::Null;
        role
    };
    (without_rules(&before) != without_rules(&after)).then(|| format!("more than the rules of {what} is written"))
}

/// Each rule that the controller writes was one of a role without selectors, as far as the controller can know.
fn written_rules_have_a_source(world: &World, logged: &Logged) -> Option<String> {
    let (_, after) = logged.changed(CONTROLLER, CLUSTER_ROLES)?;
    let names: BTreeSet<&str> = world.list_recent(CLUSTER_ROLES).map(|role| name(role)).collect();
    let recent = || names.iter().flat_map(|name| world.recently(CLUSTER_ROLES, "", name));
    let has_source = |rule: &&Value| recent().any(|role| !is_aggregated(role) && items(role, "/rules").contains(rule));
    let rule = items(&after, "/rules").iter().find(|rule| !has_source(rule))?;
    Some(format!("{} gets the rule {rule}, which no role has", name(&after)))
}

/// The roles without selectors that a role reaches.
fn sources<'a>(role: &'a Value, roles: &BTreeMap<&'a str, &'a Arc<Value>>) -> Vec<&'a Value> {
    let (mut reached, mut open) = (BTreeSet::from([name(role)]), vec![role]);
    let mut sources = Vec::new();
    while let Some(role) = open.pop() {
        if !is_aggregated(role) {
            sources.push(role);
            continue;
        }
        for index in 0..items(role, "/aggregationRule/clusterRoleSelectors").len() {
            let pointer = format!("/aggregationRule/clusterRoleSelectors/{index}");
            let selected = roles.values().filter(|other| selects(role, &pointer, other));
            let new: Vec<&Value> =
                selected.map(|other| &***other).filter(|other| reached.insert(name(other))).collect();
            open.extend(new);
        }
    }
    sources
}

fn aggregated_rules_are_the_union(world: &World) -> Option<String> {
    let roles: BTreeMap<&str, &Arc<Value>> = world.list(CLUSTER_ROLES).map(|role| (name(role), role)).collect();
    roles.values().filter(|role| is_aggregated(role)).find_map(|role| {
        let wanted: BTreeSet<String> = sources(role, &roles)
            .into_iter()
            .flat_map(|source| items(source, "/rules"))
            .map(ToString::to_string)
            .collect();
        let mut rules: Vec<String> = items(role, "/rules").iter().map(ToString::to_string).collect();
        rules.sort();
        let is_right = rules.iter().eq(&wanted);
        (!is_right).then(|| format!("{} has the rules {}, and selects {}", name(role), json!(rules), json!(wanted)))
    })
}

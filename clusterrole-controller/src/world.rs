//! Builds the ClusterRoles of the unit tests.

use std::{cell::Cell, convert::Infallible, sync::Arc};

use common::prelude::*;
use serde_json::{Value, json};

use crate::{
    decide::{Plan, Snapshot, decide, find_sources},
    objects::ClusterRole,
};

/// The ClusterRoles of a test. Each has a label with its own name as the key.
pub(crate) struct Roles {
    roles: Vec<Arc<ClusterRole>>,
    /// How many times a selector was matched against the roles.
    pub(crate) select_count: Cell<usize>,
}

/// Returns a rule with one verb and one resource of the core group.
pub(crate) fn rule(verb: &str, resource: &str) -> Value {
    json!({"apiGroups": [""], "resources": [resource], "verbs": [verb]})
}

/// Returns a role with these rules.
pub(crate) fn plain(name: &str, rules: &[Value]) -> Value {
    json!({"metadata": {"name": name, "uid": name, "labels": {name: "1"}}, "rules": rules})
}

/// Returns an aggregated role with these rules. It has one selector for each name, which selects the role of that name.
pub(crate) fn aggregated(name: &str, selected: &[&str], rules: &[Value]) -> Value {
    let selectors: Vec<Value> = selected.iter().map(|name| json!({"matchLabels": {*name: "1"}})).collect();
    with_selectors(name, json!(selectors), rules)
}

/// Returns a role with these selectors and rules.
pub(crate) fn with_selectors(name: &str, selectors: Value, rules: &[Value]) -> Value {
    let mut role = plain(name, rules);
    role["aggregationRule"] = json!({"clusterRoleSelectors": selectors});
    role
}

impl Roles {
    pub(crate) fn new(roles: impl IntoIterator<Item = Value>) -> Self {
        let mut roles: Vec<Arc<ClusterRole>> =
            roles.into_iter().map(|role| Arc::new(serde_json::from_str(&role.to_string()).unwrap())).collect();
        roles.sort_by(|a, b| a.metadata.name.cmp(&b.metadata.name));
        Self { roles, select_count: Cell::default() }
    }

    pub(crate) fn snapshot(&self, name: &str) -> Snapshot {
        let role = Arc::clone(self.roles.iter().find(|role| &*role.metadata.name == name).unwrap());
        let select = |_: &ClusterRole, selector: &Selector| {
            self.select_count.update(|count| count + 1);
            let selected = self.roles.iter().filter(|role| selector.matches(&role.metadata.labels));
            Ok::<_, Infallible>(selected.cloned().collect())
        };
        let sources = find_sources(&role, select).unwrap();
        Snapshot { role, sources }
    }

    /// Returns the rules that a sync of a role would write; `None` if it would write nothing.
    pub(crate) fn new_rules(&self, name: &str) -> Option<Value> {
        let Plan { new_rules, .. } = decide(&self.snapshot(name));
        new_rules.map(|rules| serde_json::to_value(rules).unwrap())
    }

    /// Returns the union for a role, which must differ from the rules that the role has.
    pub(crate) fn union(&self, name: &str) -> Vec<Value> {
        self.new_rules(name).unwrap().as_array().unwrap().clone()
    }
}

//! The states of the nodes: power, readiness and `NoExecute` taints.

use std::{
    collections::BTreeMap,
    fmt::{self, Write as _},
};

use serde_json::Value;

use crate::sandbox;

/// The annotation that switches a node off (`off`) and on again (anything else, or none).
pub(super) const POWER: &str = "sim/power";
/// The number of nodes in an unusual state whose names are shown.
const NAMED: usize = 3;

/// A node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct NodeState {
    /// Whether it is switched off.
    pub(super) is_off: bool,
    /// The status of its condition `Ready`.
    ready: String,
    is_cordoned: bool,
    /// The keys of its `NoExecute` taints.
    evicting: Vec<String>,
}

impl NodeState {
    fn of(node: &Value) -> Self {
        let items = |pointer: &str| node.pointer(pointer).and_then(Value::as_array).into_iter().flatten();
        let ready = items("/status/conditions").find(|condition| condition["type"] == "Ready");
        let evicting = items("/spec/taints").filter(|taint| taint["effect"] == "NoExecute");
        Self {
            is_off: node["metadata"]["annotations"][POWER] == "off",
            ready: ready.and_then(|ready| ready["status"].as_str()).unwrap_or("Unknown").to_owned(),
            is_cordoned: node["spec"]["unschedulable"] == true,
            evicting: evicting.filter_map(|taint| taint["key"].as_str().map(str::to_owned)).collect(),
        }
    }

    fn is_ready(&self) -> bool {
        self.ready == "True"
    }

    fn is_as_usual(&self) -> bool {
        self.is_ready() && !self.is_off && !self.is_cordoned && self.evicting.is_empty()
    }
}

/// The text of `kubectl get nodes`, with power and taints.
impl fmt::Display for NodeState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.is_ready() { "Ready" } else { "NotReady" })?;
        if self.is_cordoned {
            f.write_str(",SchedulingDisabled")?;
        }
        if self.is_off {
            f.write_str(", switched off")?;
        }
        self.evicting.iter().try_for_each(|key| {
            let short = key.rsplit('/').next().unwrap_or(key);
            write!(f, ", {short}:NoExecute")
        })
    }
}

/// A change of a node by a write.
pub(super) struct Change {
    pub(super) name: String,
    /// `None` for a new node.
    pub(super) before: Option<NodeState>,
    /// `None` for a deleted node.
    pub(super) after: Option<NodeState>,
}

/// All nodes by name.
#[derive(Clone, Debug, Default)]
pub(super) struct NodeStates(BTreeMap<String, NodeState>);

impl NodeStates {
    /// Takes over the node of a write; `None` if nothing changed that is shown.
    pub(super) fn apply(&mut self, write: &sandbox::Write) -> Option<Change> {
        if write.resource != "nodes" || !write.group.is_empty() {
            return None;
        }
        let after = write.after().map(|node| NodeState::of(&node));
        let before = match &after {
            Some(state) => self.0.insert(write.name.clone(), state.clone()),
            None => self.0.remove(&write.name),
        };
        (before != after).then(|| Change { name: write.name.clone(), before, after })
    }

    /// The first node that is on, which is the next to be switched off.
    pub(super) fn next_on(&self) -> Option<&str> {
        self.0.iter().find(|(_, state)| !state.is_off).map(|(name, _)| name.as_str())
    }

    /// The nodes that are switched off.
    pub(super) fn off(&self) -> impl Iterator<Item = &str> {
        self.0.iter().filter(|(_, state)| state.is_off).map(|(name, _)| name.as_str())
    }

    /// Whether a node is off, not ready or tainted.
    pub(super) fn are_odd(&self) -> bool {
        self.0.values().any(|state| !state.is_as_usual())
    }

    /// Ready nodes, of which the named ones are switched off.
    #[cfg(test)]
    pub(super) fn example(names: &[&str], off: &[&str]) -> Self {
        let state = |name: &&str| NodeState {
            is_off: off.contains(name),
            ready: if off.contains(name) { "Unknown" } else { "True" }.to_owned(),
            is_cordoned: false,
            evicting: off
                .iter()
                .filter(|other| *other == name)
                .map(|_| "node.kubernetes.io/unreachable".to_owned())
                .collect(),
        };
        Self(names.iter().map(|name| ((*name).to_owned(), state(name))).collect())
    }

    /// One line with the number of ready nodes and the names of the others.
    pub(super) fn line(&self) -> String {
        let ready = self.0.values().filter(|state| state.is_ready()).count();
        let odd: Vec<String> = self
            .0
            .iter()
            .filter(|(_, state)| !state.is_as_usual())
            .map(|(name, state)| format!("{name} {state}"))
            .collect();
        let mut line = format!("nodes: {ready} of {} Ready", self.0.len());
        for text in odd.iter().take(NAMED) {
            line.push_str("; ");
            line.push_str(text);
        }
        if odd.len() > NAMED {
            let _ = write!(line, "; and {} more", odd.len() - NAMED);
        }
        line
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_node_reads_as_kubectl_has_it_and_as_it_is_switched() {
        let state = |annotations: Value, spec: Value, ready: &str| {
            let node = json!({"metadata": {"annotations": annotations}, "spec": spec,
                "status": {"conditions": [{"type": "Ready", "status": ready}]}});
            NodeState::of(&node).to_string()
        };
        let evicting = json!({"taints": [{"key": "node.kubernetes.io/unreachable", "effect": "NoSchedule"},
            {"key": "node.kubernetes.io/unreachable", "effect": "NoExecute"}]});
        assert_eq!(state(json!({}), json!({}), "True"), "Ready");
        assert_eq!(state(json!({}), json!({"unschedulable": true}), "True"), "Ready,SchedulingDisabled");
        assert_eq!(state(json!({POWER: "off"}), json!({}), "True"), "Ready, switched off");
        assert_eq!(state(json!({POWER: "off"}), evicting, "Unknown"), "NotReady, switched off, unreachable:NoExecute");
        assert_eq!(state(json!({POWER: "on"}), json!({}), "False"), "NotReady");
    }

    #[test]
    fn few_nodes_have_a_name_in_the_line_of_all() {
        let off = NodeState { is_off: true, ready: "True".to_owned(), is_cordoned: false, evicting: Vec::new() };
        let on = NodeState { is_off: false, ..off.clone() };
        let states = |off_count: usize| {
            let state = |n: usize| if n < off_count { off.clone() } else { on.clone() };
            NodeStates((0..6).map(|n| (format!("node-{n}"), state(n))).collect())
        };
        assert_eq!(states(0).line(), "nodes: 6 of 6 Ready");
        assert_eq!(states(1).line(), "nodes: 6 of 6 Ready; node-0 Ready, switched off");
        assert!(states(5).line().ends_with("node-2 Ready, switched off; and 2 more"), "{}", states(5).line());
        assert_eq!((states(2).next_on(), states(2).off().count()), (Some("node-2"), 2));
        assert_eq!(states(6).next_on(), None);
    }
}

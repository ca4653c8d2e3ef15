//! The taints that this program adds to nodes and removes from them, and changes of lists of taints.

use common::{
    conditions::TRUE,
    taints::{NO_EXECUTE, NO_SCHEDULE, Taint},
};
use serde_json::{Value, json};

use crate::objects::{Node, NodeReady};

/// Key of the taints of nodes whose condition `Ready` is `False`.
pub const NOT_READY: &str = "node.kubernetes.io/not-ready";
/// Key of the taints of nodes whose condition `Ready` is `Unknown`.
pub const UNREACHABLE: &str = "node.kubernetes.io/unreachable";
/// Key of the taint of nodes with `spec.unschedulable`.
pub const UNSCHEDULABLE: &str = "node.kubernetes.io/unschedulable";
/// Conditions that taint a node while they are `True`, with the keys of the taints.
const PRESSURES: [(&str, &str); 4] = [
    ("MemoryPressure", "node.kubernetes.io/memory-pressure"),
    ("DiskPressure", "node.kubernetes.io/disk-pressure"),
    ("NetworkUnavailable", "node.kubernetes.io/network-unavailable"),
    ("PIDPressure", "node.kubernetes.io/pid-pressure"),
];

/// Cause of a `NoExecute` taint, by the condition `Ready` of the node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cause {
    /// The condition `Ready` is `False`.
    NotReady,
    /// The condition `Ready` is `Unknown`.
    Unreachable,
}

impl Cause {
    /// Returns the cause for a node; `None` if the node needs no `NoExecute` taint.
    pub fn of(node: &Node) -> Option<Self> {
        match node.ready() {
            NodeReady::False => Some(Self::NotReady),
            NodeReady::Unknown => Some(Self::Unreachable),
            NodeReady::Absent | NodeReady::True | NodeReady::Other => None,
        }
    }

    /// Returns the key of the `NoExecute` taint for this cause.
    pub fn key(self) -> &'static str {
        match self {
            Self::NotReady => NOT_READY,
            Self::Unreachable => UNREACHABLE,
        }
    }

    /// Returns `Unreachable` for `NotReady`, and `NotReady` for `Unreachable`.
    #[must_use]
    pub fn other(self) -> Self {
        match self {
            Self::NotReady => Self::Unreachable,
            Self::Unreachable => Self::NotReady,
        }
    }
}

/// Whether the node has the `NoExecute` taint of this cause.
pub fn has_cause(node: &Node, cause: Cause) -> bool {
    node.evicting().any(|taint| taint.key == cause.key())
}

/// Whether the node has a `NoExecute` taint of this program.
pub fn has_any_cause(node: &Node) -> bool {
    has_cause(node, Cause::NotReady) || has_cause(node, Cause::Unreachable)
}

/// Whether all of the given `NoExecute` taints belong to this program.
pub fn are_ours(taints: &[Taint]) -> bool {
    taints.iter().all(|taint| taint.key == NOT_READY || taint.key == UNREACHABLE)
}

/// Taints to add to a node and taints to remove, all with the same effect.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TaintChange {
    /// Effect of all added and removed taints.
    pub effect: &'static str,
    /// Keys of the taints to add, in their order.
    pub add: Vec<&'static str>,
    /// Keys of the taints to remove.
    pub remove: Vec<&'static str>,
}

impl TaintChange {
    /// True if the change neither adds nor removes a taint.
    pub fn is_empty(&self) -> bool {
        self.add.is_empty() && self.remove.is_empty()
    }

    /// Describes the change, one line for each taint.
    pub(crate) fn lines(&self) -> impl Iterator<Item = String> {
        let Self { effect, add, remove } = self;
        let added = add.iter().map(move |key| format!("add taint {key}:{effect}"));
        added.chain(remove.iter().map(move |key| format!("remove taint {key}:{effect}")))
    }
}

/// Returns the change after which the `NoSchedule` taints of a node match its conditions and its spec.
///
/// Upstream: `doNoScheduleTaintingPass`.
pub fn by_condition(node: &Node) -> TaintChange {
    let mut wanted = Vec::new();
    let mut want = |key| {
        if !wanted.contains(&key) {
            wanted.push(key);
        }
    };
    for condition in node.conditions() {
        if condition.kind == crate::objects::READY {
            match condition.status.as_str() {
                common::conditions::FALSE => want(NOT_READY),
                common::conditions::UNKNOWN => want(UNREACHABLE),
                _ => {}
            }
        } else if condition.status == TRUE
            && let Some((_, key)) = PRESSURES.iter().find(|(kind, _)| condition.kind == *kind)
        {
            want(key);
        }
    }
    if node.is_unschedulable() {
        want(UNSCHEDULABLE);
    }
    let ours = [NOT_READY, UNREACHABLE, UNSCHEDULABLE].into_iter().chain(PRESSURES.map(|(_, key)| key));
    let has = |key: &str| node.taints().iter().any(|taint| taint.effect == NO_SCHEDULE && taint.key == key);
    let remove = ours.filter(|key| !wanted.contains(key) && has(key)).collect();
    let add = wanted.iter().copied().filter(|key| !has(key)).collect();
    TaintChange { effect: NO_SCHEDULE, add, remove }
}

/// Returns the change after which the node has the `NoExecute` taint of `cause`, and no longer has the taint of the other
/// cause.
pub fn to_cause(node: &Node, cause: Cause) -> TaintChange {
    let add = if has_cause(node, cause) { Vec::new() } else { vec![cause.key()] };
    let remove = if has_cause(node, cause.other()) { vec![cause.other().key()] } else { Vec::new() };
    TaintChange { effect: NO_EXECUTE, add, remove }
}

/// Returns the change that removes the `NoExecute` taints of this program. Upstream: `markNodeAsReachable`.
pub fn to_reachable(node: &Node) -> TaintChange {
    let present = [Cause::Unreachable, Cause::NotReady].into_iter().filter(|cause| has_cause(node, *cause));
    TaintChange { effect: NO_EXECUTE, add: Vec::new(), remove: present.map(Cause::key).collect() }
}

/// Returns the list of taints after a change. Other taints stay unchanged, including fields that this program does not know.
///
/// `since` is the time of the change in the format of the API.
pub fn applied(taints: &[Value], TaintChange { effect, add, remove }: &TaintChange, since: &str) -> Vec<Value> {
    let is_changed = |taint: &&Value| {
        let key = taint["key"].as_str().unwrap_or_default();
        taint["effect"] == *effect && (remove.contains(&key) || add.contains(&key))
    };
    let kept = taints.iter().filter(|taint| !is_changed(taint)).cloned();
    let added = add.iter().map(|key| json!({"key": key, "effect": effect, "timeAdded": since}));
    kept.chain(added).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::world::node_with;

    /// Formats a change as `+added -removed`.
    fn short(change: &TaintChange) -> String {
        let short = |key: &str| key.trim_start_matches("node.kubernetes.io/").to_owned();
        let added = change.add.iter().map(|key| format!("+{}", short(key)));
        added.chain(change.remove.iter().map(|key| format!("-{}", short(key)))).collect::<Vec<_>>().join(" ")
    }

    /// NODE-22.
    #[test]
    fn taints_follow_from_conditions() {
        let no_schedule = |keys: &[&'static str]| keys.iter().map(|key| (*key, NO_SCHEDULE)).collect::<Vec<_>>();
        for (conditions, unschedulable, taints, expected) in [
            (&[("Ready", "True")][..], false, no_schedule(&["not-ready"]), "-not-ready"),
            (&[("Ready", "Unknown")], false, no_schedule(&["not-ready"]), "+unreachable -not-ready"),
            (&[("Ready", "False"), ("DiskPressure", "True")], false, vec![], "+not-ready +disk-pressure"),
            (&[("Ready", "True")], true, no_schedule(&["example.com/x"]), "+unschedulable"),
            (&[("MemoryPressure", "Unknown")], false, no_schedule(&["memory-pressure"]), "-memory-pressure"),
            (&[("MemoryPressure", "True"), ("Ready", "True")], false, vec![], "+memory-pressure"),
            (
                &[("PIDPressure", "True"), ("NetworkUnavailable", "True")],
                false,
                vec![],
                "+pid-pressure +network-unavailable",
            ),
            // A node that has not reported yet loses the taint that admission added.
            (&[], false, no_schedule(&["not-ready"]), "-not-ready"),
            (&[], false, no_schedule(&["unschedulable", "out-of-service"]), "-unschedulable"),
            (&[("Ready", "True")], false, vec![("not-ready", NO_EXECUTE)], ""),
            (&[("Ready", "Odd")], false, vec![], ""),
            (&[("Ready", "False"), ("Ready", "False")], false, vec![], "+not-ready"),
        ] {
            let node = node_with(conditions, &taints, unschedulable);
            assert_eq!(short(&by_condition(&node)), expected, "{conditions:?} {taints:?}");
        }
    }

    /// NODE-24, NODE-25.
    #[test]
    fn one_cause_replaces_the_other() {
        let with = |keys: &[&str]| {
            let taints: Vec<_> = keys.iter().map(|key| (*key, NO_EXECUTE)).collect();
            node_with(&[("Ready", "Unknown")], &taints, false)
        };
        assert_eq!(short(&to_cause(&with(&[]), Cause::Unreachable)), "+unreachable");
        assert_eq!(short(&to_cause(&with(&["not-ready"]), Cause::Unreachable)), "+unreachable -not-ready");
        assert_eq!(short(&to_cause(&with(&["unreachable"]), Cause::Unreachable)), "");
        assert_eq!(short(&to_reachable(&with(&["unreachable", "not-ready"]))), "-unreachable -not-ready");
        assert_eq!(short(&to_reachable(&with(&["example.com/x"]))), "");
    }

    /// NODE-27.
    #[test]
    fn foreign_taints_stay_unchanged() {
        let foreign = json!({"key": "example.com/x", "effect": "NoExecute", "value": "v", "newer": [1]});
        let own = json!({"key": NOT_READY, "effect": "NoExecute", "timeAdded": "2026-11-21T09:00:00Z"});
        let change = TaintChange { effect: NO_EXECUTE, add: vec![UNREACHABLE], remove: vec![NOT_READY] };
        let after = applied(&[own.clone(), foreign.clone(), own], &change, "2026-11-21T10:00:00Z");
        let added = json!({"key": UNREACHABLE, "effect": "NoExecute", "timeAdded": "2026-11-21T10:00:00Z"});
        assert_eq!(after, [foreign, added], "both copies of a duplicate taint are removed");
    }
}

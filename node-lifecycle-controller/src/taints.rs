//! The taints that this program adds to nodes and removes from them, and changes of lists of taints.

use common::{
    conditions::{FALSE, TRUE, UNKNOWN},
    taints::{NO_EXECUTE, NO_SCHEDULE, Taint},
};
use serde_json::{Value, json};

use crate::objects::{Node, NodeReadyStatus, READY_CONDITION};

/// Key of the taints of nodes with the condition `Ready` `False`.
pub const NOT_READY_TAINT: &str = "node.kubernetes.io/not-ready";
/// Key of the taints of nodes with the condition `Ready` `Unknown`.
pub const UNREACHABLE_TAINT: &str = "node.kubernetes.io/unreachable";
/// Key of the taint of nodes with `spec.unschedulable`.
pub const UNSCHEDULABLE_TAINT: &str = "node.kubernetes.io/unschedulable";
/// Conditions that taint a node while they are `True`, with the keys of the taints.
const CONDITION_TAINTS: [(&str, &str); 4] = [
    ("MemoryPressure", "node.kubernetes.io/memory-pressure"),
    ("DiskPressure", "node.kubernetes.io/disk-pressure"),
    ("NetworkUnavailable", "node.kubernetes.io/network-unavailable"),
    ("PIDPressure", "node.kubernetes.io/pid-pressure"),
];

/// Cause of a `NoExecute` taint, by the condition `Ready` of the node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TaintCause {
    /// The condition `Ready` is `False`.
    NotReady,
    /// The condition `Ready` is `Unknown`.
    Unreachable,
}

impl TaintCause {
    /// Returns the cause for a node; `None` if the node needs no `NoExecute` taint.
    pub fn for_node(node: &Node) -> Option<Self> {
        match node.ready_status() {
            NodeReadyStatus::False => Some(Self::NotReady),
            NodeReadyStatus::Unknown => Some(Self::Unreachable),
            NodeReadyStatus::Missing | NodeReadyStatus::True | NodeReadyStatus::Other => None,
        }
    }

    /// Returns the key `node.kubernetes.io/not-ready` or `node.kubernetes.io/unreachable`.
    pub fn taint_key(self) -> &'static str {
        match self {
            Self::NotReady => NOT_READY_TAINT,
            Self::Unreachable => UNREACHABLE_TAINT,
        }
    }

    /// Returns `Unreachable` for `NotReady`, and `NotReady` for `Unreachable`.
    #[must_use]
    pub fn opposite(self) -> Self {
        match self {
            Self::NotReady => Self::Unreachable,
            Self::Unreachable => Self::NotReady,
        }
    }
}

/// Whether the node has the `NoExecute` taint of this cause.
pub fn has_taint_of_cause(node: &Node, cause: TaintCause) -> bool {
    node.no_execute_taints().any(|taint| taint.key == cause.taint_key())
}

/// Whether the node has a `NoExecute` taint of this program.
pub fn has_monitor_taint(node: &Node) -> bool {
    has_taint_of_cause(node, TaintCause::NotReady) || has_taint_of_cause(node, TaintCause::Unreachable)
}

/// Whether all of the given `NoExecute` taints belong to this program; true without taints.
pub fn are_all_monitor_taints(taints: &[Taint]) -> bool {
    taints.iter().all(|taint| taint.key == NOT_READY_TAINT || taint.key == UNREACHABLE_TAINT)
}

/// Taints to add to a node and taints to remove, all with the same effect.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TaintChange {
    /// Effect of all added and removed taints.
    pub effect: &'static str,
    /// Keys of the taints to add, which are appended in this order.
    pub keys_to_add: Vec<&'static str>,
    /// Keys of the taints to remove.
    pub keys_to_remove: Vec<&'static str>,
}

impl TaintChange {
    /// Whether the change neither adds nor removes a taint.
    pub fn is_empty(&self) -> bool {
        self.keys_to_add.is_empty() && self.keys_to_remove.is_empty()
    }

    /// Describes the change, one line for each taint.
    pub(crate) fn description_lines(&self) -> impl Iterator<Item = String> {
        let Self { effect, keys_to_add: add, keys_to_remove: remove } = self;
        let added = add.iter().map(move |key| format!("add taint {key}:{effect}"));
        added.chain(remove.iter().map(move |key| format!("remove taint {key}:{effect}")))
    }
}

/// Returns the change after which the `NoSchedule` taints of a node match its conditions and its spec.
///
/// Upstream: `doNoScheduleTaintingPass`.
pub fn no_schedule_taint_change(node: &Node) -> TaintChange {
    let mut wanted = Vec::new();
    let mut want = |key| {
        if !wanted.contains(&key) {
            wanted.push(key);
        }
    };
    for condition in node.conditions() {
        if condition.kind == READY_CONDITION {
            match condition.status.as_str() {
                FALSE => want(NOT_READY_TAINT),
                UNKNOWN => want(UNREACHABLE_TAINT),
                _ => {}
            }
        } else if condition.status == TRUE
            && let Some((_, key)) = CONDITION_TAINTS.iter().find(|(kind, _)| condition.kind == *kind)
        {
            want(key);
        }
    }
    if node.is_unschedulable() {
        want(UNSCHEDULABLE_TAINT);
    }
    let ours = [NOT_READY_TAINT, UNREACHABLE_TAINT, UNSCHEDULABLE_TAINT]
        .into_iter()
        .chain(CONDITION_TAINTS.map(|(_, key)| key));
    let has = |key: &str| node.taints().iter().any(|taint| taint.effect == NO_SCHEDULE && taint.key == key);
    let remove = ours.filter(|key| !wanted.contains(key) && has(key)).collect();
    let add = wanted.iter().copied().filter(|key| !has(key)).collect();
    TaintChange { effect: NO_SCHEDULE, keys_to_add: add, keys_to_remove: remove }
}

/// Returns the change after which the node has the `NoExecute` taint of `cause`, and no longer has the taint of the opposite
/// cause.
pub fn change_to_taint_of_cause(node: &Node, cause: TaintCause) -> TaintChange {
    TaintChange {
        keys_to_add: if has_taint_of_cause(node, cause) { Vec::new() } else { vec![cause.taint_key()] },
        ..removal_of_taints(node, &[cause.opposite()])
    }
}

/// Returns the change that removes the `NoExecute` taints of this program. Upstream: `markNodeAsReachable`.
pub fn removal_of_monitor_taints(node: &Node) -> TaintChange {
    removal_of_taints(node, &[TaintCause::Unreachable, TaintCause::NotReady])
}

fn removal_of_taints(node: &Node, causes: &[TaintCause]) -> TaintChange {
    let present = causes.iter().filter(|cause| has_taint_of_cause(node, **cause));
    let keys_to_remove = present.map(|cause| cause.taint_key()).collect();
    TaintChange { effect: NO_EXECUTE, keys_to_add: Vec::new(), keys_to_remove }
}

/// Returns the list of taints after a change. All other taints are kept with all fields, even if this program does not know
/// them.
///
/// `since` is the time of the change in the format of the API.
pub fn apply_taint_change(
    taints: &[Value],
    TaintChange { effect, keys_to_add: add, keys_to_remove: remove }: &TaintChange,
    since: &str,
) -> Vec<Value> {
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
    use crate::world::node_with_conditions_and_taints;

    /// Formats a change as `+added -removed`.
    fn short(change: &TaintChange) -> String {
        let short = |key: &str| key.trim_start_matches("node.kubernetes.io/").to_owned();
        let added = change.keys_to_add.iter().map(|key| format!("+{}", short(key)));
        added.chain(change.keys_to_remove.iter().map(|key| format!("-{}", short(key)))).collect::<Vec<_>>().join(" ")
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
            let node = node_with_conditions_and_taints(conditions, &taints, unschedulable);
            assert_eq!(short(&no_schedule_taint_change(&node)), expected, "{conditions:?} {taints:?}");
        }
    }

    /// NODE-24, NODE-25.
    #[test]
    fn one_cause_replaces_the_other() {
        let with = |keys: &[&str]| {
            let taints: Vec<_> = keys.iter().map(|key| (*key, NO_EXECUTE)).collect();
            node_with_conditions_and_taints(&[("Ready", "Unknown")], &taints, false)
        };
        assert_eq!(short(&change_to_taint_of_cause(&with(&[]), TaintCause::Unreachable)), "+unreachable");
        assert_eq!(
            short(&change_to_taint_of_cause(&with(&["not-ready"]), TaintCause::Unreachable)),
            "+unreachable -not-ready"
        );
        assert_eq!(short(&change_to_taint_of_cause(&with(&["unreachable"]), TaintCause::Unreachable)), "");
        assert_eq!(short(&removal_of_monitor_taints(&with(&["unreachable", "not-ready"]))), "-unreachable -not-ready");
        assert_eq!(short(&removal_of_monitor_taints(&with(&["example.com/x"]))), "");
    }

    /// NODE-27.
    #[test]
    fn foreign_taints_stay_unchanged() {
        let foreign = json!({"key": "example.com/x", "effect": "NoExecute", "value": "v", "newer": [1]});
        let own = json!({"key": NOT_READY_TAINT, "effect": "NoExecute", "timeAdded": "2026-11-21T09:00:00Z"});
        let change = TaintChange {
            effect: NO_EXECUTE,
            keys_to_add: vec![UNREACHABLE_TAINT],
            keys_to_remove: vec![NOT_READY_TAINT],
        };
        let after = apply_taint_change(&[own.clone(), foreign.clone(), own], &change, "2026-11-21T10:00:00Z");
        let added = json!({"key": UNREACHABLE_TAINT, "effect": "NoExecute", "timeAdded": "2026-11-21T10:00:00Z"});
        assert_eq!(after, [foreign, added], "both copies of a duplicate taint are removed");
    }
}

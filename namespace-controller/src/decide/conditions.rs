//! The five conditions that tell how far the deletion of a namespace is.
//!
//! Upstream: `pkg/controller/namespace/deletion`, `status_condition_utils.go`.

use std::collections::{BTreeMap, BTreeSet};

use common::{
    conditions::{Condition, ConditionListChange, FALSE, TRUE, set_namespace_condition},
    prelude::*,
};
use jiff::Timestamp;
use serde::Deserialize;
use serde_json::{Value, json};

use super::{
    content::{Content, Failure, KindState},
    verdict::kind_failures,
};

/// Type, reason and message of a condition that is `False`, in the order in which missing conditions are appended.
const CONDITIONS: [[&str; 3]; 5] = [
    ["NamespaceDeletionDiscoveryFailure", "ResourcesDiscovered", "All resources successfully discovered"],
    ["NamespaceDeletionGroupVersionParsingFailure", "ParsedGroupVersions", "All legacy kube types successfully parsed"],
    [
        "NamespaceDeletionContentFailure",
        "ContentDeleted",
        "All content successfully deleted, may be waiting on finalization",
    ],
    ["NamespaceContentRemaining", "ContentRemoved", "All content successfully removed"],
    ["NamespaceFinalizersRemaining", "ContentHasNoFinalizers", "All content-preserving finalizers finished"],
];

/// Reason and message of each condition that is `True`; `None` for the others.
pub type TrueConditions = [Option<(&'static str, String)>; CONDITIONS.len()];

/// Returns the conditions of a sync that deleted nothing, because discovery failed.
pub fn of_failed_discovery(failure: &Failure) -> TrueConditions {
    [Some(("DiscoveryFailed", failure.text.clone())), None, None, None, None]
}

/// Returns the conditions of a sync that found these kinds. `age_seconds` is the time since the deletion of the namespace.
pub fn of_findings(
    namespace: &str,
    content: &Content,
    kinds: &BTreeMap<Resource, KindState>,
    age_seconds: i64,
) -> TrueConditions {
    let stale = &content.stale_group_versions;
    let discovery = (!stale.is_empty()).then(|| ("DiscoveryFailed", describe_stale_groups(stale)));
    let failures: Vec<String> =
        kind_failures(namespace, kinds, age_seconds).into_iter().map(|failure| failure.text).collect();
    let failed = format!("Failed to delete all resource types, {} remaining", failures.len());
    let remaining = kinds.iter().filter(|(_, state)| state.count > 0);
    let remaining = remaining
        .map(|(kind, state)| format!("{}.{} has {} resource instances", kind.plural(), kind.group(), state.count));
    let mut counts: BTreeMap<&Text, usize> = BTreeMap::new();
    for (finalizer, (count, _)) in kinds.values().flat_map(|state| &state.finalizers) {
        *counts.entry(finalizer).or_default() += count;
    }
    let held = counts.iter().map(|(finalizer, count)| format!("{finalizer} in {count} resource instances"));
    let held_introduction = "Some content in the namespace has finalizers remaining";
    [
        discovery,
        None,
        listed("ContentDeletionFailed", &failed, failures),
        listed("SomeResourcesRemain", "Some resources are remaining", remaining.collect()),
        listed("SomeFinalizersRemain", held_introduction, held.collect()),
    ]
}

/// Returns the message about group versions whose resources are unknown.
pub fn describe_stale_groups(stale: &BTreeSet<String>) -> String {
    let describe = |group_version| format!("{group_version}: stale GroupVersion discovery: {group_version}");
    let introduction = format!("Discovery failed for some groups, {} failing", stale.len());
    let list: Vec<String> = stale.iter().map(describe).collect();
    format!("{introduction}: unable to retrieve the complete list of server APIs: {}", list.join(", "))
}

/// Returns a reason and a message with a sorted list; `None` if the list is empty.
fn listed(reason: &'static str, introduction: &str, mut texts: Vec<String>) -> Option<(&'static str, String)> {
    texts.sort();
    (!texts.is_empty()).then(|| (reason, format!("{introduction}: {}", texts.join(", "))))
}

/// Sets the conditions in the status of a namespace. Returns whether a status, reason or message has changed.
///
/// # Errors
/// If the conditions of the namespace cannot be read.
pub fn set_conditions(live: &mut Value, conditions: TrueConditions, now: Timestamp) -> Result<bool, Failure> {
    let malformed = |error| Failure { text: format!("status.conditions: {error}"), class: SyncErrorClass::Malformed };
    let stored = Option::<Vec<Condition>>::deserialize(&live["status"]["conditions"]).map_err(malformed)?;
    let (mut stored, mut is_changed) = (stored.unwrap_or_default(), false);
    for ([kind, false_reason, false_message], is_true) in CONDITIONS.into_iter().zip(conditions) {
        let status = if is_true.is_some() { TRUE } else { FALSE };
        let (reason, message) = is_true.unwrap_or_else(|| (false_reason, false_message.to_owned()));
        let condition = Condition::new(kind, status, reason, &message, now);
        is_changed |= set_namespace_condition(&mut stored, condition) == ConditionListChange::Changed;
    }
    live["status"]["conditions"] = json!(stored);
    Ok(is_changed)
}

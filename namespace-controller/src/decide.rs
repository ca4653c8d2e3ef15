//! Turns what is known about a namespace into the plan of a sync, and what a sync finds into its end, as pure functions.
//!
//! What a sync does depends on live answers, so most of the decision is made while it runs: [`content`] says which kinds are
//! visited in which order, [`conditions`] what the status says, and [`verdict`] how the sync ends.

pub mod conditions;
pub mod content;
pub mod verdict;

use std::sync::Arc;

use common::{controller::Explanation, prelude::*};
use jiff::Timestamp;

use self::content::{Findings, KindState};
use crate::objects::Namespace;

/// Everything that one sync reads from the caches and from memory, taken at one time.
#[derive(Clone, Debug)]
pub struct Snapshot {
    /// The terminating namespace.
    pub namespace: Arc<Namespace>,
    /// What the last sync has found in the namespace.
    pub findings: Findings,
    /// Wall-clock time of the sync.
    pub now: Timestamp,
}

/// The decision of one sync: the texts that explain what the namespace waits for.
pub type Plan = Explanation;

/// Decides that the content of a terminating namespace is deleted, and describes what the last sync has found.
pub fn decide(snapshot: &Snapshot) -> Plan {
    let kinds = snapshot.findings.kinds.iter();
    let since = snapshot.namespace.meta().deletion_timestamp.unwrap_or(snapshot.now);
    Plan {
        situation: format!("terminating since {since}"),
        waiting: kinds.flat_map(|(resource, state)| describe_kind(resource, state)).collect(),
        ..Plan::default()
    }
}

/// Returns what remains of a kind, which finalizers hold the objects, and why the kind has failed.
fn describe_kind(resource: &Resource, state: &KindState) -> Vec<String> {
    let remaining = (state.count > 0).then(|| format!("{resource}: {} remaining", state.count));
    let mut lines: Vec<String> = remaining.into_iter().collect();
    for (finalizer, (count, first)) in &state.finalizers {
        lines.push(format!("{resource}: finalizer {finalizer} in {count}, for example in {first}"));
    }
    let unserved = |_| format!("{resource}: the server lists the kind in discovery and answers its list with 404");
    lines.extend(state.unserved_since.map(unserved));
    lines.extend(state.failure.iter().map(|failure| format!("{resource}: {}", failure.text)));
    lines
}

#[cfg(test)]
mod tests;

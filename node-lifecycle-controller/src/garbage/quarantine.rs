//! Records how long each missing node has been missing.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use common::prelude::{Instant, Text};

/// The missing nodes to which Pods are assigned, each with the time of the pass that first found it missing.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct NodeQuarantine(BTreeMap<Text, Instant>);

impl NodeQuarantine {
    /// Returns the nodes of `missing` that have been missing for at least `period`.
    pub(crate) fn node_names_after_quarantine<'a>(
        &'a self,
        missing: &'a BTreeSet<Text>,
        now: Instant,
        period: Duration,
    ) -> impl Iterator<Item = &'a Text> {
        let is_over = move |since: &Instant| now.saturating_duration_since(*since) >= period;
        missing.iter().filter(move |node| self.0.get(*node).is_some_and(is_over))
    }

    /// Returns the quarantine after a pass that examined the nodes in `examined`. The quarantine of examined nodes restarts,
    /// newly missing nodes are added, and nodes that exist again are removed.
    pub(crate) fn quarantine_after_pass<'a>(
        &self,
        missing: &BTreeSet<Text>,
        examined: impl Iterator<Item = &'a Text>,
        now: Instant,
    ) -> Self {
        let since = |node: &Text| self.0.get(node).copied().unwrap_or(now);
        let mut next: BTreeMap<Text, Instant> = missing.iter().map(|node| (node.clone(), since(node))).collect();
        for node in examined {
            next.insert(node.clone(), now);
        }
        Self(next)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::world::{start_time, text_set};

    /// NODE-67.
    #[test]
    fn a_node_is_due_after_it_was_missing_for_the_whole_period() {
        let origin = start_time();
        let period = Duration::from_secs(40);
        let mut quarantine = NodeQuarantine::default();
        let mut pass = |names: &[&str], second| {
            let (missing, now) = (text_set(names), origin + Duration::from_secs(second));
            let due: BTreeSet<Text> = quarantine.node_names_after_quarantine(&missing, now, period).cloned().collect();
            quarantine = quarantine.quarantine_after_pass(&missing, due.iter(), now);
            due
        };
        assert_eq!(pass(&["a"], 0), text_set(&[]));
        assert_eq!(pass(&["a", "b"], 20), text_set(&[]));
        assert_eq!(pass(&["a", "b"], 40), text_set(&["a"]));
        // The time of "a" restarts after its examination; "b" is new again, because it existed in between.
        assert_eq!(pass(&["a"], 60), text_set(&[]));
        assert_eq!(pass(&["a", "b"], 80), text_set(&["a"]));
        assert_eq!(pass(&["b"], 119), text_set(&[]));
        assert_eq!(pass(&["b"], 120), text_set(&["b"]));
    }

    /// NODE-72.
    #[test]
    fn a_due_node_that_was_not_examined_stays_due() {
        let origin = start_time();
        let (missing, period) = (text_set(&["a", "b"]), Duration::from_secs(40));
        let first = NodeQuarantine::default().quarantine_after_pass(&missing, [].iter(), origin);
        let later = origin + period;
        let next = first.quarantine_after_pass(&missing, [Text::new("a")].iter(), later);
        assert_eq!(next.node_names_after_quarantine(&missing, later, period).collect::<Vec<_>>(), [&Text::new("b")]);
        assert_eq!(first.node_names_after_quarantine(&missing, later, period).count(), 2, "a query changes nothing");
    }
}

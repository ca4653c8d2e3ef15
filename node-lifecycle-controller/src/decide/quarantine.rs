//! How long nodes have been missing.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use common::{clock::Instant, intern::Text};

/// Since when nodes are missing that Pods name.
#[derive(Debug, Default)]
pub(crate) struct Quarantine(BTreeMap<Text, Instant>);

impl Quarantine {
    /// Takes note of who is missing now; who has been for long enough. Those begin anew, those who are back are forgotten.
    pub(crate) fn pass(&mut self, missing: &BTreeSet<Text>, now: Instant, least: Duration) -> BTreeSet<Text> {
        self.0.retain(|node, _| missing.contains(node));
        let mut due = BTreeSet::new();
        for node in missing {
            match self.0.get(node) {
                Some(since) if now.saturating_duration_since(*since) >= least => {
                    due.insert(node.clone());
                    self.0.insert(node.clone(), now);
                }
                Some(_) => {}
                None => {
                    self.0.insert(node.clone(), now);
                }
            }
        }
        due
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_node_is_due_when_it_was_missing_for_long_enough() {
        let origin = common::clock::Clock::system().instant();
        let at = |seconds: u64| origin + Duration::from_secs(seconds);
        let least = Duration::from_secs(40);
        let set = |names: &[&str]| names.iter().map(|name| Text::new(name)).collect::<BTreeSet<_>>();
        let mut quarantine = Quarantine::default();
        let mut pass = |names: &[&str], second| quarantine.pass(&set(names), at(second), least);
        assert_eq!(pass(&["a"], 0), set(&[]));
        assert_eq!(pass(&["a", "b"], 20), set(&[]));
        assert_eq!(pass(&["a", "b"], 40), set(&["a"]));
        // It begins anew; whoever was back is as new.
        assert_eq!(pass(&["a"], 60), set(&[]));
        assert_eq!(pass(&["a", "b"], 80), set(&["a"]));
        assert_eq!(pass(&["b"], 119), set(&[]));
        assert_eq!(pass(&["b"], 120), set(&["b"]));
    }
}

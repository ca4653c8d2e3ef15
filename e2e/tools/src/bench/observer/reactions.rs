//! The time from an event to the write of the controller that answers it, as a consumer of the same watches sees it.
//!
//! Each rule names a difference between two values in the watches, which one controller has to resolve by a write: for example a
//! generation that the status has not observed, or a number of ready Pods that the status does not have. The latency is the time
//! from the event that begins the difference to the event of the write that ends it. If more events have arrived in between, a
//! write that answers only the first ones counts as well.

use std::{collections::BTreeMap, time::Duration};

use common::{clock::Instant, map::HashMap, meta::Uid};

/// A rule, with the controller that has to write.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Rule {
    pub(super) controller: &'static str,
    pub(super) about: About,
}

/// The two values that have to agree.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum About {
    /// The generation of an object and the one that its status has observed.
    Generation,
    /// The ready Pods (for a Deployment: those of its ReplicaSets' statuses) and the number in the status of their owner.
    ReadyPods,
    /// The creation of a Job and its start time.
    Start,
    /// A finished Pod of a Job and its finalizer, which the controller removes once it has counted the Pod.
    FinishedPod,
    /// An owner that is gone and the deletion of a dependent.
    Orphan,
    /// The readiness of a Node and its taints.
    Taint,
    /// A ready Pod that a Service selects, and the slices.
    Endpoint,
}

/// The latencies of all controllers.
#[derive(Debug, Default)]
pub(super) struct Reactions {
    pending: HashMap<(Rule, Uid), Instant>,
    latencies: BTreeMap<&'static str, Vec<Duration>>,
}

impl Reactions {
    /// Handles an event: whether the values differ, and whether the event is a write of the controller to one of them. `None` for
    /// an object that is gone or needs no write any more.
    pub(super) fn observe(&mut self, rule: Rule, uid: &Uid, differs: Option<bool>, is_answer: bool, now: Instant) {
        let key = (rule, uid.clone());
        let since = self.pending.remove(&key);
        if let (Some(since), Some(differs)) = (since, differs)
            && (is_answer || !differs)
        {
            self.record(rule.controller, now.saturating_duration_since(since));
        }
        if differs == Some(true) {
            self.pending.insert(key, since.filter(|_| !is_answer).unwrap_or(now));
        }
    }

    /// Forgets an object. Returns whether the values differed.
    pub(super) fn forget(&mut self, rule: Rule, uid: &Uid) -> bool {
        self.pending.remove(&(rule, uid.clone())).is_some()
    }

    /// The number of objects whose values differ.
    pub(super) fn count(&self, rule: Rule) -> usize {
        self.pending.keys().filter(|(pending, _)| *pending == rule).count()
    }

    /// Adds a latency that was measured in another way.
    pub(super) fn record(&mut self, controller: &'static str, latency: Duration) {
        self.latencies.entry(controller).or_default().push(latency);
    }

    /// The latencies since the last call, by controller.
    pub(super) fn take(&mut self) -> BTreeMap<&'static str, Vec<Duration>> {
        std::mem::take(&mut self.latencies)
    }
}

#[cfg(test)]
mod tests {
    use common::clock::Clock;

    use super::*;

    const RULE: Rule = Rule { controller: "replicaset-controller", about: About::ReadyPods };

    #[test]
    fn a_latency_lasts_from_the_disagreement_to_the_answer() {
        let start = Clock::system().monotonic_now();
        let at = |milliseconds| start + Duration::from_millis(milliseconds);
        let uid = Uid::new("a");
        let mut reactions = Reactions::default();
        reactions.observe(RULE, &uid, Some(false), false, at(0));
        reactions.observe(RULE, &uid, Some(true), false, at(10));
        reactions.observe(RULE, &uid, Some(true), false, at(12));
        // An answer to the first event only.
        reactions.observe(RULE, &uid, Some(true), true, at(15));
        reactions.observe(RULE, &uid, Some(false), true, at(19));
        assert_eq!(reactions.take(), BTreeMap::from([(RULE.controller, [5, 4].map(Duration::from_millis).to_vec())]));
        // What is gone needs no answer.
        reactions.observe(RULE, &uid, Some(true), false, at(20));
        reactions.observe(RULE, &uid, None, false, at(21));
        reactions.observe(RULE, &uid, Some(false), false, at(90));
        assert!(reactions.take().is_empty());
    }
}

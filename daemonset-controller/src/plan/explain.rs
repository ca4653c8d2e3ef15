use std::time::Duration;

use common::controller::SyncPlan;

use super::{Plan, SyncScope};

impl SyncPlan for Plan {
    fn situation(&self) -> String {
        if self.selector_problem.is_some() {
            return String::new();
        }
        let tally = &self.node_counts;
        format!(
            "{} nodes should run a Pod: {} have one, {} ready, {} available, {} of revision {}; {} other nodes have one",
            tally.desired,
            tally.current,
            tally.ready,
            tally.available,
            tally.updated,
            self.revision_hash,
            tally.misscheduled,
        )
    }

    fn wait_reasons(&self) -> Vec<String> {
        if let Some(problem) = &self.selector_problem {
            return vec![problem.to_string()];
        }
        let mut waiting = self.waiting_reasons.clone().into_vec();
        let deferred = self.deferred_node_counts.total();
        if deferred > 0 {
            waiting.push(format!("{deferred} more nodes are left to the next syncs"));
        }
        let end_of_pause = self.pod_creation_pause.and_then(|pause| pause.requeue_after());
        let is_explained = self.sync_scope == SyncScope::StatusOnly || self.requeue_after == end_of_pause;
        if let Some(due) = self.requeue_after.filter(|_| !is_explained) {
            let seconds = due.as_secs().saturating_add(u64::from(due.subsec_nanos() > 0));
            waiting.push(format!("a Pod becomes available, or a failed Pod may be deleted, in {seconds}s"));
        }
        waiting
    }

    fn requeue_after(&self) -> Option<Duration> {
        self.requeue_after
    }
}

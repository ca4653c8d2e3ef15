use std::time::Duration;

use common::controller::Explain;

use super::{Plan, Scope};

impl Explain for Plan {
    fn situation(&self) -> String {
        if self.problem.is_some() {
            return String::new();
        }
        let tally = &self.tally;
        format!(
            "{} nodes should run a Pod: {} have one, {} ready, {} available, {} of revision {}; {} other nodes have one",
            tally.desired, tally.current, tally.ready, tally.available, tally.updated, self.hash, tally.misscheduled,
        )
    }

    fn waiting(&self) -> Vec<String> {
        if let Some(problem) = &self.problem {
            return vec![problem.to_string()];
        }
        let mut waiting = self.waiting.clone().into_vec();
        let deferred = self.deferred.total();
        if deferred > 0 {
            waiting.push(format!("{deferred} more nodes are left to the next syncs"));
        }
        if let Some(due) = self.due.filter(|_| self.scope != Scope::Status) {
            let seconds = due.as_secs().saturating_add(u64::from(due.subsec_nanos() > 0));
            waiting.push(format!("a Pod becomes available, or a failed Pod may be deleted, in {seconds}s"));
        }
        waiting
    }

    fn requeue_after(&self) -> Option<Duration> {
        self.due
    }
}

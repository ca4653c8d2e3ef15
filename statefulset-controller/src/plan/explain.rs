//! The text about a plan in `/debug/explain`.

use std::time::Duration;

use common::controller::Explain;

use super::{Plan, mismatch::ClaimMismatches};

impl Explain for Plan {
    fn situation(&self) -> String {
        if self.problem.is_some() {
            return String::new();
        }
        let counted = &self.reconcile.counted_status;
        format!(
            "{} Pods wanted: {} exist, {} ready, {} available; {} of revision {}, {} of revision {}",
            self.set.replicas,
            counted.replicas,
            counted.ready_replicas,
            counted.available_replicas,
            counted.current_replicas,
            counted.current_revision,
            counted.updated_replicas,
            counted.update_revision,
        )
    }

    fn wait_reasons(&self) -> Vec<String> {
        if let Some(problem) = &self.problem {
            return vec![problem.to_string()];
        }
        let mut waiting = self.reconcile.waiting.clone().into_vec();
        if self.reconcile.deferred_count > 0 {
            waiting.push(format!("{} more Pods are left to the next syncs", self.reconcile.deferred_count));
        }
        let ClaimMismatches { listed, unlisted_count: unlisted } = &self.mismatches;
        waiting.extend(listed.iter().map(ToString::to_string));
        if *unlisted > 0 {
            waiting.push(format!("{unlisted} more claims do not match their volumeClaimTemplates"));
        }
        if let Some(wait) = self.available_in {
            let seconds = wait.as_secs() + u64::from(wait.subsec_nanos() > 0);
            waiting.push(format!("ready Pods are not available yet, the next in {seconds}s"));
        }
        waiting
    }

    fn requeue_after(&self) -> Option<Duration> {
        self.available_in
    }
}

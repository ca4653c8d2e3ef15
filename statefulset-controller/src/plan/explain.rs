//! The text about a plan in `/debug/explain`.

use std::time::Duration;

use common::controller::SyncPlan;

use super::{Plan, mismatch::VolumeClaimMismatches};

impl SyncPlan for Plan {
    fn situation(&self) -> String {
        if self.unmanaged_reason.is_some() {
            return String::new();
        }
        let counted = &self.pod_plan.status_before_work;
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
        if let Some(problem) = &self.unmanaged_reason {
            return vec![problem.to_string()];
        }
        let mut waiting = self.pod_plan.waiting_reasons.clone().into_vec();
        if self.pod_plan.deferred_pod_count > 0 {
            waiting.push(format!("{} more Pods are left to the next syncs", self.pod_plan.deferred_pod_count));
        }
        let VolumeClaimMismatches { listed_mismatches: listed, unlisted_volume_claim_count: unlisted } =
            &self.volume_claim_mismatches;
        waiting.extend(listed.iter().map(ToString::to_string));
        if *unlisted > 0 {
            waiting.push(format!("{unlisted} more claims do not match their volumeClaimTemplates"));
        }
        if let Some(wait) = self.time_to_next_availability {
            let seconds = wait.as_secs() + u64::from(wait.subsec_nanos() > 0);
            waiting.push(format!("ready Pods are not available yet, the next in {seconds}s"));
        }
        waiting
    }

    fn requeue_after(&self) -> Option<Duration> {
        self.time_to_next_availability
    }
}

//! Explanations of a plan, for `/debug/explain`.

use std::{fmt, time::Duration};

use common::prelude::SyncPlan;

use super::{ControlledPod, JobSyncPlan, Plan, PodScheduling, PodSummary, ScalingDecision, SkipReason};

/// The maximum number of Pods that an explanation lists by name.
const MAX_LISTED_PODS: usize = 10;

impl SyncPlan for Plan {
    fn situation(&self) -> String {
        let job = &self.job;
        let wanted = match job.completions {
            Some(completions) if job.is_indexed() => format!("{completions} indexes"),
            Some(completions) => format!("{completions} completions"),
            None => "any completion".to_owned(),
        };
        let numbers =
            self.sync_plan.as_ref().map_or_else(|_| String::new(), |sync_plan| format!(": {}", sync_plan.pod_summary));
        format!("{wanted} wanted, {} Pods at once{numbers}", job.parallelism)
    }

    fn wait_reasons(&self) -> Vec<String> {
        let sync_plan = match &self.sync_plan {
            Ok(sync_plan) => sync_plan,
            Err(SkipReason::Finished) => return Vec::new(),
            Err(why) => return vec![format!("the Job is not synced: {why}")],
        };
        let JobSyncPlan { pod_summary, scaling_decision, first_status_write, .. } = sync_plan;
        let mut out = Vec::new();
        match scaling_decision {
            ScalingDecision::NotAllowed(why) => out.push(format!("Pods are neither created nor deleted: {why}")),
            ScalingDecision::CreationPaused(pause) => out.push(format!("no Pods are created: {pause}")),
            ScalingDecision::JobTerminating => {
                out.push("the Job is terminating: the garbage collector deletes its Pods".to_owned());
            }
            ScalingDecision::PostponeCreate { missing_pods, remaining_backoff } => {
                let delay = format_whole_seconds(*remaining_backoff);
                out.push(format!(
                    "{missing_pods} Pods are missing, the next is created in {delay} because of failures"
                ));
            }
            ScalingDecision::Create { remaining_backoff: Some(remaining_backoff), .. } => {
                let delay = format_whole_seconds(*remaining_backoff);
                out.push(format!("a failed index gets its next Pod in {delay}"));
            }
            ScalingDecision::DeleteSuspended(_) => out.push("the Job is suspended".to_owned()),
            ScalingDecision::NoIndexLeft { missing_pods } => {
                out.push(format!("{missing_pods} Pods are missing, but no index is left for them"));
            }
            _ => {}
        }
        if let Some(job_end) = &first_status_write.job_end_to_write {
            if let Some(terminating @ 1..) = first_status_write.status.terminating {
                let (terminal, reason) = (job_end.terminal_condition_type(), &job_end.reason);
                out.push(format!("{terminal} ({reason}) once {terminating} terminating Pods have finished"));
            }
        } else if !pod_summary.active_pod_positions.is_empty() {
            out.push(format!("{} Pods are still active", pod_summary.active_pod_positions.len()));
        }
        if self.job.replaces_pods_only_when_finished()
            && pod_summary.terminating_pod_count > 0
            && first_status_write.job_end_to_write.is_none()
        {
            out.push(format!(
                "{} terminating Pods are replaced once they have finished",
                pod_summary.terminating_pod_count
            ));
        }
        if let PodScheduling::OneByOne(Some(reason)) = &sync_plan.pod_scheduling {
            out.push(format!("Pods are scheduled one by one, not as a gang: {reason}"));
        }
        out.extend(self.pods_without_valid_index(&pod_summary.pods));
        out
    }

    fn requeue_after(&self) -> Option<Duration> {
        self.sync_plan.as_ref().ok()?.requeue_after
    }
}

impl fmt::Display for PodSummary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} succeeded, {} failed", self.success_count, self.failed_pod_count)?;
        if let Some(failed) = &self.failed_index_set {
            write!(f, ", {} indexes failed", failed.len())?;
        }
        let Self { active_pod_positions: active, ready_pod_count: ready, terminating_pod_count: terminating, .. } =
            self;
        write!(f, "; {} Pods active, {ready} ready, {terminating} terminating", active.len())
    }
}

impl Plan {
    /// Describes the Pods of an Indexed Job that are not counted because their index is invalid; `None` without such Pods.
    fn pods_without_valid_index(&self, pods: &[ControlledPod]) -> Option<String> {
        if !self.job.is_indexed() {
            return None;
        }
        let wrong = |c: &&ControlledPod| c.has_tracking_finalizer && !self.job.accepts_index_of(&c.pod);
        let names: Vec<&str> = pods.iter().filter(wrong).map(|c| &*c.pod.meta().name).collect();
        let more = if names.len() > MAX_LISTED_PODS { ", ..." } else { "" };
        let shown = names[..names.len().min(MAX_LISTED_PODS)].join(", ");
        (!names.is_empty()).then(|| format!("Pods without a valid index are not counted: {shown}{more}"))
    }
}

/// Formats a wait in whole seconds, rounded up.
pub(crate) fn format_whole_seconds(wait: Duration) -> String {
    format!("{}s", wait.as_secs() + u64::from(wait.subsec_nanos() > 0))
}

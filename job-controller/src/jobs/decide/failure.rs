//! Decides whether a Pod has failed, and whether its failure counts.

use common::pods::Phase;

use crate::objects::{CachedPod, FailurePolicyAction, Job};

/// Whether the phase of a Pod is `Failed`, or the Pod is terminating, has not succeeded, and may already be replaced.
///
/// Upstream: `pkg/controller/job`, `isPodFailed`.
pub fn is_pod_failed(job: &Job, pod: &CachedPod) -> bool {
    let is_terminating = pod.meta().is_deleting() && pod.phase != Phase::Succeeded;
    pod.phase == Phase::Failed || (is_terminating && !job.replaces_pods_only_when_finished())
}

/// Returns the action of the first rule of the failure policy that matches a Pod.
pub fn failure_policy_action(job: &Job, pod: &CachedPod) -> Option<FailurePolicyAction> {
    job.pod_failure_policy.as_ref().and_then(|policy| policy.matching_action(pod))
}

/// Whether the failure of a Pod counts towards the back-off limits. False if the failure policy ignores the failure.
pub fn is_pod_failure_counted(job: &Job, pod: &CachedPod) -> bool {
    failure_policy_action(job, pod) != Some(FailurePolicyAction::Ignore)
}

/// Whether a failed Pod makes its index fail permanently: by the failure policy, or after `limit` failures of earlier Pods.
///
/// `limit` is `spec.backoffLimitPerIndex`. Upstream: `pkg/controller/job`, `isIndexFailed`.
pub fn pod_fails_index(job: &Job, pod: &CachedPod, limit: u32) -> bool {
    match failure_policy_action(job, pod) {
        Some(FailurePolicyAction::FailIndex) => true,
        Some(FailurePolicyAction::Ignore) => false,
        Some(FailurePolicyAction::FailJob | FailurePolicyAction::Count) | None => pod.index_failure_count >= limit,
    }
}

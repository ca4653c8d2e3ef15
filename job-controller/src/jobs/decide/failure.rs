//! Decides whether a Pod has failed, and whether its failure counts.

use common::pods::Phase;

use crate::objects::{Action, CachedPod, Job};

/// Whether a Pod has failed: its phase is `Failed`, or it is terminating and the Job replaces terminating Pods at once.
///
/// Upstream: `pkg/controller/job`, `isPodFailed`.
pub fn is_failed(job: &Job, pod: &CachedPod) -> bool {
    let is_terminating = pod.meta().is_deleting() && pod.phase != Phase::Succeeded;
    pod.phase == Phase::Failed || (is_terminating && !job.only_replaces_failed())
}

/// Returns the action of the first rule of the failure policy that matches a Pod.
pub fn action(job: &Job, pod: &CachedPod) -> Option<Action> {
    job.failure_policy.as_ref().and_then(|policy| policy.action(pod))
}

/// Whether the failure of a Pod counts. False if the failure policy ignores it.
pub fn is_counted(job: &Job, pod: &CachedPod) -> bool {
    action(job, pod) != Some(Action::Ignore)
}

/// Whether a failed Pod makes its index fail permanently. Upstream: `pkg/controller/job`, `isIndexFailed`.
pub fn fails_index(job: &Job, pod: &CachedPod, limit: u32) -> bool {
    match action(job, pod) {
        Some(Action::FailIndex) => true,
        Some(Action::Ignore) => false,
        Some(Action::FailJob | Action::Count) | None => pod.failure_count >= limit,
    }
}

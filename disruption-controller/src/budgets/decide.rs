//! Computes the status of a budget from its Pods and the sizes of their owners, as pure functions.

mod census;
mod owners;
mod status;

use std::{sync::Arc, time::Duration};

use common::{discovery::DiscoveredResources, prelude::*};
use jiff::Timestamp;

pub use census::{Census, PodOwner, count_pods};
pub use owners::{CachedKind, OwnerSize, Scale, find_scaled_resource};
pub use status::{DISRUPTION_ALLOWED, SYNC_FAILED, closed_status};

use crate::objects::{Budget, Status};

/// What one sync reads from the caches.
pub struct Snapshot {
    /// The budget, not older than the last write of this process.
    pub budget: Arc<Budget>,
    /// Its Pods, or the reason why they are unknown.
    pub pods: Result<CountedPods, Failure>,
    /// The resources that the server serves, if they were read at most 30 seconds ago.
    pub discovered: Option<Arc<DiscoveredResources>>,
    /// The time of the sync.
    pub now: Timestamp,
}

/// The Pods of a budget, and what the caches know of the sizes of their owners.
pub struct CountedPods {
    /// The counts, with the owners.
    pub census: Census,
    /// The size of each owner of the census; `None` if the caches lack the owner.
    pub sizes: Vec<Result<Option<OwnerSize>, Failure>>,
}

/// The reason why the status of a budget cannot be computed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// The error, which becomes the message of the condition.
    pub text: String,
    /// The class of the error in metrics.
    pub class: SyncErrorClass,
    /// What has failed.
    pub step: FailedStep,
}

/// The step of a sync that has failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FailedStep {
    /// The selection of the Pods.
    SelectPods,
    /// The computation of the expected count.
    CountExpectedPods,
    /// A PUT of the computed status.
    WriteStatus,
}

impl Failure {
    /// Creates the failure of a budget whose Pods are unknown.
    pub fn of_pods(class: SyncErrorClass, text: String) -> Self {
        Self { text, class, step: FailedStep::SelectPods }
    }

    /// Creates the failure of a budget whose expected count is unknown.
    pub fn of_expected_count(class: SyncErrorClass, text: String) -> Self {
        Self { text, class, step: FailedStep::CountExpectedPods }
    }

    /// Creates the failure for a Pod whose owner does not exist.
    pub fn without_owner(pod: &str) -> Self {
        Self::of_expected_count(SyncErrorClass::Gone, format!("found no controllers for pod {pod:?}"))
    }
}

/// The decision about a budget.
#[derive(Debug)]
pub struct Plan {
    /// The status to write, or the failure that closes the budget; `None` if sizes of owners have to be read first.
    pub conclusion: Option<Result<Status, Failure>>,
    /// Delay after which the first entry of `status.disruptedPods` ends.
    next_end: Option<Duration>,
    situation: String,
}

impl SyncPlan for Plan {
    fn requeue_after(&self) -> Option<Duration> {
        self.next_end
    }

    fn situation(&self) -> String {
        self.situation.clone()
    }

    fn wait_reasons(&self) -> Vec<String> {
        match &self.conclusion {
            None => vec!["the size of an owner is read from its subresource scale".to_owned()],
            Some(Err(failure)) => vec![failure.text.clone()],
            Some(Ok(status)) => blocking_reasons(status),
        }
    }
}

/// Returns why a budget allows no eviction; empty if it allows one.
pub fn blocking_reasons(status: &Status) -> Vec<String> {
    let Status { disruptions_allowed: allowed, current_healthy: healthy, desired_healthy: desired, .. } = status;
    let mut reasons = Vec::new();
    if *allowed > 0 {
        return reasons;
    }
    if status.expected_pods <= 0 {
        reasons.push("no Pods are expected, so no eviction is allowed".to_owned());
    } else {
        reasons.push(format!("it needs {desired} healthy Pods and has {healthy}"));
    }
    if let Some(name) = status.disrupted_pods.keys().next() {
        let count = status.disrupted_pods.len();
        reasons.push(format!("{count} approved evictions have not deleted their Pods yet, the first that of {name}"));
    }
    reasons
}

/// Plans the new status, if the caches have the sizes of all owners.
pub fn decide(snapshot: &Snapshot) -> Plan {
    let conclusion = match &snapshot.pods {
        Err(failure) => Some(Err(failure.clone())),
        Ok(pods) => match pods.known_sizes() {
            Ok(None) => None,
            Ok(Some(sizes)) => Some(conclude(snapshot, pods, &sizes)),
            Err(failure) => Some(Err(failure)),
        },
    };
    let next_end = snapshot.pods.as_ref().ok().and_then(|pods| pods.census.next_end);
    // An entry is kept at its very end.
    let next_end = next_end.and_then(|end| Duration::try_from(end).ok()).map(|end| end + Duration::from_millis(1));
    Plan { situation: situation(snapshot, conclusion.as_ref()), conclusion, next_end }
}

impl CountedPods {
    /// Returns the sizes of all owners; `None` if one of them has to be read, unless an earlier one has failed.
    fn known_sizes(&self) -> Result<Option<Vec<OwnerSize>>, Failure> {
        self.sizes.iter().cloned().collect::<Result<Option<Vec<_>>, _>>()
    }
}

/// Computes the status from the sizes of all owners.
///
/// # Errors
/// A limit of the budget is not a number or a percentage.
pub fn conclude(snapshot: &Snapshot, pods: &CountedPods, sizes: &[OwnerSize]) -> Result<Status, Failure> {
    let (budget, census) = (&snapshot.budget, &pods.census);
    let counts = status::expected_counts(&budget.spec, census.pods, sizes)
        .map_err(|error| Failure::of_expected_count(SyncErrorClass::Malformed, error.to_string()))?;
    Ok(status::computed_status(&budget.status, budget.metadata.generation, census, counts, snapshot.now))
}

fn situation(snapshot: &Snapshot, conclusion: Option<&Result<Status, Failure>>) -> String {
    match (conclusion, &snapshot.pods) {
        (Some(Ok(status)), _) => format!(
            "{} of {} expected Pods are healthy, {} must remain, and {} may be evicted",
            status.current_healthy, status.expected_pods, status.desired_healthy, status.disruptions_allowed
        ),
        (_, Ok(pods)) => format!("{} of {} Pods are healthy", pods.census.healthy, pods.census.pods),
        (_, Err(_)) => "its Pods are unknown".to_owned(),
    }
}

#[cfg(test)]
mod tests;

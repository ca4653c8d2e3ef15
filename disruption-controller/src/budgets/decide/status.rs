//! The status of a budget: counts, entries and the condition.

use common::{
    conditions::{self, Condition},
    intstr::{IntOrString, IntOrStringError, Rounding},
    prelude::*,
};
use jiff::Timestamp;
use serde_json::json;

use super::{Census, OwnerSize};
use crate::objects::{BudgetSpec, Status};

/// Type of the condition with the result of a sync.
pub const DISRUPTION_ALLOWED: &str = "DisruptionAllowed";
/// Reason of the condition after a sync that has failed.
pub const SYNC_FAILED: &str = "SyncFailed";

/// The number of Pods that should exist, and of those the number that must be healthy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ExpectedCounts {
    /// The number of Pods that should exist.
    pub(super) expected: i32,
    /// The number of healthy Pods that must remain.
    pub(super) desired: i32,
}

/// Computes the expected and the desired count. `sizes` has the size of each owner, and an owner may be in it several times.
///
/// Upstream: `pkg/controller/disruption`, `getExpectedPodCount`.
///
/// # Errors
/// A limit is a string that is not a percentage.
pub(super) fn expected_counts(
    spec: &BudgetSpec,
    pods: i32,
    sizes: &[OwnerSize],
) -> Result<ExpectedCounts, IntOrStringError> {
    let mut seen = HashSet::default();
    let distinct = sizes.iter().filter(|size| seen.insert(&size.uid));
    let sum = distinct.fold(0_i32, |sum, size| sum.saturating_add(size.replicas));
    let (expected, desired) = match spec {
        BudgetSpec { max_unavailable: Some(limit), .. } => {
            (sum, sum.saturating_sub(limit.resolve(sum, Rounding::Up)?).max(0))
        }
        BudgetSpec { min_available: Some(IntOrString::Int(count)), .. } => (pods, *count),
        BudgetSpec { min_available: Some(limit), .. } => (sum, limit.resolve(sum, Rounding::Up)?),
        _ => (0, 0),
    };
    Ok(ExpectedCounts { expected, desired })
}

/// Returns the status for these counts. The conditions of other types are kept.
pub(super) fn computed_status(
    old: &Status,
    generation: i64,
    census: &Census,
    ExpectedCounts { expected, desired }: ExpectedCounts,
    now: Timestamp,
) -> Status {
    let surplus = census.healthy.saturating_sub(desired).max(0);
    let allowed = if expected > 0 { surplus } else { 0 };
    let mut status = Status {
        observed_generation: generation,
        disrupted_pods: census.disrupted_pods.clone(),
        disruptions_allowed: allowed,
        current_healthy: census.healthy,
        desired_healthy: desired,
        expected_pods: expected,
        conditions: old.conditions.clone(),
    };
    let (condition_status, reason) =
        if allowed > 0 { (conditions::TRUE, "SufficientPods") } else { (conditions::FALSE, "InsufficientPods") };
    status.set_condition(condition_status, reason, "", now);
    status
}

/// Returns the status that allows no eviction because a sync has failed. Everything else stays.
pub fn closed_status(old: &Status, error: &str, now: Timestamp) -> Status {
    let mut status = Status { disruptions_allowed: 0, ..old.clone() };
    status.set_condition(conditions::FALSE, SYNC_FAILED, &conditions::limited_message(error.to_owned()), now);
    status
}

impl Status {
    /// Whether `stored` already says what this computed status says. The message of the condition and the generation that the
    /// condition observed do not matter.
    pub fn is_settled_by(&self, stored: &Self) -> bool {
        let outcome = |status: &Self| {
            let condition = conditions::get(&status.conditions, DISRUPTION_ALLOWED);
            condition.map(|condition| (condition.status.clone(), condition.reason.clone()))
        };
        outcome(self) == outcome(stored) && Self { conditions: stored.conditions.clone(), ..self.clone() } == *stored
    }

    /// Sets the condition [`DISRUPTION_ALLOWED`]. Its time changes only with its status.
    ///
    /// Upstream: `apimachinery/pkg/api/meta`, `SetStatusCondition`.
    fn set_condition(&mut self, status: &str, reason: &str, message: &str, now: Timestamp) {
        let mut condition = Condition::new(DISRUPTION_ALLOWED, status, reason, message, now);
        // Servers omit 0.
        if self.observed_generation != 0 {
            condition.extra.insert("observedGeneration".to_owned(), json!(self.observed_generation));
        }
        match self.conditions.iter_mut().find(|known| known.kind == DISRUPTION_ALLOWED) {
            Some(known) => {
                if known.status == condition.status {
                    condition.last_transition_time = known.last_transition_time;
                }
                *known = condition;
            }
            None => self.conditions.push(condition),
        }
    }
}

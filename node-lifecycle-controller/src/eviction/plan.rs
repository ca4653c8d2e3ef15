//! The plan of a sync for a Pod: the Pod is deleted now, is deleted when its timer ends, or is not deleted.

use std::time::Duration;

use common::{clock::Instant, controller::SyncPlan};

use super::snapshot::DeletionTimer;

/// Decision of one sync about a Pod and its timer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Plan {
    /// Time until the deletion timer of the Pod ends; `None` if the Pod has no timer.
    pub(crate) requeue_after: Option<Duration>,
    /// Whether a timer is removed although its Pod was not deleted; an Event reports the cancellation.
    pub(crate) cancels_timer: bool,
    pub(crate) pod_action: PodAction,
    /// Reason of the action, shown by `/debug/explain`.
    pub(crate) reason: &'static str,
}

/// Action of a sync on its Pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum PodAction {
    /// The Pod is not deleted; a timer of the Pod is removed.
    StayWithoutTimer,
    /// The Pod is deleted when this timer ends, unless a later sync decides otherwise.
    StayUntilTimer(DeletionTimer),
    /// The Pod is deleted now.
    Delete {
        /// Time at which the deletion became due.
        since: Instant,
    },
}

impl SyncPlan for Plan {
    fn situation(&self) -> String {
        format!("{}{}", self.reason, if self.cancels_timer { "; its timer is cancelled" } else { "" })
    }

    fn wait_reasons(&self) -> Vec<String> {
        let PodAction::StayUntilTimer(_) = &self.pod_action else { return Vec::new() };
        vec!["the Pod is deleted when its timer is due".to_owned()]
    }

    fn requeue_after(&self) -> Option<Duration> {
        self.requeue_after
    }

    fn is_notable(&self) -> bool {
        self.cancels_timer
    }
}

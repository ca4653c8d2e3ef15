//! The plan for a Pod, with its reason.

use std::time::Duration;

use common::{clock::Instant, controller::Explain};

use super::snapshot::Timer;

/// Actions of one sync of a Pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Plan {
    /// Time until the timer is due; `None` if the Pod does not wait.
    pub(crate) requeue_after: Option<Duration>,
    /// Whether a timer is removed although its Pod was not deleted; an Event reports this.
    pub(crate) cancels: bool,
    /// The action on the Pod.
    pub(crate) then: Then,
    /// Reason of the action, for explanations.
    pub(crate) why: &'static str,
}

/// Action on a Pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Then {
    /// The Pod stays and has no timer.
    Nothing,
    /// The Pod stays until this timer is due.
    Wait(Timer),
    /// The Pod is deleted now.
    Delete {
        /// Time at which the deletion became due.
        since: Instant,
    },
}

impl Explain for Plan {
    fn situation(&self) -> String {
        format!("{}{}", self.why, if self.cancels { "; its timer is cancelled" } else { "" })
    }

    fn waiting(&self) -> Vec<String> {
        let Then::Wait(_) = &self.then else { return Vec::new() };
        vec!["the Pod is deleted when its timer is due".to_owned()]
    }

    fn requeue_after(&self) -> Option<Duration> {
        self.requeue_after
    }

    fn is_notable(&self) -> bool {
        self.cancels
    }
}

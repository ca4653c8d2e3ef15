//! What becomes of a Pod, and why.

use std::time::Duration;

use common::{clock::Instant, controller::Explain};

use super::snapshot::Timer;

/// What one sync of a Pod does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Plan {
    /// The time until the timer is due, if the Pod waits for one.
    pub(crate) requeue_after: Option<Duration>,
    /// Whether a timer is removed although its Pod was not deleted; this is reported as an Event.
    pub(crate) cancels: bool,
    /// The action.
    pub(crate) then: Then,
    /// The reason of the action.
    pub(crate) why: &'static str,
}

/// What happens to a Pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Then {
    /// The Pod stays, and has no timer afterwards.
    Nothing,
    /// The Pod stays until this timer is due.
    Wait(Timer),
    /// The Pod is deleted now.
    Delete {
        /// When the deletion became due.
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

//! The plan of a sync for a Pod: the Pod stays, waits for its timer, or is deleted.

use std::time::Duration;

use common::{clock::Instant, controller::Explain};

use super::snapshot::Timer;

/// Decision of one sync about a Pod and its timer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Plan {
    /// Time until the timer is due; `None` if the Pod does not wait.
    pub(crate) requeue_after: Option<Duration>,
    /// Whether a timer is removed although its Pod was not deleted; an Event reports this.
    pub(crate) cancels: bool,
    pub(crate) then: Then,
    /// Reason of the action, shown by `/debug/explain`.
    pub(crate) why: &'static str,
}

/// Action of a sync on its Pod.
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

//! The plan to mark a Pod as not ready, with its reason.

use common::controller::SyncPlan;

/// Decision of one sync of a Pod, with its reason.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Plan {
    /// Whether the sync sets the condition `Ready` of the Pod to `False`.
    pub(crate) marks_pod_not_ready: bool,
    pub(crate) reason: &'static str,
}

impl SyncPlan for Plan {
    fn situation(&self) -> String {
        self.reason.to_owned()
    }
}

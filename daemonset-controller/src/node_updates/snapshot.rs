//! The input of the loop of changed nodes.

use common::meta::Key;

use crate::snapshot::nodes::Eligibility;

/// The state of a changed node for one DaemonSet.
#[derive(Clone, Debug)]
pub(crate) struct Concern {
    /// Key of the DaemonSet.
    pub(crate) set: Key,
    /// The eligibility of the node when its Pods were last counted; `None` if the roster does not list the node.
    pub(crate) before: Option<Eligibility>,
    /// The present eligibility of the node; `None` if the placement is too large to be compared here.
    pub(crate) now: Option<Eligibility>,
    /// Whether the DaemonSet has Pods on the node.
    pub(crate) scheduled: bool,
    /// Whether `status.numberMisscheduled` of the DaemonSet is above zero.
    pub(crate) misscheduled: bool,
}

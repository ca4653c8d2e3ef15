//! What is known of the DaemonSets that a changed node may concern.

use common::meta::Key;

use crate::snapshot::nodes::Eligibility;

/// A DaemonSet as a change of a node finds it.
#[derive(Clone, Debug)]
pub(crate) struct Concern {
    /// The DaemonSet.
    pub(crate) set: Key,
    /// What it did on the node when its Pods there were last counted; `None` if nothing of the node counted.
    pub(crate) before: Option<Eligibility>,
    /// What it does there now; `None` if its placement is too large to be compared with the node here.
    pub(crate) now: Option<Eligibility>,
    /// Whether it has Pods on the node.
    pub(crate) scheduled: bool,
    /// Whether its status has Pods where none should run.
    pub(crate) misscheduled: bool,
}

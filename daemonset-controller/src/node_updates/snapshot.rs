use common::meta::NamespacedName;

use crate::snapshot::nodes::Eligibility;

/// The eligibility of a changed node for one DaemonSet, before and after the change.
#[derive(Clone, Debug)]
pub(crate) struct NodeChangeForSet {
    pub(crate) daemon_set_key: NamespacedName,
    /// The eligibility of the node at the last sync; `None` if the node neither needed nor had a Pod of the DaemonSet.
    pub(crate) eligibility_before: Option<Eligibility>,
    /// The present eligibility of the node; `None` if the placement of the DaemonSet is too large to be compared in this loop.
    pub(crate) eligibility_now: Option<Eligibility>,
    /// Whether the DaemonSet has Pods on the node, including terminating Pods.
    pub(crate) has_pods_on_node: bool,
    /// Whether `status.numberMisscheduled` of the DaemonSet is above zero, on any node.
    pub(crate) has_misscheduled_pods: bool,
}

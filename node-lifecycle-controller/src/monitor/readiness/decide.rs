//! Decides whether a Pod is marked as not ready because of its node. Pure code: no requests, no clock, no randomness.

use std::sync::Arc;

use common::prelude::SyncPlan;

use crate::objects::{CachedPod, NodeReadyStatus, PodReadyStatus};

/// Everything that one sync of a Pod reads.
#[derive(Clone, Debug)]
pub(crate) struct Snapshot {
    pub(crate) pod: Arc<CachedPod>,
    /// The condition `Ready` of the Pod's node; `None` if the node is unknown.
    pub(crate) node_ready_status: Option<NodeReadyStatus>,
}

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

/// Decides whether a Pod is marked as not ready. A Pod is never marked as ready: its kubelet does that.
///
/// Upstream: `pkg/controller/util/node`, `MarkPodsNotReady`.
pub(crate) fn decide(snapshot: &Snapshot) -> Plan {
    let (marks_pod_not_ready, reason) = match (snapshot.node_ready_status, snapshot.pod.ready_status) {
        (None, _) => (false, "its node is unknown"),
        (Some(NodeReadyStatus::True), _) => (false, "its node is ready"),
        (Some(NodeReadyStatus::Missing), _) => (false, "its node has not reported yet"),
        (Some(_), PodReadyStatus::Missing) => (false, "it has no condition Ready"),
        (Some(_), PodReadyStatus::False) => (false, "its condition Ready is already False"),
        (Some(_), PodReadyStatus::Other) => (true, "its node is not ready"),
    };
    Plan { marks_pod_not_ready, reason }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// NODE-45, NODE-47.
    #[test]
    fn a_pod_that_reports_ready_is_marked_while_its_node_is_not_ready() {
        use NodeReadyStatus as N;
        use PodReadyStatus as P;
        for (node, pod, marks) in [
            (Some(N::Unknown), P::Other, true),
            (Some(N::False), P::Other, true),
            (Some(N::Unknown), P::False, false),
            (Some(N::Unknown), P::Missing, false),
            (Some(N::True), P::Other, false),
            (Some(N::Missing), P::Other, false),
            (None, P::Other, false),
        ] {
            let pod = Arc::new(CachedPod { ready_status: pod, ..CachedPod::default() });
            assert_eq!(decide(&Snapshot { pod, node_ready_status: node }).marks_pod_not_ready, marks, "{node:?}");
        }
    }
}

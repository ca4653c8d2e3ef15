//! The decision whether a Pod is marked as not ready because of its node.

use super::{plan::Plan, snapshot::Snapshot};
use crate::objects::{NodeReadyStatus, PodReadyStatus};

/// Decides whether a Pod is marked as not ready. A Pod is never marked as ready: its kubelet does that.
///
/// Upstream: `pkg/controller/util/node`, `MarkPodsNotReady`.
pub(crate) fn decide(snapshot: &Snapshot) -> Plan {
    let plan = |marks, why| Plan { marks_pod_not_ready: marks, reason: why };
    match snapshot.node_ready_status {
        None => plan(false, "its node is unknown"),
        Some(NodeReadyStatus::True) => plan(false, "its node is ready"),
        Some(NodeReadyStatus::Missing) => plan(false, "its node has not reported yet"),
        Some(NodeReadyStatus::False | NodeReadyStatus::Unknown | NodeReadyStatus::Other) => {
            match snapshot.pod.ready_status {
                PodReadyStatus::Missing => plan(false, "it has no condition Ready"),
                PodReadyStatus::False => plan(false, "its condition Ready is already False"),
                PodReadyStatus::Other => plan(true, "its node is not ready"),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::objects::CachedPod;

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

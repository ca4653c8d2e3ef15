//! The decision whether a Pod is marked as not ready because of its node.

use super::{plan::Plan, snapshot::Snapshot};
use crate::objects::{NodeReady, ReadyCondition};

/// Decides whether a Pod is marked as not ready. A Pod is never marked as ready: its kubelet does that.
///
/// Upstream: `pkg/controller/util/node`, `MarkPodsNotReady`.
pub(crate) fn decide(snapshot: &Snapshot) -> Plan {
    let plan = |marks, why| Plan { marks, why };
    match snapshot.node {
        None => plan(false, "its node is unknown"),
        Some(NodeReady::True) => plan(false, "its node is ready"),
        Some(NodeReady::Absent) => plan(false, "its node has not reported yet"),
        Some(NodeReady::False | NodeReady::Unknown | NodeReady::Other) => match snapshot.pod.ready {
            ReadyCondition::Absent => plan(false, "it has no condition Ready"),
            ReadyCondition::False => plan(false, "its condition Ready is already False"),
            ReadyCondition::Other => plan(true, "its node is not ready"),
        },
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
        use NodeReady as N;
        use ReadyCondition as P;
        for (node, pod, marks) in [
            (Some(N::Unknown), P::Other, true),
            (Some(N::False), P::Other, true),
            (Some(N::Unknown), P::False, false),
            (Some(N::Unknown), P::Absent, false),
            (Some(N::True), P::Other, false),
            (Some(N::Absent), P::Other, false),
            (None, P::Other, false),
        ] {
            let pod = Arc::new(CachedPod { ready: pod, ..CachedPod::default() });
            assert_eq!(decide(&Snapshot { pod, node }).marks, marks, "{node:?}");
        }
    }
}

//! Requests to create a Pod that got no answer, so the Pod may exist.

use std::{collections::BTreeMap, time::Duration};

use common::{clock::Instant, intern::Text, meta::Uid};

/// The nodes of one DaemonSet for which a request to create a Pod got no answer.
///
/// No other Pod is created for such a node until a new Pod appears there, or until the API server can no longer execute the
/// request. Other nodes are not affected, because each daemon Pod names its node. The nodes are kept in memory only: after a
/// restart, the first list of Pods shows the created Pods.
#[derive(Debug, Default)]
pub(crate) struct UnansweredPodCreations {
    nodes: BTreeMap<Text, UnansweredPodCreation>,
}

#[derive(Debug)]
struct UnansweredPodCreation {
    /// Uids of the node's Pods when the request was sent. A Pod with another uid may be the created Pod.
    known: Vec<Uid>,
    until: Instant,
}

impl UnansweredPodCreations {
    /// Records a creation for `node` without an answer, which may take effect until `until`. `known` are the uids of its Pods.
    pub(crate) fn record_unanswered_creation(&mut self, node: &Text, known: Vec<Uid>, until: Instant) {
        self.nodes.insert(node.clone(), UnansweredPodCreation { known, until });
    }

    /// Returns the nodes with a creation that may still take effect, each with the remaining time. `appeared` returns whether a
    /// node has a Pod with a uid that is not in the given list.
    pub(crate) fn nodes_with_unanswered_pod_creation(
        &mut self,
        now: Instant,
        appeared: impl Fn(&Text, &[Uid]) -> bool,
    ) -> BTreeMap<Text, Duration> {
        self.nodes.retain(|node, lost| lost.until > now && !appeared(node, &lost.known));
        self.nodes.iter().map(|(node, lost)| (node.clone(), lost.until.saturating_duration_since(now))).collect()
    }
}

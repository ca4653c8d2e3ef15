//! The creations of Pods with lost answers.

use std::{collections::BTreeMap, time::Duration};

use common::{clock::Instant, intern::Text, meta::Uid};

/// The nodes of one DaemonSet with a lost answer to a creation.
///
/// No other Pod is created for such a node until a new Pod appears, or until the API server can no longer execute the request.
/// Other nodes are not affected, because each daemon Pod names its node. The list is kept in memory only: after a restart, the
/// first list of Pods shows the created Pods.
#[derive(Debug, Default)]
pub(crate) struct LostPodCreations {
    nodes: BTreeMap<Text, LostPodCreation>,
}

#[derive(Debug)]
struct LostPodCreation {
    /// Uids of the node's Pods when the request was sent. A Pod with another uid may be the created one.
    known: Vec<Uid>,
    until: Instant,
}

impl LostPodCreations {
    /// Records a lost creation for `node`, which has Pods with the uids `known`. The creation may take effect until `until`.
    pub(crate) fn record_lost_answer(&mut self, node: &Text, known: Vec<Uid>, until: Instant) {
        self.nodes.insert(node.clone(), LostPodCreation { known, until });
    }

    /// Returns the nodes that still wait for a lost creation, with the remaining time. `appeared` returns whether a node has a
    /// Pod with a uid that is not in the list.
    pub(crate) fn pending_nodes(
        &mut self,
        now: Instant,
        appeared: impl Fn(&Text, &[Uid]) -> bool,
    ) -> BTreeMap<Text, Duration> {
        self.nodes.retain(|node, lost| lost.until > now && !appeared(node, &lost.known));
        self.nodes.iter().map(|(node, lost)| (node.clone(), lost.until.saturating_duration_since(now))).collect()
    }
}

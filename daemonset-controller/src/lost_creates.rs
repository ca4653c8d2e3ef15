//! Pods that may have been created by requests that were not answered.

use std::{collections::BTreeMap, time::Duration};

use common::{clock::Instant, intern::Text, meta::Uid};

/// The nodes of one DaemonSet for which the answer to a creation was lost.
///
/// No other Pod is created for such a node until a Pod appears that was not there before, or until the API server can no longer
/// carry out the request. The other nodes are not concerned: a daemon Pod names its node. Nothing of it is stored; after a restart
/// the first full set of Pods shows what was created.
#[derive(Debug, Default)]
pub(crate) struct LostCreates {
    nodes: BTreeMap<Text, Lost>,
}

#[derive(Debug)]
struct Lost {
    /// The Pods of the node when the request was sent.
    known: Vec<Uid>,
    until: Instant,
}

impl LostCreates {
    /// Notes that the answer to a creation for a node with these Pods was lost, and until when it may still take effect.
    pub(crate) fn insert(&mut self, node: &Text, known: Vec<Uid>, until: Instant) {
        self.nodes.insert(node.clone(), Lost { known, until });
    }

    /// The nodes that still wait, with the time that is left. `appeared` says whether a node has a Pod that is not among those known.
    pub(crate) fn pending(
        &mut self,
        now: Instant,
        appeared: impl Fn(&Text, &[Uid]) -> bool,
    ) -> BTreeMap<Text, Duration> {
        self.nodes.retain(|node, lost| lost.until > now && !appeared(node, &lost.known));
        self.nodes.iter().map(|(node, lost)| (node.clone(), lost.until.saturating_duration_since(now))).collect()
    }
}

//! Stores recent reads of nodes, so that a node is read from the server once for all Pods that must leave it.

use std::{sync::Arc, time::Duration};

use common::{prelude::*, taints::Taint};

/// Maximum age of a read of a node that may justify the deletion of a Pod, counted from the time when the read was sent.
const MAX_READ_AGE: Duration = Duration::from_secs(1);

/// Result of a recent read of a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum NodeReadState {
    /// The node was not read recently.
    NotRead,
    /// Another sync has sent a read of the node that is not answered yet.
    BeingRead,
    /// The `NoExecute` taints of the node on the server; `None` if the node does not exist.
    ReadTaints(Option<Arc<[Taint]>>),
}

/// A started or completed read of a node.
struct NodeRead {
    /// Key of the Pod that a sync handles. A sync reads one node at a time, so this key identifies the read.
    reading_pod: NamespacedName,
    sent_at: Instant,
    state: NodeReadState,
}

/// Started and completed reads, by the name of the node.
#[derive(Default)]
pub(super) struct NodeReads(HashMap<Text, NodeRead>);

impl NodeReads {
    /// Records that the sync of `pod` starts to read a node, and drops reads that are too old.
    pub(super) fn begin_read(&mut self, node: Text, pod: NamespacedName, now: Instant) {
        self.0.retain(|_, read| now.saturating_duration_since(read.sent_at) <= MAX_READ_AGE);
        self.0.insert(node, NodeRead { reading_pod: pod, sent_at: now, state: NodeReadState::BeingRead });
    }

    /// Stores the result of a read that the sync of `pod` started; a failed read is removed. Ignores the answer if the node has
    /// changed since the read started, or if the sync of another Pod has started a new read.
    pub(super) fn end_read(&mut self, node: &str, pod: &NamespacedName, state: NodeReadState) {
        match (self.0.get_mut(node).filter(|read| read.reading_pod == *pod), state) {
            (Some(_), NodeReadState::NotRead) => _ = self.0.remove(node),
            (Some(read), state) => read.state = state,
            (None, _) => {}
        }
    }

    /// Removes the read of a node, because the node has changed since the read.
    pub(super) fn drop_read(&mut self, node: &str) {
        self.0.remove(node);
    }

    /// Returns the result of the last read of a node; `NotRead` if that read is older than `MAX_READ_AGE`.
    pub(super) fn recent_read_state(&self, node: &str, now: Instant) -> NodeReadState {
        let read = self.0.get(node).filter(|read| now.saturating_duration_since(read.sent_at) <= MAX_READ_AGE);
        read.map_or(NodeReadState::NotRead, |read| read.state.clone())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::world::start_time;

    /// NODE-58.
    #[test]
    fn a_read_is_valid_for_a_second_after_it_was_sent_or_until_the_node_changes() {
        let start = start_time();
        let at = |millis| start + Duration::from_millis(millis);
        let known = || NodeReadState::ReadTaints(Some(Arc::from(Vec::<Taint>::new())));
        let (pod, other) = (NamespacedName::new("shop", "a"), NamespacedName::new("shop", "b"));
        let mut nodes = NodeReads::default();
        assert_eq!(nodes.recent_read_state("n", at(0)), NodeReadState::NotRead);
        nodes.begin_read("n".into(), pod.clone(), at(0));
        assert_eq!(nodes.recent_read_state("n", at(1)), NodeReadState::BeingRead);
        nodes.end_read("n", &pod, known());
        assert_eq!(nodes.recent_read_state("n", at(1000)), known());
        assert_eq!(
            (nodes.recent_read_state("n", at(1001)), nodes.recent_read_state("m", at(1))),
            (NodeReadState::NotRead, NodeReadState::NotRead)
        );
        nodes.begin_read("n".into(), pod.clone(), at(2000));
        nodes.end_read("n", &pod, NodeReadState::NotRead);
        assert_eq!(nodes.recent_read_state("n", at(2000)), NodeReadState::NotRead, "the read failed");
        nodes.begin_read("n".into(), pod.clone(), at(2000));
        nodes.drop_read("n");
        nodes.end_read("n", &pod, known());
        assert_eq!(nodes.recent_read_state("n", at(2001)), NodeReadState::NotRead, "the node changed during the read");
        nodes.begin_read("n".into(), pod.clone(), at(2000));
        nodes.drop_read("n");
        nodes.begin_read("n".into(), other.clone(), at(2001));
        nodes.end_read("n", &pod, known());
        assert_eq!(
            nodes.recent_read_state("n", at(2002)),
            NodeReadState::BeingRead,
            "the node changed and is being read again"
        );
        nodes.end_read("n", &other, known());
        assert_eq!(nodes.recent_read_state("n", at(2003)), known());
        for second in 0..100 {
            nodes.begin_read(format!("n{second}").as_str().into(), pod.clone(), at(1000 * second));
        }
        assert!(nodes.0.len() <= 2);
    }
}

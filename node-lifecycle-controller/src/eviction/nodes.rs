//! Stores recent reads of nodes, so that a node is read from the server once for all Pods that must leave it.

use std::{sync::Arc, time::Duration};

use common::{clock::Instant, intern::Text, map::HashMap, meta::Key, taints::Taint};
use parking_lot::Mutex;

/// Maximum age of a read of a node that may justify the deletion of a Pod, counted from the time when the read was sent.
const FRESH: Duration = Duration::from_secs(1);

/// Result of a recent read of a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum View {
    /// The node was not read recently.
    Unknown,
    /// Another sync has sent a read of the node that is not answered yet.
    Awaited,
    /// The `NoExecute` taints of the node on the server; `None` if the node does not exist.
    Known(Option<Arc<[Taint]>>),
}

/// The recent reads of nodes, shared by the syncs and the handlers.
pub(super) type NodeViews = Arc<Mutex<Nodes>>;

/// A started or completed read of a node.
struct Read {
    /// The Pod whose sync reads the node. A sync reads one node at a time, so the Pod identifies the read.
    pod: Key,
    sent: Instant,
    view: View,
}

/// Started and completed reads, by the name of the node.
#[derive(Default)]
pub(super) struct Nodes(HashMap<Text, Read>);

impl Nodes {
    /// Records that the sync of `pod` starts to read a node, and drops reads that are too old.
    pub(super) fn begin(&mut self, node: Text, pod: Key, now: Instant) {
        self.0.retain(|_, read| now.saturating_duration_since(read.sent) <= FRESH);
        self.0.insert(node, Read { pod, sent: now, view: View::Awaited });
    }

    /// Stores the result of a read that the sync of `pod` started; `View::Unknown` if the read failed. Drops the result if the
    /// node has changed since the read started, or if the sync of another Pod has started a new read.
    pub(super) fn end(&mut self, node: &str, pod: &Key, view: View) {
        match (self.0.get_mut(node).filter(|read| read.pod == *pod), view) {
            (Some(_), View::Unknown) => _ = self.0.remove(node),
            (Some(read), view) => read.view = view,
            (None, _) => {}
        }
    }

    /// Drops the read of a node, because the node has changed since.
    pub(super) fn forget(&mut self, node: &str) {
        self.0.remove(node);
    }

    /// Returns the result of the last read of a node; `View::Unknown` if the read is older than `FRESH`.
    pub(super) fn get(&self, node: &str, now: Instant) -> View {
        let read = self.0.get(node).filter(|read| now.saturating_duration_since(read.sent) <= FRESH);
        read.map_or(View::Unknown, |read| read.view.clone())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::world::start;

    /// NODE-58.
    #[test]
    fn a_read_is_valid_for_a_second_after_it_was_sent_or_until_the_node_changes() {
        let start = start();
        let at = |millis| start + Duration::from_millis(millis);
        let known = || View::Known(Some(Arc::from(Vec::<Taint>::new())));
        let (pod, other) = (Key::new("shop", "a"), Key::new("shop", "b"));
        let mut nodes = Nodes::default();
        assert_eq!(nodes.get("n", at(0)), View::Unknown);
        nodes.begin("n".into(), pod.clone(), at(0));
        assert_eq!(nodes.get("n", at(1)), View::Awaited);
        nodes.end("n", &pod, known());
        assert_eq!(nodes.get("n", at(1000)), known());
        assert_eq!((nodes.get("n", at(1001)), nodes.get("m", at(1))), (View::Unknown, View::Unknown));
        nodes.begin("n".into(), pod.clone(), at(2000));
        nodes.end("n", &pod, View::Unknown);
        assert_eq!(nodes.get("n", at(2000)), View::Unknown, "the read failed");
        nodes.begin("n".into(), pod.clone(), at(2000));
        nodes.forget("n");
        nodes.end("n", &pod, known());
        assert_eq!(nodes.get("n", at(2001)), View::Unknown, "the node changed during the read");
        nodes.begin("n".into(), pod.clone(), at(2000));
        nodes.forget("n");
        nodes.begin("n".into(), other.clone(), at(2001));
        nodes.end("n", &pod, known());
        assert_eq!(nodes.get("n", at(2002)), View::Awaited, "the node changed and is being read again");
        nodes.end("n", &other, known());
        assert_eq!(nodes.get("n", at(2003)), known());
        for second in 0..100 {
            nodes.begin(format!("n{second}").as_str().into(), pod.clone(), at(1000 * second));
        }
        assert!(nodes.0.len() <= 2);
    }
}

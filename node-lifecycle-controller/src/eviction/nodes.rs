//! What the server said lately of nodes whose Pods have to leave, so that each is read once for all its Pods.

use std::{sync::Arc, time::Duration};

use common::{clock::Instant, intern::Text, map::HashMap, meta::Key, taints::Taint};
use parking_lot::Mutex;

/// How old the state of a node may be on which a Pod is deleted. The read that brought it counts from when it was sent.
const FRESH: Duration = Duration::from_secs(1);

/// What the server said lately of a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum View {
    /// Nothing.
    Unknown,
    /// Another sync reads the node.
    Awaited,
    /// Its `NoExecute` taints; `None` if it does not exist.
    Known(Option<Arc<[Taint]>>),
}

/// The states of nodes.
pub(super) type NodeViews = Arc<Mutex<Nodes>>;

/// A read of a node.
struct Read {
    /// The Pod because of which the node is read: one read at a time is made for each.
    pod: Key,
    sent: Instant,
    view: View,
}

/// The reads that are young enough to decide on.
#[derive(Default)]
pub(super) struct Nodes(HashMap<Text, Read>);

impl Nodes {
    /// A node is about to be read because of a Pod.
    pub(super) fn begin(&mut self, node: Text, pod: Key, now: Instant) {
        self.0.retain(|_, read| now.saturating_duration_since(read.sent) <= FRESH);
        self.0.insert(node, Read { pod, sent: now, view: View::Awaited });
    }

    /// A node was read because of a Pod, and has these taints; or it could not be read. The answer to an earlier read than the last
    /// one counts for nothing: something has happened to the node since.
    pub(super) fn end(&mut self, node: &str, pod: &Key, view: View) {
        match (self.0.get_mut(node).filter(|read| read.pod == *pod), view) {
            (Some(_), View::Unknown) => _ = self.0.remove(node),
            (Some(read), view) => read.view = view,
            (None, _) => {}
        }
    }

    /// Something happened to a node: what was read of it may be wrong.
    pub(super) fn forget(&mut self, node: &str) {
        self.0.remove(node);
    }

    /// What is known of a node.
    pub(super) fn get(&self, node: &str, now: Instant) -> View {
        let read = self.0.get(node).filter(|read| now.saturating_duration_since(read.sent) <= FRESH);
        read.map_or(View::Unknown, |read| read.view.clone())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::world::start;

    #[test]
    fn a_read_counts_for_a_second_from_when_it_was_sent_and_until_something_happens() {
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
        assert_eq!(nodes.get("n", at(2000)), View::Unknown, "it could not be read");
        nodes.begin("n".into(), pod.clone(), at(2000));
        nodes.forget("n");
        nodes.end("n", &pod, known());
        assert_eq!(nodes.get("n", at(2001)), View::Unknown, "it changed while it was read");
        nodes.begin("n".into(), pod.clone(), at(2000));
        nodes.forget("n");
        nodes.begin("n".into(), other.clone(), at(2001));
        nodes.end("n", &pod, known());
        assert_eq!(nodes.get("n", at(2002)), View::Awaited, "it changed, and is read again");
        nodes.end("n", &other, known());
        assert_eq!(nodes.get("n", at(2003)), known());
        for second in 0..100 {
            nodes.begin(format!("n{second}").as_str().into(), pod.clone(), at(1000 * second));
        }
        assert!(nodes.0.len() <= 2);
    }
}

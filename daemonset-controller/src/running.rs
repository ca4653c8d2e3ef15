//! Two loops that count as one: DaemonSets, and the nodes that have changed.

use std::{future::Future, pin::Pin, sync::Arc};

use common::runtime::Running;
use serde_json::{Value, json};

/// Both.
pub(crate) struct Pair {
    pub(crate) sets: Arc<dyn Running>,
    pub(crate) nodes: Arc<dyn Running>,
}

impl Running for Pair {
    fn ready(&self) -> Result<(), String> {
        self.sets.ready().and_then(|()| self.nodes.ready())
    }

    fn debug_queue(&self) -> Value {
        let mut out = self.sets.debug_queue();
        out["nodeUpdates"] = self.nodes.debug_queue()["queue"].take();
        out
    }

    fn debug_cache(&self) -> Value {
        self.sets.debug_cache()
    }

    /// A key without a namespace is a node.
    fn explain(&self, key: Option<&str>) -> Value {
        match key {
            Some(key) if key.contains('/') => self.sets.explain(Some(key)),
            Some(node) => self.nodes.explain(Some(node)),
            None => {
                let mut out = self.sets.explain(None);
                out["nodeUpdates"] = json!(self.nodes.explain(None)["recent"].take());
                out
            }
        }
    }

    fn shutdown(&self) -> Pin<Box<dyn Future<Output = ()> + Send + '_>> {
        Box::pin(async {
            futures::join!(self.sets.shutdown(), self.nodes.shutdown());
        })
    }
}

//! Two loops that count as one: Jobs, and the Pods that Jobs have left behind.

use std::{future::Future, pin::Pin, sync::Arc};

use common::runtime::Running;
use serde_json::{Value, json};

/// Both.
pub(crate) struct Pair {
    pub(crate) jobs: Arc<dyn Running>,
    pub(crate) orphans: Arc<dyn Running>,
}

impl Running for Pair {
    fn ready(&self) -> Result<(), String> {
        self.jobs.ready().and_then(|()| self.orphans.ready())
    }

    fn debug_queue(&self) -> Value {
        let mut out = self.jobs.debug_queue();
        out["orphans"] = self.orphans.debug_queue()["queue"].take();
        out
    }

    fn debug_cache(&self) -> Value {
        self.jobs.debug_cache()
    }

    fn explain(&self, key: Option<&str>) -> Value {
        let mut out = self.jobs.explain(key);
        if key.is_none() {
            out["orphans"] = self.orphans.explain(None);
        } else if out["state"] == json!("gone") {
            let orphan = self.orphans.explain(key);
            if orphan["state"] != json!("gone") && orphan.get("error").is_none() {
                return orphan;
            }
        }
        out
    }

    fn shutdown(&self) -> Pin<Box<dyn Future<Output = ()> + Send + '_>> {
        Box::pin(async {
            tokio::join!(self.jobs.shutdown(), self.orphans.shutdown());
        })
    }
}

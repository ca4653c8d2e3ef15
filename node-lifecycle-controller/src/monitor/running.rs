//! Combines the three loops of the node monitor, so that the process treats them as one loop.

use std::{future::Future, pin::Pin, sync::Arc};

use common::{controller::Loop, runtime::Running};
use serde_json::{Value, json};

use super::{
    readiness::Readiness,
    rounds::{Round, Rounds},
    upkeep::Upkeep,
};

/// Maximum number of nodes with a failed change that `/debug/explain` lists.
const LISTED: usize = 100;

/// The running loops of the node monitor: rounds, upkeep of nodes, and readiness of Pods.
pub(super) struct Trio {
    pub(super) rounds: Arc<Loop<Rounds>>,
    pub(super) nodes: Arc<Loop<Upkeep>>,
    pub(super) pods: Arc<Loop<Readiness>>,
}

impl Running for Trio {
    fn ready(&self) -> Result<(), String> {
        self.rounds.ready()
    }

    fn troubles(&self) -> Option<String> {
        self.rounds.controller().monitor.troubles()
    }

    fn debug_queue(&self) -> Value {
        let mut out = self.rounds.debug_queue();
        out["nodes"] = self.nodes.debug_queue()["queue"].take();
        out["pods"] = self.pods.debug_queue()["queue"].take();
        out
    }

    fn debug_cache(&self) -> Value {
        self.rounds.debug_cache()
    }

    /// Explains a key: `health` and `tainting` are rounds, a name is a node, and a name with a namespace is a Pod.
    fn explain(&self, key: Option<&str>) -> Value {
        match key {
            None => {
                let mut out = self.rounds.explain(None);
                let parts = [self.nodes.explain(None), self.pods.explain(None)];
                for (part, list) in parts.iter().flat_map(|part| [(part, "failing"), (part, "recent")]) {
                    let more = part[list].as_array().into_iter().flatten().cloned();
                    if let Some(all) = out[list].as_array_mut() {
                        all.extend(more);
                    }
                }
                let monitor = &self.rounds.controller().monitor;
                if let Some(failing) = out["failing"].as_array_mut() {
                    failing.extend(monitor.fleet.lock().failures(LISTED).into_iter().map(|(node, failure)| {
                        let error = json!({"error": failure.error, "at": failure.at.to_string()});
                        json!({"key": &*node, "state": "failing", "lastError": error})
                    }));
                }
                out["blind"] = json!(self.troubles());
                out
            }
            Some(key) if key.contains('/') => self.pods.explain(Some(key)),
            Some(key) if Round::ALL.iter().any(|round| round.as_str() == key) => self.rounds.explain(Some(key)),
            Some(key) => self.nodes.explain(Some(key)),
        }
    }

    fn shutdown(&self) -> Pin<Box<dyn Future<Output = ()> + Send + '_>> {
        Box::pin(async {
            tokio::join!(self.rounds.shutdown(), self.nodes.shutdown(), self.pods.shutdown());
        })
    }
}

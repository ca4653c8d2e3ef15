//! Combines the loops of the node monitor, so that the process treats them as one loop.

use std::{future::Future, pin::Pin, sync::Arc};

use common::{controller::Loop, runtime::RunningLoop};
use serde_json::{Value, json};

use super::{
    health::NodeHealthController, readiness::PodReadinessController, tainting::NodeTaintingController,
    taints_and_labels::NodeTaintAndLabelController,
};

/// Maximum number of nodes with a failed change that `/debug/explain` lists.
const MAX_LISTED_FAILURES: usize = 100;

/// The running loops of the node monitor: passes, taints and labels of nodes, and readiness of Pods.
pub(super) struct MonitorLoops {
    pub(super) health_passes: Arc<Loop<NodeHealthController>>,
    pub(super) tainting_passes: Arc<Loop<NodeTaintingController>>,
    pub(super) node_taints_and_labels: Arc<Loop<NodeTaintAndLabelController>>,
    pub(super) pod_readiness: Arc<Loop<PodReadinessController>>,
}

/// Appends these lists of `part` to the lists of `out` with the same names.
fn append_lists(out: &mut Value, part: &Value, lists: &[&str]) {
    for list in lists {
        if let (Some(Value::Array(all)), Some(Value::Array(more))) = (out.get_mut(list), part.get(list)) {
            all.extend(more.iter().cloned());
        }
    }
}

impl RunningLoop for MonitorLoops {
    fn check_ready(&self) -> Result<(), String> {
        self.health_passes.check_ready()
    }

    fn problems_besides_readiness(&self) -> Option<String> {
        self.health_passes.controller().0.outage_reason()
    }

    fn debug_queue(&self) -> Value {
        let mut out = self.health_passes.debug_queue();
        let lists = ["waiting", "processing", "delayed", "failing"];
        append_lists(&mut out["queue"], &self.tainting_passes.debug_queue()["queue"], &lists);
        out["nodes"] = self.node_taints_and_labels.debug_queue()["queue"].take();
        out["pods"] = self.pod_readiness.debug_queue()["queue"].take();
        out
    }

    fn debug_cache(&self) -> Value {
        self.health_passes.debug_cache()
    }

    /// Explains a key: `health` and `tainting` are passes, a name is a node, and a name with a namespace is a Pod.
    fn explain(&self, key: Option<&str>) -> Value {
        match key {
            None => {
                let mut out = self.health_passes.explain(None);
                append_lists(&mut out, &self.tainting_passes.explain(None), &["failing", "recent", "differences"]);
                append_lists(&mut out, &self.node_taints_and_labels.explain(None), &["failing", "recent"]);
                append_lists(&mut out, &self.pod_readiness.explain(None), &["failing", "recent"]);
                let monitor = &self.health_passes.controller().0;
                if let Some(failing) = out["failing"].as_array_mut() {
                    failing.extend(
                        monitor.node_records.lock().nodes_with_failed_change(MAX_LISTED_FAILURES).into_iter().map(
                            |(node, failure)| {
                                let error = json!({"error": failure.error, "at": failure.failed_at.to_string()});
                                json!({"key": &*node, "state": "failing", "lastError": error})
                            },
                        ),
                    );
                }
                out["blind"] = json!(self.problems_besides_readiness());
                out
            }
            Some(key) if key.contains('/') => self.pod_readiness.explain(Some(key)),
            Some(key @ "health") => self.health_passes.explain(Some(key)),
            Some(key @ "tainting") => self.tainting_passes.explain(Some(key)),
            Some(key) => self.node_taints_and_labels.explain(Some(key)),
        }
    }

    fn shutdown(&self) -> Pin<Box<dyn Future<Output = ()> + Send + '_>> {
        Box::pin(async {
            tokio::join!(
                self.health_passes.shutdown(),
                self.tainting_passes.shutdown(),
                self.node_taints_and_labels.shutdown(),
                self.pod_readiness.shutdown()
            );
        })
    }
}

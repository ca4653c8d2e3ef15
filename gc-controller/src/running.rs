//! The running collector with its two loops, or a collector that is switched off.

use std::sync::Arc;

use common::{
    meta::Uid,
    runtime::{LoopPair, RunningLoop},
};
use futures::future::{self, BoxFuture};
use serde_json::{Value, json};
use tokio::task::JoinSet;

use crate::{collection::CollectorState, monitors::Monitors};

/// The loops for deletions and for orphaning, with diagnostics of the graph and the monitors.
pub(crate) struct RunningCollector {
    pub(crate) loops: LoopPair,
    pub(crate) collector_state: Arc<CollectorState>,
    pub(crate) monitors: Arc<Monitors>,
    /// The tasks of discovery and of the take-over.
    pub(crate) _tasks: JoinSet<()>,
}

impl RunningLoop for RunningCollector {
    fn check_ready(&self) -> Result<(), String> {
        self.loops.check_ready()
    }

    fn problems_besides_readiness(&self) -> Option<String> {
        self.monitors.stale_watch_message()
    }

    fn debug_queue(&self) -> Value {
        self.loops.debug_queue()
    }

    fn debug_cache(&self) -> Value {
        let caches: Vec<Value> = self.monitors.monitor_states().into_iter().map(|(resource, objects, version, state)| {
            json!({"resource": resource.to_string(), "objects": objects, "version": version.to_string(), "state": state})
        }).collect();
        let graph = self.collector_state.graph.lock();
        let (nodes, unseen) = (graph.len(), graph.virtual_node_count());
        json!({"name": crate::GARBAGE_COLLECTOR.name, "nodes": nodes, "virtual": unseen, "caches": caches})
    }

    fn debug_graph(&self, around: &[String]) -> Option<String> {
        let around: Vec<Uid> = around.iter().map(|uid| Uid::new(uid)).collect();
        Some(self.collector_state.graph.lock().to_dot(&around))
    }

    fn explain(&self, key: Option<&str>) -> Value {
        let mut out = self.loops.explain(key);
        if key.is_none() {
            let failing = self.monitors.failing_resources().into_iter();
            let failing = failing.map(|(resource, error)| (resource.to_string(), json!(error)));
            out["failingResources"] = Value::Object(failing.collect());
            out["parked"] = self.collector_state.parked_objects.explain();
        }
        out
    }

    fn shutdown(&self) -> BoxFuture<'_, ()> {
        self.loops.shutdown()
    }
}

/// A collector that is switched off: it watches nothing and writes nothing.
pub(crate) struct DisabledCollector;

impl RunningLoop for DisabledCollector {
    fn check_ready(&self) -> Result<(), String> {
        Ok(())
    }

    fn debug_queue(&self) -> Value {
        disabled_state()
    }

    fn debug_cache(&self) -> Value {
        disabled_state()
    }

    fn explain(&self, _key: Option<&str>) -> Value {
        disabled_state()
    }

    fn shutdown(&self) -> BoxFuture<'_, ()> {
        Box::pin(future::ready(()))
    }
}

fn disabled_state() -> Value {
    json!({"name": crate::GARBAGE_COLLECTOR.name, "off": format!("--{}=false", crate::ENABLE_GARBAGE_COLLECTOR.name)})
}

//! The running collector with its two loops, or a collector that is switched off.

use std::sync::Arc;

use common::{informer::SinkInformer, prelude::*, runtime::LoopGroup};
use futures::future::{self, BoxFuture};
use serde_json::{Value, json};
use tokio::task::JoinSet;

use crate::{ENABLE_GARBAGE_COLLECTOR, GARBAGE_COLLECTOR, graph_sink::GraphSink, monitors::Monitors};

/// The loops for deletions and for orphaning, with diagnostics of the graph and the monitors.
pub(crate) struct RunningCollector {
    pub(crate) loops: LoopGroup,
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
        let cache = |informer: &Arc<SinkInformer<GraphSink>>| {
            let (resource, objects, version) = (informer.resource(), informer.len(), informer.version());
            let state = informer.informer_status();
            json!({"resource": resource.to_string(), "objects": objects, "version": version.to_string(), "state": state})
        };
        let caches: Vec<Value> = self.monitors.informers.lock().informers().map(cache).collect();
        let graph = self.monitors.collector_state.graph.lock();
        let (nodes, unseen) = (graph.len(), graph.virtual_node_count());
        json!({"name": GARBAGE_COLLECTOR.name, "nodes": nodes, "virtual": unseen, "caches": caches})
    }

    fn debug_graph(&self, around: &[String]) -> Option<String> {
        let around: Vec<Uid> = around.iter().map(|uid| Uid::new(uid)).collect();
        Some(self.monitors.collector_state.graph.lock().to_dot(&around))
    }

    fn explain(&self, key: Option<&str>) -> Value {
        let mut out = self.loops.explain(key);
        if key.is_none() {
            let failing = self.monitors.informers.lock().failing_resources().into_iter();
            let failing = failing.map(|(resource, error)| (resource.to_string(), json!(error)));
            out["failingResources"] = Value::Object(failing.collect());
            out["parked"] = self.monitors.collector_state.parked_objects.explain();
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
        self.explain(None)
    }

    fn debug_cache(&self) -> Value {
        self.explain(None)
    }

    fn explain(&self, _key: Option<&str>) -> Value {
        json!({"name": GARBAGE_COLLECTOR.name, "off": format!("--{}=false", ENABLE_GARBAGE_COLLECTOR.name)})
    }

    fn shutdown(&self) -> BoxFuture<'_, ()> {
        Box::pin(future::ready(()))
    }
}

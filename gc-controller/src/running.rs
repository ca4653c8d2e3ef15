//! Both loops as one, or none of them.

use std::{future::Future, pin::Pin, sync::Arc};

use common::{controller::Loop, meta::Uid, runtime::Running};
use serde_json::{Value, json};

use crate::{collector::Collector, orphans::Orphaner};

/// Both.
pub(crate) struct Pair {
    pub(crate) collector: Arc<Loop<Collector>>,
    pub(crate) orphans: Arc<Loop<Orphaner>>,
}

impl Running for Pair {
    fn ready(&self) -> Result<(), String> {
        self.collector.ready()
    }

    fn troubles(&self) -> Option<String> {
        self.collector.controller().monitors.troubles()
    }

    fn debug_queue(&self) -> Value {
        let mut out = self.collector.debug_queue();
        out["orphans"] = self.orphans.debug_queue()["queue"].take();
        out
    }

    fn debug_cache(&self) -> Value {
        let collector = self.collector.controller();
        let one = |(resource, objects, version, state): (common::object::Resource, usize, common::meta::Version, _)| json!({"resource": resource.to_string(), "objects": objects, "version": version.to_string(), "state": state});
        let caches: Vec<Value> = collector.monitors.states().into_iter().map(one).collect();
        let (nodes, unseen) = {
            let graph = collector.collection.graph.lock();
            (graph.len(), graph.virtual_nodes())
        };
        json!({"name": crate::GARBAGE_COLLECTOR.name, "nodes": nodes, "virtual": unseen, "caches": caches})
    }

    fn debug_graph(&self, around: &[String]) -> Option<String> {
        let around: Vec<Uid> = around.iter().map(|uid| Uid::new(uid)).collect();
        Some(self.collector.controller().collection.graph.lock().dot(&around))
    }

    fn explain(&self, key: Option<&str>) -> Value {
        let mut out = self.collector.explain(key);
        let orphans = self.orphans.explain(key);
        if key.is_none() || orphans["state"] == json!("acting") {
            out["orphans"] = orphans;
        }
        if key.is_none() {
            let failing = self.collector.controller().monitors.failing();
            let failing = failing.into_iter().map(|(resource, error)| (resource.to_string(), json!(error)));
            out["failingResources"] = Value::Object(failing.collect());
            out["parked"] = self.collector.controller().collection.parked.explain();
        }
        out
    }

    fn shutdown(&self) -> Pin<Box<dyn Future<Output = ()> + Send + '_>> {
        Box::pin(async {
            tokio::join!(self.collector.shutdown(), self.orphans.shutdown());
        })
    }
}

/// A collector that is switched off: it watches nothing and does nothing.
pub(crate) struct Off;

impl Running for Off {
    fn ready(&self) -> Result<(), String> {
        Ok(())
    }

    fn debug_queue(&self) -> Value {
        off()
    }

    fn debug_cache(&self) -> Value {
        off()
    }

    fn explain(&self, _key: Option<&str>) -> Value {
        off()
    }

    fn shutdown(&self) -> Pin<Box<dyn Future<Output = ()> + Send + '_>> {
        Box::pin(std::future::ready(()))
    }
}

fn off() -> Value {
    json!({"name": crate::GARBAGE_COLLECTOR.name, "off": format!("--{}=false", crate::ENABLE_GARBAGE_COLLECTOR.name)})
}

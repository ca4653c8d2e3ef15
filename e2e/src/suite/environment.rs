//! The cluster of scenes whose controllers are processes.

use std::{any::Any, sync::Arc};

use common::clock::Clock;
use futures::future::LocalBoxFuture;
use parking_lot::Mutex;

use super::{Client, Context, Environment, Failure, Kind, Outcome, runner};
use crate::{
    cluster::Cluster,
    nodes::Nodes,
    process::{Process, Witness},
    rights::Holder,
};

const LOG_LINES: usize = 30;

/// The parts that all scenes of a suite share.
pub(super) struct Shared {
    pub(super) cluster: Cluster,
    /// The controllers, unless the cluster has them already.
    pub(super) controllers: Vec<Process>,
    /// A client with all rights.
    pub(super) client: Client,
}

/// The cluster of a suite, and the controllers that one scene has started.
pub struct Processes {
    shared: Arc<Shared>,
    started: Mutex<Vec<Witness>>,
}

impl Processes {
    pub(super) fn new(shared: Arc<Shared>) -> Self {
        Self { shared, started: Mutex::default() }
    }
}

impl Environment for Processes {
    fn kind(&self) -> Kind {
        self.shared.cluster.kind()
    }

    fn clock(&self) -> &Clock {
        self.shared.cluster.clock()
    }

    fn client(&self) -> &Client {
        &self.shared.client
    }

    fn nodes(&self) -> Option<&Nodes> {
        self.shared.cluster.nodes()
    }

    fn check_controllers(&self) -> Outcome {
        let all = self.shared.controllers.iter().map(Process::witness);
        let own = self.started.lock().clone();
        match all.chain(own).find_map(|witness| witness.ended()) {
            None => Ok(()),
            Some((error, log)) => Err(Failure(format!("{error}\n{}", end_of(log.iter())))),
        }
    }

    fn metrics(&self) -> LocalBoxFuture<'_, Result<Vec<String>, Failure>> {
        Box::pin(async {
            let mut metrics = Vec::new();
            for controller in &self.shared.controllers {
                metrics.push(controller.get("/metrics").await?.1);
            }
            Ok(metrics)
        })
    }

    fn explain<'a>(&'a self, key: &'a str) -> LocalBoxFuture<'a, String> {
        Box::pin(async move {
            let mut explained = Vec::new();
            for controller in &self.shared.controllers {
                let text = controller.explain(key).await.unwrap_or_else(|error| format!("no explanation: {error}"));
                explained.push(format!("{}: {}\n", controller.name(), text.trim_end()));
            }
            explained.concat()
        })
    }

    fn log(&self, namespace: &str) -> String {
        let logs = self.shared.controllers.iter().map(|controller| {
            let log = controller.log();
            format!("{}:\n{}", controller.name(), end_of(log.iter().filter(|line| line.contains(namespace))))
        });
        logs.collect()
    }
}

fn end_of<'a>(log: impl Iterator<Item = &'a String>) -> String {
    let log: Vec<&String> = log.collect();
    log.iter().skip(log.len().saturating_sub(LOG_LINES)).fold(String::new(), |out, line| out + line + "\n")
}

/// The parts of a context that exist only where the controllers are processes.
#[allow(async_fn_in_trait, reason = "the only implementation is here, and its futures stay on their thread")]
pub trait OnProcesses {
    /// The context itself.
    fn context(&self) -> &Context;

    /// The cluster and the processes.
    #[allow(clippy::expect_used, reason = "a test that panics fails")]
    fn processes(&self) -> &Processes {
        let environment: &dyn Any = self.context().environment();
        environment.downcast_ref().expect("the controllers are processes")
    }

    /// The cluster.
    fn cluster(&self) -> &Cluster {
        &self.processes().shared.cluster
    }

    /// Starts one more controller, which holds its Lease in the namespace of the scene, and waits until it is ready.
    async fn start(&self, name: &str, flags: &[&str]) -> Result<Process, Failure> {
        self.start_with(None, name, flags).await
    }

    /// The same with a separate user, whose requests the sandbox counts separately.
    async fn start_as(&self, user: &str, name: &str, flags: &[&str]) -> Result<Process, Failure> {
        self.start_with(Some(user), name, flags).await
    }

    /// The same with an optional user.
    async fn start_with(&self, user: Option<&str>, name: &str, flags: &[&str]) -> Result<Process, Failure> {
        let lease_namespace = self.context().namespace();
        let namespace = format!("--leader-elect-resource-namespace={lease_namespace}");
        let flags = [&[namespace.as_str()], flags].concat();
        let process = runner::controller(self.cluster(), Holder { user, lease_namespace }, name, &flags).await?;
        self.processes().started.lock().push(process.witness());
        Ok(process)
    }
}

impl OnProcesses for Context {
    fn context(&self) -> &Context {
        self
    }
}

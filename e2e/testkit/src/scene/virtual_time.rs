//! Scenes in virtual time: the sandbox, its nodes and the loops of the controller as tasks of one thread with a paused clock.

use std::{sync::Arc, time::Duration};

use common::{
    app::{ParsedCommandLine, ProgramDefinition, ProgramOptions, parse_command_line},
    clock::Clock,
};
use futures::future::{LocalBoxFuture, ready};
use sandbox::{ADMIN, Sandbox, loops::Loops, nodes::Nodes, protection::Protection, replica_sets::ReplicaSets};

use super::{Client, Context, Environment, Failure, Kind, Outcome, Suite};
use crate::rights::{self, Holder};

/// The time at which each scene begins.
const START: &str = "2026-11-21T09:00:00Z";

/// A cluster in this process for one scene.
struct VirtualCluster {
    client: Client,
    clock: Clock,
    nodes: Nodes,
    loops: Loops,
    _replica_sets: Option<ReplicaSets>,
    _protection: Option<Protection>,
}

impl Suite {
    /// Runs a scene in virtual time. Needs a runtime whose time is paused.
    ///
    /// # Panics
    /// If the scene fails.
    pub async fn run_in_virtual_time(self, name: &str) {
        assert!(self.runs_in_virtual_time(), "{} needs controllers that are processes", self.name);
        let scene = *self.scenes.iter().find(|scene| scene.name == name).expect("a scene of the suite");
        assert_eq!(scene.requirements.other_kind(Kind::Virtual), None, "the scene cannot run in virtual time");
        let outcome = async {
            let cluster = VirtualCluster::start(&self).await?;
            scene.attempt(Context::new(Arc::new(cluster), name).await?).await
        };
        if let Err(Failure(why)) = outcome.await {
            panic!("{why}");
        }
    }
}

impl VirtualCluster {
    async fn start(suite: &Suite) -> Result<Self, Failure> {
        let (definition, flags) = suite.controller.expect("a controller");
        let clock = Clock::simulated(START.parse()?, 7);
        let sandbox = suite.hardened(Sandbox::builder()).clock(clock.clone()).build();
        let admin = sandbox.client(ADMIN);
        let nodes = suite.nodes_builder().start(admin.clone(), clock.clone());
        nodes.ready().await;
        rights::give(&admin, &clock, definition.name, Holder::default()).await?;
        let client = sandbox.client(&rights::identity(definition.name));
        let options = program_options(definition, flags);
        let loops = Loops::start(&client, &clock, options.settings, &options.loops);
        while loops.ready().is_err() {
            clock.sleep(Duration::from_millis(10)).await;
        }
        Ok(Self {
            nodes,
            loops,
            _replica_sets: (!suite.companions.is_empty()).then(|| ReplicaSets::start(&sandbox, ADMIN)),
            _protection: suite.storage_protection.then(|| Protection::start(admin.clone(), clock.clone())),
            client: Client::new(admin),
            clock,
        })
    }
}

/// Reads flags as the binary does.
///
/// # Panics
/// If the flags are wrong.
pub fn program_options(definition: &ProgramDefinition, flags: &[&str]) -> ProgramOptions {
    let arguments = [definition.name].into_iter().chain(flags.iter().copied()).map(str::to_owned);
    match parse_command_line(definition, arguments, || "scene".to_owned()) {
        Ok(ParsedCommandLine::Run(options)) => *options,
        Ok(ParsedCommandLine::Print(text)) | Err(text) => panic!("{flags:?}: {text}"),
    }
}

impl Environment for VirtualCluster {
    fn kind(&self) -> Kind {
        Kind::Virtual
    }

    fn clock(&self) -> &Clock {
        &self.clock
    }

    fn client(&self) -> &Client {
        &self.client
    }

    fn nodes(&self) -> Option<&Nodes> {
        Some(&self.nodes)
    }

    fn check_controllers(&self) -> Outcome {
        Ok(())
    }

    fn metrics(&self) -> LocalBoxFuture<'_, Result<Vec<String>, Failure>> {
        Box::pin(ready(Ok(vec![self.loops.metrics().render_prometheus()])))
    }

    fn explain<'a>(&'a self, key: &'a str) -> LocalBoxFuture<'a, String> {
        Box::pin(ready(format!("{:#}", self.loops.explain(Some(key)))))
    }

    /// The loops write no log in tests.
    fn log(&self, _: &str) -> String {
        String::new()
    }
}

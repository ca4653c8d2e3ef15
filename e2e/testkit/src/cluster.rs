//! The description of a cluster, from which a test starts a world.

use std::{
    sync::{Arc, atomic::AtomicU64},
    time::Duration,
};

use common::{
    clock::Clock,
    runtime::LoopDefinition,
    settings::{OperatorSettings, TunableValue},
};
use sandbox::{Sandbox, nodes::Nodes, replica_sets::ReplicaSets};
use serde_json::{Value, json};

use crate::{
    CONTROLLER, NAMESPACE, World,
    answers::{Lie, RequestFilter},
    objects,
};

/// A value of a tunable setting.
pub trait Tunable {
    /// Returns the value in the form that settings have.
    fn value(self) -> TunableValue;
}

impl Tunable for TunableValue {
    fn value(self) -> TunableValue {
        self
    }
}

impl Tunable for u64 {
    fn value(self) -> TunableValue {
        TunableValue::Count(self)
    }
}

impl Tunable for Duration {
    fn value(self) -> TunableValue {
        TunableValue::Duration(self)
    }
}

impl Tunable for bool {
    fn value(self) -> TunableValue {
        TunableValue::Switch(self)
    }
}

/// A cluster that has not started yet: which loops run with which settings, and what the API server and its nodes are like.
#[derive(Clone)]
pub struct Cluster {
    pub(crate) loops: &'static [LoopDefinition],
    /// Resource and name of the object that most tests of the controller are about.
    pub(crate) subject: (&'static str, &'static str),
    pub(crate) settings: OperatorSettings,
    pub(crate) filter: Option<RequestFilter>,
    pub(crate) lies: &'static [Lie],
    /// Bit `n` is set when lie `n` has changed an answer.
    pub(crate) told: Arc<AtomicU64>,
    pub(crate) quiet: Duration,
    server: sandbox::Builder,
    nodes: u32,
    nodes_live: bool,
    runs_replica_sets: bool,
    rights: Option<Value>,
    time: &'static str,
}

impl Cluster {
    /// Describes a cluster with these loops and without nodes. Most tests are about the object of this resource and name.
    pub fn new(loops: &'static [LoopDefinition], resource: &'static str, name: &'static str) -> Self {
        Self {
            loops,
            subject: (resource, name),
            settings: OperatorSettings::new(),
            filter: None,
            lies: &[],
            told: Arc::default(),
            quiet: Duration::from_secs(2),
            server: Sandbox::builder(),
            nodes: 0,
            nodes_live: false,
            runs_replica_sets: false,
            rights: None,
            time: "2026-11-21T09:00:00Z",
        }
    }

    /// Sets the number of nodes, which run Pods and send no heartbeats.
    #[must_use]
    pub fn nodes(mut self, nodes: u32) -> Self {
        self.nodes = nodes;
        self
    }

    /// Sets the number of nodes, which run Pods and renew their Leases. No scheduler runs.
    #[must_use]
    pub fn live_nodes(mut self, nodes: u32) -> Self {
        (self.nodes, self.nodes_live) = (nodes, true);
        self
    }

    /// Gives the loops only the rights of these RBAC rules, on a server with the admission plugin
    /// `OwnerReferencesPermissionEnforcement`.
    #[must_use]
    pub fn rights(mut self, rules: Value) -> Self {
        self.rights = Some(rules);
        self.server(|server| server.rbac(true).owner_references_permission_enforcement(true))
    }

    /// Runs a stand-in for the ReplicaSet controller until [`World::stop_replica_sets`].
    #[must_use]
    pub fn replica_sets(mut self) -> Self {
        self.runs_replica_sets = true;
        self
    }

    /// Sets the time at which the cluster starts.
    #[must_use]
    pub fn at(mut self, time: &'static str) -> Self {
        self.time = time;
        self
    }

    /// Sets for how many seconds a settled cluster has had no write; 2 by default.
    #[must_use]
    pub fn quiet_seconds(mut self, seconds: u64) -> Self {
        self.quiet = Duration::from_secs(seconds);
        self
    }

    /// Runs these loops instead.
    #[must_use]
    pub fn loops(mut self, loops: &'static [LoopDefinition]) -> Self {
        self.loops = loops;
        self
    }

    /// Replaces all settings of the loops.
    #[must_use]
    pub fn settings(mut self, settings: OperatorSettings) -> Self {
        self.settings = settings;
        self
    }

    /// Changes one setting of the loops.
    #[must_use]
    pub fn tunable(mut self, name: &str, value: impl Tunable) -> Self {
        self.settings = self.settings.with_tunable(name, value.value());
        self
    }

    /// Turns a feature gate of the loops on or off.
    #[must_use]
    pub fn gate(mut self, name: &str, on: bool) -> Self {
        self.settings = self.settings.with_feature_gate(name, on);
        self
    }

    /// Runs the loops in shadow mode, in which they decide and write nothing.
    #[must_use]
    pub fn shadow(mut self) -> Self {
        self.settings = self.settings.with_shadow_mode(true);
        self
    }

    /// Changes the API server.
    #[must_use]
    pub fn server(mut self, change: impl FnOnce(sandbox::Builder) -> sandbox::Builder) -> Self {
        self.server = change(self.server);
        self
    }

    /// Lets this function answer some requests of the loops instead of the API server.
    #[must_use]
    pub fn filter(mut self, filter: RequestFilter) -> Self {
        self.filter = Some(filter);
        self
    }

    /// Replaces these texts in all answers that the loops receive. Answers are in JSON then.
    #[must_use]
    pub fn lies(mut self, lies: &'static [Lie]) -> Self {
        (self.lies, self.told) = (lies, Arc::default());
        self.server(|server| server.protobuf(false))
    }

    /// Starts the cluster without the loops. The namespace exists, and the nodes are ready.
    pub async fn stopped(self) -> World {
        let clock = Clock::simulated(self.time.parse().unwrap(), 7);
        let sandbox = self.server.clone().clock(clock.clone()).build();
        if let Some(rights) = &self.rights {
            let everything = json!([{"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]}]);
            sandbox.grant("nodes", everything).await.unwrap();
            sandbox.grant(CONTROLLER, rights.clone()).await.unwrap();
        }
        let mut nodes = None;
        if self.nodes > 0 {
            let builder = Nodes::builder().count(self.nodes);
            let builder = if self.nodes_live { builder.without_scheduler() } else { builder.heartbeat(None) };
            let started = builder.start(sandbox.client("nodes"), clock.clone());
            started.ready().await;
            nodes = Some(started);
        }
        sandbox.create(objects::namespace(NAMESPACE)).await.unwrap();
        let replica_sets = self.runs_replica_sets.then(|| ReplicaSets::start(&sandbox, "replicasets"));
        World::new(self, sandbox, clock, nodes, replica_sets)
    }

    /// Starts the cluster, waits until it has settled, and clears the log.
    pub async fn start(self) -> World {
        let mut world = self.stopped().await;
        world.start();
        world.settle().await;
        world.clear_log();
        world
    }

    /// Starts the cluster, creates an object, and waits until the cluster has settled. The log contains what the object caused.
    pub async fn settled(self, object: Value) -> World {
        let world = self.start().await;
        world.create(object).await;
        world.settle().await;
        world
    }

    pub(crate) fn filtered(&self) -> Option<RequestFilter> {
        self.filter.as_ref().map(Arc::clone)
    }
}

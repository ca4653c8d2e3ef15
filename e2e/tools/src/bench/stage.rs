//! The stage of a workload: a namespace on a cluster, with the processes under test.

mod counters;

use std::{collections::BTreeMap, time::Duration};

use common::{clock::Instant, object::Resource};
use futures::stream::{self, StreamExt as _, TryStreamExt as _};
use jiff::Timestamp;
use serde_json::{Value, json};

use super::{
    Error,
    observer::Observer,
    report::{Amount, Details, Latency, Memory, Phase, Reactions, Run, Whole, summary},
    served::Served,
    subject::{Sample, Subject},
    timeline::Sampler,
};
use crate::{
    cluster::{Cluster, Kind},
    nodes::Nodes,
    suite::{Client, PatchKind, resources},
};
use counters::{Bytes, Waits};

/// The time limit of a condition, for up to a thousand Pods. It is added once more for every further thousand Pods.
const PATIENCE: Duration = Duration::from_secs(60);
/// The period of checks of a condition.
const LOOK_EVERY: Duration = Duration::from_millis(20);
/// The period of checks of the nodes.
const NODES_EVERY: Duration = Duration::from_secs(1);
/// The time limit of conditions of nodes: the grace period is a minute, and a zone is tainted slowly.
const NODES_PATIENCE: Duration = Duration::from_mins(5);
/// Processes are at rest when they have used less than this processor time during [`REST`].
const RESTING: Duration = Duration::from_millis(20);
const REST: Duration = Duration::from_millis(600);
/// The number of concurrent requests of the workload.
const AT_ONCE: usize = 32;
/// The time limit for processes to come to rest.
const REST_TIMEOUT: Duration = Duration::from_secs(20);

/// The stage.
pub(super) struct Stage<'a> {
    cluster: &'a Cluster,
    nodes: Option<&'a Nodes>,
    client: Client,
    namespace: String,
    subject: Subject,
    pods: u32,
    phases: Vec<Phase>,
    memory: BTreeMap<String, Memory>,
    sampler: Sampler,
    /// Whether each process is measured separately.
    is_detailed: bool,
    /// All latencies so far.
    reactions: Reactions,
    /// The waits of the simulated nodes at the start of the stage.
    waits: Waits,
}

/// A running phase.
pub(super) struct Running {
    name: &'static str,
    started: Instant,
    before: Sample,
    marks: Vec<(&'static str, Duration)>,
    latency: Option<Latency>,
    bytes: BTreeMap<String, Bytes>,
    waits: Waits,
    reactions: Reactions,
    clock: common::clock::Clock,
}

impl Running {
    /// Records that a state was reached.
    pub(super) fn reached(&mut self, what: &'static str) {
        self.marks.push((what, self.clock.monotonic_now() - self.started));
    }

    /// Records the times from changes of Pods to their slices.
    pub(super) fn followed(&mut self, latencies: Vec<Duration>) {
        self.latency = Latency::of(latencies);
    }

    /// Records the times from events to the writes that answer them.
    pub(super) fn reacted(&mut self, reactions: Reactions) {
        for (controller, latencies) in reactions {
            self.reactions.entry(controller).or_default().extend(latencies);
        }
    }
}

impl<'a> Stage<'a> {
    /// Creates the namespace, starts the processes, and waits until they are ready.
    pub(super) async fn set(
        cluster: &'a Cluster,
        nodes: Option<&'a Nodes>,
        mut subject: Subject,
        pods: u32,
        is_detailed: bool,
    ) -> Result<Self, Error> {
        let client = Client::new(cluster.client().clone());
        let namespace = format!("nonet-bench-{:08x}", cluster.clock().random_u64() as u32);
        let object = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}});
        client.create(resources::NAMESPACES, "", &object).await?;
        let pids = subject.pids().clone();
        for (name, pid) in cluster.processes() {
            pids.set(name, vec![pid]);
        }
        pids.set(super::NAME, vec![std::process::id()]);
        let sampler = Sampler::start(pids, cluster.clock());
        subject.ready().await?;
        Ok(Self {
            cluster,
            nodes,
            client,
            namespace,
            subject,
            pods,
            phases: Vec::new(),
            memory: BTreeMap::new(),
            sampler,
            is_detailed,
            reactions: Reactions::new(),
            waits: Waits::of(nodes),
        })
    }

    /// The number of Pods of the workload.
    pub(super) fn pods(&self) -> u32 {
        self.pods
    }

    /// A client with all rights.
    pub(super) fn client(&self) -> &Client {
        &self.client
    }

    /// The namespace.
    pub(super) fn namespace(&self) -> &str {
        &self.namespace
    }

    /// Measures the memory of the idle processes. The caller ensures that there is nothing to do.
    pub(super) async fn idle(&mut self) {
        self.rest().await;
        for (name, usage) in self.subject.usage() {
            self.memory.entry(name).or_default().idle = usage.resident;
        }
    }

    /// Measures the memory after a restart with all Pods. The difference to idle processes is their cache.
    pub(super) fn filled(&mut self) {
        for (name, usage) in self.subject.usage() {
            self.memory.entry(name).or_default().filled = usage.resident;
        }
    }

    /// Measures the memory at rest. The caller ensures that all objects exist and that there is nothing to do.
    pub(super) fn at_rest(&mut self) {
        for (name, usage) in self.subject.usage() {
            self.memory.entry(name).or_default().rest = usage.resident;
        }
    }

    /// Begins a phase.
    pub(super) async fn begin(&mut self, name: &'static str) -> Result<Running, Error> {
        self.rest().await;
        // First, so that the processor time for the metrics is not part of the phase.
        let bytes = self.bytes().await?;
        let before = self.subject.sample(self.cluster).await?;
        let clock = self.cluster.clock().clone();
        self.sampler.phase(name);
        Ok(Running {
            name,
            started: clock.monotonic_now(),
            before,
            marks: Vec::new(),
            latency: None,
            bytes,
            waits: Waits::of(self.nodes),
            reactions: Reactions::new(),
            clock,
        })
    }

    /// The bytes that each process has received so far, if they are measured.
    async fn bytes(&self) -> Result<BTreeMap<String, Bytes>, Error> {
        if !self.is_detailed {
            return Ok(BTreeMap::new());
        }
        let answered = self.subject.answered().await?;
        let of = |(name, pid): (String, u32)| {
            let answered = answered.get(&name).copied().unwrap_or(0);
            (name, Bytes { received: self.sampler.received(pid), answered })
        };
        Ok(self.subject.process_ids().map(of).collect())
    }

    /// The costs of a phase for each process.
    async fn details(&mut self, running: &Running, after: &Sample) -> Result<Option<Details>, Error> {
        if !self.is_detailed {
            return Ok(None);
        }
        let bytes = self.bytes().await?;
        let since = |(name, now): (&String, &Bytes)| {
            let before = running.bytes.get(name).copied().unwrap_or_default();
            let received = now.received.saturating_sub(before.received);
            (name.clone(), Bytes { received, answered: now.answered.saturating_sub(before.answered) })
        };
        let bytes: BTreeMap<String, Bytes> = bytes.iter().map(since).collect();
        let requests = after.requests_by_process.iter().map(|(name, requests)| {
            let before = running.before.requests_by_process.get(name).cloned().unwrap_or_default();
            (name.clone(), requests.since(&before))
        });
        for (controller, latencies) in &running.reactions {
            self.reactions.entry(controller).or_default().extend(latencies);
        }
        Ok(Some(Details {
            requests: requests.collect(),
            received_bytes: bytes.iter().map(|(name, bytes)| (name.clone(), bytes.received)).collect(),
            watch_bytes: bytes
                .iter()
                .map(|(name, bytes)| (name.clone(), bytes.received.saturating_sub(bytes.answered)))
                .collect(),
            bench_cpu_seconds: after.bench_cpu.saturating_sub(running.before.bench_cpu).as_secs_f64(),
            reactions: summary(&running.reactions),
            waits: Waits::of(self.nodes).since(&running.waits),
        }))
    }

    /// Ends a phase with this number of Pods or objects, after the processes have come to rest.
    pub(super) async fn finish(&mut self, running: Running, amount: Amount) -> Result<(), Error> {
        self.rest().await;
        let after = self.subject.sample(self.cluster).await?;
        let details = self.details(&running, &after).await?;
        let before = &running.before;
        let spent = |(name, usage): (&String, &crate::process::Usage)| {
            let before = before.usage.get(name).map_or(Duration::ZERO, |usage| usage.cpu);
            (name.clone(), usage.cpu.saturating_sub(before).as_secs_f64())
        };
        let server_spent = |(name, cpu): (&String, &Duration)| {
            let before = before.server_cpu.get(name).copied().unwrap_or_default();
            (name.clone(), cpu.saturating_sub(before).as_secs_f64())
        };
        let switched = |now: u64| now.saturating_sub(before.context_switches.unwrap_or_default());
        self.phases.push(Phase {
            name: running.name,
            amount,
            seconds: running.marks.iter().map(|(what, took)| (*what, took.as_secs_f64())).collect(),
            cpu_seconds: after.usage.iter().map(spent).collect(),
            server_cpu_seconds: after.server_cpu.iter().map(server_spent).collect(),
            context_switches: after.context_switches.map(switched),
            requests: after.requests.since(&before.requests),
            resident: after.usage.iter().map(|(name, usage)| (name.clone(), usage.resident)).collect(),
            latency: running.latency,
            details,
        });
        Ok(())
    }

    /// The time on the clock of the cluster.
    pub(super) fn now(&self) -> Timestamp {
        self.cluster.clock().now()
    }

    /// Sleeps on the clock of the cluster.
    pub(super) async fn sleep(&self, time: Duration) {
        self.cluster.clock().sleep(time).await;
    }

    /// Stops the processes by SIGTERM and starts them again.
    pub(super) async fn restart(&mut self) -> Result<(), Error> {
        self.subject.restart(self.cluster).await
    }

    /// Waits until the number of Pods meets the condition.
    pub(super) async fn until_pods(&mut self, what: &str, wanted: impl Fn(u32) -> bool) -> Result<(), Error> {
        self.until_count(resources::PODS, what, wanted).await
    }

    /// The simulated nodes.
    pub(super) fn nodes(&self) -> Result<&'a Nodes, Error> {
        self.nodes
            .ok_or_else(|| Error::Flags("this workload needs nodes of its own, and the cluster has others".to_owned()))
    }

    /// Cuts a node off from the API server.
    pub(super) fn silence(&self, node: &str) -> Result<(), Error> {
        self.nodes()?.silence(node).map_err(|unknown| Error::Flags(unknown.to_string()))
    }

    /// Connects such a node again.
    pub(super) fn restore(&self, node: &str) -> Result<(), Error> {
        self.nodes()?.restore(node).map_err(|unknown| Error::Flags(unknown.to_string()))
    }

    /// Waits until the nodes meet the condition.
    pub(super) async fn until_nodes(&mut self, what: &str, wanted: impl Fn(&[Value]) -> bool) -> Result<(), Error> {
        let started = self.cluster.clock().monotonic_now();
        while !wanted(&self.client.list(resources::NODES, "", "").await?) {
            if self.cluster.clock().monotonic_now() - started > NODES_PATIENCE {
                let seconds = NODES_PATIENCE.as_secs();
                return Err(Error::TimedOut(format!("after {seconds} s: not all nodes that should be are {what}")));
            }
            self.subject.check()?;
            // Lists of thousands of nodes would disturb the measurement.
            self.cluster.clock().sleep(NODES_EVERY).await;
        }
        Ok(())
    }

    /// Waits until the number of objects of a resource meets the condition.
    pub(super) async fn until_count(
        &mut self,
        resource: Resource,
        what: &str,
        wanted: impl Fn(u32) -> bool,
    ) -> Result<(), Error> {
        let started = self.cluster.clock().monotonic_now();
        loop {
            let count = self.count(&resource).await?;
            if wanted(count) {
                return Ok(());
            }
            self.wait(started, || format!("{resource} are not {what}: there are {count}")).await?;
        }
    }

    /// Starts to observe all objects of the namespaces whose names begin with the name of this one.
    pub(super) async fn observe(&self) -> Observer {
        Observer::follow(self.cluster, &self.namespace).await
    }

    /// Waits until the state of an observer meets the condition, with the time limit of [`Self::until_nodes`].
    pub(super) async fn until_observed(
        &mut self,
        observer: &Observer,
        what: &str,
        wanted: impl Fn(&Observer) -> bool,
    ) -> Result<(), Error> {
        let started = self.cluster.clock().monotonic_now();
        let patience = self.patience() + NODES_PATIENCE;
        while !wanted(observer) {
            if self.cluster.clock().monotonic_now() - started > patience {
                let seconds = patience.as_secs();
                return Err(Error::TimedOut(format!("after {seconds} s: not {what}: {}", observer.describe())));
            }
            self.subject.check()?;
            self.cluster.clock().sleep(LOOK_EVERY).await;
        }
        Ok(())
    }

    /// Starts to watch the Pods of the namespace and the slices of its Services.
    pub(super) async fn follow_services(&self) -> Served {
        Served::follow(self.cluster, &self.namespace).await
    }

    /// Waits until the slices show this number of ready Pods and every change of a Pod.
    pub(super) async fn until_served(&mut self, served: &Served, pods: usize) -> Result<(), Error> {
        let started = self.cluster.clock().monotonic_now();
        while !served.shows(pods) {
            self.wait(started, || format!("the slices do not show {pods} ready Pods: {}", served.state())).await?;
        }
        Ok(())
    }

    /// Sends requests at a steady rate. A request does not wait for the answers of earlier ones.
    ///
    /// Only while [`AT_ONCE`] requests have no answer, the next one waits.
    pub(super) async fn at_rate<F>(&self, every: Duration, requests: impl Iterator<Item = F>) -> Result<(), Error>
    where
        F: Future<Output = Result<(), Error>>,
    {
        let clock = self.cluster.clock();
        let started = clock.monotonic_now();
        let when_due =
            |number: u32| clock.sleep((started + every * number).saturating_duration_since(clock.monotonic_now()));
        let due = stream::iter(0..).then(when_due).zip(stream::iter(requests)).map(|((), request)| request);
        due.buffer_unordered(AT_ONCE).try_collect::<()>().await
    }

    /// Sleeps for this time.
    pub(super) async fn pass(&self, time: Duration) {
        self.cluster.clock().sleep(time).await;
    }

    /// Creates objects in the namespace by concurrent requests.
    pub(super) async fn create_all(
        &self,
        resource: &Resource,
        objects: impl Iterator<Item = Value>,
    ) -> Result<(), Error> {
        let create =
            |object| async move { self.client.create(resource.clone(), &self.namespace, &object).await.map(drop) };
        stream::iter(objects.map(create)).buffer_unordered(AT_ONCE).try_collect::<()>().await.map_err(Error::from)
    }

    /// Deletes objects of the namespace by concurrent requests. The garbage collector deletes their dependents.
    pub(super) async fn delete_all(
        &self,
        resource: &Resource,
        names: impl Iterator<Item = String>,
    ) -> Result<(), Error> {
        let options = &json!({"propagationPolicy": "Background"});
        let delete = |name: String| async move {
            self.client.delete(resource.clone(), &self.namespace, &name, options).await.map(drop)
        };
        stream::iter(names.map(delete)).buffer_unordered(AT_ONCE).try_collect::<()>().await.map_err(Error::from)
    }

    /// Waits until an object meets the condition.
    pub(super) async fn until_object(
        &mut self,
        resource: Resource,
        name: &str,
        what: &str,
        wanted: impl Fn(&Value) -> bool,
    ) -> Result<(), Error> {
        let started = self.cluster.clock().monotonic_now();
        loop {
            let object = self.client.get(resource.clone(), &self.namespace, name).await?;
            if wanted(&object) {
                return Ok(());
            }
            self.wait(started, || format!("{} {name} is not {what}: {}", resource.kind(), object["status"])).await?;
        }
    }

    async fn wait(&mut self, started: Instant, why: impl FnOnce() -> String) -> Result<(), Error> {
        let patience = self.patience();
        if self.cluster.clock().monotonic_now() - started > patience {
            return Err(Error::TimedOut(format!("after {} s: {}", patience.as_secs(), why())));
        }
        self.subject.check()?;
        self.cluster.clock().sleep(LOOK_EVERY).await;
        Ok(())
    }

    /// The time limit of a condition.
    fn patience(&self) -> Duration {
        PATIENCE * (1 + self.pods / 1000)
    }

    async fn count(&self, resource: &Resource) -> Result<u32, Error> {
        if let Some(sandbox) = self.cluster.sandbox() {
            return Ok(u32::try_from(sandbox.count(&resource.to_string())).unwrap_or(u32::MAX));
        }
        let path = format!("{}?limit=1", resource.path(&self.namespace, "", ""));
        let list = self.client.send("GET", &path, "", None).await?;
        let listed = list["items"].as_array().map_or(0, Vec::len) as u64;
        let remaining = list["metadata"]["remainingItemCount"].as_u64().unwrap_or(0);
        Ok(u32::try_from(listed + remaining).unwrap_or(u32::MAX))
    }

    /// Waits until the processes are at rest.
    async fn rest(&mut self) {
        let clock = self.cluster.clock();
        let started = clock.monotonic_now();
        let cpu = |subject: &Subject| subject.usage().values().map(|usage| usage.cpu).sum::<Duration>();
        let mut before = cpu(&self.subject);
        loop {
            clock.sleep(REST).await;
            let now = cpu(&self.subject);
            if now.saturating_sub(before) < RESTING || clock.monotonic_now() - started > REST_TIMEOUT {
                return;
            }
            before = now;
        }
    }

    /// Records the memory at the end, and deletes the objects of the workload on the cluster of a kubeconfig.
    pub(super) async fn clear(&mut self) -> Result<(), Error> {
        for (name, usage) in self.subject.usage() {
            let memory = self.memory.entry(name).or_default();
            (memory.after, memory.peak) = (usage.resident, usage.peak);
        }
        if self.cluster.kind() != Kind::Kubeconfig {
            return Ok(());
        }
        let background = json!({"propagationPolicy": "Background"});
        for resource in [
            resources::DEPLOYMENTS,
            resources::REPLICA_SETS,
            resources::DAEMON_SETS,
            resources::JOBS,
            resources::SERVICES,
            resources::PODS,
        ] {
            self.client.delete(resource, &self.namespace, "", &background).await?;
        }
        self.client.delete(resources::NAMESPACES, "", &self.namespace, &background).await?;
        Ok(())
    }

    /// The results, and the running processes.
    pub(super) fn end(self) -> (Subject, Run) {
        let whole = self
            .is_detailed
            .then(|| Whole { reactions: summary(&self.reactions), waits: Waits::of(self.nodes).since(&self.waits) });
        let run = Run { phases: self.phases, memory: self.memory, whole, timeline: self.sampler.timeline() };
        (self.subject, run)
    }

    /// Patches an object of the namespace.
    pub(super) async fn patch(
        &self,
        resource: Resource,
        name: &str,
        kind: PatchKind,
        patch: &Value,
    ) -> Result<(), Error> {
        Ok(self.client.patch(resource, &self.namespace, name, "", kind, patch).await.map(drop)?)
    }
}

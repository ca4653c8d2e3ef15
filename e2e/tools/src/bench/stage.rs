//! The stage of a workload: namespaces on a cluster, with the processes under test and an observer.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use anyhow::{Context as _, Result, bail};
use common::{clock::Instant, object::Resource};
use futures::stream::{self, StreamExt as _, TryStreamExt as _};
use parking_lot::MutexGuard;
use serde_json::{Value, json};

use super::{
    counters::{Counters, add_all, since_all},
    objects::new_image,
    observer::{Observer, Reactions, State},
    report::{Memory, Phase, Run, Waits, summary},
    subject::Subject,
    timeline::{CONTROLLERS, Sampler},
};
use crate::{
    cluster::{Cluster, Kind},
    nodes::{Nodes, WaitCounts},
    process::{Usage, proportional_memory},
    suite::{Client, PatchKind, Refused, resources},
};

/// The time limit of a condition. It is [`PATIENCE_PER_PODS`] longer for each thousand Pods.
const PATIENCE: Duration = Duration::from_mins(6);
const PATIENCE_PER_PODS: Duration = Duration::from_secs(60);
const CHECK_EVERY: Duration = Duration::from_millis(20);
/// Processes are at rest when they have used less than this processor time during [`REST`].
const RESTING: Duration = Duration::from_millis(20);
const REST: Duration = Duration::from_millis(600);
const UNTIL_MEMORY_IS_GIVEN_BACK: Duration = Duration::from_secs(15);
/// The number of concurrent requests of the workload.
const AT_ONCE: usize = 32;
/// The pause after an eviction that a budget refuses.
const EVICTION_RETRY: Duration = Duration::from_secs(1);
/// The time limit for processes to come to rest.
const REST_TIMEOUT: Duration = Duration::from_secs(20);

/// A request of a user of the cluster.
#[derive(Clone)]
pub(super) enum Request {
    Create(Resource, Value),
    Patch(Resource, String, PatchKind, Value),
    Delete(Resource, String),
}

impl Request {
    pub(super) fn scale(resource: Resource, name: String, replicas: u32) -> Self {
        Self::Patch(resource, name, PatchKind::Merge, json!({"spec": {"replicas": replicas}}))
    }

    /// Gives the Pods another image, which replaces all of them.
    pub(super) fn roll_out(resource: Resource, name: String) -> Self {
        Self::Patch(resource, name, PatchKind::Strategic, new_image())
    }

    /// The number after the last dash of the name of its object.
    fn number(&self) -> usize {
        let name = match self {
            Self::Create(_, object) => object["metadata"]["name"].as_str().unwrap_or_default(),
            Self::Patch(_, name, _, _) | Self::Delete(_, name) => name,
        };
        name.rsplit('-').next().and_then(|number| number.parse().ok()).unwrap_or(0)
    }
}

/// Everything that is counted, at one time.
#[derive(Clone, Default)]
struct Sample {
    /// By process under test.
    controllers: BTreeMap<String, Counters>,
    /// Processor time in seconds of the bench with its nodes, and of the servers that it has started.
    others: BTreeMap<String, f64>,
    scheduler: WaitCounts,
    kubelet: WaitCounts,
}

impl Sample {
    /// The waits for the simulated nodes since an earlier sample.
    fn waits_since(&self, before: &Self) -> Waits {
        Waits::of(&self.scheduler.since(&before.scheduler), &self.kubelet.since(&before.kubelet))
    }
}

struct Running {
    name: &'static str,
    started: Instant,
    before: Sample,
    seconds: Vec<(&'static str, f64)>,
}

pub(super) struct Stage<'a> {
    cluster: &'a Cluster,
    nodes: Option<&'a Nodes>,
    client: Client,
    observer: Observer,
    namespaces: Vec<String>,
    subject: Subject,
    pods: u32,
    running: Option<Running>,
    phases: Vec<Phase>,
    memory: BTreeMap<String, Memory>,
    sampler: Sampler,
    /// All latencies so far.
    reactions: Reactions,
    first: Sample,
}

impl<'a> Stage<'a> {
    /// Creates the namespace, starts the processes, and waits until they are ready.
    pub(super) async fn set(
        cluster: &'a Cluster,
        nodes: Option<&'a Nodes>,
        mut subject: Subject,
        pods: u32,
        kinds: &'static [Resource],
    ) -> Result<Self> {
        let prefix = format!("nonet-bench-{:08x}", cluster.clock().random_u64() as u32);
        let sampler = Sampler::start(cluster.clock());
        for (name, pid) in cluster.processes() {
            sampler.set(name, vec![pid]);
        }
        sampler.set(super::NAME, vec![std::process::id()]);
        sampler.set(CONTROLLERS, subject.pids());
        subject.ready().await?;
        let mut stage = Self {
            cluster,
            nodes,
            client: Client::new(cluster.client().clone()),
            observer: Observer::follow(cluster, &prefix, kinds).await,
            namespaces: Vec::new(),
            subject,
            pods,
            running: None,
            phases: Vec::new(),
            memory: BTreeMap::new(),
            sampler,
            reactions: Reactions::new(),
            first: Sample::default(),
        };
        stage.first = stage.sample();
        stage.create_namespaces([prefix]).await?;
        Ok(stage)
    }

    async fn create_namespaces(&mut self, names: impl IntoIterator<Item = String>) -> Result<()> {
        let client = &self.client;
        let create = |name: String| async move {
            let object = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}});
            client.create(resources::NAMESPACES, "", &object).await.map(|_| name)
        };
        let created = stream::iter(names).map(create).buffered(AT_ONCE).try_collect::<Vec<_>>().await?;
        self.namespaces.extend(created);
        Ok(())
    }

    /// Creates namespaces until there are `count`.
    pub(super) async fn add_namespaces(&mut self, count: u32) -> Result<()> {
        let first = self.namespaces[0].clone();
        self.create_namespaces((1..count).map(|n| format!("{first}-{n}"))).await
    }

    /// The names of the namespaces. All of them begin with the first one.
    pub(super) fn namespaces(&self) -> &[String] {
        &self.namespaces
    }

    pub(super) fn pods(&self) -> u32 {
        self.pods
    }

    pub(super) fn nodes(&self) -> Result<&'a Nodes> {
        self.nodes.context("this workload needs nodes of its own, and the cluster has others")
    }

    /// The state that the observer has seen so far.
    pub(super) fn state(&self) -> MutexGuard<'_, State> {
        self.observer.state()
    }

    /// Counts the CronJobs with a Job that is due from now on. The delay is measured for these Jobs only, because others make up
    /// for times before the change of their CronJob.
    pub(super) fn count_firing_from_now(&self) {
        self.state().count_firing_from(self.cluster.clock().now());
    }

    /// Records the resident memory of the processes once they have been at rest for a while, in which both sides give back memory.
    pub(super) async fn measure_memory(&mut self, of: fn(&mut Memory) -> &mut u64) {
        self.rest().await;
        self.sleep(UNTIL_MEMORY_IS_GIVEN_BACK).await;
        self.rest().await;
        for (name, usage) in self.subject.usage() {
            *of(self.memory.entry(name).or_default()) = usage.resident;
        }
    }

    /// Records the idle memory of the processes once they are at rest, also with shared pages counted once.
    pub(super) async fn measure_idle_memory(&mut self) {
        self.measure_memory(|memory| &mut memory.idle).await;
        for (name, pid) in self.subject.pids_by_name() {
            self.memory.entry(name).or_default().idle_share = proportional_memory(pid).unwrap_or_default();
        }
    }

    fn sample(&self) -> Sample {
        let seconds = |pid| Usage::of(pid).unwrap_or_default().cpu.as_secs_f64();
        let servers = self.cluster.processes().into_iter();
        let others = servers.chain([(super::NAME, std::process::id())]);
        let counts = |of: fn(&Nodes) -> WaitCounts| self.nodes.map(of).unwrap_or_default();
        Sample {
            controllers: self.subject.counters(self.cluster, &self.sampler),
            others: others.map(|(name, pid)| (name.to_owned(), seconds(pid))).collect(),
            scheduler: counts(|nodes| nodes.scheduler_waits().counts()),
            kubelet: counts(|nodes| nodes.kubelet_waits().counts()),
        }
    }

    pub(super) async fn begin(&mut self, name: &'static str) -> Result<()> {
        self.rest().await;
        // First, so that the processor time for the metrics is not part of the phase.
        let scraped = self.subject.scrape(self.cluster).await?;
        let mut before = self.sample();
        add_all(&mut before.controllers, &scraped);
        self.sampler.phase(name);
        self.observer.take_reactions();
        let started = self.cluster.clock().monotonic_now();
        self.running = Some(Running { name, started, before, seconds: Vec::new() });
        Ok(())
    }

    /// Records that the phase has reached a state.
    pub(super) fn reached(&mut self, what: &'static str) {
        let now = self.cluster.clock().monotonic_now();
        if let Some(running) = &mut self.running {
            running.seconds.push((what, (now - running.started).as_secs_f64()));
        }
    }

    /// Ends the phase after the processes have come to rest. Its figures are for each of `pods` Pods.
    pub(super) async fn finish(&mut self, pods: u32) -> Result<()> {
        let reactions = self.observer.take_reactions();
        self.rest().await;
        let Some(Running { name, before, seconds, .. }) = self.running.take() else { return Ok(()) };
        let mut after = self.sample();
        add_all(&mut after.controllers, &self.subject.scrape(self.cluster).await?);
        let spent =
            |(name, seconds): (&String, &f64)| (name.clone(), seconds - before.others.get(name).unwrap_or(&0.0));
        self.phases.push(Phase {
            name,
            pods,
            seconds,
            controllers: since_all(&after.controllers, &before.controllers),
            other_cpu_seconds: after.others.iter().map(spent).collect(),
            reactions: summary(&reactions),
            waits: after.waits_since(&before),
        });
        for (controller, latencies) in reactions {
            self.reactions.entry(controller).or_default().extend(latencies);
        }
        Ok(())
    }

    pub(super) async fn sleep(&self, time: Duration) {
        self.cluster.clock().sleep(time).await;
    }

    /// Stops the processes by SIGTERM and starts them again.
    pub(super) async fn restart(&mut self) -> Result<()> {
        self.subject.restart(self.cluster, &self.sampler).await?;
        self.sampler.set(CONTROLLERS, self.subject.pids());
        self.subject.ready().await
    }

    /// Waits until the observed state meets the condition.
    pub(super) async fn until(&self, what: &str, wanted: impl Fn(&State) -> bool) -> Result<()> {
        let clock = self.cluster.clock();
        let (started, patience) = (clock.monotonic_now(), PATIENCE + PATIENCE_PER_PODS * (self.pods / 1000));
        while !wanted(&self.state()) {
            if clock.monotonic_now() - started > patience {
                let state = self.state().describe();
                bail!("not after {} s: {what}: {state}", patience.as_secs());
            }
            self.subject.check()?;
            clock.sleep(CHECK_EVERY).await;
        }
        Ok(())
    }

    /// Sends concurrent requests. The namespace of an object follows from the number in its name.
    pub(super) async fn send(&self, requests: impl IntoIterator<Item = Request>) -> Result<()> {
        self.send_to(requests.into_iter().map(|request| (request.number(), request))).await
    }

    /// Sends concurrent requests, each with the number of its namespace.
    pub(super) async fn send_to(&self, requests: impl IntoIterator<Item = (usize, Request)>) -> Result<()> {
        let send = |(number, request): (usize, Request)| async move {
            let namespace = &self.namespaces[number % self.namespaces.len()];
            match &request {
                Request::Create(resource, object) => {
                    let answer = self.client.create(resource.clone(), namespace, object).await?;
                    self.state().expect(resource, &answer);
                }
                Request::Patch(resource, name, kind, patch) => {
                    let answer = self.client.patch(resource.clone(), namespace, name, "", *kind, patch).await?;
                    self.state().expect(resource, &answer);
                }
                Request::Delete(resource, name) => self.delete(resource, namespace, name).await?,
            }
            Ok::<(), Refused>(())
        };
        Ok(stream::iter(requests).map(send).buffer_unordered(AT_ONCE).try_collect::<()>().await?)
    }

    /// Deletes an object, or all if `name` is empty. The garbage collector deletes the dependents.
    async fn delete(&self, resource: &Resource, namespace: &str, name: &str) -> Result<(), Refused> {
        let options = json!({"propagationPolicy": "Background"});
        self.client.delete(resource.clone(), namespace, name, &options).await.map(drop)
    }

    /// Evicts the Pods of these nodes, those of a namespace one after the other, and creates another one for each, as its owner
    /// would do. Returns their number.
    pub(super) async fn evict(&self, nodes: &BTreeSet<String>, replacement: impl Fn(&str) -> Request) -> Result<u32> {
        let (clock, replacement) = (self.cluster.clock(), &replacement);
        let evict_all = |(number, namespace): (usize, &String)| {
            let namespace = namespace.clone();
            async move {
                let mut evicted = 0;
                for pod in self.client.list(resources::PODS, &namespace, "").await? {
                    if !pod["spec"]["nodeName"].as_str().is_some_and(|node| nodes.contains(node)) {
                        continue;
                    }
                    let name = pod["metadata"]["name"].as_str().unwrap_or_default();
                    let eviction = json!({"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": name}});
                    let path = resources::PODS.path(&namespace, name, "eviction");
                    // The budget allows no eviction now.
                    while let Err(refused) = self.client.send("POST", &path, "application/json", Some(&eviction)).await
                    {
                        if refused.code != 429 {
                            return Err(refused.into());
                        }
                        clock.sleep(EVICTION_RETRY).await;
                    }
                    self.send_to([(number, replacement(name))]).await?;
                    evicted += 1;
                }
                anyhow::Ok(evicted)
            }
        };
        let evictions = self.namespaces.iter().enumerate().map(evict_all);
        stream::iter(evictions).buffer_unordered(AT_ONCE).try_fold(0, async |sum, evicted| Ok(sum + evicted)).await
    }

    /// Deletes the objects of a kind in all namespaces.
    pub(super) async fn delete_all(&self, resource: &Resource) -> Result<()> {
        let deletions = self.namespaces.iter().map(|namespace| self.delete(resource, namespace, ""));
        Ok(stream::iter(deletions).buffer_unordered(AT_ONCE).try_collect::<()>().await?)
    }

    async fn rest(&self) {
        let clock = self.cluster.clock();
        let started = clock.monotonic_now();
        let cpu = || self.subject.usage().values().map(|usage| usage.cpu).sum::<Duration>();
        let mut before = cpu();
        loop {
            clock.sleep(REST).await;
            let now = cpu();
            if now.saturating_sub(before) < RESTING || clock.monotonic_now() - started > REST_TIMEOUT {
                return;
            }
            before = now;
        }
    }

    /// Records the memory at the end, and deletes the namespaces of the workload on the cluster of a kubeconfig.
    pub(super) async fn clear(&mut self) -> Result<()> {
        for (name, usage) in self.subject.usage() {
            let memory = self.memory.entry(name).or_default();
            (memory.after, memory.peak) = (usage.resident, usage.peak);
        }
        if self.cluster.kind() == Kind::Kubeconfig {
            for namespace in &self.namespaces {
                match self.delete(&resources::NAMESPACES, "", namespace).await {
                    Err(refused) if refused.code != 404 => return Err(refused.into()),
                    _ => {}
                }
            }
        }
        Ok(())
    }

    /// The results, and the running processes.
    pub(super) fn end(self) -> (Subject, Run) {
        let run = Run {
            waits: self.sample().waits_since(&self.first),
            reactions: summary(&self.reactions),
            phases: self.phases,
            memory: self.memory,
            timeline: self.sampler.timeline(),
        };
        (self.subject, run)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_object_keeps_its_namespace_through_all_requests() {
        let create = Request::Create(resources::DEPLOYMENTS, json!({"metadata": {"name": "web-17"}}));
        for request in [create, Request::scale(resources::DEPLOYMENTS, "web-17".to_owned(), 1)] {
            assert_eq!(request.number(), 17);
        }
    }
}

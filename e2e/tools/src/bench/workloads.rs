//! The workloads under which the controllers are measured.

mod claims;
mod drain;
mod namespaces;

use std::{collections::BTreeSet, time::Duration};

use anyhow::Result;
use clap::ValueEnum;
use common::object::Resource;
use kubectl_nonet::controllers::NAMES;
use serde_json::json;

use super::{
    objects::{Mix, Objects},
    observer::{self, State},
    stage::{Request, Stage},
};
use crate::{
    sandbox,
    suite::{PatchKind, resources},
};

/// A workload. The comments of the variants are the text of `--help`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum Workload {
    /// One Deployment: scale up to all Pods, restart the controllers, update the image, scale down to none
    OneDeployment,
    /// A whole cluster: idle; fill it with Deployments, StatefulSets, DaemonSets, Jobs, CronJobs and Services; rest; a day of
    /// rollouts, scaling, new Jobs, lost nodes and deletions; delete everything
    Cluster,
    /// Namespaces with content: idle; create them and aggregated ClusterRoles; rest; change and delete what each namespace has, and
    /// relabel ClusterRoles; delete all namespaces at once; rest
    Namespaces,
    /// Namespaces with 40 Pods, a budget and a quota each: idle; create them; rest; evict the Pods of a quarter of the nodes; delete all
    /// Pods
    Drain,
    /// Pods with a PersistentVolumeClaim each, half of them for an ephemeral volume: idle; create them; rest; delete the claims and then
    /// the Pods
    Claims,
}

impl Workload {
    /// The default number of Pods, or of namespaces.
    pub(super) fn pods(self) -> u32 {
        match self {
            Self::OneDeployment => 5000,
            Self::Cluster | Self::Claims => 1000,
            Self::Namespaces => 200,
            Self::Drain => 50,
        }
    }

    /// The default number of nodes for a number of Pods.
    pub(super) fn nodes(self, pods: u32) -> u32 {
        match self {
            Self::OneDeployment | Self::Namespaces => 10,
            Self::Cluster | Self::Claims => pods.div_ceil(50).max(10),
            Self::Drain => (pods * drain::PODS).div_ceil(50).max(10),
        }
    }

    /// The controllers without which it cannot complete.
    pub(super) fn needs(self) -> &'static [&'static str] {
        match self {
            Self::OneDeployment => &["deployment-controller", "replicaset-controller"],
            Self::Cluster => &NAMES,
            Self::Namespaces => &["namespace-controller", "serviceaccount-controller", "clusterrole-controller"],
            Self::Drain => &["disruption-controller", "resourcequota-controller"],
            Self::Claims => &["volume-controller"],
        }
    }

    /// The default list of controllers.
    pub(super) fn controllers(self) -> String {
        match self {
            Self::OneDeployment | Self::Cluster => "all".to_owned(),
            Self::Namespaces | Self::Drain | Self::Claims => self.needs().join(","),
        }
    }

    /// The kinds of objects that the observer watches.
    pub(super) fn kinds(self) -> &'static [Resource] {
        match self {
            Self::OneDeployment | Self::Cluster => observer::WORKLOAD_KINDS,
            Self::Namespaces => namespaces::OBSERVED_KINDS,
            Self::Drain => drain::OBSERVED_KINDS,
            Self::Claims => claims::OBSERVED_KINDS,
        }
    }

    /// Sets up the sandbox.
    pub(super) fn sandbox(self, sandbox: sandbox::Builder) -> sandbox::Builder {
        if self == Self::Namespaces { sandbox.without_namespace_controller() } else { sandbox }
    }

    /// Runs it, in phases of the stage.
    pub(super) async fn run(self, stage: &mut Stage<'_>) -> Result<()> {
        match self {
            Self::OneDeployment => one_deployment(stage).await,
            Self::Cluster => cluster(stage).await,
            Self::Namespaces => namespaces::run(stage).await,
            Self::Drain => drain::run(stage).await,
            Self::Claims => claims::run(stage).await,
        }
    }
}

async fn scale(stage: &Stage<'_>, replicas: u32) -> Result<()> {
    stage.send([Request::scale(resources::DEPLOYMENTS, "bench".to_owned(), replicas)]).await
}

async fn one_deployment(stage: &mut Stage<'_>) -> Result<()> {
    let pods = stage.pods();
    let has = |count: u32| move |state: &State| state.count(&resources::PODS) == count as usize;
    let object = Objects::read()?.object("LoneDeployment", "bench", 0);
    stage.send([Request::Create(resources::DEPLOYMENTS, object)]).await?;
    // A Pod is created and deleted before anything is measured: connections are open, code has run.
    scale(stage, 1).await?;
    stage.until("a Pod is created", has(1)).await?;
    scale(stage, 0).await?;
    stage.until("the Pod is gone", has(0)).await?;
    stage.measure_idle_memory().await;

    stage.begin("scale up").await?;
    scale(stage, pods).await?;
    stage.until("all Pods are created", has(pods)).await?;
    stage.reached("created");
    stage.until("all Pods are available", State::is_as_specified).await?;
    stage.reached("available");
    stage.finish(pods).await?;

    stage.begin("restart").await?;
    stage.restart().await?;
    scale(stage, pods + 1).await?;
    stage.until("the first Pod is created", has(pods + 1)).await?;
    stage.reached("first Pod created");
    stage.finish(1).await?;
    stage.measure_memory(|memory| &mut memory.filled).await;
    scale(stage, pods).await?;
    stage.until("the Pod is gone", move |state| has(pods)(state) && state.is_as_specified()).await?;

    stage.begin("update").await?;
    stage.send([Request::roll_out(resources::DEPLOYMENTS, "bench".to_owned())]).await?;
    stage.until("all Pods are replaced", State::is_as_specified).await?;
    stage.reached("replaced");
    stage.finish(pods).await?;

    stage.begin("scale down").await?;
    scale(stage, 0).await?;
    stage.until("all Pods are gone", has(0)).await?;
    stage.reached("gone");
    stage.finish(pods).await
}

/// The durations of the phases idle and rest: two and three renewals of each node's Lease.
const IDLE: Duration = Duration::from_secs(20);
const REST: Duration = Duration::from_secs(30);
/// The duration of the phase settle, in which work of the start ends: searches for a second writer, and Events that wait for the
/// rate limit of their recorder.
const SETTLING: Duration = Duration::from_secs(90);
/// One node, and one more for each multiple of this number of nodes, is lost during the day.
const LOST: usize = 100;
/// The resources that are deleted at the end, in this order.
const KINDS: [Resource; 6] = [
    resources::CRON_JOBS,
    resources::JOBS,
    resources::DEPLOYMENTS,
    resources::STATEFUL_SETS,
    resources::DAEMON_SETS,
    resources::SERVICES,
];

/// Names of one kind of objects: `web-0`, `web-1` and so on.
fn numbered(prefix: &str, count: usize) -> impl Iterator<Item = String> {
    (0..count).map(move |n| format!("{prefix}-{n}"))
}

/// A phase in which nothing happens.
async fn pass(stage: &mut Stage<'_>, name: &'static str, time: Duration) -> Result<()> {
    stage.begin(name).await?;
    stage.sleep(time).await;
    stage.reached("over");
    stage.finish(1).await
}

/// Ends the work of the start, records the memory, and measures a cluster without changes.
async fn settle_and_rest(stage: &mut Stage<'_>) -> Result<()> {
    pass(stage, "settle", SETTLING).await?;
    stage.measure_memory(|memory| &mut memory.rest).await;
    pass(stage, "rest", REST).await
}

async fn cluster(stage: &mut Stage<'_>) -> Result<()> {
    let pods = stage.pods();
    let nodes = stage.nodes()?.names();
    let mix = Mix::of(pods, u32::try_from(nodes.len()).unwrap_or(u32::MAX));
    let objects = Objects::read()?;
    stage.add_namespaces(mix.namespaces).await?;
    stage.measure_idle_memory().await;
    pass(stage, "idle", IDLE).await?;

    stage.begin("fill").await?;
    stage.send(fill(&mix, &objects)).await?;
    stage.until("all objects are as their specs ask for", State::is_settled).await?;
    stage.reached("settled");
    stage.finish(pods).await?;
    settle_and_rest(stage).await?;

    stage.begin("day").await?;
    change(stage, &mix, &objects).await?;
    stage.reached("all changes are rolled out");
    // In different zones: the nodes are assigned to the zones in turn.
    let lost: BTreeSet<String> = nodes.iter().take(1 + nodes.len() / LOST).cloned().collect();
    for node in &lost {
        stage.nodes()?.silence(node)?;
    }
    stage.until("the Pods of lost nodes are evicted", |state| state.movable_pods(&lost) == 0).await?;
    stage.reached("the Pods of lost nodes are evicted");
    for node in &lost {
        stage.nodes()?.restore(node)?;
    }
    stage.until("the cluster has recovered", State::is_settled).await?;
    stage.reached("the nodes are back");
    retire(stage, &mix).await?;
    stage.reached("all deleted objects are gone");
    stage.finish(1).await?;

    stage.begin("delete").await?;
    for kind in KINDS {
        stage.delete_all(&kind).await?;
    }
    stage.until("everything is gone", State::is_empty).await?;
    stage.reached("gone");
    stage.finish(pods).await
}

/// One object of a kind for each number of Pods.
fn create(
    objects: &Objects,
    resource: &Resource,
    template: &str,
    prefix: &str,
    sizes: impl IntoIterator<Item = u32>,
) -> Vec<Request> {
    let object = |(n, pods): (usize, u32)| objects.object(template, &format!("{prefix}-{n}"), pods);
    sizes.into_iter().enumerate().map(object).map(|object| Request::Create(resource.clone(), object)).collect()
}

/// The Jobs that complete.
fn ending_jobs(objects: &Objects, prefix: &str, mix: &Mix) -> Vec<Request> {
    create(objects, &resources::JOBS, "EndingJob", prefix, mix.ending_jobs.clone())
}

fn fill(mix: &Mix, objects: &Objects) -> Vec<Request> {
    let ones = |count: usize| vec![1; count];
    [
        create(objects, &resources::SERVICES, "Service", "web", mix.deployments.clone()),
        create(objects, &resources::SERVICES, "Service", "db", mix.stateful_sets.clone()),
        create(objects, &resources::DEPLOYMENTS, "Deployment", "web", mix.deployments.clone()),
        create(objects, &resources::STATEFUL_SETS, "StatefulSet", "db", mix.stateful_sets.clone()),
        create(objects, &resources::DAEMON_SETS, "DaemonSet", "agent", ones(mix.daemon_sets)),
        create(objects, &resources::JOBS, "Job", "run", mix.running_jobs.clone()),
        ending_jobs(objects, "batch", mix),
        create(objects, &resources::CRON_JOBS, "CronJob", "cron", ones(mix.cron_jobs)),
    ]
    .concat()
}

/// Changes most objects: half of the workloads get a new image, the others another size; new Jobs run, CronJobs fire.
async fn change(stage: &mut Stage<'_>, mix: &Mix, objects: &Objects) -> Result<()> {
    let resize = |resource: Resource, prefix: &str, sizes: &[u32], larger: fn(u32) -> u32, smaller: fn(u32) -> u32| {
        let names = numbered(prefix, sizes.len()).zip(sizes).enumerate();
        let request = |(n, (name, pods)): (usize, (String, &u32))| match n % 4 {
            1 => Request::scale(resource.clone(), name, larger(*pods)),
            3 => Request::scale(resource.clone(), name, smaller(*pods)),
            _ => Request::roll_out(resource.clone(), name),
        };
        names.map(request).collect::<Vec<_>>()
    };
    let fire = |is_suspended: bool| {
        let patch = json!({"spec": {"schedule": "* * * * *", "suspend": is_suspended}});
        let request = |name| Request::Patch(resources::CRON_JOBS, name, PatchKind::Merge, patch.clone());
        numbered("cron", mix.cron_jobs).map(request).collect::<Vec<_>>()
    };
    stage.count_firing_from_now();
    let deployments = resize(resources::DEPLOYMENTS, "web", &mix.deployments, |n| n + n.div_ceil(2), |n| n.div_ceil(2));
    let sets = resize(resources::STATEFUL_SETS, "db", &mix.stateful_sets, |n| n + 1, |n| (n - 1).max(1));
    let agent = vec![Request::roll_out(resources::DAEMON_SETS, "agent-0".to_owned())];
    stage.send([deployments, sets, agent, ending_jobs(objects, "later", mix), fire(false)].concat()).await?;
    stage.until("every CronJob has fired", |state| state.fired() == mix.cron_jobs).await?;
    stage.send(fire(true)).await?;
    stage.until("all changes are rolled out", State::is_settled).await
}

/// Deletes a tenth of the Deployments with their Services, and all finished Jobs.
async fn retire(stage: &mut Stage<'_>, mix: &Mix) -> Result<()> {
    let (retired, ended) = (mix.deployments.len().div_ceil(10), mix.ending_jobs.len());
    let counts = |state: &State| [resources::DEPLOYMENTS, resources::JOBS].map(|resource| state.count(&resource));
    let [deployments, jobs] = counts(&stage.state());
    let left = [deployments - retired, jobs.saturating_sub(ended)];
    let delete = |resource: Resource, prefix: &str, count: usize| {
        numbered(prefix, count).map(|name| Request::Delete(resource.clone(), name)).collect::<Vec<_>>()
    };
    let requests = [
        delete(resources::DEPLOYMENTS, "web", retired),
        delete(resources::SERVICES, "web", retired),
        delete(resources::JOBS, "batch", ended),
    ];
    stage.send(requests.concat()).await?;
    stage.until("all deleted objects are gone", move |state| counts(state) == left && state.is_settled()).await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn workloads_have_nodes_for_their_pods_and_need_controllers_that_exist() {
        for (pods, nodes) in [(1, 10), (500, 10), (1_000, 20), (20_000, 400), (20_001, 401)] {
            assert_eq!(Workload::Cluster.nodes(pods), nodes);
        }
        for workload in Workload::value_variants() {
            assert_eq!(crate::controllers::choose(&workload.needs().join(",")).unwrap().len(), workload.needs().len());
        }
    }
}

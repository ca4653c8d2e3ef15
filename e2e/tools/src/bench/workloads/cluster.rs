//! A whole cluster: all kinds of workloads on many nodes, and a day in a few minutes.

mod objects;

use std::collections::BTreeSet;
use std::time::Duration;

use common::object::Resource;
use futures::{
    future::{FutureExt as _, LocalBoxFuture},
    stream::{self, StreamExt as _, TryStreamExt as _},
};
use kubectl_nonet::controllers::NAMES;
use serde_json::{Value, json};

use super::Workload;
use crate::{
    bench::{Error, observer::Observer, report::Amount, stage::Stage, template},
    suite::{PatchKind, Refused, resources},
};
use objects::Mix;

/// The workload.
pub(super) struct Cluster;

/// The number of Pods per node.
const PODS_PER_NODE: u32 = 50;
/// The smallest number of nodes.
const LEAST_NODES: u32 = 10;
/// One node, and one more for each multiple of this number of nodes, is lost during the day.
const LOST: usize = 100;
/// The durations of the phases idle and rest: two and three renewals of each node's Lease.
const IDLE: Duration = Duration::from_secs(20);
const REST: Duration = Duration::from_secs(30);
/// The number of concurrent requests of the users of the cluster.
const AT_ONCE: usize = 32;
/// The resources that are deleted at the end, in this order.
const KINDS: [Resource; 6] = [
    resources::CRON_JOBS,
    resources::JOBS,
    resources::DEPLOYMENTS,
    resources::STATEFUL_SETS,
    resources::DAEMON_SETS,
    resources::SERVICES,
];

/// A request of a user of the cluster.
enum Request {
    Create(Resource, Value),
    Patch(Resource, String, PatchKind, Value),
    Delete(Resource, String),
}

impl Request {
    /// The name of its object.
    fn name(&self) -> &str {
        match self {
            Self::Create(_, object) => object["metadata"]["name"].as_str().unwrap_or_default(),
            Self::Patch(_, name, _, _) | Self::Delete(_, name) => name,
        }
    }

    fn scale(resource: Resource, name: String, replicas: u32) -> Self {
        Self::Patch(resource, name, PatchKind::Merge, json!({"spec": {"replicas": replicas}}))
    }

    /// Gives the Pods another image, which replaces all of them.
    fn roll_out(resource: Resource, name: String) -> Self {
        let patch = json!({"spec": {"template": {"spec": {"containers": [template::updated()]}}}});
        Self::Patch(resource, name, PatchKind::Strategic, patch)
    }

    /// Sets the schedule of a CronJob to every minute, or back.
    fn fire(name: String, does: bool) -> Self {
        let patch = json!({"spec": {"schedule": "* * * * *", "suspend": !does}});
        Self::Patch(resources::CRON_JOBS, name, PatchKind::Merge, patch)
    }
}

/// The number after the last dash of a name.
fn number(name: &str) -> usize {
    name.rsplit('-').next().and_then(|number| number.parse().ok()).unwrap_or(0)
}

/// Names of one kind of objects: `web-0`, `web-1` and so on.
fn numbered(prefix: &str, count: usize) -> impl Iterator<Item = String> {
    (0..count).map(move |n| format!("{prefix}-{n}"))
}

/// The cluster that the workload works on.
struct Town<'a, 's> {
    stage: &'a mut Stage<'s>,
    observer: Observer,
    mix: Mix,
    namespaces: Vec<String>,
}

impl Town<'_, '_> {
    /// Sends concurrent requests. The namespace of an object follows from the number in its name.
    async fn send(&self, requests: impl Iterator<Item = Request>) -> Result<(), Error> {
        let send = |request: Request| async move {
            let namespace = &self.namespaces[number(request.name()) % self.namespaces.len()];
            let client = self.stage.client();
            match &request {
                Request::Create(resource, object) => {
                    self.observer.expect(resource, &client.create(resource.clone(), namespace, object).await?);
                }
                Request::Patch(resource, name, kind, patch) => {
                    let answer = client.patch(resource.clone(), namespace, name, "", *kind, patch).await?;
                    self.observer.expect(resource, &answer);
                }
                Request::Delete(resource, name) => {
                    client
                        .delete(resource.clone(), namespace, name, &json!({"propagationPolicy": "Background"}))
                        .await?;
                }
            }
            Ok::<(), Refused>(())
        };
        stream::iter(requests.map(send)).buffer_unordered(AT_ONCE).try_collect::<()>().await.map_err(Error::from)
    }

    async fn until(&mut self, what: &str, wanted: impl Fn(&Observer) -> bool) -> Result<(), Error> {
        self.stage.until_observed(&self.observer, what, wanted).await
    }

    async fn fill(&mut self) -> Result<(), Error> {
        let mix = self.mix.clone();
        let mut requests: Vec<Request> = Vec::new();
        let services = numbered("web", mix.deployments.len()).chain(numbered("db", mix.stateful_sets.len()));
        requests.extend(services.map(|name| Request::Create(resources::SERVICES, objects::service(&name))));
        for (n, pods) in mix.deployments.iter().enumerate() {
            let object = objects::deployment_of(&format!("web-{n}"), *pods);
            requests.push(Request::Create(resources::DEPLOYMENTS, object));
        }
        for (n, pods) in mix.stateful_sets.iter().enumerate() {
            let object = objects::stateful_set_of(&format!("db-{n}"), *pods);
            requests.push(Request::Create(resources::STATEFUL_SETS, object));
        }
        for name in numbered("agent", mix.daemon_sets as usize) {
            requests.push(Request::Create(resources::DAEMON_SETS, objects::daemon_set_of(&name)));
        }
        for (n, pods) in mix.running_jobs.iter().enumerate() {
            requests.push(Request::Create(resources::JOBS, objects::job_of(&format!("run-{n}"), *pods, false)));
        }
        requests.extend(ending_jobs("batch", &mix));
        for name in numbered("cron", mix.cron_jobs as usize) {
            requests.push(Request::Create(resources::CRON_JOBS, objects::cron_job_of(&name)));
        }
        self.send(requests.into_iter()).await
    }

    /// Changes most objects: half of the workloads get a new image, the others another size; new Jobs run, CronJobs fire.
    async fn change(&mut self) -> Result<(), Error> {
        let mix = self.mix.clone();
        let mut requests: Vec<Request> = Vec::new();
        for (n, pods) in mix.deployments.iter().enumerate() {
            let name = format!("web-{n}");
            requests.push(match n % 4 {
                1 => Request::scale(resources::DEPLOYMENTS, name, pods + pods.div_ceil(2)),
                3 => Request::scale(resources::DEPLOYMENTS, name, pods.div_ceil(2)),
                _ => Request::roll_out(resources::DEPLOYMENTS, name),
            });
        }
        for (n, pods) in mix.stateful_sets.iter().enumerate() {
            let name = format!("db-{n}");
            requests.push(match n % 4 {
                1 => Request::scale(resources::STATEFUL_SETS, name, pods + 1),
                3 => Request::scale(resources::STATEFUL_SETS, name, pods.saturating_sub(1).max(1)),
                _ => Request::roll_out(resources::STATEFUL_SETS, name),
            });
        }
        requests.push(Request::roll_out(resources::DAEMON_SETS, "agent-0".to_owned()));
        requests.extend(ending_jobs("later", &mix));
        self.observer.count_firing_from(self.stage.now());
        requests.extend(numbered("cron", mix.cron_jobs as usize).map(|name| Request::fire(name, true)));
        self.send(requests.into_iter()).await?;

        let cron_jobs = mix.cron_jobs as usize;
        self.until("every CronJob has fired", |observer| observer.fired() == cron_jobs).await?;
        self.send(numbered("cron", cron_jobs).map(|name| Request::fire(name, false))).await?;
        self.until("all changes are rolled out", Observer::is_settled).await
    }

    /// Cuts some nodes off until all their Pods have to be evicted.
    async fn lose_nodes(&mut self) -> Result<BTreeSet<String>, Error> {
        let names = self.stage.nodes()?.names();
        let count = 1 + names.len() / LOST;
        // In different zones: the nodes are assigned to the zones in turn.
        let lost: BTreeSet<String> = names.into_iter().take(count).collect();
        for node in &lost {
            self.stage.silence(node)?;
        }
        self.until("the Pods of lost nodes are evicted", |observer| observer.movable_pods(&lost) == 0).await?;
        Ok(lost)
    }

    /// Deletes a tenth of the Deployments with their Services, and all finished Jobs.
    async fn retire(&mut self) -> Result<(), Error> {
        let (deployments, jobs) = (self.mix.deployments.len(), self.mix.ending_jobs.len());
        let retired = deployments.div_ceil(10);
        let (with_web, with_jobs) = (
            self.observer.count(resources::DEPLOYMENTS) - retired,
            self.observer.count(resources::JOBS).saturating_sub(jobs),
        );
        let mut requests = Vec::new();
        for name in numbered("web", retired) {
            requests.push(Request::Delete(resources::DEPLOYMENTS, name.clone()));
            requests.push(Request::Delete(resources::SERVICES, name));
        }
        requests.extend(numbered("batch", jobs).map(|name| Request::Delete(resources::JOBS, name)));
        self.send(requests.into_iter()).await?;
        self.until("all deleted objects are gone", |observer| {
            let has_left =
                observer.count(resources::DEPLOYMENTS) == with_web && observer.count(resources::JOBS) == with_jobs;
            has_left && observer.is_settled()
        })
        .await
    }

    async fn delete(&mut self) -> Result<(), Error> {
        let background = json!({"propagationPolicy": "Background"});
        for kind in KINDS {
            let delete = |namespace: &String| {
                let (client, namespace, background) = (self.stage.client(), namespace.clone(), &background);
                let kind = kind.clone();
                async move { client.delete(kind, &namespace, "", background).await.map(drop) }
            };
            stream::iter(self.namespaces.iter().map(delete)).buffer_unordered(AT_ONCE).try_collect::<()>().await?;
        }
        self.until("everything is gone", Observer::is_empty).await
    }
}

/// The names of the Jobs that complete.
fn ending_jobs(prefix: &str, mix: &Mix) -> Vec<Request> {
    let job = |(n, pods): (usize, &u32)| objects::job_of(&format!("{prefix}-{n}"), *pods, true);
    mix.ending_jobs.iter().enumerate().map(job).map(|object| Request::Create(resources::JOBS, object)).collect()
}

impl Workload for Cluster {
    fn name(&self) -> &'static str {
        "cluster"
    }

    fn about(&self) -> &'static str {
        "a whole cluster with a node for every 50 Pods, at least 10: idle; fill it with Deployments, StatefulSets, DaemonSets, Jobs, CronJobs and Services; rest; a day of rollouts, scaling, new Jobs, lost nodes and deletions; delete everything"
    }

    fn pods(&self) -> u32 {
        1_000
    }

    fn nodes(&self, pods: u32) -> Option<u32> {
        Some(pods.div_ceil(PODS_PER_NODE).max(LEAST_NODES))
    }

    fn is_detailed(&self) -> bool {
        true
    }

    fn needs(&self) -> &'static [&'static str] {
        &NAMES
    }

    fn run<'a>(&'a self, stage: &'a mut Stage<'_>) -> LocalBoxFuture<'a, Result<(), Error>> {
        async move {
            let pods = stage.pods();
            let nodes = u32::try_from(stage.nodes()?.names().len()).unwrap_or(u32::MAX);
            let mix = Mix::of(pods, nodes);
            let first = stage.namespace().to_owned();
            let more = (1..mix.namespaces).map(|n| format!("{first}-{n}"));
            let namespaces: Vec<String> = std::iter::once(first.clone()).chain(more).collect();
            for name in namespaces.iter().skip(1) {
                let object = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}});
                stage.client().create(resources::NAMESPACES, "", &object).await?;
            }
            let observer = stage.observe().await;

            stage.idle().await;
            let mut phase = stage.begin("idle").await?;
            stage.sleep(IDLE).await;
            phase.reached("over");
            stage.finish(phase, Amount::objects(1)).await?;

            let mut phase = stage.begin("fill").await?;
            let mut town = Town { stage, observer, mix, namespaces };
            town.fill().await?;
            town.until("all objects are as their specs ask for", Observer::is_settled).await?;
            phase.reached("settled");
            phase.reacted(town.observer.take_reactions());
            town.stage.finish(phase, Amount::pods(pods)).await?;

            let mut phase = town.stage.begin("rest").await?;
            town.stage.at_rest();
            town.stage.sleep(REST).await;
            phase.reached("over");
            phase.reacted(town.observer.take_reactions());
            town.stage.finish(phase, Amount::objects(1)).await?;

            let mut phase = town.stage.begin("day").await?;
            town.change().await?;
            phase.reached("all changes are rolled out");
            let lost = town.lose_nodes().await?;
            phase.reached("the Pods of lost nodes are evicted");
            for node in &lost {
                town.stage.restore(node)?;
            }
            town.until("the cluster has recovered", Observer::is_settled).await?;
            phase.reached("the nodes are back");
            town.retire().await?;
            phase.reached("all deleted objects are gone");
            phase.reacted(town.observer.take_reactions());
            town.stage.finish(phase, Amount::objects(1)).await?;

            let mut phase = town.stage.begin("delete").await?;
            town.delete().await?;
            phase.reached("gone");
            phase.reacted(town.observer.take_reactions());
            town.stage.finish(phase, Amount::pods(pods)).await?;

            let background = json!({"propagationPolicy": "Background"});
            for name in town.namespaces.iter().skip(1) {
                town.stage.client().delete(resources::NAMESPACES, "", name, &background).await?;
            }
            Ok(())
        }
        .boxed_local()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_is_a_node_for_every_fifty_pods_and_never_less_than_ten() {
        for (pods, nodes) in [(1, 10), (500, 10), (1_000, 20), (20_000, 400), (20_001, 401)] {
            assert_eq!(Cluster.nodes(pods), Some(nodes));
        }
    }

    #[test]
    fn an_object_keeps_its_namespace_through_all_requests() {
        let create = Request::Create(resources::DEPLOYMENTS, objects::deployment_of("web-17", 2));
        for request in [create, Request::scale(resources::DEPLOYMENTS, "web-17".to_owned(), 1)] {
            assert_eq!(number(request.name()), 17);
        }
    }
}

//! Services, and how fast and at what price their EndpointSlices follow the Pods.

use std::time::Duration;

use futures::future::{FutureExt as _, LocalBoxFuture};
use serde_json::{Value, json};

use super::Workload;
use crate::{
    bench::{
        Error,
        report::Amount,
        served::{SELECTED, Served},
        stage::Stage,
        template,
    },
    suite::{PatchKind, deployment, resources},
};

const NAME: &str = "bench";
/// A label that all Pods and all selectors share, as charts write it.
const INSTANCE: &str = "app.kubernetes.io/instance";

fn app(number: u32) -> String {
    format!("{NAME}-{number}")
}

fn service(name: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": name},
        "spec": {"selector": {SELECTED: name, INSTANCE: NAME},
            "ports": [{"name": "http", "port": 80, "targetPort": "http"}, {"name": "metrics", "port": 9090}]}})
}

/// A Pod that no controller owns.
fn pod(name: &str, of: &str) -> Value {
    let mut pod = template::pod(of);
    pod["apiVersion"] = json!("v1");
    pod["kind"] = json!("Pod");
    pod["metadata"]["name"] = json!(name);
    pod["metadata"]["labels"][INSTANCE] = json!(NAME);
    pod
}

/// Selects a Pod, or not.
async fn select(stage: &Stage<'_>, pod: &str, app: Option<&str>) -> Result<(), Error> {
    let labels = json!({"metadata": {"labels": {SELECTED: app}}});
    stage.patch(resources::PODS, pod, PatchKind::Merge, &labels).await
}

/// One Service with one Pod, before anything is measured: connections are open, code has run.
async fn warm_up(stage: &mut Stage<'_>) -> Result<Served, Error> {
    let served = stage.follow_services().await;
    stage.create_all(&resources::SERVICES, std::iter::once(service(NAME))).await?;
    stage.create_all(&resources::PODS, std::iter::once(pod(NAME, NAME))).await?;
    stage.until_served(&served, 1).await?;
    stage.idle().await;
    served.take_latencies();
    Ok(served)
}

/// Takes everything away, and waits until the Pods are gone.
async fn clear(stage: &mut Stage<'_>) -> Result<(), Error> {
    stage.delete_all(&resources::DEPLOYMENTS, std::iter::once(String::new())).await?;
    stage.delete_all(&resources::REPLICA_SETS, std::iter::once(String::new())).await?;
    stage.delete_all(&resources::PODS, std::iter::once(String::new())).await?;
    stage.until_pods("gone", |pods| pods == 0).await
}

/// Services of three Pods each, all in one namespace.
pub(in crate::bench) struct Many;
/// The workload of many Services.
pub(super) const MANY: Many = Many;

/// How many Pods each of many Services has.
const FEW: u32 = 3;

impl Workload for Many {
    fn name(&self) -> &'static str {
        "services-many"
    }

    fn about(&self) -> &'static str {
        "Services of three Pods in one namespace: create them for existing Pods, restart the controllers"
    }

    fn pods(&self) -> u32 {
        30_000
    }

    fn needs(&self) -> &'static [&'static str] {
        &["endpointslice-controller"]
    }

    fn run<'a>(&'a self, stage: &'a mut Stage<'_>) -> LocalBoxFuture<'a, Result<(), Error>> {
        async move {
            let services = stage.pods() / FEW;
            let pods = services * FEW;
            let served = warm_up(stage).await?;
            let all = (0..pods).map(|n| pod(&format!("{NAME}-{}-{}", n / FEW, n % FEW), &app(n / FEW)));
            stage.create_all(&resources::PODS, all).await?;
            while served.became_ready() <= pods as usize {
                stage.pass(Duration::from_millis(100)).await;
            }

            let mut phase = stage.begin("create the Services").await?;
            stage.create_all(&resources::SERVICES, (0..services).map(|n| service(&app(n)))).await?;
            stage.until_served(&served, 1 + pods as usize).await?;
            phase.reached("served");
            stage.finish(phase, Amount::objects(services)).await?;
            // The Pods were ready before their Services existed: how long ago says nothing.
            served.take_latencies();

            let mut phase = stage.begin("restart").await?;
            stage.restart().await?;
            select(stage, NAME, None).await?;
            stage.until_served(&served, pods as usize).await?;
            phase.reached("first change followed");
            phase.followed(served.take_latencies());
            stage.finish(phase, Amount::objects(1)).await?;
            stage.filled();
            clear(stage).await
        }
        .boxed_local()
    }
}

/// Services over Deployments of ten Pods, all of which are updated at once.
pub(in crate::bench) struct Rollout;

/// How many Pods each of the Deployments has.
const REPLICAS: u32 = 10;

impl Workload for Rollout {
    fn name(&self) -> &'static str {
        "services-rollout"
    }

    fn about(&self) -> &'static str {
        "Services of Deployments of ten Pods: update all Deployments at the same time"
    }

    fn pods(&self) -> u32 {
        10_000
    }

    fn needs(&self) -> &'static [&'static str] {
        &["deployment-controller", "replicaset-controller", "endpointslice-controller"]
    }

    fn run<'a>(&'a self, stage: &'a mut Stage<'_>) -> LocalBoxFuture<'a, Result<(), Error>> {
        async move {
            let services = stage.pods() / REPLICAS;
            let pods = (services * REPLICAS) as usize;
            let served = warm_up(stage).await?;
            stage.create_all(&resources::SERVICES, (0..services).map(|n| service(&app(n)))).await?;
            let made = (0..services).map(|n| {
                let mut object = deployment(&app(n)).replicas(REPLICAS).build();
                object["spec"]["template"] = template::pod(&app(n));
                object["spec"]["template"]["metadata"]["labels"][INSTANCE] = json!(NAME);
                object
            });
            stage.create_all(&resources::DEPLOYMENTS, made).await?;
            stage.until_served(&served, 1 + pods).await?;

            let mut phase = stage.begin("update").await?;
            let before = served.became_ready();
            served.take_latencies();
            let patch = json!({"spec": {"template": {"spec": {"containers": [template::updated()]}}}});
            for n in 0..services {
                stage.patch(resources::DEPLOYMENTS, &app(n), PatchKind::Strategic, &patch).await?;
            }
            while served.became_ready() < before + pods {
                stage.pass(Duration::from_millis(20)).await;
            }
            stage.until_served(&served, 1 + pods).await?;
            phase.reached("served");
            phase.followed(served.take_latencies());
            stage.finish(phase, Amount::pods(services * REPLICAS)).await?;
            clear(stage).await
        }
        .boxed_local()
    }
}

/// One large Service, whose Pods come and go at a steady rate.
pub(in crate::bench) struct Changes;

/// Changes of Pods a second.
const RATE: u32 = 100;
/// How many changes there are in all: each Pod leaves and comes back.
const CHANGES: u32 = 30 * RATE;

impl Workload for Changes {
    fn name(&self) -> &'static str {
        "services-one"
    }

    fn about(&self) -> &'static str {
        "one Service: 1,500 of its Pods leave it and return, at a hundred changes per second"
    }

    fn pods(&self) -> u32 {
        5_000
    }

    fn needs(&self) -> &'static [&'static str] {
        &["endpointslice-controller"]
    }

    fn run<'a>(&'a self, stage: &'a mut Stage<'_>) -> LocalBoxFuture<'a, Result<(), Error>> {
        async move {
            let pods = stage.pods();
            let served = warm_up(stage).await?;
            stage.create_all(&resources::SERVICES, std::iter::once(service(&app(0)))).await?;
            let name = |n: u32| format!("{NAME}-pod-{n}");
            stage.create_all(&resources::PODS, (0..pods).map(|n| pod(&name(n), &app(0)))).await?;
            stage.until_served(&served, 1 + pods as usize).await?;

            let mut phase = stage.begin("changes").await?;
            served.take_latencies();
            let (all, of) = (&*stage, &app(0));
            let changes = (0..CHANGES).map(|change| async move {
                // Each Pod leaves, and comes back a second later.
                let (round, at) = (change / RATE, change % RATE);
                let target = name((round / 2 * RATE + at) % pods);
                select(all, &target, (round % 2 == 1).then_some(of.as_str())).await
            });
            stage.at_rate(Duration::from_secs(1) / RATE, changes).await?;
            phase.reached("sent");
            stage.until_served(&served, 1 + pods as usize).await?;
            phase.followed(served.take_latencies());
            phase.reached("followed");
            stage.finish(phase, Amount::objects(CHANGES)).await?;
            clear(stage).await
        }
        .boxed_local()
    }
}

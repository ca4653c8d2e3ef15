//! DaemonSets: one on many nodes, and many at rest under the heartbeats of their nodes.

use std::time::Duration;

use futures::{
    future::{FutureExt as _, LocalBoxFuture},
    stream::{self, StreamExt as _, TryStreamExt as _},
};
use jiff::Timestamp;
use serde_json::{Value, json};

use super::Workload;
use crate::{
    bench::{Error, report::Amount, stage::Stage, template},
    suite::{PatchKind, daemon_set, resources},
};

const NAME: &str = "bench";

fn set(name: &str) -> Value {
    let mut object = daemon_set(name).build();
    object["spec"]["template"] = template::pod(name);
    object
}

/// Waits until a set has an available Pod of the newest template on that many nodes, and desires no others.
async fn until_available(stage: &mut Stage<'_>, name: &str, nodes: u32) -> Result<(), Error> {
    let complete = |set: &Value| {
        let status = &set["status"];
        let fields = ["desiredNumberScheduled", "updatedNumberScheduled", "numberAvailable"];
        status["observedGeneration"] == set["metadata"]["generation"]
            && fields.iter().all(|field| status[field].as_u64().unwrap_or(0) == u64::from(nodes))
    };
    stage.until_object(resources::DAEMON_SETS, name, "available", complete).await
}

/// The names of all nodes.
async fn nodes(stage: &Stage<'_>) -> Result<Vec<String>, Error> {
    let nodes = stage.client().list(resources::NODES, "", "").await?;
    Ok(nodes.iter().filter_map(|node| node["metadata"]["name"].as_str().map(str::to_owned)).collect())
}

/// A set comes and goes on one node before anything is measured: connections are open, code has run.
async fn warm_up(stage: &mut Stage<'_>) -> Result<(), Error> {
    let mut warm = set("warm");
    let first = json!({"key": "metadata.name", "operator": "In", "values": nodes(stage).await?.get(..1)});
    let required = json!({"nodeSelectorTerms": [{"matchFields": [first]}]});
    warm["spec"]["template"]["spec"]["affinity"] =
        json!({"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required}});
    stage.create_all(&resources::DAEMON_SETS, std::iter::once(warm)).await?;
    until_available(stage, "warm", 1).await?;
    leave(stage, "warm").await?;
    stage.idle().await;
    Ok(())
}

/// Gives a set a nodeSelector that no node has, so that the controller deletes its Pods, and deletes the set when they are gone.
/// If a set is deleted with its Pods, they are left to the garbage collector and there is nothing to measure here.
async fn leave(stage: &mut Stage<'_>, name: &str) -> Result<(), Error> {
    let none = json!({"spec": {"template": {"spec": {"nodeSelector": {"bench.nonet.io/none": "here"}}}}});
    stage.patch(resources::DAEMON_SETS, name, PatchKind::Merge, &none).await?;
    stage.until_pods("gone", |pods| pods == 0).await?;
    until_available(stage, name, 0).await?;
    stage.delete_all(&resources::DAEMON_SETS, std::iter::once(name.to_owned())).await?;
    stage.until_absent(resources::DAEMON_SETS, name).await
}

/// The workload of one set.
pub(super) struct One;

impl Workload for One {
    fn name(&self) -> &'static str {
        "daemonset"
    }

    fn about(&self) -> &'static str {
        "one DaemonSet with a node for each Pod: create it, restart the controller, update 10 % at a time, leave all nodes by a nodeSelector"
    }

    fn pods(&self) -> u32 {
        2_000
    }

    fn nodes(&self, pods: u32) -> Option<u32> {
        Some(pods)
    }

    fn needs(&self) -> &'static [&'static str] {
        &["daemonset-controller"]
    }

    fn run<'a>(&'a self, stage: &'a mut Stage<'_>) -> LocalBoxFuture<'a, Result<(), Error>> {
        async move {
            let pods = stage.pods();
            warm_up(stage).await?;

            let mut phase = stage.begin("create").await?;
            let mut object = set(NAME);
            let tenth = json!({"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": "10%"}});
            object["spec"]["updateStrategy"] = tenth;
            stage.create_all(&resources::DAEMON_SETS, std::iter::once(object)).await?;
            stage.until_pods("created", |n| n >= pods).await?;
            phase.reached("created");
            until_available(stage, NAME, pods).await?;
            phase.reached("available");
            stage.finish(phase, Amount::pods(pods)).await?;

            let mut phase = stage.begin("restart").await?;
            stage.restart().await?;
            let limit = json!({"spec": {"revisionHistoryLimit": 5}});
            stage.patch(resources::DAEMON_SETS, NAME, PatchKind::Merge, &limit).await?;
            until_available(stage, NAME, pods).await?;
            phase.reached("first change followed");
            stage.finish(phase, Amount::objects(1)).await?;
            stage.filled();

            let mut phase = stage.begin("update").await?;
            let image = json!({"spec": {"template": {"spec": {"containers": [template::updated()]}}}});
            stage.patch(resources::DAEMON_SETS, NAME, PatchKind::Strategic, &image).await?;
            until_available(stage, NAME, pods).await?;
            phase.reached("replaced");
            stage.finish(phase, Amount::pods(pods)).await?;

            let mut phase = stage.begin("leave by nodeSelector").await?;
            leave(stage, NAME).await?;
            phase.reached("gone");
            stage.finish(phase, Amount::pods(pods)).await
        }
        .boxed_local()
    }
}

/// The workload of many sets.
pub(super) struct Many;

/// How many sets there are.
const SETS: u32 = 50;
/// How often the status of each node is written.
const HEARTBEAT: Duration = Duration::from_secs(10);
/// How many rounds of heartbeats are measured.
const ROUNDS: u32 = 6;
/// How many of them are on their way at once.
const AT_ONCE: usize = 16;

/// What a node writes: the time, and the images it has.
fn heartbeat(now: Timestamp, round: u32) -> Value {
    let image =
        |n: u32| json!({"names": [format!("registry.example.com/team/app:{}.{n}", round)], "sizeBytes": 1_000_000 + n});
    let images: Vec<Value> = (0..20).map(image).collect();
    let condition = json!({"type": "Ready", "status": "True", "lastHeartbeatTime": now.strftime("%FT%TZ").to_string()});
    json!({"status": {"conditions": [condition], "images": images}})
}

impl Workload for Many {
    fn name(&self) -> &'static str {
        "daemonsets-rest"
    }

    fn about(&self) -> &'static str {
        "50 DaemonSets on all nodes: create them; then every node writes its status every ten seconds for a minute"
    }

    fn pods(&self) -> u32 {
        50_000
    }

    fn nodes(&self, pods: u32) -> Option<u32> {
        Some((pods / SETS).max(1))
    }

    fn needs(&self) -> &'static [&'static str] {
        &["daemonset-controller"]
    }

    fn run<'a>(&'a self, stage: &'a mut Stage<'_>) -> LocalBoxFuture<'a, Result<(), Error>> {
        async move {
            warm_up(stage).await?;
            let names = nodes(stage).await?;
            let count = u32::try_from(names.len()).unwrap_or(u32::MAX);

            let mut phase = stage.begin("create").await?;
            stage.create_all(&resources::DAEMON_SETS, (0..SETS).map(|n| set(&format!("{NAME}-{n}")))).await?;
            stage.until_pods("created", |n| n >= count * SETS).await?;
            phase.reached("created");
            for n in 0..SETS {
                until_available(stage, &format!("{NAME}-{n}"), count).await?;
            }
            phase.reached("available");
            stage.finish(phase, Amount::pods(count * SETS)).await?;

            let mut phase = stage.begin("rest").await?;
            for round in 0..ROUNDS {
                let began = stage.now();
                let body = &heartbeat(began, round);
                let client = stage.client();
                let beat = |name: &String| {
                    let name = name.clone();
                    async move {
                        let kind = PatchKind::Strategic;
                        client.patch(resources::NODES, "", &name, "status", kind, body).await.map(drop)
                    }
                };
                stream::iter(&names).map(beat).buffer_unordered(AT_ONCE).try_collect::<()>().await?;
                let took = Duration::try_from(stage.now().duration_since(began)).unwrap_or_default();
                stage.sleep(HEARTBEAT.saturating_sub(took)).await;
            }
            phase.reached("a minute of heartbeats");
            stage.finish(phase, Amount::objects(count * ROUNDS)).await
        }
        .boxed_local()
    }
}

//! Nodes: many at rest that renew their Leases, and a zone that is lost and returns.

use std::time::Duration;

use futures::future::{FutureExt as _, LocalBoxFuture};
use serde_json::{Value, json};

use super::Workload;
use crate::{
    bench::{Error, report::Amount, stage::Stage, template},
    suite::resources,
};

/// How many zones the nodes are in.
const ZONES: u32 = 5;
/// How many Pods a node has.
const PODS_PER_NODE: u32 = 30;
/// How many nodes the zone has that is lost, by default.
const NODES_OF_LOST_ZONE: u32 = 1000;
/// How long nodes at rest are measured, in renewals of each Lease.
const RENEWALS: u32 = 6;
/// The time between two renewals.
const RENEWAL: Duration = Duration::from_secs(10);
/// How many nodes get the taint for which Pods leave before the zone returns: at the usual rate one every ten seconds.
const TAINTED: usize = 5;
const UNREACHABLE: &str = "node.kubernetes.io/unreachable";

/// Pods that are assigned to the nodes in turn.
fn pods(nodes: &[String], count: u32) -> impl Iterator<Item = Value> {
    (0..count).zip(nodes.iter().cycle()).map(|(number, node)| {
        let mut pod = template::pod("bench");
        pod["apiVersion"] = json!("v1");
        pod["kind"] = json!("Pod");
        pod["metadata"]["name"] = json!(format!("bench-{number}"));
        pod["spec"]["nodeName"] = json!(node);
        pod
    })
}

async fn create_pods(stage: &mut Stage<'_>) -> Result<(), Error> {
    let count = stage.pods();
    let nodes = stage.nodes()?.names();
    let mut phase = stage.begin("create Pods").await?;
    stage.create_all(&resources::PODS, pods(&nodes, count)).await?;
    stage.until_pods("created", |n| n >= count).await?;
    phase.reached("created");
    stage.finish(phase, Amount::pods(count)).await
}

/// How many nodes have the taint with that effect.
fn tainted(nodes: &[Value], effect: &str) -> usize {
    let is_it = |taint: &Value| taint["key"] == UNREACHABLE && taint["effect"] == effect;
    nodes.iter().filter(|node| node["spec"]["taints"].as_array().into_iter().flatten().any(is_it)).count()
}

/// The workload of nodes at rest.
pub(super) struct Rest;

impl Workload for Rest {
    fn name(&self) -> &'static str {
        "nodes-rest"
    }

    fn about(&self) -> &'static str {
        "a node for every 30 Pods, and each node renews its Lease every ten seconds: create the Pods, restart the controllers, rest for a minute"
    }

    fn pods(&self) -> u32 {
        150_000
    }

    fn nodes(&self, pods: u32) -> Option<u32> {
        Some(pods.div_ceil(PODS_PER_NODE))
    }

    fn zones(&self) -> u32 {
        ZONES
    }

    fn needs(&self) -> &'static [&'static str] {
        &["node-lifecycle-controller"]
    }

    fn run<'a>(&'a self, stage: &'a mut Stage<'_>) -> LocalBoxFuture<'a, Result<(), Error>> {
        async move {
            stage.idle().await;
            create_pods(stage).await?;
            let nodes = u32::try_from(stage.nodes()?.names().len()).unwrap_or(u32::MAX);

            stage.restart().await?;
            let mut phase = stage.begin("rest").await?;
            stage.filled();
            stage.sleep(RENEWAL * RENEWALS).await;
            phase.reached("a minute of renewals");
            stage.finish(phase, Amount::objects(nodes * RENEWALS)).await
        }
        .boxed_local()
    }
}

/// The workload of a lost zone.
pub(super) struct ZoneLost;

impl Workload for ZoneLost {
    fn name(&self) -> &'static str {
        "zone-lost"
    }

    fn about(&self) -> &'static str {
        "a node for every 30 Pods: one of five zones, which has 1,000 nodes by default, is cut off until all its nodes are unreachable and Pods have to leave 5 of them; then it returns"
    }

    fn pods(&self) -> u32 {
        NODES_OF_LOST_ZONE * ZONES * PODS_PER_NODE
    }

    fn nodes(&self, pods: u32) -> Option<u32> {
        Some(pods.div_ceil(PODS_PER_NODE))
    }

    fn zones(&self) -> u32 {
        ZONES
    }

    fn needs(&self) -> &'static [&'static str] {
        &["node-lifecycle-controller"]
    }

    fn run<'a>(&'a self, stage: &'a mut Stage<'_>) -> LocalBoxFuture<'a, Result<(), Error>> {
        async move {
            stage.idle().await;
            create_pods(stage).await?;
            let lost: Vec<String> = stage.nodes()?.names_in_zone(0);

            let mut phase = stage.begin("lose a zone").await?;
            for node in &lost {
                stage.silence(node)?;
            }
            stage.until_nodes("unreachable", |nodes| tainted(nodes, "NoSchedule") > 0).await?;
            phase.reached("the first is unreachable");
            stage.until_nodes("unreachable", |nodes| tainted(nodes, "NoSchedule") >= lost.len()).await?;
            phase.reached("all are unreachable");
            stage.until_nodes("left", |nodes| tainted(nodes, "NoExecute") > 0).await?;
            phase.reached("the first has to be left");
            let most = TAINTED.min(lost.len());
            stage.until_nodes("left", |nodes| tainted(nodes, "NoExecute") >= most).await?;
            phase.reached("five have to be left");
            stage.finish(phase, Amount::objects(1)).await?;

            let mut phase = stage.begin("return").await?;
            for node in &lost {
                stage.restore(node)?;
            }
            stage.until_nodes("clean", |nodes| tainted(nodes, "NoSchedule") + tainted(nodes, "NoExecute") == 0).await?;
            phase.reached("no taint is left");
            stage.finish(phase, Amount::objects(1)).await
        }
        .boxed_local()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_zone_that_is_lost_has_a_thousand_nodes_by_default() {
        assert_eq!(ZoneLost.nodes(ZoneLost.pods()), Some(1000 * ZoneLost.zones()));
    }
}

//! The workload `drain`: namespaces with a budget and a quota each, and evictions of the Pods of a quarter of the nodes.

use std::collections::BTreeSet;

use anyhow::Result;
use common::object::Resource;

use super::{IDLE, numbered, pass, settle_and_rest};
use crate::{
    bench::{
        objects::Objects,
        observer::State,
        stage::{Request, Stage},
    },
    suite::resources,
};

/// The kinds that show the work of the controllers.
pub(super) const OBSERVED_KINDS: &[Resource] = &[resources::PODS, resources::BUDGETS, resources::RESOURCE_QUOTAS];

/// The number of Pods in each namespace, and of those that evictions leave.
pub(super) const PODS: u32 = 40;
const AVAILABLE: u32 = 38;

pub(super) async fn run(stage: &mut Stage<'_>) -> Result<()> {
    let (objects, namespaces) = (Objects::read()?, stage.pods());
    let (count, pods) = (namespaces as usize, namespaces * PODS);
    stage.add_namespaces(namespaces).await?;
    stage.measure_idle_memory().await;
    pass(stage, "idle", IDLE).await?;

    stage.begin("create").await?;
    let one = |resource, template| Request::Create(resource, objects.object(template, "all", AVAILABLE));
    let guards = || {
        [
            one(resources::RESOURCE_QUOTAS, "Quota"),
            one(resources::BUDGETS, "Budget"),
            one(resources::CONFIG_MAPS, "ConfigMap"),
        ]
    };
    stage.send_to((0..count).flat_map(|n| guards().map(|request| (n, request)))).await?;
    stage.until("every quota counts", counted(0, namespaces)).await?;
    let create = |name: &str| Request::Create(resources::PODS, objects.object("GuardedPod", name, 0));
    let names: Vec<String> = numbered("web", PODS as usize).collect();
    stage.send_to(names.iter().flat_map(|name| (0..count).map(|n| (n, create(name))))).await?;
    stage.until("all Pods are counted", counted(pods, namespaces)).await?;
    stage.reached("all Pods are counted");
    stage.finish(pods).await?;
    settle_and_rest(stage).await?;

    stage.begin("drain").await?;
    let nodes = stage.nodes()?.names();
    let drained: BTreeSet<String> = nodes.iter().take(nodes.len().div_ceil(4)).cloned().collect();
    let evicted = stage.evict(&drained, |name| create(&format!("{name}-again"))).await?;
    stage.reached("all Pods are evicted");
    stage.until("all Pods are counted again", counted(pods, namespaces)).await?;
    stage.reached("all Pods are counted again");
    stage.finish(evicted).await?;

    stage.begin("delete").await?;
    stage.delete_all(&resources::PODS).await?;
    stage.until("no Pod is counted", counted(0, namespaces)).await?;
    stage.reached("no Pod is counted");
    stage.finish(pods).await
}

/// Whether budgets and quotas count so many Pods, the quotas one ConfigMap in each namespace, and all Pods that exist are counted.
fn counted(pods: u32, namespaces: u32) -> impl Fn(&State) -> bool {
    move |state| {
        let totals = [resources::BUDGETS, resources::RESOURCE_QUOTAS].map(|resource| state.total(&resource));
        let is_counted = totals == [i64::from(pods), i64::from(pods + namespaces)];
        is_counted && state.count(&resources::PODS) == pods as usize && state.is_as_specified()
    }
}

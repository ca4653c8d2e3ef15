//! Deployments that are deleted with all their dependents.

use common::object::Resource;
use futures::future::{FutureExt as _, LocalBoxFuture};
use serde_json::{Value, json};

use super::Workload;
use crate::{
    bench::{Error, report::Amount, stage::Stage, template},
    suite::{deployment, resources},
};

/// Deployments of equal size, which are deleted in the background at the same time.
pub(super) struct Cascade {
    name: &'static str,
    about: &'static str,
    /// The number of Pods of a Deployment; `None` for one Deployment with all Pods.
    each: Option<u32>,
}

/// One Deployment owns all Pods.
pub(super) const ONE: Cascade = Cascade {
    name: "gc-one",
    about: "one Deployment: restart the controllers, delete it in the background",
    each: None,
};
/// Each Deployment owns four.
pub(super) const MANY: Cascade = Cascade {
    name: "gc-many",
    about: "Deployments of four Pods: the same, with all Deployments at the same time",
    each: Some(4),
};

const NAME: &str = "bench";
const CONFIG_MAPS: Resource = Resource::namespaced("", "v1", "configmaps", "ConfigMap");

fn deployment_of(name: &str, pods: u32) -> Value {
    let mut object = deployment(name).replicas(pods).build();
    object["spec"]["template"] = template::pod(name);
    object
}

/// An object whose owner does not exist.
fn orphan() -> Value {
    let owner = json!({"apiVersion": "v1", "kind": "ConfigMap", "name": "nobody", "uid": "00000000-0000-4000-8000-000000000000"});
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": NAME, "ownerReferences": [owner]}})
}

impl Workload for Cascade {
    fn name(&self) -> &'static str {
        self.name
    }

    fn about(&self) -> &'static str {
        self.about
    }

    fn pods(&self) -> u32 {
        20_000
    }

    fn needs(&self) -> &'static [&'static str] {
        &["deployment-controller", "replicaset-controller", "gc-controller"]
    }

    fn run<'a>(&'a self, stage: &'a mut Stage<'_>) -> LocalBoxFuture<'a, Result<(), Error>> {
        async move {
            let pods = stage.pods();
            let each = self.each.unwrap_or(pods).min(pods);
            let count = pods.div_ceil(each);
            let name = |n: u32| format!("{NAME}-{n}");
            // One Deployment is created and deleted before the measurement, so that connections are open and code has run.
            stage.create_all(&resources::DEPLOYMENTS, std::iter::once(deployment_of(NAME, 1))).await?;
            stage.until_pods("created", |n| n == 1).await?;
            stage.delete_all(&resources::DEPLOYMENTS, std::iter::once(NAME.to_owned())).await?;
            stage.until_pods("gone", |n| n == 0).await?;
            stage.idle().await;

            let all = (0..count).map(|n| deployment_of(&name(n), each.min(pods - n * each)));
            stage.create_all(&resources::DEPLOYMENTS, all).await?;
            stage.until_pods("created", |n| n >= pods).await?;

            let mut phase = stage.begin("restart").await?;
            stage.restart().await?;
            stage.create_all(&CONFIG_MAPS, std::iter::once(orphan())).await?;
            stage.until_absent(CONFIG_MAPS, NAME).await?;
            phase.reached("first object collected");
            stage.finish(phase, Amount::objects(1)).await?;
            stage.filled();

            let mut phase = stage.begin("delete").await?;
            stage.delete_all(&resources::DEPLOYMENTS, (0..count).map(name)).await?;
            stage.until_count(resources::REPLICA_SETS, "gone", |n| n == 0).await?;
            stage.until_pods("gone", |n| n == 0).await?;
            phase.reached("collected");
            // Each Deployment has one ReplicaSet.
            stage.finish(phase, Amount::objects(pods + count)).await
        }
        .boxed_local()
    }
}

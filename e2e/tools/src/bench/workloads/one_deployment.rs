//! One Deployment of many Pods: created, kept over a restart, rolled out again, taken away.

use futures::future::{FutureExt as _, LocalBoxFuture};
use serde_json::{Value, json};

use super::Workload;
use crate::{
    bench::{Error, report::Amount, stage::Stage, template},
    suite::{PatchKind, deployment, resources},
};

/// The workload.
pub(super) struct OneDeployment;

const NAME: &str = "bench";

impl Workload for OneDeployment {
    fn name(&self) -> &'static str {
        "one-deployment"
    }

    fn about(&self) -> &'static str {
        "one Deployment: scale up to all Pods, restart the controllers, update the image, scale down to none"
    }

    fn pods(&self) -> u32 {
        5000
    }

    fn needs(&self) -> &'static [&'static str] {
        &["deployment-controller", "replicaset-controller"]
    }

    fn run<'a>(&'a self, stage: &'a mut Stage<'_>) -> LocalBoxFuture<'a, Result<(), Error>> {
        async move {
            let pods = stage.pods();
            let mut object = deployment(NAME).replicas(0).build();
            object["spec"]["template"] = template::pod(NAME);
            stage.client().create(resources::DEPLOYMENTS, stage.namespace(), &object).await?;
            // A Pod comes and goes before anything is measured: connections are open, code has run.
            scale(stage, 1).await?;
            stage.until_pods("created", |n| n == 1).await?;
            scale(stage, 0).await?;
            stage.until_pods("gone", |n| n == 0).await?;
            stage.idle().await;

            let mut phase = stage.begin("scale up").await?;
            scale(stage, pods).await?;
            stage.until_pods("created", |n| n >= pods).await?;
            phase.reached("created");
            until_complete(stage, pods).await?;
            phase.reached("available");
            stage.finish(phase, Amount::pods(pods)).await?;

            let mut phase = stage.begin("restart").await?;
            stage.restart().await?;
            scale(stage, pods + 1).await?;
            stage.until_pods("created", |n| n > pods).await?;
            phase.reached("first Pod created");
            stage.finish(phase, Amount::pods(1)).await?;
            stage.filled();
            scale(stage, pods).await?;
            until_complete(stage, pods).await?;

            let mut phase = stage.begin("update").await?;
            let image = json!({"spec": {"template": {"spec": {"containers": [template::updated()]}}}});
            stage.patch(resources::DEPLOYMENTS, NAME, PatchKind::Strategic, &image).await?;
            until_complete(stage, pods).await?;
            phase.reached("replaced");
            stage.finish(phase, Amount::pods(pods)).await?;

            let mut phase = stage.begin("scale down").await?;
            scale(stage, 0).await?;
            stage.until_pods("gone", |n| n == 0).await?;
            phase.reached("gone");
            stage.finish(phase, Amount::pods(pods)).await
        }
        .boxed_local()
    }
}

async fn scale(stage: &Stage<'_>, replicas: u32) -> Result<(), Error> {
    stage.patch(resources::DEPLOYMENTS, NAME, PatchKind::Merge, &json!({"spec": {"replicas": replicas}})).await
}

/// Waits until all Pods are of the newest template and available.
async fn until_complete(stage: &mut Stage<'_>, pods: u32) -> Result<(), Error> {
    let complete = |deployment: &Value| {
        let status = &deployment["status"];
        let count = |field: &str| status[field].as_u64().unwrap_or(0) == u64::from(pods);
        status["observedGeneration"] == deployment["metadata"]["generation"]
            && count("replicas")
            && count("updatedReplicas")
            && count("availableReplicas")
    };
    stage.until_object(resources::DEPLOYMENTS, NAME, "complete", complete).await
}

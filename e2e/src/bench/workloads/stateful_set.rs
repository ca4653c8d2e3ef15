//! One StatefulSet of many Pods that do not wait for each other: created, rolled out, taken away.

use futures::future::{FutureExt as _, LocalBoxFuture};
use serde_json::{Value, json};

use super::Workload;
use crate::{
    bench::{Error, report::Amount, stage::Stage, template},
    suite::{PatchKind, resources, stateful_set},
};

/// The workload.
pub(super) struct StatefulSetParallel;

const NAME: &str = "bench";

impl Workload for StatefulSetParallel {
    fn name(&self) -> &'static str {
        "statefulset"
    }

    fn about(&self) -> &'static str {
        "one StatefulSet with the policy Parallel: scale up to all Pods, restart the controller, update a tenth, scale down to none"
    }

    fn pods(&self) -> u32 {
        500
    }

    fn needs(&self) -> &'static [&'static str] {
        &["statefulset-controller"]
    }

    fn run<'a>(&'a self, stage: &'a mut Stage<'_>) -> LocalBoxFuture<'a, Result<(), Error>> {
        async move {
            let pods = stage.pods();
            let mut object = stateful_set(NAME).replicas(0).set("spec/podManagementPolicy", "Parallel").build();
            object["spec"]["template"] = template::pod(NAME);
            stage.client().create(resources::STATEFUL_SETS, stage.namespace(), &object).await?;
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
            until_updated(stage, pods, pods).await?;
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
            until_updated(stage, pods, pods).await?;

            // One Pod at a time: a tenth of them is enough to measure.
            let tenth = pods.div_ceil(10);
            let mut phase = stage.begin("update").await?;
            let partition = json!({"type": "RollingUpdate", "rollingUpdate": {"partition": pods - tenth}});
            let image = json!({"spec": {"updateStrategy": partition,
                "template": {"spec": {"containers": [template::updated()]}}}});
            stage.patch(resources::STATEFUL_SETS, NAME, PatchKind::Strategic, &image).await?;
            until_updated(stage, pods, tenth).await?;
            phase.reached("replaced");
            stage.finish(phase, Amount::pods(tenth)).await?;

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
    stage.patch(resources::STATEFUL_SETS, NAME, PatchKind::Merge, &json!({"spec": {"replicas": replicas}})).await
}

/// Waits until all Pods are available, and that many of them are of the newest template.
async fn until_updated(stage: &mut Stage<'_>, pods: u32, updated: u32) -> Result<(), Error> {
    let complete = |set: &Value| {
        let status = &set["status"];
        let count = |field: &str, number: u32| status[field].as_u64().unwrap_or(0) == u64::from(number);
        status["observedGeneration"] == set["metadata"]["generation"]
            && count("replicas", pods)
            && count("availableReplicas", pods)
            && count("updatedReplicas", updated)
    };
    stage.until_object(resources::STATEFUL_SETS, NAME, "updated", complete).await
}

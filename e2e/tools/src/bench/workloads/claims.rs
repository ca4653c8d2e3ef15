//! The workload `claims`: Pods with a PersistentVolumeClaim each, half of them made for an ephemeral volume, that come and go.

use anyhow::Result;
use common::object::Resource;

use super::{IDLE, create, pass, settle_and_rest};
use crate::{
    bench::{
        objects::Objects,
        observer::State,
        stage::{Request, Stage},
    },
    suite::resources,
};

/// The kinds that show the work of the controllers.
pub(super) const OBSERVED_KINDS: &[Resource] = &[resources::PODS, resources::CLAIMS];

/// The number of namespaces.
const NAMESPACES: u32 = 10;

pub(super) async fn run(stage: &mut Stage<'_>) -> Result<()> {
    let (objects, pods) = (Objects::read()?, stage.pods());
    let half = || vec![1; pods.div_ceil(2) as usize];
    let all = 2 * half().len();
    stage.add_namespaces(NAMESPACES).await?;
    stage.measure_idle_memory().await;
    pass(stage, "idle", IDLE).await?;

    stage.begin("create").await?;
    let requests: Vec<Request> = [
        create(&objects, &resources::CLAIMS, "Claim", "web", half()),
        create(&objects, &resources::PODS, "PodWithClaim", "web", half()),
        create(&objects, &resources::PODS, "PodWithEphemeralVolume", "batch", half()),
    ]
    .concat();
    stage.send(requests).await?;
    stage.until("each Pod has its claim", has(all, all)).await?;
    stage.reached("each Pod has its claim");
    stage.finish(pods).await?;
    settle_and_rest(stage).await?;

    stage.begin("delete").await?;
    stage.delete_all(&resources::CLAIMS).await?;
    stage.until("the claims wait for their Pods", has(all, all)).await?;
    stage.delete_all(&resources::PODS).await?;
    stage.until("Pods and claims are gone", has(0, 0)).await?;
    stage.reached("Pods and claims are gone");
    stage.finish(pods).await
}

/// Whether there are so many Pods and claims.
fn has(pods: usize, claims: usize) -> impl Fn(&State) -> bool {
    move |state| [resources::PODS, resources::CLAIMS].map(|resource| state.count(&resource)) == [pods, claims]
}

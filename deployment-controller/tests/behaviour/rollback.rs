//! Rollbacks: by setting an earlier template, or by the deprecated annotation.

use crate::world::*;

/// DEPLOYMENT-46, DEPLOYMENT-47, DEPLOYMENT-49.
#[tokio::test(start_paused = true)]
async fn a_request_restores_the_whole_template_and_the_annotations_or_is_removed() {
    let world = cluster().server(|server| server.keep_unknown_fields(true)).start().await;
    let mut object = web(2);
    object["spec"]["template"]["spec"]["fromTheFuture"] = json!({"a": 1});
    object["spec"]["alsoFromTheFuture"] = json!(true);
    object["metadata"]["annotations"] = json!({"kubernetes.io/change-cause": "first"});
    world.create_and_settle(object).await;
    patch_web(
        &world,
        json!({"metadata": {"annotations": {"kubernetes.io/change-cause": "second"}}, "spec": {"template":
            {"metadata": {"annotations": {"new": "1"}}, "spec": {"fromTheFuture": null}}}}),
    )
    .await;
    world.settle().await;
    assert_eq!(sizes(&world).await, [0, 2]);
    let request = async |revision: &str| {
        patch_web(&world, json!({"metadata": {"annotations": {"deprecated.deployment.rollback.to": revision}}})).await;
        world.settle().await;
    };
    // A request that cannot be fulfilled is removed, and changes nothing else.
    let before = world.subject().await;
    request("7").await;
    let cleared = world.subject().await;
    assert_eq!(
        (&cleared["metadata"]["annotations"], &cleared["spec"]),
        (&before["metadata"]["annotations"], &before["spec"])
    );
    request("1").await;
    let web = world.subject().await;
    assert_eq!(web["spec"]["template"]["spec"]["fromTheFuture"], json!({"a": 1}));
    assert_eq!(web["spec"]["alsoFromTheFuture"], true);
    assert_eq!(web["spec"]["template"]["metadata"].get("annotations"), None, "a merge could not have removed it");
    let labels = &web["spec"]["template"]["metadata"]["labels"];
    assert_eq!(*labels, json!({"app": "web"}));
    let annotations = &web["metadata"]["annotations"];
    assert_eq!(*annotations, json!({"deployment.kubernetes.io/revision": "3", "kubernetes.io/change-cause": "first"}));
    let mut sizes: Vec<(i64, i64)> = sets(&world).await.iter().map(|set| (revision_of(set), size_of(set))).collect();
    sizes.sort_unstable();
    assert_eq!(sizes, [(2, 0), (3, 2)]);
    world.assert_event("Warning DeploymentRollbackRevisionNotFound Unable to find the revision to rollback to.").await;
    world.assert_event("Normal DeploymentRollback Rolled back deployment \"web\" to revision 1").await;
}

//! Rollbacks: by setting an earlier template, or by the deprecated annotation.

use crate::world::*;

/// DEPLOYMENT-17, DEPLOYMENT-18.
#[tokio::test(start_paused = true)]
async fn an_earlier_template_reuses_its_set_with_a_new_revision() {
    let world = cluster().settled(web(2)).await;
    world.roll_out_and_settle("img:2").await;
    world.roll_out_and_settle("img:1").await;
    let sets = sets(&world).await;
    assert_eq!(sets.iter().map(|set| (size_of(set), revision_of(set))).collect::<Vec<_>>(), [(2, 3), (0, 2)]);
    assert_eq!(sets[0]["metadata"]["annotations"]["deployment.kubernetes.io/revision-history"], "1");
    assert_eq!(revision_of(&world.subject().await), 3);
}

/// DEPLOYMENT-46, DEPLOYMENT-47, DEPLOYMENT-49.
#[tokio::test(start_paused = true)]
async fn a_request_restores_the_whole_template_and_the_annotations() {
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
    patch_web(&world, json!({"metadata": {"annotations": {"deprecated.deployment.rollback.to": "1"}}})).await;
    world.settle().await;
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
    let events = deployment_events(&world).await;
    assert!(
        events.contains(&"DeploymentRollback Rolled back deployment \"web\" to revision 1".to_owned()),
        "{events:?}"
    );
}

/// DEPLOYMENT-49.
#[tokio::test(start_paused = true)]
async fn an_impossible_request_is_cleared_and_reported() {
    let world = cluster().settled(web(2)).await;
    for (request, want) in [
        ("7", "DeploymentRollbackRevisionNotFound Unable to find the revision to rollback to."),
        ("0", "DeploymentRollbackRevisionNotFound Unable to find last revision."),
        (
            "1",
            "DeploymentRollbackTemplateUnchanged The rollback revision contains the same template as current deployment \"web\"",
        ),
    ] {
        patch_web(&world, json!({"metadata": {"annotations": {"deprecated.deployment.rollback.to": request}}})).await;
        world.settle().await;
        assert_eq!(world.subject().await["metadata"]["annotations"].get("deprecated.deployment.rollback.to"), None);
        assert!(deployment_events(&world).await.contains(&want.to_owned()), "{:?}", deployment_events(&world).await);
    }
    assert_eq!(name(&world.subject().await), "web");
    assert_eq!(sets(&world).await.len(), 1);
}

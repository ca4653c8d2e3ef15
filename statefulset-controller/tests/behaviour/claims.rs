//! Claims are made before Pods, and know with whom they go.

use sandbox::{Action, Rule};
use serde_json::json;

use crate::world::{CLAIMS, ME, NS, World, claims, owners, set};

#[tokio::test(start_paused = true)]
async fn every_pod_has_claims_that_outlive_it() {
    let world = World::new().await;
    world.apply(set(2, claims("Retain", "Retain"))).await;
    world.settle().await;
    assert_eq!(world.done(), ["+data-web-0", "+web-0", "+data-web-1", "+web-1"]);
    let claim = world.get(CLAIMS, "data-web-1").await;
    assert_eq!((&claim["metadata"]["labels"], owners(&claim)), (&json!({"app": "web"}), vec![]));
    assert_eq!(claim["spec"]["resources"]["requests"]["storage"], "1Gi");
    let volumes = &world.get("pods", "web-1").await["spec"]["volumes"];
    assert_eq!(volumes[0], json!({"name": "data", "persistentVolumeClaim": {"claimName": "data-web-1"}}));
    assert!(world.told("Normal SuccessfulCreate Create Claim data-web-1 Pod web-1 in StatefulSet web success").await);
    world.change(json!({"replicas": 0})).await;
    world.settle().await;
    world.change(json!({"replicas": 2})).await;
    world.settle().await;
    assert_eq!(world.asked("create", CLAIMS), 2, "they are used again");
}

#[tokio::test(start_paused = true)]
async fn claims_go_with_the_set_or_with_their_pods_as_the_policy_says() {
    let world = World::new().await;
    world.apply(set(2, claims("Delete", "Delete"))).await;
    world.settle().await;
    let of = async |claim: &str| owners(&world.get(CLAIMS, claim).await);
    assert_eq!(
        (of("data-web-0").await, of("data-web-1").await),
        (vec!["StatefulSet web".to_owned()], vec!["StatefulSet web".to_owned()])
    );
    world.forget();
    world.change(json!({"replicas": 1})).await;
    world.settle().await;
    assert_eq!(of("data-web-1").await, ["Pod web-1"]);
    assert_eq!(world.done(), ["~data-web-1", "-web-1"], "first the claim, then the Pod");
    world
        .change(json!({"persistentVolumeClaimRetentionPolicy": {"whenDeleted": "Retain", "whenScaled": "Retain"}}))
        .await;
    world.settle().await;
    assert!(of("data-web-0").await.is_empty());
    assert!(!world.told("Normal SuccessfulUpdate").await, "the Pod is as it was");
}

#[tokio::test(start_paused = true)]
async fn a_claim_that_goes_with_the_pod_before_is_waited_for() {
    let world = World::new().await;
    world.apply(set(2, claims("Retain", "Delete"))).await;
    world.settle().await;
    world.change(json!({"replicas": 1})).await;
    world.settle().await;
    world.change(json!({"replicas": 2})).await;
    world.settle().await;
    assert_eq!(world.names("pods").await, ["web-0"]);
    assert!(world.explain()["waiting"].to_string().contains("claim data-web-1 goes with the one before"));
    // The garbage collector comes, and nothing else happens.
    world.sandbox.delete(CLAIMS, Some(NS), "data-web-1").await.unwrap();
    world.unprotect("data-web-1").await;
    world.settle().await;
    assert_eq!(world.names("pods").await, ["web-0", "web-1"]);
    assert!(owners(&world.get(CLAIMS, "data-web-1").await).is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_claim_that_is_being_deleted_makes_the_next_pod_wait() {
    let world = World::new().await;
    world.apply(set(1, claims("Retain", "Retain"))).await;
    world.settle().await;
    world.sandbox.delete(CLAIMS, Some(NS), "data-web-0").await.unwrap();
    world.sandbox.delete("pods", Some(NS), "web-0").await.unwrap();
    world.settle().await;
    assert!(world.names("pods").await.is_empty());
    assert!(
        world
            .told(
                "Warning FailedCreate Create Pod web-0 in StatefulSet web failed error: pvc data-web-0 is being deleted"
            )
            .await
    );
    world.wait(600).await;
    world.unprotect("data-web-0").await;
    world.wait(2).await;
    assert_eq!(world.names("pods").await, ["web-0"], "it comes as soon as the claim is gone");
}

#[tokio::test(start_paused = true)]
async fn a_claim_that_is_lost_while_its_pod_is_pending_is_made_again() {
    let world = World::new().await;
    let mut pending = set(1, claims("Retain", "Retain"));
    pending["spec"]["template"]["spec"]["nodeSelector"] = json!({"no": "where"});
    world.apply(pending).await;
    world.settle().await;
    world.sandbox.delete(CLAIMS, Some(NS), "data-web-0").await.unwrap();
    world.unprotect("data-web-0").await;
    world.settle().await;
    world.merge("pods", "web-0", json!({"metadata": {"annotations": {"any": "thing"}}})).await;
    world.settle().await;
    assert_eq!(world.names(CLAIMS).await, ["data-web-0"]);
}

#[tokio::test(start_paused = true)]
async fn a_claim_that_cannot_be_made_is_told_of() {
    let world = World::new().await;
    world.sandbox.faults().add(Rule::new(Action::Invalid).identity(ME).verb("create").resource(CLAIMS));
    world.apply(set(1, claims("Retain", "Retain"))).await;
    world.wait(20).await;
    assert!(
        world
            .told("Warning FailedCreate Create Claim data-web-0 for Pod web-0 in StatefulSet web failed error: ")
            .await
    );
    let pod =
        "Warning FailedCreate Create Pod web-0 in StatefulSet web failed error: failed to create PVC data-web-0: ";
    assert!(world.told(pod).await, "{:#?}", world.events().await);
    assert!((4..=14).contains(&world.asked("create", CLAIMS)), "it backs off: {}", world.asked("create", CLAIMS));
    world.sandbox.faults().clear();
    world.wait(30).await;
    assert_eq!(world.status().await["readyReplicas"], 1);
}

#[tokio::test(start_paused = true)]
async fn a_claim_that_somebody_else_manages_is_left_alone() {
    let world = World::new().await;
    let owner =
        json!([{"apiVersion": "example.com/v1", "kind": "Backup", "name": "b", "uid": "b-uid", "controller": true}]);
    world
        .apply(json!({"apiVersion": "v1", "kind": "PersistentVolumeClaim",
            "metadata": {"name": "data-web-0", "namespace": NS, "ownerReferences": owner},
            "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}}))
        .await;
    world.apply(set(1, claims("Delete", "Delete"))).await;
    world.settle().await;
    assert_eq!(owners(&world.get(CLAIMS, "data-web-0").await), ["Backup b"]);
    let event = "Warning ConflictingController PersistentVolumeClaim data-web-0 has a conflicting OwnerReference that acts as a manging controller, the retention policy is ignored for this claim";
    assert!(world.told(event).await, "{:#?}", world.events().await);
    assert_eq!(world.status().await["readyReplicas"], 1);
}

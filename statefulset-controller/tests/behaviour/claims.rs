//! Claims: their creation before Pods, their owner references, and their deletion.

use crate::world::*;

/// Builds a claim of this size without owners.
fn claim(name: &str, size: &str) -> Value {
    let spec = json!({"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": size}}});
    object("v1", "PersistentVolumeClaim", name, spec)
}

/// STATEFULSET-63.
#[tokio::test(start_paused = true)]
async fn more_claims_than_a_sync_writes_come_before_the_creation_and_deletion_of_their_pod() {
    for policy in ["OrderedReady", "Parallel"] {
        let world = cluster().start().await;
        let mut spec = claims("Delete", "Delete");
        let template = spec["volumeClaimTemplates"][0].clone();
        let named = |n: usize| {
            let mut template = template.clone();
            template["metadata"]["name"] = json!(format!("c{n:03}"));
            template
        };
        spec["volumeClaimTemplates"] = (0..250).map(named).collect();
        spec["podManagementPolicy"] = json!(policy);
        world.create_and_settle(set(1, spec)).await;
        let done = pod_and_claim_writes(&world);
        let created = |prefix: &str| done.iter().filter(|what| what.starts_with(prefix)).count();
        assert_eq!((created("+c"), created("+web"), world.count("create", CLAIMS)), (250, 1, 250), "{policy}");
        for claim in ["c000-web-0", "c249-web-0"] {
            assert_eq!(owners(&world.get(CLAIMS, claim).await), ["StatefulSet web"], "{policy}");
        }
        world.clear_log();
        world.change_and_settle(json!({"replicas": 0})).await;
        let done = pod_and_claim_writes(&world);
        let deleted = done.iter().position(|what| what == "-web-0").unwrap();
        let marked = done[..deleted].iter().filter(|what| what.starts_with("~c")).count();
        assert_eq!(marked, 250, "{policy}: every claim is deleted with its Pod");
    }
}

/// STATEFULSET-42, STATEFULSET-80.
#[tokio::test(start_paused = true)]
async fn a_pod_waits_for_the_deletion_of_the_claim_of_the_previous_pod() {
    let world = cluster().settled(set(2, claims("Retain", "Delete"))).await;
    world.change_and_settle(json!({"replicas": 1})).await;
    world.change_and_settle(json!({"replicas": 2})).await;
    assert_eq!(world.names("pods").await, ["web-0"]);
    world.assert_waits("claim data-web-1 of the previous Pod is still to be deleted");
    // The test deletes the claim in place of the garbage collector.
    world.delete(CLAIMS, "data-web-1").await;
    remove_claim_finalizer(&world, "data-web-1").await;
    world.settle().await;
    assert_eq!(world.names("pods").await, ["web-0", "web-1"]);
    assert!(owners(&world.get(CLAIMS, "data-web-1").await).is_empty());
}

/// STATEFULSET-42, STATEFULSET-80.
#[tokio::test(start_paused = true)]
async fn a_pod_waits_for_the_end_of_a_terminating_claim() {
    let world = cluster().settled(set(1, claims("Retain", "Retain"))).await;
    world.delete(CLAIMS, "data-web-0").await;
    world.delete_and_settle("pods", "web-0").await;
    assert!(world.names("pods").await.is_empty());
    world
        .assert_event(
            "Warning FailedCreate Create Pod web-0 in StatefulSet web failed error: pvc data-web-0 is being deleted",
        )
        .await;
    world.wait(600).await;
    remove_claim_finalizer(&world, "data-web-0").await;
    world.wait(2).await;
    assert_eq!(world.names("pods").await, ["web-0"], "the Pod is created as soon as the claim is deleted");
}

/// STATEFULSET-49.
#[tokio::test(start_paused = true)]
async fn a_refused_claim_is_reported() {
    let world = cluster().start().await;
    world.fault(rule(Action::Invalid, "create", CLAIMS));
    let mut two = set(1, claims("Retain", "Retain"));
    let mut second = two["spec"]["volumeClaimTemplates"][0].clone();
    second["metadata"]["name"] = json!("log");
    two["spec"]["volumeClaimTemplates"].as_array_mut().unwrap().push(second);
    world.create(two).await;
    world.wait(20).await;
    world
        .assert_event("Warning FailedCreate Create Claim data-web-0 for Pod web-0 in StatefulSet web failed error: ")
        .await;
    // Several failures are listed as Go does it.
    let start =
        "Warning FailedCreate Create Pod web-0 in StatefulSet web failed error: [failed to create PVC data-web-0: ";
    let events = world.events().await;
    let is_list = |event: &String| {
        event.starts_with(start) && event.contains(", failed to create PVC log-web-0: ") && event.ends_with(']')
    };
    assert!(events.iter().any(is_list), "{events:#?}");
    world.assert_count("create", CLAIMS, 8..=28);
    world.clear_faults();
    world.wait(30).await;
    assert_eq!(world.status().await["readyReplicas"], 1);
}

/// STATEFULSET-45.
#[tokio::test(start_paused = true)]
async fn a_claim_of_another_controller_is_not_changed() {
    let world = cluster().start().await;
    let owner = foreign_controller("example.com/v1", "Backup", "b");
    world.create(merged(claim("data-web-0", "1Gi"), json!({"metadata": {"ownerReferences": owner}}))).await;
    world.create_and_settle(set(1, claims("Delete", "Delete"))).await;
    assert_eq!(owners(&world.get(CLAIMS, "data-web-0").await), ["Backup b"]);
    world.assert_event("Warning ConflictingController PersistentVolumeClaim data-web-0 has a conflicting OwnerReference that acts as a manging controller, the retention policy is ignored for this claim").await;
    assert_eq!(world.status().await["readyReplicas"], 1);
}

/// STATEFULSET-48.
#[tokio::test(start_paused = true)]
async fn claims_get_their_owner_although_their_pod_is_refused() {
    let world = cluster().start().await;
    world.create(object("v1", "ResourceQuota", "pods", json!({"hard": {"pods": "0"}}))).await;
    world.create(set(2, claims("Delete", "Retain"))).await;
    world.wait(30).await;
    assert!(world.names("pods").await.is_empty());
    world
        .assert_event(
            "Warning FailedCreate Create Pod web-0 in StatefulSet web failed error: pods \"web-0\" is forbidden",
        )
        .await;
    assert_eq!(
        owners(&world.get(CLAIMS, "data-web-0").await),
        ["StatefulSet web"],
        "otherwise the claim would outlive the set"
    );
    assert_eq!(world.event_count("Warning FailedUpdate").await, 0);
}

/// STATEFULSET-55.
#[tokio::test(start_paused = true)]
async fn a_refused_owner_of_a_claim_is_reported_in_the_words_of_upstream() {
    let world = cluster().settled(set(1, claims("Retain", "Retain"))).await;
    world.fault(rule(Action::Invalid, "patch", CLAIMS));
    world
        .change(json!({"persistentVolumeClaimRetentionPolicy": {"whenDeleted": "Delete", "whenScaled": "Retain"}}))
        .await;
    world.wait(5).await;
    world.assert_event("Warning FailedUpdate Update Pod web-0 in StatefulSet web failed error: could not update claim data-web-0 for delete policy ownerRefs: ").await;
}

/// STATEFULSET-82.
#[tokio::test(start_paused = true)]
async fn the_creation_of_a_pod_is_reported_before_the_owners_of_its_claims_are_written() {
    let world = cluster().settled(set(1, claims("Delete", "Retain"))).await;
    let created = "Normal SuccessfulCreate Create Pod web-0 in StatefulSet web successful";
    // The claim exists when the Pod is created again, and another client, like the volume binder, writes the claim first.
    world.patch(CLAIMS, "data-web-0", json!({"metadata": {"ownerReferences": null}})).await;
    world.fault(rule(Action::Conflict, "patch", CLAIMS).times(1));
    assert_eq!(world.repetitions_of(created).await, 1);
    world.delete_and_settle("pods", "web-0").await;
    assert_eq!(world.repetitions_of(created).await, 2);
    assert_eq!(owners(&world.get(CLAIMS, "data-web-0").await), ["StatefulSet web"]);
    assert!(world.event_count("Warning").await == 0, "{:#?}", world.events().await);
}

/// The volume binder writes a new claim when its Pod exists. The next event of the Pod adds the owner reference.
/// STATEFULSET-82.
#[tokio::test(start_paused = true)]
async fn a_new_claim_is_not_written_until_the_cache_shows_its_pod() {
    let world = cluster().start().await;
    world.hold("pods");
    world.create(set(1, claims("Delete", "Delete"))).await;
    world.wait(5).await;
    assert_eq!(pod_and_claim_writes(&world), ["+data-web-0", "+web-0"]);
    world.release("pods");
    world.settle().await;
    assert_eq!(pod_and_claim_writes(&world), ["+data-web-0", "+web-0", "~data-web-0"]);
    assert_eq!(owners(&world.get(CLAIMS, "data-web-0").await), ["StatefulSet web"]);
    assert_eq!((world.count("create", "pods"), world.count("create", CLAIMS)), (1, 1), "nothing is requested twice");
}

/// STATEFULSET-49.
#[tokio::test(start_paused = true)]
async fn a_claim_that_the_cache_does_not_show_yet_is_reported_for_the_pod() {
    let world = cluster().start().await;
    world.hold(CLAIMS);
    world.create(claim("data-web-0", "1Gi")).await;
    world.create(set(1, claims("Retain", "Retain"))).await;
    world.wait(5).await;
    let events = world.events().await;
    let pod =
        "Warning FailedCreate Create Pod web-0 in StatefulSet web failed error: failed to create PVC data-web-0: ";
    assert!(events.iter().any(|e| e.starts_with(pod) && e.ends_with("already exists")), "{events:#?}");
    assert!(
        !events.iter().any(|e| e.contains("Create Claim")),
        "there is no Event about the claim itself: {events:#?}"
    );
    world.release(CLAIMS);
    world.wait(20).await;
    assert_eq!(world.status().await["readyReplicas"], 1);
}

/// STATEFULSET-45.
#[tokio::test(start_paused = true)]
async fn a_conflict_over_the_claim_of_a_condemned_pod_is_reported_only_if_the_claim_is_written() {
    let event = "Warning ConflictingController PersistentVolumeClaim data-web-1";
    for own_reference in [false, true] {
        let world = cluster().start().await;
        let made = world.create_and_settle(set(2, claims("Retain", "Retain"))).await;
        let mut list = foreign_controller("example.com/v1", "Backup", "b");
        if own_reference {
            let own = merged(controller_reference(&made), json!({"controller": false}));
            list.as_array_mut().unwrap().push(own);
        }
        world.hold("statefulsets");
        world.patch(CLAIMS, "data-web-1", json!({"metadata": {"ownerReferences": list}})).await;
        let policy = json!({"whenDeleted": "Delete", "whenScaled": "Delete"});
        world.change(json!({"replicas": 1, "persistentVolumeClaimRetentionPolicy": policy})).await;
        world.wait(1).await;
        world.release("statefulsets");
        world.settle().await;
        assert_eq!(owners(&world.get(CLAIMS, "data-web-1").await), ["Backup b"]);
        assert_eq!(world.event_count(event).await > 0, own_reference, "{:#?}", world.events().await);
        assert_eq!(world.names("pods").await, ["web-0"]);
    }
}

/// STATEFULSET-88.
#[tokio::test(start_paused = true)]
async fn a_claim_that_falls_short_of_its_template_is_reported_once() {
    let world = cluster().start().await;
    world.create(claim("data-web-0", "512Mi")).await;
    world.create(claim("data-web-1", "5Gi")).await;
    world.create(claim("data-web-2", "512Mi")).await;
    world.clear_log();
    world.create_and_settle(set(3, claims("Retain", "Retain"))).await;
    assert_eq!(pod_and_claim_writes(&world), ["+web-0", "+web-1", "+web-2"], "the claims are used as they are");
    world
        .assert_event(
            "Warning ClaimMismatch PersistentVolumeClaim data-web-0 does not match volumeClaimTemplate data \
                 and is used as it is: it requests 512Mi of storage, and the template requests 1Gi",
        )
        .await;
    assert!(world.event_count("Warning ClaimMismatch PersistentVolumeClaim data-web-1").await == 0, "it was expanded");
    for n in 0..20 {
        world.patch(SETS, "web", json!({"metadata": {"annotations": {"poke": n.to_string()}}})).await;
        world.wait(60).await;
    }
    assert_eq!(world.event_repetitions("ClaimMismatch").await, 1, "{:#?}", world.events().await);
    world.assert_waits("the template requests 1Gi (1 more claim likewise)");
}

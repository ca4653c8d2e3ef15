//! Tests of the protection of PersistentVolumes and VolumeAttributesClasses.

use std::sync::atomic::AtomicU64;

use crate::world::*;

/// VOLUME-8, VOLUME-9, VOLUME-28, VOLUME-29, VOLUME-30.
#[tokio::test(start_paused = true)]
async fn a_deleted_volume_goes_when_it_is_not_bound() {
    let world = cluster().start().await;
    world.create(volume("v")).await;
    world.patch_status(VOLUMES, "v", json!({"phase": "Bound"})).await;
    set_finalizers(&world, VOLUMES, "v", &[VOLUME_FINALIZER, FOREIGN]).await;
    world.delete_and_settle(VOLUMES, "v").await;
    assert_eq!(finalizers_of(&world, VOLUMES, "v").await, [VOLUME_FINALIZER, FOREIGN]);
    world.patch_status(VOLUMES, "v", json!({"phase": "Released"})).await;
    world.settle().await;
    assert_eq!(finalizers_of(&world, VOLUMES, "v").await, [FOREIGN]);
    assert_eq!(world.own_write_lines(), [format!("patch {VOLUMES} v")]);
}

/// VOLUME-30.
#[tokio::test(start_paused = true)]
async fn a_volume_that_is_bound_while_the_cache_is_late_keeps_its_finalizer() {
    let world = cluster().start().await;
    world.create(volume("v")).await;
    world.settle().await;
    world.delay(VOLUMES, 5);
    world.delete(VOLUMES, "v").await;
    world.patch_status(VOLUMES, "v", json!({"phase": "Bound"})).await;
    world.wait(120).await;
    assert_eq!(finalizers_of(&world, VOLUMES, "v").await, [VOLUME_FINALIZER]);
    world.assert_wrote_nothing();
}

/// VOLUME-7.
#[tokio::test(start_paused = true)]
async fn volumes_and_classes_get_a_missing_finalizer() {
    let world = cluster().start().await;
    for (resource, object, finalizer) in
        [(VOLUMES, volume("o"), VOLUME_FINALIZER), (CLASSES, class("o"), CLASS_FINALIZER)]
    {
        world.create(object).await;
        set_finalizers(&world, resource, "o", &[FOREIGN]).await;
        world.settle().await;
        assert_eq!(finalizers_of(&world, resource, "o").await, [FOREIGN, finalizer]);
    }
}

/// Makes a claim name a class in its status.
async fn modify(world: &World, claim: &str, status: Value) {
    world.patch_status(CLAIMS, claim, status).await;
}

/// VOLUME-4, VOLUME-31, VOLUME-32, VOLUME-33.
#[tokio::test(start_paused = true)]
async fn a_deleted_class_goes_when_no_claim_and_no_volume_names_it() {
    let world = cluster().start().await;
    world.create(class("fast")).await;
    for name in ["current", "target"] {
        world.create(claim(name)).await;
    }
    world.create(with_spec(claim("spec"), json!({"volumeAttributesClassName": "fast"}))).await;
    modify(&world, "current", json!({"currentVolumeAttributesClassName": "fast"})).await;
    let target = json!({"targetVolumeAttributesClassName": "fast", "status": "InProgress"});
    modify(&world, "target", json!({"modifyVolumeStatus": target})).await;
    world.create(with_spec(volume("v"), json!({"volumeAttributesClassName": "fast"}))).await;
    world.delete_and_settle(CLASSES, "fast").await;
    let is_left = async || exists(&world, CLASSES, "fast").await;
    world.delete_and_settle(CLAIMS, "spec").await;
    assert!(is_left().await);
    modify(&world, "current", json!({"currentVolumeAttributesClassName": null})).await;
    world.settle().await;
    assert!(is_left().await);
    modify(&world, "target", json!({"modifyVolumeStatus": null})).await;
    world.settle().await;
    assert!(is_left().await);
    world.delete_and_settle(VOLUMES, "v").await;
    assert!(!is_left().await);
}

/// VOLUME-33, VOLUME-52.
#[tokio::test(start_paused = true)]
async fn a_class_of_thousands_of_claims_costs_one_write() {
    let world = cluster().start().await;
    world.create(class("fast")).await;
    for number in 0..2000 {
        let claim = with_spec(claim(&format!("c{number:04}")), json!({"volumeAttributesClassName": "fast"}));
        world.create(claim).await;
    }
    world.delete_and_settle(CLASSES, "fast").await;
    let explained = world.loops().explain(Some("fast"));
    assert_eq!(explained[2]["situation"], "2000 claims and 0 PersistentVolumes name it");
    assert_eq!(explained[2]["waiting"].as_array().unwrap().len(), 10);
    world.clear_log();
    let path = format!("/api/v1/namespaces/{NAMESPACE}/{CLAIMS}");
    world.sandbox.send(Method::DELETE, &path, "application/json", None).await.unwrap();
    world.wait(30).await;
    assert!(!exists(&world, CLASSES, "fast").await);
    assert_eq!(world.count("patch", CLASSES), 1);
}

/// VOLUME-33.
#[tokio::test(start_paused = true)]
async fn a_claim_that_cannot_be_decoded_keeps_all_classes() {
    let world = cluster()
        .lies(&[(
            "\"storage\":\"1Gi\"}},\"volumeAttributesClassName\":\"odd\"",
            "\"storage\":\"1Gi\"}},\"volumeAttributesClassName\":7",
        )])
        .start()
        .await;
    world.create(class("fast")).await;
    world.create(with_spec(claim("data"), json!({"volumeAttributesClassName": "odd"}))).await;
    world.settle().await;
    world.assert_all_lies_were_told();
    world.delete(CLASSES, "fast").await;
    world.wait(60).await;
    assert!(exists(&world, CLASSES, "fast").await);
    world.assert_wrote_nothing();
    set_finalizers(&world, CLAIMS, "data", &[]).await;
    world.delete(CLAIMS, "data").await;
    world.wait(200).await;
    assert!(!exists(&world, CLASSES, "fast").await);
}

/// VOLUME-32, VOLUME-58.
#[tokio::test(start_paused = true)]
async fn a_class_goes_although_the_last_claim_ends_in_a_gap_of_the_watch() {
    let world = cluster().start().await;
    world.create(class("fast")).await;
    world.create(with_spec(claim("data"), json!({"volumeAttributesClassName": "fast"}))).await;
    world.delete_and_settle(CLASSES, "fast").await;
    world.hold(CLAIMS);
    set_finalizers(&world, CLAIMS, "data", &[]).await;
    world.delete(CLAIMS, "data").await;
    world.sandbox.compact();
    world.release(CLAIMS);
    world.wait(60).await;
    assert!(!exists(&world, CLASSES, "fast").await);
}

/// VOLUME-5, VOLUME-64.
#[tokio::test(start_paused = true)]
async fn a_server_without_classes_is_no_obstacle() {
    let is_served = Arc::new(AtomicU64::new(0));
    let served = Arc::clone(&is_served);
    let filter: RequestFilter = Arc::new(move |request| {
        let path = request.uri().path();
        let hides =
            served.load(Ordering::Relaxed) == 0 && (path == "/apis" || path.contains("volumeattributesclasses"));
        let groups = json!({"kind": "APIGroupDiscoveryList", "apiVersion": "apidiscovery.k8s.io/v2", "items": []});
        hides.then(|| if path == "/apis" { answer(200, &groups) } else { refusal(404, "NotFound", "no", &json!([])) })
    });
    let world = cluster().filter(filter).start().await;
    assert!(world.loops().ready().is_ok());
    world.create(class("fast")).await;
    world.create(claim("data")).await;
    world.delete(CLASSES, "fast").await;
    world.delete(CLAIMS, "data").await;
    world.wait(60).await;
    assert_eq!((exists(&world, CLASSES, "fast").await, exists(&world, CLAIMS, "data").await), (true, false));
    is_served.store(1, Ordering::Relaxed);
    world.wait(700).await;
    assert!(!exists(&world, CLASSES, "fast").await);
}

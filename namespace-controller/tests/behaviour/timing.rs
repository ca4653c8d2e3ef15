//! When syncs happen, and what they cost.

use crate::world::*;

/// NAMESPACE-3, NAMESPACE-47.
#[tokio::test(start_paused = true)]
async fn terminating_namespaces_are_synced_again_after_each_period() {
    // A finalizer of another controller in the spec leaves nothing to wait for.
    for (period, syncs) in [(60, 8..=11), (0, 0..=0)] {
        let world = cluster().tunable("namespace-sync-period", Duration::from_secs(period)).start().await;
        let body = merged(world.subject().await, json!({"spec": {"finalizers": ["kubernetes", "z.io/z"]}}));
        let path = "/api/v1/namespaces/shop/finalize";
        world.sandbox.send(Method::PUT, path, "application/json", Some(&body)).await.unwrap();
        delete_namespace(&world).await;
        world.wait(30).await;
        world.clear_log();
        world.wait(600).await;
        world.assert_count("get", NAMESPACES, syncs);
    }
}

/// NAMESPACE-8, NAMESPACE-51.
#[tokio::test(start_paused = true)]
async fn two_hundred_namespaces_share_few_discoveries() {
    let seen = Seen::default();
    let world = cluster().filter(seen.filter(|_, _| None)).start().await;
    for number in 0..200 {
        world.create(namespace(&format!("n{number}"))).await;
    }
    world.fault(rule(Action::Latency(Duration::from_millis(2)), "", ""));
    for number in 0..200 {
        world.delete(NAMESPACES, &format!("n{number}")).await;
    }
    world.wait(60).await;
    assert_eq!(world.names(NAMESPACES).await.iter().filter(|name| name.starts_with('n')).count(), 0);
    let discoveries = seen.with("GET /apis").iter().filter(|request| request.ends_with("/apis")).count();
    assert!((1..=10).contains(&discoveries), "{discoveries} discoveries for 200 namespaces");
    assert_eq!(world.count("update", FINALIZE), 200);
}

/// NAMESPACE-2, NAMESPACE-8.
#[tokio::test(start_paused = true)]
async fn a_discovery_begins_five_seconds_after_the_deletion_of_a_namespace() {
    let world = deleted(cluster(), &[]).await;
    world.wait(5.2).await;
    // The key is enqueued again by the writes of the first namespace, and its discovery is not ten seconds old.
    assert!(!exists(&world).await);
    world.create(namespace(NAMESPACE)).await;
    create_widget(&world).await;
    delete_namespace(&world).await;
    assert_gone_after(&world, 5).await;
    assert_eq!(world.sandbox.count(WIDGETS), 0);
}

/// NAMESPACE-8.
#[tokio::test(start_paused = true)]
async fn a_discovery_is_used_for_ten_seconds() {
    let seen = Seen::default();
    let world = deleted(cluster().filter(seen.filter(|_, _| None)), &[map("a", &[HOLD])]).await;
    world.wait(600).await;
    let discoveries = seen.with("GET /apis").iter().filter(|request| request.ends_with("/apis")).count();
    // A sync every eight seconds, of which every second one reads discovery.
    assert!((36..=39).contains(&discoveries), "{discoveries}");
}

/// COMMON-72.
#[tokio::test(start_paused = true)]
async fn a_shadow_decides_and_writes_nothing() {
    let world = deleted(cluster().shadow(), &[map("m", &[])]).await;
    world.wait(600).await;
    world.assert_wrote_nothing();
    assert_eq!(world.count("deletecollection", MAPS), 0);
    assert_eq!(world.explain()["state"], "acting");
}

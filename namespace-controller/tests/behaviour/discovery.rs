//! Discovery that fails, is partial, or is not aggregated.

use std::sync::atomic::AtomicBool;

use crate::world::*;

/// NAMESPACE-10, NAMESPACE-27, NAMESPACE-42.
#[tokio::test(start_paused = true)]
async fn an_aggregated_api_that_is_down_delays_only_the_end() {
    let world = cluster().start().await;
    create_widget(&world).await;
    world.create(map("m", &[])).await;
    world.sandbox.faults().silence_group("example.com");
    delete_namespace(&world).await;
    world.wait(6).await;
    assert!(world.names(MAPS).await.is_empty());
    assert_eq!(
        condition_of(&world, "NamespaceDeletionDiscoveryFailure").await,
        "True DiscoveryFailed: Discovery failed for some groups, 1 failing: unable to retrieve the complete list of \
         server APIs: example.com/v1: stale GroupVersion discovery: example.com/v1"
    );
    assert_eq!(
        condition_of(&world, "NamespaceContentRemaining").await,
        "False ContentRemoved: All content successfully removed"
    );
    world.clear_log();
    world.wait(3600).await;
    assert!(exists(&world).await, "nothing is known about the Widgets");
    world.assert_count("get", NAMESPACES, 60..=100);
    assert_eq!((world.count("deletecollection", MAPS), world.count("update", STATUS)), (0, 0));
    world.clear_faults();
    world.wait(70).await;
    assert_eq!((exists(&world).await, world.sandbox.count(WIDGETS)), (false, 0));
}

/// A path of discovery, its answer with a body, and a part of the error.
type Case = (&'static str, fn(&Value) -> Option<Answer>, Value, &'static str);

/// NAMESPACE-11, NAMESPACE-42, NAMESPACE-49.
#[tokio::test(start_paused = true)]
async fn without_a_whole_discovery_nothing_is_deleted() {
    let not_aggregated = json!({"kind": "APIVersions", "versions": ["v1"]});
    let empty = json!({"kind": "APIGroupDiscoveryList", "items": []});
    let answers: [Case; 4] = [
        ("/api", |body| Some(answer(200, body)), not_aggregated, "answers discovery with APIVersions"),
        ("/api", |body| Some(answer(200, body)), empty, "no resources in the core group"),
        ("/api", |_| Some(refusal(404, "NotFound", "no path", &json!([]))), json!({}), "no path"),
        ("/apis", |_| Some(refusal(503, "ServiceUnavailable", "no backend", &json!([]))), json!({}), "no backend"),
    ];
    for (path, make, body, error) in answers {
        let down = Arc::new(AtomicBool::new(true));
        let is_down = Arc::clone(&down);
        let filter =
            Seen::default().filter(
                move |_, target| if target == path && is_down.load(Ordering::Relaxed) { make(&body) } else { None },
            );
        let world = deleted(cluster().filter(filter), &[map("m", &[])]).await;
        world.wait(60).await;
        assert_eq!(world.names(MAPS).await, ["m"], "{error}");
        let condition = condition_of(&world, "NamespaceDeletionDiscoveryFailure").await;
        assert!(condition.starts_with("True DiscoveryFailed: ") && condition.contains(error), "{condition}");
        assert!(condition_of(&world, "NamespaceContentRemaining").await.starts_with("False"));
        assert!(world.explain()["lastError"]["error"].as_str().unwrap().contains(error), "{:#}", world.explain());
        world.assert_count("get", NAMESPACES, 8..=25);
        assert_eq!(world.count("deletecollection", ""), 0);
        down.store(false, Ordering::Relaxed);
        world.wait(70).await;
        assert!(!exists(&world).await, "{error}");
    }
}

//! What is deleted, in which order, and when the namespace goes.

use crate::world::*;

/// NAMESPACE-1, NAMESPACE-2, NAMESPACE-4, NAMESPACE-15, NAMESPACE-38, NAMESPACE-40, NAMESPACE-52, NAMESPACE-58.
#[tokio::test(start_paused = true)]
async fn an_empty_namespace_costs_one_request_for_each_kind_and_is_gone_after_five_seconds() {
    let world = cluster().start().await;
    world.wait(86_400).await;
    assert_eq!(world.count_all(), world.count("watch", NAMESPACES) + world.count("list", NAMESPACES));
    delete_namespace(&world).await;
    assert_gone_after(&world, 5).await;
    assert_eq!((world.count("get", NAMESPACES), world.count("delete", NAMESPACES)), (1, 0));
    assert_eq!(world.own_write_lines(), ["update namespaces/status shop", "update namespaces/finalize shop"]);
    for resource in ["pods", MAPS, "secrets", "deployments.apps", "events", "events.events.k8s.io"] {
        assert_eq!((world.count("deletecollection", resource), world.count("list", resource)), (1, 0), "{resource}");
    }
    assert_eq!(world.count("deletecollection", "nodes"), 0);
    world.clear_log();
    world.wait(3600).await;
    world.assert_wrote_nothing();
}

/// NAMESPACE-9, NAMESPACE-14, NAMESPACE-15.
#[tokio::test(start_paused = true)]
async fn content_of_every_kind_is_deleted_without_the_contents_of_secrets() {
    let world = cluster().start().await;
    create_widget(&world).await;
    let secret = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s", "namespace": NAMESPACE},
        "stringData": {"password": "hush"}});
    let event = json!({"apiVersion": "v1", "kind": "Event", "metadata": {"name": "e", "namespace": NAMESPACE},
        "involvedObject": {"namespace": NAMESPACE}});
    for object in [secret, event, map("m", &[]), pod("p", &[])] {
        world.create(object).await;
    }
    delete_namespace(&world).await;
    assert_gone_after(&world, 5).await;
    assert_eq!((world.count("deletecollection", "secrets"), world.count("list", "secrets")), (1, 1));
    for resource in ["secrets", "events", MAPS, "pods", WIDGETS] {
        assert_eq!(world.sandbox.count(resource), 0, "{resource}");
    }
}

/// NAMESPACE-12, NAMESPACE-32, NAMESPACE-62.
#[tokio::test(start_paused = true)]
async fn other_content_stays_until_the_last_pod_is_gone() {
    let world = deleted(cluster(), &[pod("p", &[HOLD]), map("m", &[])]).await;
    world.wait(120).await;
    assert_eq!((world.names(MAPS).await, world.names("pods").await), (vec!["m".to_owned()], vec!["p".to_owned()]));
    assert_eq!(world.count("deletecollection", MAPS), 0);
    assert_eq!(
        condition_of(&world, "NamespaceContentRemaining").await,
        "True SomeResourcesRemain: Some resources are remaining: pods. has 1 resource instances"
    );
    release(&world, "pods", "p").await;
    world.wait(9).await;
    assert!(!exists(&world).await);
}

/// NAMESPACE-22, NAMESPACE-24.
#[tokio::test(start_paused = true)]
async fn the_next_sync_follows_after_half_of_the_grace_period_of_pods() {
    let world = cluster().nodes(1).start().await;
    let slow = merged(
        pod("p", &[]),
        json!({"metadata": {"annotations": {"sim/terminate-after": "25"}},
        "spec": {"terminationGracePeriodSeconds": 30}}),
    );
    world.create_and_settle(slow).await;
    delete_namespace(&world).await;
    world.wait(5.5).await;
    // The write of the conditions causes a sync five seconds later.
    let pauses = world.pauses("list", "pods", 30).await;
    assert!(pauses.len() <= 3 && pauses.iter().sum::<u64>() >= 10_000, "{pauses:?}");
    assert_eq!(world.count("deletecollection", "pods"), 1, "Pods that wait are not deleted again");
    world.wait(10).await;
    assert!(!exists(&world).await, "{:#}", world.explain());
}

/// NAMESPACE-18, NAMESPACE-20, NAMESPACE-23, NAMESPACE-31, NAMESPACE-33, NAMESPACE-44, NAMESPACE-54.
#[tokio::test(start_paused = true)]
async fn a_held_object_is_named_and_only_listed_from_then_on() {
    let world = deleted(cluster(), &[map("a", &[HOLD]), map("b", &[HOLD]), map("c", &[])]).await;
    world.wait(6).await;
    assert_eq!(world.names(MAPS).await, ["a", "b"]);
    assert_eq!(
        condition_of(&world, "NamespaceFinalizersRemaining").await,
        "True SomeFinalizersRemain: Some content in the namespace has finalizers remaining: \
         example.com/hold in 2 resource instances"
    );
    let waiting = ["configmaps: 2 remaining", "configmaps: finalizer example.com/hold in 2, for example in a"];
    assert_eq!(world.explain()["waiting"], json!(waiting));
    world.clear_log();
    world.wait(600).await;
    assert_eq!((world.count("deletecollection", MAPS), world.count("delete", MAPS)), (0, 0));
    assert_eq!((world.count("deletecollection", "secrets"), world.count("list", "secrets")), (0, 0));
    // The estimate of 15 seconds leads to a sync every 8 seconds.
    world.assert_count("list", MAPS, 70..=80);
    assert_eq!(world.count("update", STATUS), 0, "the conditions do not change");
    release(&world, MAPS, "a").await;
    release(&world, MAPS, "b").await;
    world.wait(9).await;
    assert!(!exists(&world).await);
}

/// NAMESPACE-21.
#[tokio::test(start_paused = true)]
async fn an_empty_kind_is_visited_again_only_before_the_namespace_is_finalized() {
    for is_group_down in [false, true] {
        let world = cluster().start().await;
        create_widget(&world).await;
        world.create(map("a", &[HOLD])).await;
        delete_namespace(&world).await;
        world.wait(60).await;
        assert_eq!(world.count("deletecollection", "secrets"), 1);
        if is_group_down {
            world.sandbox.faults().silence_group("example.com");
            world.wait(30).await;
        }
        // As if it had been created just before the namespace was deleted, on another API server.
        let late = json!({"apiVersion": "v1", "kind": "Secret",
            "metadata": {"name": "late", "namespace": NAMESPACE, "uid": "late", "resourceVersion": "1"}});
        world.sandbox.load([late]).unwrap();
        release(&world, MAPS, "a").await;
        world.wait(20).await;
        assert_eq!(exists(&world).await, is_group_down);
        world.clear_faults();
        world.wait(70).await;
        assert_eq!((exists(&world).await, world.sandbox.count("secrets")), (false, 0), "{is_group_down}");
        assert_eq!(world.count("deletecollection", "secrets"), 2);
    }
}

/// NAMESPACE-60.
#[tokio::test(start_paused = true)]
async fn a_large_collection_is_deleted_in_pages() {
    let seen = Seen::default();
    let world = cluster().filter(seen.filter(|_, _| None)).start().await;
    for number in 0..1200 {
        world.create(map(&format!("m{number}"), &[])).await;
    }
    delete_namespace(&world).await;
    assert_gone_after(&world, 5).await;
    let pages = seen.with("DELETE /api/v1/namespaces/shop/configmaps?");
    assert_eq!(pages.len(), 3, "{pages:#?}");
    assert!(pages.iter().all(|page| page.contains("limit=500") && page.contains("propagationPolicy=Background")));
    assert!(!pages[0].contains("continue=") && pages[1].contains("continue=") && pages[2].contains("continue="));
    assert_eq!(seen.with("GET /api/v1/namespaces/shop/configmaps").len(), 1);
}

/// NAMESPACE-7, NAMESPACE-39, NAMESPACE-57.
#[tokio::test(start_paused = true)]
async fn a_namespace_that_was_created_again_keeps_its_content() {
    let world = deleted(cluster(), &[map("a", &[HOLD])]).await;
    world.wait(6).await;
    // The next sync is slow, and users finalize and recreate the namespace meanwhile.
    world.fault(rule(Action::Latency(Duration::from_secs(3)), "list", MAPS));
    world.wait(5).await;
    release(&world, MAPS, "a").await;
    let old = world.get(NAMESPACES, NAMESPACE).await;
    let body = merged(old, json!({"spec": {"finalizers": []}}));
    let path = "/api/v1/namespaces/shop/finalize";
    world.sandbox.send(Method::PUT, path, "application/json", Some(&body)).await.unwrap();
    world.create(namespace(NAMESPACE)).await;
    world.create(map("kept", &[])).await;
    world.wait(600).await;
    assert_eq!(world.names(MAPS).await, ["kept"]);
    assert_eq!(world.status().await["phase"], "Active");
    assert_eq!(world.metric("nonet_namespaces_terminating"), 0);
}

/// NAMESPACE-6, NAMESPACE-36, NAMESPACE-37, NAMESPACE-41.
#[tokio::test(start_paused = true)]
async fn finalizers_and_labels_of_others_are_kept() {
    let world = cluster().start().await;
    world.patch(NAMESPACES, NAMESPACE, json!({"metadata": {"labels": {"team": "a"}, "finalizers": [HOLD]}})).await;
    let path = "/api/v1/namespaces/shop/finalize";
    let body = merged(world.subject().await, json!({"spec": {"finalizers": ["kubernetes", "z.io/z", "a.io/a"]}}));
    world.sandbox.send(Method::PUT, path, "application/json", Some(&body)).await.unwrap();
    world.create(map("m", &[])).await;
    delete_namespace(&world).await;
    world.wait(6).await;
    let left = world.subject().await;
    assert_eq!(left["spec"]["finalizers"], json!(["a.io/a", "z.io/z"]));
    assert_eq!((&left["metadata"]["labels"]["team"], finalizers(&left)), (&json!("a"), vec![HOLD]));
    assert_eq!(left["status"]["phase"], "Terminating");
    assert!(world.names(MAPS).await.is_empty());
    world.wait(60).await;
    world.clear_log();
    world.wait(3600).await;
    world.assert_wrote_nothing();
    assert_eq!(world.count("update", FINALIZE), 0);
}

/// NAMESPACE-5, NAMESPACE-6.
#[tokio::test(start_paused = true)]
async fn the_phase_is_set_first_and_a_namespace_without_finalizers_is_not_emptied() {
    let world = cluster().start().await;
    let phase = |name: &str, finalizers: Value| {
        json!({"apiVersion": "v1", "kind": "Namespace", "spec": {"finalizers": finalizers}, "status": {"phase": "Active"},
            "metadata": {"name": name, "uid": name, "finalizers": [HOLD], "creationTimestamp": "2026-11-21T08:00:00Z",
                "resourceVersion": "1", "deletionTimestamp": "2026-11-21T08:59:00Z"}})
    };
    world.sandbox.load([phase("full", json!(["kubernetes"])), phase("bare", json!([]))]).unwrap();
    let mut world = world;
    world.clear_log();
    world.restart();
    world.wait(8).await;
    let lines = world.own_write_lines();
    let of = |name: &str| lines.iter().filter(|line| line.ends_with(name)).cloned().collect::<Vec<_>>();
    assert_eq!(of("bare"), ["update namespaces/status bare"]);
    let expected =
        ["update namespaces/status full", "update namespaces/status full", "update namespaces/finalize full"];
    assert_eq!(of("full"), expected);
    assert_eq!(world.get(NAMESPACES, "bare").await["status"]["phase"], "Terminating");
    assert_eq!(world.get(NAMESPACES, "full").await["spec"], json!({}));
}

/// NAMESPACE-45.
#[tokio::test(start_paused = true)]
async fn terminating_namespaces_are_counted() {
    let world = deleted(cluster(), &[map("a", &[HOLD])]).await;
    world.wait(6).await;
    assert_eq!(world.metric("nonet_namespaces_terminating"), 1);
    assert!(world.metrics().contains("workqueue_depth{name=\"namespace\"}"));
    assert_eq!(world.events().await, [""; 0]);
}

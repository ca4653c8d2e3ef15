//! Tests of the account of each namespace.

use std::sync::atomic::AtomicU64;

use crate::world::*;

/// SERVICEACCOUNT-1.
#[tokio::test(start_paused = true)]
async fn each_namespace_gets_one_account_with_a_name_and_nothing_else() {
    let world = cluster().start().await;
    let account = world.get(ACCOUNTS, DEFAULT).await;
    let fields: Vec<&String> = account.as_object().unwrap().keys().collect();
    assert_eq!(fields, ["apiVersion", "kind", "metadata"]);
    assert_eq!(pick(&account["metadata"], "labels annotations"), json!([null, null]));
    create_namespaces(&world, (0..20).map(|number| format!("n{number}"))).await;
    world.wait(0.5).await;
    assert_eq!(count_everywhere(&world, ACCOUNTS, DEFAULT).await, INITIAL_NAMESPACES + 20);
    assert_eq!(world.count("create", ACCOUNTS), 20);
}

/// SERVICEACCOUNT-1.
#[tokio::test(start_paused = true)]
async fn an_account_that_exists_is_never_changed() {
    let mut world = cluster().stopped().await;
    let mut account = object("v1", "ServiceAccount", DEFAULT, Value::Null);
    account["automountServiceAccountToken"] = json!(false);
    let created = world.create(account).await;
    world.start();
    world.settle().await;
    world.clear_log();
    let syncs = world.metric("workqueue_adds_total{name=\"serviceaccount\"}");
    world.patch(ACCOUNTS, DEFAULT, json!({"secrets": [{"name": "s"}], "metadata": {"finalizers": ["t/f"]}})).await;
    world.delete_and_settle(ACCOUNTS, DEFAULT).await;
    // It is terminating, so that it cannot be created again.
    let account = world.get(ACCOUNTS, DEFAULT).await;
    assert_eq!(account["metadata"]["uid"], created["metadata"]["uid"]);
    assert_eq!(world.count("create", ACCOUNTS), 0);
    assert_eq!(world.metric("workqueue_adds_total{name=\"serviceaccount\"}"), syncs, "only its end enqueues it");
    world.patch(ACCOUNTS, DEFAULT, json!({"metadata": {"finalizers": null}})).await;
    world.settle().await;
    let account = world.get(ACCOUNTS, DEFAULT).await;
    assert_ne!(account["metadata"]["uid"], created["metadata"]["uid"]);
}

/// SERVICEACCOUNT-2, SERVICEACCOUNT-33.
#[tokio::test(start_paused = true)]
async fn a_deleted_account_is_back_after_a_second() {
    let world = cluster().start().await;
    world.delete(ACCOUNTS, DEFAULT).await;
    world.wait(0.9).await;
    assert_eq!(world.find(ACCOUNTS, DEFAULT).await, None);
    world.wait(0.2).await;
    assert!(world.find(ACCOUNTS, DEFAULT).await.is_some());
    // A client that deletes it again and again costs one creation a second.
    world.clear_log();
    for _ in 0..600 {
        drop(world.sandbox.delete(ACCOUNTS, Some(NAMESPACE), DEFAULT).await);
        world.wait(0.05).await;
    }
    world.assert_count("create", ACCOUNTS, 20..=32);
}

/// SERVICEACCOUNT-2, SERVICEACCOUNT-4.
#[tokio::test(start_paused = true)]
async fn a_namespace_that_is_created_again_at_once_gets_its_account() {
    let world = cluster().start().await;
    for delay in [0.0, 0.3, 5.0] {
        world.delay("serviceaccounts", delay);
        world.delete(NAMESPACES, NAMESPACE).await;
        world.create(namespace(NAMESPACE)).await;
        world.wait(60).await;
        assert!(world.find(ACCOUNTS, DEFAULT).await.is_some(), "the watch of accounts is {delay} s late");
        assert_eq!(data(&world).await, json!({"ca.crt": CA}));
    }
}

/// SERVICEACCOUNT-3, SERVICEACCOUNT-12.
#[tokio::test(start_paused = true)]
async fn a_namespace_that_terminates_costs_one_creation_of_each() {
    for (resource, name) in [(ACCOUNTS, DEFAULT), (CONFIG_MAPS, ROOT_CA)] {
        let refuser = Refuser::terminating_namespace(resource);
        let world = cluster().filter(refuser.filter()).start().await;
        world.wait(600).await;
        assert_eq!((refuser.attempts(), world.find(resource, name).await), (INITIAL_NAMESPACES as u64, None));
        // An event of the Namespace is answered at once.
        refuser.allow();
        world.touch(NAMESPACES, NAMESPACE).await;
        world.wait(0.5).await;
        assert!(world.find(resource, name).await.is_some());
    }
}

/// SERVICEACCOUNT-1, SERVICEACCOUNT-25.
#[tokio::test(start_paused = true)]
async fn a_terminating_namespace_gets_nothing() {
    let world = cluster().server(sandbox::Builder::without_namespace_controller).start().await;
    world.delete(NAMESPACES, NAMESPACE).await;
    world.delete(ACCOUNTS, DEFAULT).await;
    world.delete(CONFIG_MAPS, ROOT_CA).await;
    world.wait(60).await;
    assert_eq!(world.count("create", ""), 0);
    assert_eq!(world.count_all(), 0);
}

/// SERVICEACCOUNT-4, SERVICEACCOUNT-12, SERVICEACCOUNT-26.
#[tokio::test(start_paused = true)]
async fn refused_creations_back_off_and_are_made_up_for() {
    for (code, reason) in [
        (404, "NotFound"),
        (409, "AlreadyExists"),
        (409, "Conflict"),
        (403, "Forbidden"),
        (422, "Invalid"),
        (500, "InternalError"),
    ] {
        let attempts = Arc::new(AtomicU64::new(0));
        let counted = Arc::clone(&attempts);
        let refused_until_twelve_attempts: RequestFilter = Arc::new(move |request| {
            let creates = request.method() == Method::POST && request.uri().path().contains("/late/");
            let refuses = creates && counted.fetch_add(1, Ordering::Relaxed) < 24;
            refuses.then(|| refusal(code, reason, "a webhook refuses it", &json!([])))
        });
        let world = cluster().filter(refused_until_twelve_attempts).start().await;
        world.create(namespace("late")).await;
        // Two objects, each after 0, 5, 15, 35 ms and so on.
        world.wait(5).await;
        assert_eq!(attempts.load(Ordering::Relaxed), 20, "{reason}");
        world.wait(25).await;
        assert_eq!(attempts.load(Ordering::Relaxed), 26, "{reason}");
        assert_eq!(count_everywhere(&world, ACCOUNTS, DEFAULT).await, INITIAL_NAMESPACES + 1, "{reason}");
        assert_eq!(count_everywhere(&world, CONFIG_MAPS, ROOT_CA).await, INITIAL_NAMESPACES + 1, "{reason}");
    }
}

/// SERVICEACCOUNT-5.
#[tokio::test(start_paused = true)]
async fn a_creation_is_sent_once_while_the_cache_is_late_and_again_after_a_gap() {
    let world = cluster().start().await;
    world.hold("serviceaccounts");
    world.hold("configmaps");
    world.create(namespace("late")).await;
    world.wait(60).await;
    assert_eq!((world.count("create", ACCOUNTS), world.count("create", CONFIG_MAPS)), (1, 1));
    // The objects are deleted, and the watch goes on with a new list, so that no event reports them.
    for (resource, name) in [(ACCOUNTS, DEFAULT), (CONFIG_MAPS, ROOT_CA)] {
        world.sandbox.delete(resource, Some("late"), name).await.unwrap();
    }
    world.sandbox.compact();
    world.release("serviceaccounts");
    world.release("configmaps");
    world.wait(60).await;
    assert_eq!(count_everywhere(&world, ACCOUNTS, DEFAULT).await, INITIAL_NAMESPACES + 1);
    assert_eq!(count_everywhere(&world, CONFIG_MAPS, ROOT_CA).await, INITIAL_NAMESPACES + 1);
}

/// SERVICEACCOUNT-4.
#[tokio::test(start_paused = true)]
async fn a_lost_answer_delays_an_account_and_makes_no_second_one() {
    let world = cluster().start().await;
    for effect in [Action::CutAfter, Action::CutBefore] {
        world.fault(rule(effect.clone(), "create", ACCOUNTS).times(1));
        let name = format!("lost-{}", world.sandbox.resource_version());
        world.create(namespace(&name)).await;
        world.wait(90).await;
        assert!(world.sandbox.get(ACCOUNTS, Some(&name), DEFAULT).await.is_ok(), "{effect:?}");
    }
    world.assert_count("create", ACCOUNTS, 3..=16);
}

/// SERVICEACCOUNT-1.
#[tokio::test(start_paused = true)]
async fn settled_namespaces_cost_no_request() {
    let mut world = cluster().start().await;
    create_namespaces(&world, (0..50).map(|number| format!("n{number}"))).await;
    world.settle().await;
    world.wait(60).await;
    world.clear_log();
    for number in 0..50 {
        world.touch(NAMESPACES, &format!("n{number}")).await;
    }
    world.wait(1200).await;
    assert_eq!(world.count_all(), 0);
    world.restart();
    world.wait(60).await;
    assert_eq!(world.own_write_lines(), [""; 0]);
}

/// SERVICEACCOUNT-1.
#[tokio::test(start_paused = true)]
async fn a_pod_is_admitted_to_a_namespace_once_it_has_its_account() {
    let mut world = cluster().server(|server| server.service_account_admission(true)).stopped().await;
    let refused = world.sandbox.create(renamed(orphan_pod("p", "web"), NAMESPACE, "p")).await.unwrap_err();
    let expected =
        "pods \"p\" is forbidden: error looking up service account shop/default: serviceaccount \"default\" not found";
    assert_eq!((refused.code, &*refused.message), (403, expected));
    world.start();
    world.settle().await;
    world.create(renamed(orphan_pod("p", "web"), NAMESPACE, "p")).await;
    let mut other = renamed(orphan_pod("q", "web"), NAMESPACE, "q");
    other["spec"]["serviceAccountName"] = json!("robot");
    assert!(world.sandbox.create(other).await.unwrap_err().message.ends_with("serviceaccount \"robot\" not found"));
}

/// SERVICEACCOUNT-4, SERVICEACCOUNT-26.
#[tokio::test(start_paused = true)]
async fn a_namespace_that_is_gone_and_still_cached_backs_off() {
    let world = cluster().start().await;
    world.hold("namespaces");
    world.delete(NAMESPACES, NAMESPACE).await;
    world.wait(20).await;
    for resource in [ACCOUNTS, CONFIG_MAPS] {
        // The deletion of the object counts after a second, and the answer 404 is no success.
        world.assert_count("create", resource, 10..=13);
    }
    world.release("namespaces");
    world.wait(30).await;
    world.clear_log();
    world.wait(600).await;
    assert_eq!(world.count_all(), 0);
}

/// SERVICEACCOUNT-1.
#[tokio::test(start_paused = true)]
async fn each_loop_explains_its_own_object() {
    let world = cluster().start().await;
    for (name, states) in [(DEFAULT, ["settled", "gone"]), (ROOT_CA, ["gone", "settled"]), ("other", ["gone", "gone"])]
    {
        let explained = world.loops().explain(Some(&format!("{NAMESPACE}/{name}")));
        assert_eq!([&explained[0]["state"], &explained[1]["state"]], states, "{explained:#}");
    }
}

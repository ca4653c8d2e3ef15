//! Refused requests, lost answers, and kinds that come and go.

use std::sync::atomic::AtomicBool;

use crate::world::*;

fn denied(name: &str) -> Webhook {
    Webhook::new("guard", Operation::Delete, MAPS).object(name).denies(403, "do not touch")
}

/// NAMESPACE-16, NAMESPACE-17, NAMESPACE-29, NAMESPACE-42, NAMESPACE-55.
#[tokio::test(start_paused = true)]
async fn an_object_that_a_webhook_protects_blocks_no_other() {
    let maps: Vec<Value> = ["a", "b", "c", "d"].map(|name| map(name, &[])).into();
    let world = cluster().start().await;
    for map in maps {
        world.create(map).await;
    }
    world.sandbox.webhooks().install(denied("b"));
    delete_namespace(&world).await;
    world.wait(6).await;
    assert_eq!(world.names(MAPS).await, ["b"]);
    let condition = condition_of(&world, "NamespaceDeletionContentFailure").await;
    assert!(condition.starts_with("True ContentDeletionFailed: Failed to delete all resource types, 1 remaining: "));
    assert!(condition.contains("do not touch"), "{condition}");
    let error = world.explain()["lastError"]["error"].as_str().unwrap().to_owned();
    assert!(error.contains("do not touch"), "{error}");
    world.clear_log();
    world.wait(3600).await;
    world.assert_count("deletecollection", MAPS, 50..=100);
    world.assert_count("delete", MAPS, 50..=100);
    world.sandbox.webhooks().remove("guard");
    world.wait(70).await;
    assert!(!exists(&world).await);
}

/// NAMESPACE-17.
#[tokio::test(start_paused = true)]
async fn the_deletion_by_name_ends_after_ten_failures() {
    let world = cluster().start().await;
    for number in 0..30 {
        world.create(map(&format!("m{number}"), &[])).await;
    }
    world.fault(rule(Action::Forbidden, "deletecollection", MAPS));
    world.fault(rule(Action::Forbidden, "delete", MAPS));
    delete_namespace(&world).await;
    world.wait(5.002).await;
    let syncs = world.count("deletecollection", MAPS);
    assert_eq!(world.count("delete", MAPS), 10 * syncs, "{syncs} syncs");
    let condition = condition_of(&world, "NamespaceDeletionContentFailure").await;
    assert!(condition.contains("configmaps \"\" is forbidden: injected fault"), "the first error: {condition}");
    assert_eq!(
        condition_of(&world, "NamespaceContentRemaining").await.split(": ").nth(2),
        Some("configmaps. has 30 resource instances")
    );
}

/// NAMESPACE-12, NAMESPACE-13, NAMESPACE-48.
#[tokio::test(start_paused = true)]
async fn a_failure_ends_the_sync_only_for_pods() {
    for (resource, expected) in [("secrets", 0), ("pods", 1)] {
        let world = deleted(cluster().server(|server| server), &[pod("p", &[]), map("m", &[])]).await;
        world.fault(rule(Action::InternalError, "deletecollection", resource));
        world.fault(rule(Action::InternalError, "list", resource));
        world.wait(60).await;
        assert_eq!(world.names(MAPS).await.len(), expected, "{resource}");
        assert!(exists(&world).await);
        world.clear_faults();
        world.wait(70).await;
        assert!(!exists(&world).await, "{resource}");
    }
}

/// Returns a filter that answers requests for Widgets with this code while the switch is on.
fn widgets_answer(seen: &Seen, method: &'static str, code: u16, is_on: &Arc<AtomicBool>) -> RequestFilter {
    let is_on = Arc::clone(is_on);
    seen.filter(move |each, target| {
        let concerns = target.contains("/widgets") && (method.is_empty() || each.as_str() == method);
        let reason =
            ["NotFound", "MethodNotAllowed", "ServiceUnavailable"][usize::from(code >= 405) + usize::from(code >= 503)];
        (concerns && is_on.load(Ordering::Relaxed)).then(|| {
            let mut answer = refusal(code, reason, "the server could not find the requested resource", &json!([]));
            if code == 503 {
                answer.headers_mut().insert("retry-after", 30.into());
            }
            answer
        })
    })
}

/// NAMESPACE-16, NAMESPACE-50.
#[tokio::test(start_paused = true)]
async fn a_kind_without_deletion_of_collections_is_deleted_by_name() {
    let (seen, on) = (Seen::default(), Arc::new(AtomicBool::new(true)));
    let is_on = Arc::clone(&on);
    // Only the collection has no DELETE.
    let filter = seen.filter(move |method, target| {
        let is_collection = method == Method::DELETE && target.contains("/widgets?");
        (is_collection && is_on.load(Ordering::Relaxed)).then(|| refusal(405, "MethodNotAllowed", "no", &json!([])))
    });
    let world = cluster().filter(filter).start().await;
    create_widget(&world).await;
    delete_namespace(&world).await;
    assert_gone_after(&world, 5).await;
    let deletions = seen.with("DELETE /apis/example.com/v1/namespaces/shop/widgets/w");
    assert_eq!((deletions.len(), seen.with("GET /apis/example.com/v1/namespaces/shop/widgets").len()), (1, 2));
    assert_eq!(world.sandbox.count(WIDGETS), 0);
}

/// NAMESPACE-19.
#[tokio::test(start_paused = true)]
async fn a_kind_that_cannot_be_listed_counts_as_empty() {
    let (seen, on) = (Seen::default(), Arc::new(AtomicBool::new(true)));
    let world = cluster().filter(widgets_answer(&seen, "GET", 405, &on)).start().await;
    create_widget(&world).await;
    delete_namespace(&world).await;
    assert_gone_after(&world, 5).await;
    assert_eq!(world.sandbox.count(WIDGETS), 0);
}

/// NAMESPACE-61, NAMESPACE-63.
#[tokio::test(start_paused = true)]
async fn a_kind_counts_as_gone_after_the_second_404() {
    let (seen, on) = (Seen::default(), Arc::new(AtomicBool::new(true)));
    let world = cluster().filter(widgets_answer(&seen, "", 404, &on)).start().await;
    create_widget(&world).await;
    delete_namespace(&world).await;
    world.wait(6).await;
    assert!(exists(&world).await);
    assert!(world.explain()["waiting"][0].as_str().unwrap().contains("404"), "{:#}", world.explain());
    world.wait(6).await;
    assert!(!exists(&world).await, "{:#}", world.explain());
    // Another kind fails, so that the next syncs follow within five seconds.
    let world = cluster().filter(widgets_answer(&seen, "", 404, &on)).start().await;
    create_widget(&world).await;
    world.fault(rule(Action::Forbidden, "list", "secrets"));
    world.fault(rule(Action::Forbidden, "deletecollection", "secrets"));
    delete_namespace(&world).await;
    world.wait(6).await;
    assert!(world.explain()["waiting"].to_string().contains("404"), "{:#}", world.explain());
    // The API server serves the kind before the second list.
    let world = cluster().filter(widgets_answer(&seen, "", 404, &on)).start().await;
    create_widget(&world).await;
    delete_namespace(&world).await;
    world.wait(6).await;
    on.store(false, Ordering::Relaxed);
    world.wait(12).await;
    assert_eq!((exists(&world).await, world.sandbox.count(WIDGETS)), (false, 0));
}

/// NAMESPACE-43, NAMESPACE-56.
#[tokio::test(start_paused = true)]
async fn an_extension_server_that_is_down_gets_one_request_in_a_sync() {
    let (seen, on) = (Seen::default(), Arc::new(AtomicBool::new(true)));
    let world = cluster().filter(widgets_answer(&seen, "", 503, &on)).start().await;
    create_widget(&world).await;
    let others: Vec<String> = (0..20).map(|number| format!("n{number}")).collect();
    for other in &others {
        world.create(namespace(other)).await;
    }
    delete_namespace(&world).await;
    for other in &others {
        world.delete(NAMESPACES, other).await;
    }
    world.wait(6).await;
    let requests = seen.with("/widgets").len();
    assert!(requests <= 21 * 12, "{requests} requests in the first second");
    let condition = condition_of(&world, "NamespaceDeletionContentFailure").await;
    assert!(condition.starts_with("True ContentDeletionFailed: "), "{condition}");
    world.wait(600).await;
    // Each attempt is one request, although the server asks for a retry.
    let later = seen.with("/widgets").len() - requests;
    assert!(later <= 21 * 22, "{later} requests in ten minutes");
    on.store(false, Ordering::Relaxed);
    world.wait(70).await;
    assert!(!exists(&world).await);
    for other in &others {
        assert!(world.find(NAMESPACES, other).await.is_none(), "{other}");
    }
}

/// NAMESPACE-21, NAMESPACE-34, NAMESPACE-38, NAMESPACE-39, NAMESPACE-58.
#[tokio::test(start_paused = true)]
async fn conflicts_are_resolved_by_another_read() {
    for (resource, conflicts) in [(FINALIZE, 3), (STATUS, 1)] {
        let world = deleted(cluster(), &[map("m", &[])]).await;
        world.fault(rule(Action::Conflict, "update", resource).times(conflicts));
        assert_gone_after(&world, 5).await;
        let reads = if resource == FINALIZE { 4 } else { 1 };
        assert_eq!(world.count("get", NAMESPACES), reads, "{resource}");
    }
    let world = deleted(cluster(), &[]).await;
    world.fault(rule(Action::Conflict, "update", FINALIZE));
    world.wait(60).await;
    world.assert_count("update", FINALIZE, 30..=80);
    assert_eq!(world.count("update", FINALIZE) % 4, 0, "four attempts in each sync");
    assert_eq!(world.count("deletecollection", "pods"), 1, "what was empty is not visited again");
    world.clear_faults();
    world.wait(70).await;
    assert!(!exists(&world).await);
}

/// NAMESPACE-34, NAMESPACE-39.
#[tokio::test(start_paused = true)]
async fn lost_answers_and_errors_delay_the_end_only() {
    let requests = [
        ("get", NAMESPACES),
        ("update", STATUS),
        ("deletecollection", MAPS),
        ("list", MAPS),
        ("deletecollection", "pods"),
        ("update", FINALIZE),
    ];
    for (verb, resource) in requests {
        for action in [Action::CutAfter, Action::CutBefore, Action::InternalError, Action::Timeout, Action::Unavailable]
        {
            let world = deleted(cluster(), &[map("m", &[]), map("n", &[])]).await;
            world.fault(rule(action.clone(), verb, resource).times(1));
            world.wait(30).await;
            assert_eq!(world.sandbox.faults().hits(&action), 1, "{verb} {resource} {action:?}");
            assert!(!exists(&world).await, "{verb} {resource} {action:?}: {:#}", world.explain());
            assert_eq!(world.sandbox.count(MAPS), 0);
        }
    }
}

/// NAMESPACE-20, NAMESPACE-60.
#[tokio::test(start_paused = true)]
async fn expired_tokens_end_the_pages_without_an_error() {
    let seen = Seen::default();
    let filter = seen.filter(|_, target| {
        target.contains("continue=").then(|| refusal(410, "Expired", "the token has expired", &json!([])))
    });
    let world = cluster().filter(filter).start().await;
    for number in 0..1200 {
        world.create(map(&format!("m{number}"), &[HOLD])).await;
    }
    delete_namespace(&world).await;
    world.wait(6).await;
    // The second sync deletes the rest, because only the first page is marked.
    assert!(
        condition_of(&world, "NamespaceContentRemaining").await.ends_with("configmaps. has 1200 resource instances")
    );
    assert_eq!(condition_of(&world, "NamespaceDeletionContentFailure").await.split(' ').next(), Some("False"));
    assert!(seen.with("GET /api/v1/namespaces/shop/configmaps ").is_empty());
    let whole = seen.with("GET /api/v1/namespaces/shop/configmaps");
    assert!(whole.iter().any(|request| !request.contains('?')), "a list without pages follows: {whole:?}");
}

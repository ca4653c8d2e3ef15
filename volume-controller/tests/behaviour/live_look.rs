//! Tests of the list of Pods that precedes the removal of a finalizer.

use std::sync::Mutex;

use crate::world::*;

/// VOLUME-23, VOLUME-26, VOLUME-56.
#[tokio::test(start_paused = true)]
async fn a_pod_that_the_cache_lacks_keeps_its_claim_until_it_ends() {
    let world = cluster().start().await;
    world.create(claim("data")).await;
    world.settle().await;
    world.hold("pods");
    world.create(pod_with_claims("p", &["data"])).await;
    world.delete(CLAIMS, "data").await;
    world.wait(600).await;
    assert!(exists(&world, CLAIMS, "data").await);
    world.assert_wrote_nothing();
    // One list every five seconds.
    world.assert_count("list", "pods", 118..=122);
    remove_pod(&world, "p").await;
    world.wait(6).await;
    assert!(!exists(&world, CLAIMS, "data").await);
}

/// VOLUME-23.
#[tokio::test(start_paused = true)]
async fn a_pod_that_gets_its_node_while_the_cache_is_late_keeps_its_claim() {
    let world = cluster().start().await;
    world.create(claim("data")).await;
    world.create(without_node(pod_with_claims("p", &["data"]))).await;
    world.settle().await;
    world.delay("pods", 30);
    let binding = json!({"apiVersion": "v1", "kind": "Binding", "metadata": {"name": "p"},
        "target": {"apiVersion": "v1", "kind": "Node", "name": "node-1"}});
    let path = format!("/api/v1/namespaces/{NAMESPACE}/pods/p/binding");
    world.sandbox.send(Method::POST, &path, "application/json", Some(&binding)).await.unwrap();
    world.delete(CLAIMS, "data").await;
    world.wait(100).await;
    assert!(exists(&world, CLAIMS, "data").await);
    world.assert_wrote_nothing();
}

/// VOLUME-25, VOLUME-54.
#[tokio::test(start_paused = true)]
async fn a_thousand_claims_that_are_deleted_together_cost_a_few_lists() {
    let world = cluster().start().await;
    for number in 0..1000 {
        world.create(claim(&format!("data-{number}"))).await;
    }
    world.create(pod_with_claims("p", &["data-7"])).await;
    world.settle().await;
    world.clear_log();
    world
        .sandbox
        .send(Method::DELETE, &format!("/api/v1/namespaces/{NAMESPACE}/{CLAIMS}"), "application/json", None)
        .await
        .unwrap();
    world.wait(30).await;
    assert_eq!(world.names(CLAIMS).await, ["data-7"]);
    world.assert_count("list", "pods", 1..=20);
    world.assert_count("patch", CLAIMS, 999..=999);
}

/// VOLUME-25, VOLUME-54.
#[tokio::test(start_paused = true)]
async fn a_list_does_not_answer_for_a_claim_that_is_deleted_after_it() {
    let world = cluster().start().await;
    for name in ["first", "data"] {
        world.create(claim(name)).await;
    }
    world.settle().await;
    world.hold("pods");
    world.fault(rule(Action::LateAnswer(Duration::from_secs(2)), "list", "pods").times(1));
    world.delete(CLAIMS, "first").await;
    world.wait(1).await;
    // The server has read the list. The Pod gets its node before its claim is deleted.
    world.create(pod_with_claims("p", &["data"])).await;
    world.delete(CLAIMS, "data").await;
    world.wait(60).await;
    assert!(!exists(&world, CLAIMS, "first").await && exists(&world, CLAIMS, "data").await);
}

/// Returns a world with the terminating claims `first` and `data`, which the Pod `p` uses. When the Pod is gone, the list for
/// `first` answers for `data`, too.
async fn two_terminating_claims() -> World {
    let world = cluster().start().await;
    for name in ["first", "data"] {
        world.create(claim(name)).await;
    }
    world.create(pod_with_claims("p", &["first", "data"])).await;
    world.delete(CLAIMS, "first").await;
    world.delete(CLAIMS, "data").await;
    world.settle().await;
    world.clear_log();
    world
}

/// VOLUME-25.
#[tokio::test(start_paused = true)]
async fn an_answer_is_used_once() {
    let world = two_terminating_claims().await;
    world.fault(rule(Action::InternalError, "patch", CLAIMS).object(NAMESPACE, "data").times(2));
    remove_pod(&world, "p").await;
    world.wait(4).await;
    assert_eq!(world.names(CLAIMS).await, [""; 0]);
    // One list for the first claim, and one for each retry of the second one.
    world.assert_count("list", "pods", 3..=3);
}

/// VOLUME-25, VOLUME-54.
#[tokio::test(start_paused = true)]
async fn an_answer_holds_for_one_second_and_for_one_version() {
    for (delay, is_changed, lists) in [(800, false, 1), (1200, false, 2), (800, true, 2)] {
        let world = two_terminating_claims().await;
        let late = Action::LateAnswer(Duration::from_millis(delay));
        world.fault(rule(late, "patch", CLAIMS).object(NAMESPACE, "first").times(1));
        remove_pod(&world, "p").await;
        world.wait(0.5).await;
        if is_changed {
            world.touch(CLAIMS, "data").await;
        }
        world.wait(10).await;
        assert_eq!(world.names(CLAIMS).await, [""; 0]);
        assert_eq!(pod_lists(&world), lists, "{delay} ms, {is_changed}");
    }
}

/// VOLUME-24.
#[tokio::test(start_paused = true)]
async fn a_list_that_fails_keeps_the_finalizer() {
    for action in [Action::Forbidden, Action::InternalError, Action::CutBefore, Action::CutAfter] {
        let world = cluster().start().await;
        world.create(claim("data")).await;
        world.fault(rule(action.clone(), "list", "pods"));
        world.delete(CLAIMS, "data").await;
        world.wait(20).await;
        assert!(exists(&world, CLAIMS, "data").await, "{action:?}");
        world.assert_wrote_nothing();
        world.assert_count("list", "pods", 8..=14);
        world.clear_faults();
        world.wait(60).await;
        assert!(!exists(&world, CLAIMS, "data").await, "{action:?}");
    }
}

/// VOLUME-24.
#[tokio::test(start_paused = true)]
async fn a_list_that_cannot_be_decoded_keeps_the_finalizer() {
    let world = cluster().lies(&[("\"claimName\":\"data\"", "\"claimName\":7")]).start().await;
    world.create(claim("data")).await;
    world.create(pod_with_claims("p", &["data"])).await;
    world.delete(CLAIMS, "data").await;
    world.wait(60).await;
    world.assert_all_lies_were_told();
    assert!(exists(&world, CLAIMS, "data").await);
    world.assert_wrote_nothing();
    remove_pod(&world, "p").await;
    world.wait(60).await;
    assert!(!exists(&world, CLAIMS, "data").await);
}

/// A filter that keeps the queries of lists of Pods, and answers continue tokens as expired if `expires`.
fn record_lists(expires: bool) -> (Arc<Mutex<Vec<String>>>, RequestFilter) {
    let queries = Arc::new(Mutex::new(Vec::new()));
    let recorded = Arc::clone(&queries);
    let filter: RequestFilter = Arc::new(move |request| {
        let query = request.uri().query().unwrap_or_default();
        let is_list = request.uri().path().ends_with("/pods") && query.contains("fieldSelector");
        if is_list {
            recorded.lock().unwrap().push(query.to_owned());
        }
        let is_expired = is_list && expires && query.contains("continue=");
        is_expired.then(|| refusal(410, "Expired", "the provided continue parameter is too old", &json!([])))
    });
    (queries, filter)
}

/// VOLUME-24, VOLUME-55.
#[tokio::test(start_paused = true)]
async fn the_list_has_pages_and_starts_again_without_them_if_its_token_expires() {
    for (expires, last) in [(false, "&limit=500&continue="), (true, "fieldSelector=spec.nodeName%21%3D")] {
        let (queries, filter) = record_lists(expires);
        let mut world = cluster().filter(filter).stopped().await;
        world.create(claim("data")).await;
        world.create(claim("free")).await;
        for number in 0..510 {
            world.create(pod_with_claims(&format!("p-{number:03}"), &["other"])).await;
        }
        world.start();
        world.settle().await;
        world.hold("pods");
        // It is on the last page.
        world.create(pod_with_claims("q", &["data"])).await;
        world.delete(CLAIMS, "data").await;
        world.delete(CLAIMS, "free").await;
        world.wait(4).await;
        assert_eq!((exists(&world, CLAIMS, "data").await, exists(&world, CLAIMS, "free").await), (true, false));
        let queries = queries.lock().unwrap();
        assert_eq!(queries[0], "fieldSelector=spec.nodeName%21%3D&limit=500");
        let whole = queries.iter().any(|query| if expires { query == last } else { query.contains(last) });
        assert!(whole && queries.iter().all(|query| !query.contains("resourceVersion")), "{queries:?}");
    }
}

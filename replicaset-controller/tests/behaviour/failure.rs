//! Refused requests, lost answers and outages.

use std::sync::{
    Arc,
    atomic::{AtomicBool, AtomicU64, Ordering},
};

use http::Method;
use sandbox::{Action, Rule};
use serde_json::{Value, json};

use crate::world::{
    CONTROLLER_IDENTITY, NAMESPACE, REPLICA_SET_RESOURCE, RequestFilter, TestCluster, TestClusterSetup,
    refusal_response, replica_set,
};

/// A filter that refuses creations of Pods while `is_refusing` is true, and counts the refusals.
pub(crate) struct PodCreationRefuser {
    pub(crate) is_refusing: Arc<AtomicBool>,
    refusal_count: Arc<AtomicU64>,
}

impl PodCreationRefuser {
    pub(crate) fn new(message: impl Fn(u64) -> String + Send + Sync + 'static, causes: Value) -> (Self, RequestFilter) {
        let (on, tries) = (Arc::new(AtomicBool::new(true)), Arc::new(AtomicU64::new(0)));
        let this = Self { is_refusing: Arc::clone(&on), refusal_count: Arc::clone(&tries) };
        let filter: RequestFilter = Arc::new(move |request| {
            let pods = request.method() == Method::POST && request.uri().path().ends_with("/pods");
            if !pods || !on.load(Ordering::Relaxed) {
                return None;
            }
            let try_ = tries.fetch_add(1, Ordering::Relaxed);
            Some(refusal_response(403, "Forbidden", &message(try_), &causes))
        });
        (this, filter)
    }

    fn attempt_count(&self) -> u64 {
        self.refusal_count.swap(0, Ordering::Relaxed)
    }
}

pub(crate) fn quota_message(try_: u64) -> String {
    format!(
        "pods \"web-{try_:05}\" is forbidden: exceeded quota: q, requested: pods=1, used: pods={try_}, limited: pods=3"
    )
}

/// REPLICASET-18, REPLICASET-22, REPLICASET-37, REPLICASET-38, REPLICASET-46.
#[tokio::test(start_paused = true)]
async fn an_exceeded_quota_costs_one_request_per_back_off() {
    let (quota, filter) = PodCreationRefuser::new(quota_message, json!([]));
    let world = TestCluster::with_setup(TestClusterSetup { filter: Some(filter), ..TestClusterSetup::default() }).await;
    world.create_object(replica_set("web", 10)).await;
    // Attempts: immediately, again after the status write, after 5 ms, and then after 20 ms, 40 ms, ... 20.48 s.
    world.wait_seconds(80).await;
    assert_eq!(quota.attempt_count(), 3 + 11);
    let conditions = world.conditions_of_set("web").await;
    assert_eq!(conditions.len(), 1);
    let c = &conditions[0];
    assert_eq!(
        (&c["type"], &c["status"], &c["reason"]),
        (&json!("ReplicaFailure"), &json!("True"), &json!("FailedCreate"))
    );
    assert_eq!(
        c["message"],
        "pods \"web-00000\" is forbidden: exceeded quota: q, requested: pods=1, used: pods=0, limited: pods=3"
    );
    assert_eq!(world.request_count("patch", "replicasets.apps/status"), 1);
    let events = world.event_texts().await;
    assert!(events.iter().any(|e| e.starts_with("Warning FailedCreate Error creating: pods \"web-0000")), "{events:?}");
    let told = world.loops.as_ref().unwrap().explain(Some("shop/web"));
    assert!(told[0]["waiting"].to_string().contains("FailedCreate: pods"), "{told}");
    quota.is_refusing.store(false, Ordering::Relaxed);
    world.touch_annotation(REPLICA_SET_RESOURCE, "web").await;
    world.wait_until_settled().await;
    assert_eq!((world.active_pod_names().await.len(), world.max_live_pod_count()), (10, 10));
    assert!(world.conditions_of_set("web").await.is_empty());
}

/// REPLICASET-77.
#[tokio::test(start_paused = true)]
async fn a_failure_with_changing_messages_backs_off() {
    let (webhook, filter) = PodCreationRefuser::new(
        |n| format!("admission webhook said {}", ["ah", "oh", "uh"][n as usize % 3]),
        json!([]),
    );
    let world = TestCluster::with_setup(TestClusterSetup { filter: Some(filter), ..TestClusterSetup::default() }).await;
    world.create_object(replica_set("web", 1)).await;
    world.wait_seconds(600).await;
    // The first 17 back-offs take 655 s. The message is updated at most once a minute, and each update causes one more attempt.
    let (tries, writes) = (webhook.attempt_count(), world.request_count("patch", "replicasets.apps/status"));
    assert!((16..=30).contains(&tries) && (2..=11).contains(&writes), "{tries} tries, {writes} writes");
}

/// REPLICASET-79.
#[tokio::test(start_paused = true)]
async fn a_terminating_namespace_is_not_a_failure() {
    let cause = json!([{"reason": "NamespaceTerminating", "message": "namespace shop is being terminated", "field": "metadata.namespace"}]);
    let (going, filter) = PodCreationRefuser::new(|_| "forbidden: namespace is being terminated".to_owned(), cause);
    let world = TestCluster::with_setup(TestClusterSetup { filter: Some(filter), ..TestClusterSetup::default() }).await;
    world.create_object(replica_set("web", 3)).await;
    world.wait_seconds(60).await;
    assert_eq!(going.attempt_count(), 1);
    assert!(world.conditions_of_set("web").await.is_empty() && world.event_texts().await.is_empty());
    // Pods are created again five minutes after the refusal.
    going.is_refusing.store(false, Ordering::Relaxed);
    world.wait_seconds(240).await;
    world.touch_annotation(REPLICA_SET_RESOURCE, "web").await;
    world.wait_until_settled().await;
    assert_eq!(world.active_pod_names().await.len(), 3);
}

/// REPLICASET-42.
#[tokio::test(start_paused = true)]
async fn a_creation_without_an_answer_is_not_repeated() {
    for (action, skip) in [(Action::CutAfter, 0), (Action::CutAfter, 1), (Action::CutAfter, 4)] {
        let world = TestCluster::new().await;
        world
            .sandbox
            .faults()
            .add(Rule::new(action).identity(CONTROLLER_IDENTITY).verb("create").resource("pods").skip(skip).times(1));
        world.create_object(replica_set("web", 7)).await;
        world.wait_until_settled().await;
        assert_eq!(
            (world.active_pod_names().await.len(), world.max_live_pod_count(), world.request_count("create", "pods")),
            (7, 7, 7),
            "{skip}"
        );
        assert!(world.conditions_of_set("web").await.is_empty());
    }
}

/// REPLICASET-42.
#[tokio::test(start_paused = true)]
async fn a_creation_without_an_answer_is_awaited_for_a_minute() {
    for action in [Action::CutBefore, Action::InternalError, Action::Timeout] {
        let world = TestCluster::new().await;
        world
            .sandbox
            .faults()
            .add(Rule::new(action.clone()).identity(CONTROLLER_IDENTITY).verb("create").resource("pods").times(1));
        world.create_object(replica_set("web", 3)).await;
        world.wait_seconds(60).await;
        assert_eq!((world.request_count("create", "pods"), world.active_pod_names().await.len()), (1, 0), "{action:?}");
        assert_eq!(world.conditions_of_set("web").await.len(), 1);
        world.wait_seconds(10).await;
        world.wait_until_settled().await;
        assert_eq!((world.active_pod_names().await.len(), world.max_live_pod_count()), (3, 3), "{action:?}");
        assert!(world.conditions_of_set("web").await.is_empty());
    }
}

/// REPLICASET-47.
#[tokio::test(start_paused = true)]
async fn a_busy_server_is_asked_again_after_retry_after() {
    let world = TestCluster::new().await;
    world.sandbox.faults().add(
        Rule::new(Action::TooManyRequests(3)).identity(CONTROLLER_IDENTITY).verb("create").resource("pods").times(1),
    );
    world.create_object(replica_set("web", 2)).await;
    world.wait_seconds(2).await;
    assert_eq!(world.active_pod_names().await.len(), 0);
    world.wait_until_settled().await;
    assert_eq!((world.active_pod_names().await.len(), world.request_count("create", "pods")), (2, 3));
    assert!(world.event_texts().await.iter().all(|e| e.starts_with("Normal")));
}

/// REPLICASET-29, REPLICASET-37.
#[tokio::test(start_paused = true)]
async fn a_refused_deletion_is_reported_and_retried() {
    let world = TestCluster::new().await;
    world.create_object(replica_set("web", 2)).await;
    world.wait_until_settled().await;
    world
        .sandbox
        .faults()
        .add(Rule::new(Action::InternalError).identity(CONTROLLER_IDENTITY).verb("delete").resource("pods").times(3));
    world.set_replicas("web", 1).await;
    world.wait_seconds(1).await;
    assert_eq!(world.active_pod_names().await.len(), 1);
    let seen: Vec<Value> = world
        .own_writes()
        .iter()
        .filter(|w| w.resource == "replicasets")
        .filter_map(|w| Some(w.after()?["status"]["conditions"][0].clone()))
        .filter(|c| !c.is_null())
        .collect();
    assert_eq!(seen[0]["reason"], "FailedDelete");
    assert!(seen[0]["message"].as_str().unwrap().starts_with("unable to delete pods: "), "{seen:?}");
    assert!(world.event_texts().await.iter().any(|e| e.starts_with("Warning FailedDelete Error deleting: ")));
    assert!(world.conditions_of_set("web").await.is_empty());
    assert_eq!(world.request_count("delete", "pods"), 4);
}

/// REPLICASET-28, REPLICASET-74.
#[tokio::test(start_paused = true)]
async fn deleting_a_missing_pod_is_not_a_failure() {
    let world = TestCluster::new().await;
    world.create_object(replica_set("web", 2)).await;
    world.wait_until_settled().await;
    let names: Vec<String> = world.active_pod_names().await.into_iter().collect();
    // Both Pods were deleted, and an orphan got the name of one of them. The cache shows neither change.
    world.sandbox.faults().hold_watch(CONTROLLER_IDENTITY, "pods");
    for name in &names {
        world.sandbox.delete("pods", Some(NAMESPACE), name).await.unwrap();
    }
    world.wait_seconds(1).await;
    world.create_object(crate::world::orphan_pod(&names[0], "other")).await;
    world.clear_logs();
    world.set_replicas("web", 0).await;
    world.wait_seconds(1).await;
    assert!(world.request_count("delete", "pods") >= 2);
    assert_eq!(world.active_pod_names().await.into_iter().collect::<Vec<_>>(), [names[0].clone()]);
    world.sandbox.faults().release_watch(CONTROLLER_IDENTITY, "pods");
    world.wait_until_settled().await;
    assert!(world.conditions_of_set("web").await.is_empty());
    assert!(world.event_texts().await.iter().all(|e| !e.contains("Delet")));
    assert_eq!(world.active_pod_names().await.into_iter().collect::<Vec<_>>(), [names[0].clone()]);
}

/// REPLICASET-50.
#[tokio::test(start_paused = true)]
async fn a_set_reaches_its_size_after_an_outage_of_a_minute() {
    let world = TestCluster::new().await;
    world.create_object(replica_set("web", 50)).await;
    world.clock.sleep(std::time::Duration::from_millis(1)).await;
    world.sandbox.faults().go_down_for(std::time::Duration::from_mins(1));
    world.wait_seconds(200).await;
    world.wait_until_settled().await;
    assert_eq!((world.active_pod_names().await.len(), world.max_live_pod_count()), (50, 50));
    assert_eq!(world.get_object(REPLICA_SET_RESOURCE, "web").await["status"]["readyReplicas"], 50);
}

//! Refused requests, lost answers and outages.

use crate::world::*;

/// Refuses Pods as a quota does.
pub(crate) fn quota() -> Refuser {
    Refuser::new("pods", |attempt| {
        format!(
            "pods \"web-{attempt:05}\" is forbidden: exceeded quota: q, requested: pods=1, used: pods={attempt}, limited: pods=3"
        )
    })
}

/// REPLICASET-18, REPLICASET-22, REPLICASET-37, REPLICASET-38, REPLICASET-46.
#[tokio::test(start_paused = true)]
async fn an_exceeded_quota_costs_one_request_per_back_off() {
    let quota = quota();
    let world = cluster().filter(quota.filter()).start().await;
    world.create(web(10)).await;
    // Attempts: immediately, again after the status write, after 5 ms, and then after 20 ms, 40 ms, ... 20.48 s.
    world.wait(80).await;
    assert_eq!(quota.attempts(), 3 + 11);
    let message =
        "pods \"web-00000\" is forbidden: exceeded quota: q, requested: pods=1, used: pods=0, limited: pods=3";
    let conditions = world.conditions().await;
    assert_eq!(conditions.len(), 1);
    assert_eq!(
        pick(&conditions[0], "type status reason message"),
        json!(["ReplicaFailure", "True", "FailedCreate", message])
    );
    assert_eq!(world.count("update", "replicasets.apps/status"), 1);
    world.assert_event("Warning FailedCreate Error creating: pods \"web-0000").await;
    world.assert_waits("FailedCreate: pods");
    quota.allow();
    world.touch_subject().await;
    world.settle().await;
    assert_eq!((world.active_pods().await.len(), world.max_live_pods()), (10, 10));
    assert!(world.conditions().await.is_empty());
}

/// REPLICASET-77.
#[tokio::test(start_paused = true)]
async fn a_failure_with_changing_messages_backs_off() {
    let webhook = Refuser::new("pods", |n| format!("admission webhook said {}", ["ah", "oh", "uh"][n as usize % 3]));
    let world = cluster().filter(webhook.filter()).start().await;
    world.create(web(1)).await;
    world.wait(600).await;
    // The first 17 back-offs take 655 s. The message is updated at most once a minute, and each update causes one more attempt.
    let (tries, writes) = (webhook.attempts(), world.count("update", "replicasets.apps/status"));
    assert!((16..=30).contains(&tries) && (2..=11).contains(&writes), "{tries} tries, {writes} writes");
}

/// REPLICASET-79.
#[tokio::test(start_paused = true)]
async fn a_terminating_namespace_is_not_a_failure() {
    let late = |_: &Value, name: &str| orphan_pod(name, "web");
    conformance::a_terminating_namespace_costs_one_creation(&cluster(), web(3), late).await;
}

/// REPLICASET-42.
#[tokio::test(start_paused = true)]
async fn a_creation_without_an_answer_is_not_repeated() {
    for skip in [0, 1, 4] {
        let world = cluster().start().await;
        world.fault(rule(Action::CutAfter, "create", "pods").skip(skip).times(1));
        world.create_and_settle(web(7)).await;
        assert_eq!((world.max_live_pods(), world.count("create", "pods")), (7, 7), "{skip}");
        assert_eq!(world.active_pods().await.len(), 7, "{skip}");
        assert!(world.conditions().await.is_empty());
    }
}

/// REPLICASET-42.
#[tokio::test(start_paused = true)]
async fn a_creation_without_an_answer_is_awaited_for_a_minute() {
    for action in [Action::CutBefore, Action::InternalError, Action::Timeout] {
        let world = cluster().start().await;
        world.fault(rule(action.clone(), "create", "pods").times(1));
        world.create(web(3)).await;
        world.wait(60).await;
        assert_eq!((world.count("create", "pods"), world.active_pods().await.len()), (1, 0), "{action:?}");
        assert_eq!(world.conditions().await.len(), 1);
        world.wait(10).await;
        world.settle().await;
        assert_eq!((world.active_pods().await.len(), world.max_live_pods()), (3, 3), "{action:?}");
        assert!(world.conditions().await.is_empty());
    }
}

/// REPLICASET-47.
#[tokio::test(start_paused = true)]
async fn a_busy_server_is_asked_again_after_retry_after() {
    let world = cluster().start().await;
    world.fault(rule(Action::TooManyRequests(3), "create", "pods").times(1));
    world.create(web(2)).await;
    world.wait(2).await;
    assert_eq!(world.active_pods().await.len(), 0);
    world.settle().await;
    assert_eq!((world.active_pods().await.len(), world.count("create", "pods")), (2, 3));
    assert!(world.events().await.iter().all(|e| e.starts_with("Normal")));
}

/// REPLICASET-29, REPLICASET-37.
#[tokio::test(start_paused = true)]
async fn a_refused_deletion_is_reported_and_retried() {
    let world = cluster().settled(web(2)).await;
    world.fault(rule(Action::InternalError, "delete", "pods").times(3));
    world.scale(1).await;
    world.wait(1).await;
    assert_eq!(world.active_pods().await.len(), 1);
    let seen: Vec<Value> = world
        .own_writes()
        .iter()
        .filter(|w| w.resource == "replicasets")
        .filter_map(|w| Some(w.after()?["status"]["conditions"][0].clone()))
        .filter(|c| !c.is_null())
        .collect();
    assert_eq!(seen[0]["reason"], "FailedDelete");
    assert!(seen[0]["message"].as_str().unwrap().starts_with("unable to delete pods: "), "{seen:?}");
    assert!(world.events().await.iter().any(|e| e.starts_with("Warning FailedDelete Error deleting: ")));
    assert!(world.conditions().await.is_empty());
    assert_eq!(world.count("delete", "pods"), 4);
}

/// REPLICASET-28, REPLICASET-74.
#[tokio::test(start_paused = true)]
async fn deleting_a_missing_pod_is_not_a_failure() {
    let world = cluster().settled(web(2)).await;
    let names: Vec<String> = world.active_pods().await.into_iter().collect();
    // Both Pods were deleted, and an orphan got the name of one of them. The cache shows neither change.
    world.hold("pods");
    for name in &names {
        world.delete("pods", name).await;
    }
    world.wait(1).await;
    world.create(orphan_pod(&names[0], "other")).await;
    world.clear_log();
    world.scale(0).await;
    world.wait(1).await;
    assert!(world.count("delete", "pods") >= 2);
    assert_eq!(world.active_pods().await.into_iter().collect::<Vec<_>>(), [names[0].clone()]);
    world.release("pods");
    world.settle().await;
    assert!(world.conditions().await.is_empty());
    assert!(world.events().await.iter().all(|e| !e.contains("Delet")));
    assert_eq!(world.active_pods().await.into_iter().collect::<Vec<_>>(), [names[0].clone()]);
}

/// REPLICASET-50.
#[tokio::test(start_paused = true)]
async fn a_set_reaches_its_size_after_an_outage_of_a_minute() {
    let world = cluster().start().await;
    world.create(web(50)).await;
    world.wait(0.001).await;
    world.sandbox.faults().go_down_for(Duration::from_mins(1));
    world.wait(200).await;
    world.settle().await;
    assert_eq!((world.active_pods().await.len(), world.max_live_pods()), (50, 50));
    assert_eq!(world.status().await["readyReplicas"], 50);
}

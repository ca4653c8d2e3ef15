//! Tests of the values that are written, and of the events that lead to a count.

use crate::world::*;

/// RESOURCEQUOTA-9, RESOURCEQUOTA-56, RESOURCEQUOTA-57, RESOURCEQUOTA-68.
#[tokio::test(start_paused = true)]
async fn a_new_quota_gets_its_limits_and_its_usage() {
    let world = cluster().start().await;
    world.create(pod("a", "100m")).await;
    world.create_and_settle(quota("web", json!({"pods": "0002", "requests.cpu": "1000m", "count/secrets": "5"}))).await;
    let status = world.status().await;
    assert_eq!(status["used"], json!({"pods": "1", "requests.cpu": "100m", "count/secrets": "0"}));
    assert_eq!(status["hard"], world.subject().await["spec"]["hard"]);
    world.assert_count("patch", STATUS, 1..=1);
}

/// RESOURCEQUOTA-12, RESOURCEQUOTA-13, RESOURCEQUOTA-14.
#[tokio::test(start_paused = true)]
async fn usage_that_ends_is_released_and_new_usage_is_left_to_admission() {
    let world = cluster().settled(quota("web", json!({"pods": "9", "requests.cpu": "9"}))).await;
    world.clear_log();
    for name in ["a", "b", "c"] {
        world.create(pod(name, "1")).await;
    }
    world.wait(60).await;
    assert_eq!((used(&world, "pods").await, used(&world, "requests.cpu").await), ("3".into(), "3".into()));
    world.assert_wrote_nothing();
    world.delete("pods", "a").await;
    world.patch_pod_status("b", json!({"phase": "Succeeded"})).await;
    world.wait(2).await;
    assert_eq!((used(&world, "pods").await, used(&world, "requests.cpu").await), ("1".into(), "1".into()));
}

/// RESOURCEQUOTA-9, RESOURCEQUOTA-57, RESOURCEQUOTA-88.
#[tokio::test(start_paused = true)]
async fn a_changed_quota_is_counted_at_once() {
    let world = cluster().start().await;
    world.create(secret("a")).await;
    world.create(pod("a", "1")).await;
    world.create_and_settle(quota("web", json!({"pods": "9"}))).await;
    world.change_and_settle(json!({"hard": {"pods": null, "secrets": "9"}})).await;
    let status = world.status().await;
    assert_eq!((&status["hard"], &status["used"]), (&json!({"secrets": "9"}), &json!({"secrets": "1"})));
    world.change_and_settle(json!({"hard": {"secrets": null}})).await;
    assert_eq!(world.subject().await["status"], json!({}));
}

/// RESOURCEQUOTA-11, RESOURCEQUOTA-70, RESOURCEQUOTA-75.
#[tokio::test(start_paused = true)]
async fn a_charge_of_an_object_that_was_never_stored_ends_at_the_full_resync() {
    for (period, used_after) in [(300, "0"), (0, "1")] {
        let cluster = cluster().tunable("resource-quota-sync-period", in_seconds(period));
        let world = cluster.settled(quota("web", json!({"pods": "9"}))).await;
        world.patch_status(QUOTAS, "web", json!({"used": {"pods": "1"}})).await;
        world.wait(200).await;
        assert_eq!(used(&world, "pods").await, "1");
        world.wait(400).await;
        assert_eq!(used(&world, "pods").await, used_after, "{period}");
    }
}

/// RESOURCEQUOTA-48, RESOURCEQUOTA-51, RESOURCEQUOTA-53.
#[tokio::test(start_paused = true)]
async fn overlapping_scopes_count_the_same_pod_twice() {
    let world = cluster().start().await;
    let scoped =
        |name: &str, scope: &str| merged(quota(name, json!({"pods": "9"})), json!({"spec": {"scopes": [scope]}}));
    world.create(scoped("web", "NotTerminating")).await;
    world.create(scoped("best-effort", "BestEffort")).await;
    world.create(object("v1", "Pod", "a", pod_spec("img:1"))).await;
    world.create_and_settle(merged(pod("b", "1"), json!({"spec": {"activeDeadlineSeconds": 60}}))).await;
    world.delete_and_settle("pods", "b").await;
    assert_eq!(used(&world, "pods").await, "1");
    assert_eq!(world.status_of(QUOTAS, "best-effort").await["used"]["pods"], "1");
}

/// RESOURCEQUOTA-72 and the difference about counts after a lowered usage.
#[tokio::test(start_paused = true)]
async fn a_count_that_lacks_a_charged_object_is_repeated() {
    let world = cluster().settled(quota("web", json!({"pods": "9"}))).await;
    world.create(pod("a", "1")).await;
    world.wait(5).await;
    world.delay("pods", 0.5);
    world.create(pod("b", "1")).await;
    world.patch_status(QUOTAS, "web", json!({"used": {"pods": "3"}})).await;
    world.change(json!({"hard": {"pods": "8"}})).await;
    world.wait(0.3).await;
    assert_eq!(used(&world, "pods").await, "1", "the cache lacks a Pod that admission has charged");
    world.wait(2).await;
    assert_eq!(used(&world, "pods").await, "2");
}

/// RESOURCEQUOTA-64, and 500 quotas in one namespace.
#[tokio::test(start_paused = true)]
async fn five_hundred_quotas_with_strange_limits_are_all_counted_once() {
    let world = cluster().start().await;
    world.create(pod("a", "1")).await;
    for number in 0..500 {
        let unknown = format!("example.com/strange-{number}");
        let hard = json!({"pods": "9223372036854775807", "requests.cpu": "1e30", unknown: "1"});
        world.create(quota(&format!("q-{number}"), hard)).await;
    }
    world.create_and_settle(quota("web", json!({"pods": "1"}))).await;
    for quota in world.list(QUOTAS).await {
        assert_eq!(quota["status"]["used"]["pods"], "1");
    }
    world.assert_count("patch", STATUS, 501..=501);
    world.clear_log();
    world.wait(3600).await;
    world.assert_wrote_nothing();
}

//! Tests with refused requests, lost answers and stale caches.

use crate::world::*;

/// RESOURCEQUOTA-60, RESOURCEQUOTA-83, RESOURCEQUOTA-85.
#[tokio::test(start_paused = true)]
async fn a_kind_that_cannot_be_listed_delays_only_its_own_names() {
    let mut world = cluster().stopped().await;
    world.fault(rule(Action::Forbidden, "watch", "secrets"));
    world.fault(rule(Action::Forbidden, "list", "secrets"));
    world.start();
    world.create(quota("web", json!({"secrets": "5", "pods": "5"}))).await;
    world.wait(60).await;
    assert_eq!(world.status().await["used"], json!({"pods": "0"}));
    world.assert_waits("secrets cannot be listed: ");
    world.assert_count("patch", STATUS, 1..=1);
    world.clear_faults();
    world.wait(1200).await;
    assert_eq!(used(&world, "secrets").await, "0");
}

/// RESOURCEQUOTA-62: a conflict or a lost answer leads to the same status.
#[tokio::test(start_paused = true)]
async fn a_refused_write_is_repeated() {
    for action in [Action::Conflict, Action::CutBefore, Action::CutAfter, Action::InternalError] {
        let world = cluster().settled(quota("web", json!({"pods": "9"}))).await;
        world.create(pod("a", "1")).await;
        world.fault(rule(action, "patch", STATUS).times(1));
        world.delete("pods", "a").await;
        world.wait(60).await;
        assert_eq!(used(&world, "pods").await, "0");
        world.assert_count("patch", STATUS, 1..=4);
    }
}

/// RESOURCEQUOTA-61, RESOURCEQUOTA-63.
#[tokio::test(start_paused = true)]
async fn a_new_process_finds_nothing_to_do() {
    let mut world = cluster().settled(quota("web", json!({"pods": "9", "count/secrets": "1"}))).await;
    world.create(pod("a", "1")).await;
    world.wait(5).await;
    world.crash();
    world.clear_log();
    world.start();
    world.wait(86_400).await;
    world.assert_wrote_nothing();
    assert_eq!(world.explain()["state"], "settled");
}

/// RESOURCEQUOTA-100.
#[tokio::test(start_paused = true)]
async fn a_new_leader_counts_what_existed_when_its_term_began() {
    let mut world = cluster().settled(quota("web", json!({"pods": "9"}))).await;
    world.create(pod("a", "1")).await;
    world.wait(5).await;
    let standby = world.stand_by(CONTROLLER);
    world.wait(5).await;
    world.hold("pods");
    world.crash();
    world.create(pod("b", "1")).await;
    world.clear_log();
    standby.lead();
    world.wait(3).await;
    world.release("pods");
    world.wait(60).await;
    world.assert_wrote_nothing();
    assert_eq!(used(&world, "pods").await, "2");
    let caches = standby.caches().to_string();
    assert!(caches.contains(r#""resource":"pods""#), "{caches}");
}

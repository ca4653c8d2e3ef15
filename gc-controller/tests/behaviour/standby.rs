//! A collector that stands by and then takes over.

use serde_json::json;

use crate::world::{World, owners};

/// GC-67.
#[tokio::test(start_paused = true)]
async fn objects_created_and_deleted_meanwhile_leave_no_keys_in_the_queues() {
    let mut w = World::without_collector().await;
    w.stand_by();
    w.wait(60).await;
    for _ in 0..50 {
        let a = w.map("a", &[]).await;
        w.map("b", &[&a]).await;
        w.wait(1).await;
        for name in ["a", "b"] {
            w.delete_map(name, "Background").await;
        }
        w.wait(1).await;
    }
    let queues = w.running().queues();
    for queue in [&queues[0]["queue"], &queues[0]["orphans"]] {
        assert_eq!((&queue["waiting"], &queue["delayed"]), (&json!([]), &json!([])), "{queues:#}");
    }
    assert_eq!(
        w.sandbox.writes().all().iter().filter(|write| write.identity == crate::world::CONTROLLER_IDENTITY).count(),
        0
    );
}

/// GC-67.
#[tokio::test(start_paused = true)]
async fn a_new_leader_does_the_work_that_arose_before() {
    let mut w = World::without_collector().await;
    w.stand_by();
    w.wait(60).await;
    let (a, b, c) = (w.map("a", &[]).await, w.map("b", &[]).await, w.map("c", &[]).await);
    w.map("below-a", &[&a]).await;
    w.blocking_map("below-b", &[&b]).await;
    w.map("below-c", &[&c]).await;
    w.wait(10).await;
    w.delete_map("a", "Background").await;
    w.delete_map("b", "Foreground").await;
    w.delete_map("c", "Orphan").await;
    w.wait(10).await;
    assert_eq!(w.maps().await, ["b", "below-a", "below-b", "below-c", "c"]);
    w.running().lead();
    w.settle().await;
    assert_eq!(w.maps().await, ["below-c"]);
    assert!(owners(&w.get("below-c").await).is_empty());
}

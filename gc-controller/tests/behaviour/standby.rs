//! A collector that stands by and then takes over.

use crate::world::*;

/// GC-67.
#[tokio::test(start_paused = true)]
async fn objects_created_and_deleted_meanwhile_leave_no_keys_in_the_queues() {
    let w = without_collector().await;
    let standby = w.stand_by(CONTROLLER);
    w.wait(60).await;
    for _ in 0..50 {
        let a = create_map(&w, "a", &[]).await;
        create_map(&w, "b", &[&a]).await;
        w.wait(1).await;
        for name in ["a", "b"] {
            delete_map(&w, name, "Background").await;
        }
        w.wait(1).await;
    }
    let queues = standby.queues();
    for queue in [&queues[0]["queue"], &queues[0]["orphans"]] {
        assert_eq!(pick(queue, "waiting delayed"), json!([[], []]), "{queues:#}");
    }
    assert_eq!(w.sandbox.writes().all().iter().filter(|write| write.identity == CONTROLLER).count(), 0);
}

/// GC-67.
#[tokio::test(start_paused = true)]
async fn a_new_leader_does_the_work_that_arose_before() {
    let w = without_collector().await;
    let standby = w.stand_by(CONTROLLER);
    w.wait(60).await;
    let (a, b, c) = (create_map(&w, "a", &[]).await, create_map(&w, "b", &[]).await, create_map(&w, "c", &[]).await);
    create_map(&w, "below-a", &[&a]).await;
    create_blocking_map(&w, "below-b", &[&b]).await;
    create_map(&w, "below-c", &[&c]).await;
    w.wait(10).await;
    delete_map(&w, "a", "Background").await;
    delete_map(&w, "b", "Foreground").await;
    delete_map(&w, "c", "Orphan").await;
    w.wait(10).await;
    assert_eq!(maps(&w).await, ["b", "below-a", "below-b", "below-c", "c"]);
    standby.lead();
    w.settle().await;
    assert_eq!(maps(&w).await, ["below-c"]);
    assert!(owner_names(&w.get(MAPS, "below-c").await).is_empty());
}

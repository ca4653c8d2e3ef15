//! In shadow mode (decide everything, write nothing), runs are decided when they are due, and no Job is created.

use crate::world::*;

/// CRONJOB-72.
#[tokio::test(start_paused = true)]
async fn a_due_run_is_decided_in_time_and_not_started() {
    let world = cluster().shadow().start().await;
    world.create(every_five_minutes(json!({}))).await;
    world.wait(179).await;
    assert_eq!(world.plans(), []);
    world.wait(400).await;
    let starts: Vec<String> = world
        .plans()
        .iter()
        .map(|(at, actions)| format!("{} {}", at.strftime("%H:%M:%S"), actions.join("; ")))
        .collect();
    assert_eq!(
        starts,
        [
            "00:05:00 create Job tick-29538725: it has been due since 2026-03-01T00:05:00Z; write the status",
            "00:10:00 create Job tick-29538730: it has been due since 2026-03-01T00:10:00Z; write the status",
        ]
    );
    world.assert_wrote_nothing();
}

/// CRONJOB-72.
#[tokio::test(start_paused = true)]
async fn runs_are_decided_in_time_although_live_reads_are_missing() {
    let mut world = world_with(every_five_minutes(json!({}))).await;
    world.wait(185).await;
    assert_eq!(active_jobs(&world).await.len(), 1);
    // `status.active` lists a Job that the cache does not hold. In shadow mode, no live read shows whether the Job exists.
    world.crash();
    let path = format!("/apis/batch/v1/namespaces/{NAMESPACE}/jobs/tick-29538725");
    world.delete_with(&path, json!({"propagationPolicy": "Background"})).await;
    world.start_shadow();
    world.wait(600).await;
    let minutes: Vec<String> = world.plans().iter().map(|(at, _)| at.strftime("%H:%M").to_string()).collect();
    assert_eq!(minutes, ["00:05", "00:10", "00:15"], "{:?}", world.plans());
    assert_eq!(world.explain()["waiting"], json!([]));
}

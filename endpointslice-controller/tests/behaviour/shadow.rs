//! Tests of shadow mode, in which the loops decide but write nothing.

use crate::world::*;

/// ENDPOINTSLICE-9, ENDPOINTSLICE-74.
#[tokio::test(start_paused = true)]
async fn shadow_mode_decides_a_batch_after_its_period_and_writes_nothing() {
    let batch = in_seconds(10);
    let world = start(cluster().shadow().tunable("endpointslice-updates-batch-period", batch)).await;
    world.create(web_service(json!({}))).await;
    world.wait(1).await;
    // Ignores the plans of the Endpoints loop, which has the same key and no batch period.
    let slices = || {
        let mut plans = world.plans();
        plans.retain(|(_, actions)| actions.iter().any(|action| action.contains("EndpointSlice")));
        plans
    };
    let decided = slices().len();
    let began = world.clock.now();
    create_pods(&world, 0..5).await;
    world.wait(9).await;
    assert_eq!(slices().len(), decided, "the batch is open");
    world.wait(5).await;
    let plans = slices();
    let (at, actions) = &plans[decided];
    assert_eq!(actions, &["create 1 IPv4 EndpointSlice: 5 endpoints, 5 of them ready"]);
    assert_eq!(at.duration_since(began).as_secs(), 10);
    assert_eq!((slice_write_count(&world), world.list(SLICES).await.len()), (0, 0));
}

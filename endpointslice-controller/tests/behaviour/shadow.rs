//! Tests of shadow mode, in which the loops decide but write nothing.

use std::time::Duration;

use common::settings::{OperatorSettings, TunableValue};
use serde_json::json;

use crate::world::{TestCluster, web_service};

/// ENDPOINTSLICE-9, ENDPOINTSLICE-74.
#[tokio::test(start_paused = true)]
async fn shadow_mode_decides_a_batch_after_its_period_and_writes_nothing() {
    let batch = TunableValue::Duration(Duration::from_secs(10));
    let settings =
        OperatorSettings::new().with_shadow_mode(true).with_tunable("endpointslice-updates-batch-period", batch);
    let world = TestCluster::with_settings(settings).await;
    world.create_object(web_service(&json!({}))).await;
    world.wait_seconds(1).await;
    // Ignores the plans of the Endpoints loop, which has the same key and no batch period.
    let slices = || {
        let mut plans = world.acted_plans("shop/web");
        plans.retain(|(_, actions)| actions.iter().any(|action| action.contains("EndpointSlice")));
        plans
    };
    let decided = slices().len();
    let began = world.clock.now();
    world.create_pods(0..5).await;
    world.wait_seconds(9).await;
    assert_eq!(slices().len(), decided, "the batch is open");
    world.wait_seconds(5).await;
    let plans = slices();
    let (at, actions) = &plans[decided];
    assert_eq!(actions, &["create 1 IPv4 EndpointSlice: 5 endpoints, 5 of them ready"]);
    assert_eq!(at.duration_since(began).as_secs(), 10);
    assert_eq!((world.slice_write_count(), world.list_slices().await.len()), (0, 0));
}

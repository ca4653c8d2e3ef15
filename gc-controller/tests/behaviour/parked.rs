use crate::{
    custom::{create_definition, widget},
    world::*,
};

const ADDS: &str = "workqueue_adds_total{name=\"garbage_collector_attempt_to_delete\"}";

/// Starts a cluster with `count` ConfigMaps, each with an owner of a kind that is not served, and waits for so many seconds.
async fn world_with_parked_objects(count: usize, api_version: &str, kind: &str, seconds: u32) -> World {
    let w = with_collector().await;
    for n in 0..count {
        let owner = json!({"apiVersion": api_version, "kind": kind, "name": format!("g{n}"), "uid": format!("g{n}")});
        w.create(map(&format!("c{n}"), &[owner])).await;
    }
    w.wait(seconds).await;
    // Only the virtual nodes of the owners are parked. The decision about a dependent follows the lookup of its owner.
    assert_eq!((maps(&w).await.len(), w.metric(PARKED)), (count, count as u64));
    w
}

/// GC-65, GC-81.
#[tokio::test(start_paused = true)]
async fn parked_objects_cost_nothing_and_are_shown() {
    const MANY: usize = 500;
    let w = world_with_parked_objects(MANY, "example.com/v1", "Widget", 60).await;
    let adds = w.metric(ADDS);
    w.wait(3600).await;
    assert_eq!(w.metric(ADDS), adds);
    let shown = w.loops().explain(None)[0]["parked"].clone();
    assert_eq!(shown.as_array().unwrap().len(), 1, "{shown:#}");
    assert_eq!(shown[0]["waiting"], "kind Widget of example.com/v1 is not served");
    assert_eq!((&shown[0]["objects"], shown[0]["some"].as_array().unwrap().len()), (&json!(MANY), 10));
    for n in 0..MANY {
        w.delete(MAPS, &format!("c{n}")).await;
    }
    w.wait(60).await;
    assert_eq!(w.metric(PARKED), 0);
}

/// GC-66.
#[tokio::test(start_paused = true)]
async fn parked_objects_continue_once_their_kind_is_served() {
    let w = world_with_parked_objects(50, "example.com/v1", "Widget", 600).await;
    create_definition(&w, "Namespaced").await;
    let alive = w.create(widget("alive", &[])).await;
    w.create(map("kept", &[reference(&alive, false)])).await;
    w.wait(15).await;
    assert_eq!((maps(&w).await, w.metric(PARKED)), (vec!["kept".to_owned()], 0));
}

/// GC-89.
#[tokio::test(start_paused = true)]
async fn an_object_whose_owner_is_in_a_group_that_no_server_has_is_parked() {
    let w = world_with_parked_objects(1, "core/v1", "ConfigMap", 600).await;
    let shown = w.loops().explain(None)[0]["parked"][0]["waiting"].clone();
    assert_eq!(shown, "kind ConfigMap of core/v1 is not served");
}

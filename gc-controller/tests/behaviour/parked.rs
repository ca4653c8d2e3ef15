use crate::{
    custom::{definition, widget},
    world::*,
};

const ADDS: &str = "workqueue_adds_total{name=\"garbage_collector_attempt_to_delete\"}";
const PARKED: &str = "nonet_gc_objects_parked";

fn ghost(n: usize) -> Value {
    json!({"apiVersion": "example.com/v1", "kind": "Widget", "name": format!("g{n}"), "uid": format!("g{n}")})
}

/// GC-65, GC-81.
#[tokio::test(start_paused = true)]
async fn parked_objects_cost_nothing_and_are_shown() {
    const MANY: usize = 500;
    let w = with_collector().await;
    for n in 0..MANY {
        w.create(map(&format!("c{n}"), &[ghost(n)])).await;
    }
    w.wait(60).await;
    // Only the virtual nodes of the owners are parked. The decision about a dependent follows the lookup of its owner.
    assert_eq!(w.metric(PARKED), MANY as u64);
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
    let w = with_collector().await;
    for n in 0..50 {
        w.create(map(&format!("c{n}"), &[ghost(n)])).await;
    }
    w.wait(600).await;
    assert_eq!(maps(&w).await.len(), 50);
    w.create(definition("Namespaced")).await;
    let alive = w.create(widget("alive", &[])).await;
    w.create(map("kept", &[reference(&alive, false)])).await;
    w.wait(15).await;
    assert_eq!(maps(&w).await, ["kept"]);
    assert_eq!(w.metric(PARKED), 0);
}

/// GC-89.
#[tokio::test(start_paused = true)]
async fn an_object_whose_owner_is_in_a_group_that_no_server_has_is_parked() {
    let w = with_collector().await;
    let owner = json!({"apiVersion": "core/v1", "kind": "ConfigMap", "name": "gone", "uid": "gone"});
    w.create(map("kept", &[owner])).await;
    w.wait(600).await;
    assert_eq!((maps(&w).await, w.metric(PARKED)), (vec!["kept".to_owned()], 1));
    let shown = w.loops().explain(None)[0]["parked"][0]["waiting"].clone();
    assert_eq!(shown, "kind ConfigMap of core/v1 is not served");
}

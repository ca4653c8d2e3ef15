//! Tests of the kinds that are watched, and of discovery.

use crate::world::*;

const WIDGETS: &str = "widgets.example.com";

fn widget(name: &str) -> Value {
    object("example.com/v1", "Widget", name, json!({}))
}

async fn define_widgets(world: &World) {
    let widgets = Resource::namespaced("example.com", "v1", "widgets", "Widget");
    world.create(custom_resource_definition(&widgets)).await;
}

/// RESOURCEQUOTA-80, RESOURCEQUOTA-82.
#[tokio::test(start_paused = true)]
async fn only_what_a_quota_counts_is_watched() {
    let world = cluster().start().await;
    world.wait(60).await;
    world.assert_count("watch", "pods", 0..=0);
    world.create_and_settle(quota("web", json!({"services": "1", "count/pods": "1"}))).await;
    world.assert_count("watch", "pods", 1..);
    world.assert_count("watch", "services", 1..);
    world.assert_count("watch", "secrets", 0..=0);
    assert_eq!(world.sandbox.requests().count(Some(CONTROLLER), Some("get"), Some("")), 0, "no discovery");
}

/// RESOURCEQUOTA-4, RESOURCEQUOTA-6, RESOURCEQUOTA-58, RESOURCEQUOTA-84, RESOURCEQUOTA-96.
#[tokio::test(start_paused = true)]
async fn a_kind_that_comes_and_goes_is_counted_while_it_is_served() {
    let world = cluster().settled(quota("web", json!({"count/widgets.example.com": "5", "secrets": "5"}))).await;
    assert_eq!(world.status().await["used"], json!({"secrets": "0"}));
    world.assert_waits("count/widgets.example.com is not counted");
    define_widgets(&world).await;
    world.wait(35).await;
    world.create(widget("a")).await;
    assert_eq!(used(&world, "count/widgets.example.com").await, "1", "admission knows the usage, and charges");
    world.create(widget("b")).await;
    world.delete(WIDGETS, "a").await;
    world.delete(WIDGETS, "b").await;
    world.wait(3).await;
    assert_eq!(used(&world, "count/widgets.example.com").await, "0");
    world.delete("customresourcedefinitions.apiextensions.k8s.io", WIDGETS).await;
    world.clear_log();
    world.wait(600).await;
    world.assert_wrote_nothing();
    assert_eq!(used(&world, "count/widgets.example.com").await, "0", "the name keeps its last value");
}

/// RESOURCEQUOTA-83, RESOURCEQUOTA-85: a namespace that gets its first quota after the start of the watch is listed.
#[tokio::test(start_paused = true)]
async fn a_later_quota_in_another_namespace_counts_what_is_there() {
    let world = cluster().settled(quota("web", json!({"pods": "9"}))).await;
    let in_other = |object: Value| merged(object, json!({"metadata": {"namespace": "other"}}));
    world.create(json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "other"}})).await;
    world.create(in_other(pod("a", "1"))).await;
    world.create(in_other(quota("web", json!({"pods": "9"})))).await;
    world.wait(5).await;
    let status = async || world.sandbox.get(QUOTAS, Some("other"), "web").await.unwrap()["status"]["used"].clone();
    assert_eq!(status().await, json!({"pods": "1"}));
    world.sandbox.delete("pods", Some("other"), "a").await.unwrap();
    world.wait(5).await;
    assert_eq!(status().await, json!({"pods": "0"}));
}

/// RESOURCEQUOTA-80.
#[tokio::test(start_paused = true)]
async fn a_watch_ends_with_the_last_quota_that_needs_it() {
    let world = cluster().settled(quota("web", json!({"pods": "9", "count/secrets": "5"}))).await;
    world.create(quota("other", json!({"count/secrets": "5"}))).await;
    let is_watched = |plural: &str| world.loops().caches().to_string().contains(&format!(r#""resource":"{plural}""#));
    world.delete(QUOTAS, "web").await;
    world.wait(5).await;
    assert_eq!(["secrets", "pods"].map(is_watched), [true, false]);
    world.delete(QUOTAS, "other").await;
    world.wait(5).await;
    assert!(!is_watched("secrets"));
}

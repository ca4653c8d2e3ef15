//! Custom resources, which are added and removed at run time.

use crate::world::*;

pub(crate) const WIDGETS: &str = "widgets.example.com";

/// Creates the definition of the kind Widget.
pub(crate) async fn create_definition(w: &World, scope: &str) {
    let widgets = Resource::namespaced("example.com", "v1", "widgets", "Widget");
    w.create(merged(custom_resource_definition(&widgets), json!({"spec": {"scope": scope}}))).await;
}

pub(crate) async fn delete_definition(w: &World) {
    w.sandbox.delete("customresourcedefinitions.apiextensions.k8s.io", None, WIDGETS).await.unwrap();
}

pub(crate) fn widget(name: &str, references: &[Value]) -> Value {
    merged(map(name, references), json!({"apiVersion": "example.com/v1", "kind": "Widget"}))
}

/// Creates a ConfigMap with this owner.
async fn create_owned_map(w: &World, name: &str, owner: &Value) {
    w.create(map(name, &[reference(owner, false)])).await;
}

/// GC-5, GC-82.
#[tokio::test(start_paused = true)]
async fn a_definition_that_is_removed_and_returns_deletes_no_dependent_of_an_existing_owner() {
    let w = with_collector().await;
    create_definition(&w, "Namespaced").await;
    let a = w.create(widget("a", &[])).await;
    create_owned_map(&w, "c", &a).await;
    w.settle().await;
    delete_definition(&w).await;
    w.wait(60).await;
    create_definition(&w, "Namespaced").await;
    let a = w.create(widget("a", &[])).await;
    create_owned_map(&w, "d", &a).await;
    w.wait(120).await;
    w.settle().await;
    assert_eq!(maps(&w).await, ["d"], "the first owner was deleted with its definition, the second exists");
}

/// GC-36, GC-55.
#[tokio::test(start_paused = true)]
async fn references_of_custom_resources_are_removed_though_they_take_no_strategic_patch() {
    let w = collector_with("a; p").await;
    create_definition(&w, "Namespaced").await;
    let owners = [reference(&w.get(MAPS, "a").await, false), reference(&w.get(MAPS, "p").await, true)];
    w.create_and_settle(widget("b", &owners)).await;
    delete_map_and_settle(&w, "a", "Orphan").await;
    let b = w.get(WIDGETS, "b").await;
    assert_eq!(owner_names(&b), ["p"]);
    assert_eq!(b["metadata"]["ownerReferences"][0]["blockOwnerDeletion"], true);
}

/// GC-30, GC-66, GC-81.
#[tokio::test(start_paused = true)]
async fn an_owner_of_a_kind_that_is_not_served_never_counts_as_deleted() {
    let w = with_collector().await;
    let ghost = json!({"apiVersion": "example.com/v1", "kind": "Widget", "name": "g", "uid": "g"});
    let c = w.create(map("c", &[ghost])).await;
    w.wait(3600).await;
    assert_eq!(maps(&w).await, ["c"]);
    let explained = w.loops().explain(c["metadata"]["uid"].as_str())[0].take();
    assert!(explained["waiting"][0].as_str().unwrap().contains("is not served"), "{explained}");
    // Once the kind is served, a lookup shows that the owner does not exist.
    create_definition(&w, "Namespaced").await;
    w.wait(60).await;
    w.settle().await;
    assert_eq!(graph(&w).await, "");
}

/// GC-39.
#[tokio::test(start_paused = true)]
async fn a_cluster_scoped_owner_counts_in_every_namespace() {
    let w = with_collector().await;
    create_definition(&w, "Cluster").await;
    let mut a = widget("a", &[]);
    a["metadata"].as_object_mut().unwrap().remove("namespace");
    let a = w.create(a).await;
    create_owned_map(&w, "c", &a).await;
    w.settle().await;
    assert_eq!(maps(&w).await, ["c"]);
    w.sandbox.delete(WIDGETS, None, "a").await.unwrap();
    w.settle().await;
    assert_eq!(graph(&w).await, "");
}

/// GC-6.
#[tokio::test(start_paused = true)]
async fn a_group_whose_discovery_fails_is_still_watched() {
    let w = with_collector().await;
    create_definition(&w, "Namespaced").await;
    let (a, b) = (w.create(widget("a", &[])).await, w.create(widget("b", &[])).await);
    w.wait(20).await;
    create_owned_map(&w, "c", &a).await;
    w.sandbox.faults().silence_group("example.com");
    w.wait(60).await;
    create_owned_map(&w, "d", &b).await;
    w.settle().await;
    assert_eq!(maps(&w).await, ["c", "d"]);
    // The collector still watches the objects of the group.
    w.delete_and_settle(WIDGETS, "a").await;
    assert_eq!(maps(&w).await, ["d"]);
    w.clear_faults();
    w.wait(60).await;
    w.delete_and_settle(WIDGETS, "b").await;
    assert_eq!(graph(&w).await, "");
}

/// GC-6.
#[tokio::test(start_paused = true)]
async fn owners_of_a_group_whose_discovery_fails_from_the_start_count_as_unknown() {
    let mut w = without_collector().await;
    create_definition(&w, "Namespaced").await;
    let (a, b) = (w.create(widget("a", &[])).await, w.create(widget("b", &[])).await);
    create_owned_map(&w, "c", &a).await;
    create_owned_map(&w, "d", &b).await;
    w.delete(WIDGETS, "b").await;
    create_graph(&w, "e; f: e", "ConfigMap").await;
    delete_map(&w, "e", "Background").await;
    w.sandbox.faults().silence_group("example.com");
    w.start();
    w.wait(600).await;
    assert_eq!(maps(&w).await, ["c", "d"], "objects of other kinds are collected meanwhile");
    w.clear_faults();
    w.wait(60).await;
    w.settle().await;
    assert_eq!(maps(&w).await, ["c"]);
}

//! Custom resources, which are added and removed at run time.

use serde_json::{Value, json};

use crate::world::{NAMESPACE, World, map, owners, reference};

pub(crate) fn definition(scope: &str) -> Value {
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "widgets.example.com"},
        "spec": {
            "group": "example.com", "scope": scope, "names": {"plural": "widgets", "kind": "Widget"},
            "versions": [{"name": "v1", "served": true, "storage": true,
                "schema": {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}}}],
        }
    })
}

const DEFINITIONS: &str = "customresourcedefinitions.apiextensions.k8s.io";

pub(crate) fn widget(name: &str, references: &[Value]) -> Value {
    json!({"apiVersion": "example.com/v1", "kind": "Widget",
        "metadata": {"name": name, "namespace": NAMESPACE, "ownerReferences": references}})
}

/// GC-5.
#[tokio::test(start_paused = true)]
async fn a_new_definition_is_collected_within_two_rounds() {
    let w = World::new().await;
    w.create(definition("Namespaced")).await;
    let a = w.create(widget("a", &[])).await;
    w.create(widget("b", &[reference(&a, false)])).await;
    w.create(map("c", &[reference(&a, false)])).await;
    w.settle().await;
    w.sandbox.delete("widgets.example.com", Some(NAMESPACE), "a").await.unwrap();
    w.settle().await;
    assert_eq!(w.sandbox.list("widgets.example.com", Some(NAMESPACE)).await.unwrap().len(), 0);
    assert_eq!(w.maps().await, [""; 0]);
}

/// GC-36, GC-55.
#[tokio::test(start_paused = true)]
async fn references_of_custom_resources_are_removed_though_they_take_no_strategic_patch() {
    let w = World::new().await;
    w.create(definition("Namespaced")).await;
    let (a, p) = (w.map("a", &[]).await, w.map("p", &[]).await);
    w.create(widget("b", &[reference(&a, false), reference(&p, true)])).await;
    w.settle().await;
    w.delete_map("a", "Orphan").await;
    w.settle().await;
    let b = w.sandbox.get("widgets.example.com", Some(NAMESPACE), "b").await.unwrap();
    assert_eq!(owners(&b), ["p"]);
    assert_eq!(b["metadata"]["ownerReferences"][0]["blockOwnerDeletion"], true);
}

/// GC-30, GC-66, GC-81.
#[tokio::test(start_paused = true)]
async fn an_owner_of_a_kind_that_is_not_served_never_counts_as_deleted() {
    let w = World::new().await;
    let ghost = json!({"apiVersion": "example.com/v1", "kind": "Widget", "name": "g", "uid": "g"});
    let c = w.create(map("c", &[ghost])).await;
    w.wait(3600).await;
    assert_eq!(w.maps().await, ["c"]);
    assert!(w.explain(&c)["waiting"][0].as_str().unwrap().contains("is not served"), "{}", w.explain(&c));
    // Once the kind is served, a lookup shows that the owner does not exist.
    w.create(definition("Namespaced")).await;
    w.wait(60).await;
    w.settle().await;
    assert_eq!(w.maps().await, [""; 0]);
}

/// GC-5, GC-82.
#[tokio::test(start_paused = true)]
async fn a_definition_that_is_removed_and_returns_deletes_no_dependent_of_an_existing_owner() {
    let w = World::new().await;
    w.create(definition("Namespaced")).await;
    let a = w.create(widget("a", &[])).await;
    w.create(map("c", &[reference(&a, false)])).await;
    w.settle().await;
    w.sandbox.delete(DEFINITIONS, None, "widgets.example.com").await.unwrap();
    w.wait(60).await;
    w.create(definition("Namespaced")).await;
    let a = w.create(widget("a", &[])).await;
    w.create(map("d", &[reference(&a, false)])).await;
    w.wait(120).await;
    w.settle().await;
    assert_eq!(w.maps().await, ["d"], "the first owner was deleted with its definition, the second exists");
}

/// GC-39.
#[tokio::test(start_paused = true)]
async fn a_cluster_scoped_owner_counts_in_every_namespace() {
    let w = World::new().await;
    w.create(definition("Cluster")).await;
    let mut a = widget("a", &[]);
    a["metadata"].as_object_mut().unwrap().remove("namespace");
    let a = w.create(a).await;
    w.create(map("c", &[reference(&a, false)])).await;
    w.settle().await;
    assert_eq!(w.maps().await, ["c"]);
    w.sandbox.delete("widgets.example.com", None, "a").await.unwrap();
    w.settle().await;
    assert_eq!(w.maps().await, [""; 0]);
}

/// GC-6.
#[tokio::test(start_paused = true)]
async fn a_group_whose_discovery_fails_is_still_watched() {
    let w = World::new().await;
    w.create(definition("Namespaced")).await;
    let (a, b) = (w.create(widget("a", &[])).await, w.create(widget("b", &[])).await);
    w.wait(20).await;
    w.create(map("c", &[reference(&a, false)])).await;
    w.sandbox.faults().silence_group("example.com");
    w.wait(60).await;
    w.create(map("d", &[reference(&b, false)])).await;
    w.settle().await;
    assert_eq!(w.maps().await, ["c", "d"]);
    // The collector still watches the objects of the group.
    w.sandbox.delete("widgets.example.com", Some(NAMESPACE), "a").await.unwrap();
    w.settle().await;
    assert_eq!(w.maps().await, ["d"]);
    w.sandbox.faults().clear();
    w.wait(60).await;
    w.sandbox.delete("widgets.example.com", Some(NAMESPACE), "b").await.unwrap();
    w.settle().await;
    assert_eq!(w.maps().await, [""; 0]);
}

/// GC-6.
#[tokio::test(start_paused = true)]
async fn owners_of_a_group_whose_discovery_fails_from_the_start_count_as_unknown() {
    let mut w = World::without_collector().await;
    w.create(definition("Namespaced")).await;
    let (a, b) = (w.create(widget("a", &[])).await, w.create(widget("b", &[])).await);
    w.create(map("c", &[reference(&a, false)])).await;
    w.create(map("d", &[reference(&b, false)])).await;
    w.sandbox.delete("widgets.example.com", Some(NAMESPACE), "b").await.unwrap();
    let e = w.map("e", &[]).await;
    w.map("f", &[&e]).await;
    w.delete_map("e", "Background").await;
    w.sandbox.faults().silence_group("example.com");
    w.start();
    w.wait(600).await;
    assert_eq!(w.maps().await, ["c", "d"], "objects of other kinds are collected meanwhile");
    w.sandbox.faults().clear();
    w.wait(60).await;
    w.settle().await;
    assert_eq!(w.maps().await, ["c"]);
}

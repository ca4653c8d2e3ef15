//! Custom resources, which are added and removed at run time.

use crate::world::*;

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
    let w = with_collector().await;
    w.create(definition("Namespaced")).await;
    let a = w.create(widget("a", &[])).await;
    w.create(widget("b", &[reference(&a, false)])).await;
    w.create_and_settle(map("c", &[reference(&a, false)])).await;
    w.delete_and_settle("widgets.example.com", "a").await;
    assert_eq!(w.list("widgets.example.com").await.len(), 0);
    assert_eq!(maps(&w).await, [""; 0]);
}

/// GC-36, GC-55.
#[tokio::test(start_paused = true)]
async fn references_of_custom_resources_are_removed_though_they_take_no_strategic_patch() {
    let w = with_collector().await;
    w.create(definition("Namespaced")).await;
    let (a, p) = (create_map(&w, "a", &[]).await, create_map(&w, "p", &[]).await);
    w.create_and_settle(widget("b", &[reference(&a, false), reference(&p, true)])).await;
    delete_map_and_settle(&w, "a", "Orphan").await;
    let b = w.get("widgets.example.com", "b").await;
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
    assert!(explain(&w, &c)["waiting"][0].as_str().unwrap().contains("is not served"), "{}", explain(&w, &c));
    // Once the kind is served, a lookup shows that the owner does not exist.
    w.create(definition("Namespaced")).await;
    w.wait(60).await;
    w.settle().await;
    assert_eq!(maps(&w).await, [""; 0]);
}

/// GC-5, GC-82.
#[tokio::test(start_paused = true)]
async fn a_definition_that_is_removed_and_returns_deletes_no_dependent_of_an_existing_owner() {
    let w = with_collector().await;
    w.create(definition("Namespaced")).await;
    let a = w.create(widget("a", &[])).await;
    w.create_and_settle(map("c", &[reference(&a, false)])).await;
    w.sandbox.delete(DEFINITIONS, None, "widgets.example.com").await.unwrap();
    w.wait(60).await;
    w.create(definition("Namespaced")).await;
    let a = w.create(widget("a", &[])).await;
    w.create(map("d", &[reference(&a, false)])).await;
    w.wait(120).await;
    w.settle().await;
    assert_eq!(maps(&w).await, ["d"], "the first owner was deleted with its definition, the second exists");
}

/// GC-39.
#[tokio::test(start_paused = true)]
async fn a_cluster_scoped_owner_counts_in_every_namespace() {
    let w = with_collector().await;
    w.create(definition("Cluster")).await;
    let mut a = widget("a", &[]);
    a["metadata"].as_object_mut().unwrap().remove("namespace");
    let a = w.create(a).await;
    w.create_and_settle(map("c", &[reference(&a, false)])).await;
    assert_eq!(maps(&w).await, ["c"]);
    w.sandbox.delete("widgets.example.com", None, "a").await.unwrap();
    w.settle().await;
    assert_eq!(maps(&w).await, [""; 0]);
}

/// GC-6.
#[tokio::test(start_paused = true)]
async fn a_group_whose_discovery_fails_is_still_watched() {
    let w = with_collector().await;
    w.create(definition("Namespaced")).await;
    let (a, b) = (w.create(widget("a", &[])).await, w.create(widget("b", &[])).await);
    w.wait(20).await;
    w.create(map("c", &[reference(&a, false)])).await;
    w.sandbox.faults().silence_group("example.com");
    w.wait(60).await;
    w.create_and_settle(map("d", &[reference(&b, false)])).await;
    assert_eq!(maps(&w).await, ["c", "d"]);
    // The collector still watches the objects of the group.
    w.delete_and_settle("widgets.example.com", "a").await;
    assert_eq!(maps(&w).await, ["d"]);
    w.clear_faults();
    w.wait(60).await;
    w.delete_and_settle("widgets.example.com", "b").await;
    assert_eq!(maps(&w).await, [""; 0]);
}

/// GC-6.
#[tokio::test(start_paused = true)]
async fn owners_of_a_group_whose_discovery_fails_from_the_start_count_as_unknown() {
    let mut w = without_collector().await;
    w.create(definition("Namespaced")).await;
    let (a, b) = (w.create(widget("a", &[])).await, w.create(widget("b", &[])).await);
    w.create(map("c", &[reference(&a, false)])).await;
    w.create(map("d", &[reference(&b, false)])).await;
    w.delete("widgets.example.com", "b").await;
    let e = create_map(&w, "e", &[]).await;
    create_map(&w, "f", &[&e]).await;
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

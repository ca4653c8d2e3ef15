//! References that are wrong.

use serde_json::json;

use crate::world::{ELSEWHERE, ME, NS, World, map, owners, reference};

#[tokio::test(start_paused = true)]
async fn an_owner_in_another_namespace_is_none_and_users_are_told() {
    let w = World::new().await;
    let mut a = map("a", &[]);
    a["metadata"]["namespace"] = json!(ELSEWHERE);
    let a = w.create(a).await;
    w.settle().await;
    w.create(map("c", &[reference(&a, false)])).await;
    w.settle().await;
    assert_eq!(w.maps().await, [""; 0]);
    let events = w.sandbox.list("events", Some(NS)).await.unwrap();
    let uid = a["metadata"]["uid"].as_str().unwrap();
    assert_eq!(events.len(), 1, "{events:#?}");
    assert_eq!(events[0]["reason"], "OwnerRefInvalidNamespace");
    assert_eq!(
        events[0]["message"],
        format!("ownerRef [v1/ConfigMap, namespace: {NS}, name: a, uid: {uid}] does not exist in namespace \"{NS}\"")
    );
}

#[tokio::test(start_paused = true)]
async fn a_forged_reference_costs_well_formed_children_nothing() {
    for forged_first in [true, false] {
        let mut w = World::idle().await;
        let a = w.map("a", &[]).await;
        let mut wrong = reference(&a, false);
        wrong["kind"] = json!("Secret");
        let children = [map("bad", &[wrong]), map("good", &[reference(&a, false)])];
        if !forged_first {
            w.create(children[1].clone()).await;
        }
        w.create(children[0].clone()).await;
        if forged_first {
            w.create(children[1].clone()).await;
        }
        w.sandbox.faults().hold_watch(crate::world::ME, "configmaps");
        w.start();
        w.wait(60).await;
        w.sandbox.faults().release_watch(crate::world::ME, "configmaps");
        w.settle().await;
        assert_eq!(w.maps().await, ["a", "good"], "forged first: {forged_first}");
    }
}

#[tokio::test(start_paused = true)]
async fn of_two_references_with_one_uid_the_right_one_is_never_lost() {
    let w = World::new().await;
    let a = w.map("a", &[]).await;
    let mut wrong = reference(&a, false);
    wrong["name"] = json!("z");
    let gone = json!({"apiVersion": "v1", "kind": "ConfigMap", "name": "x", "uid": "x"});
    w.create(map("c", &[reference(&a, false), wrong, gone])).await;
    w.settle().await;
    assert_eq!(owners(&w.get("c").await), ["a", "z"]);
}

#[tokio::test(start_paused = true)]
async fn a_cluster_scoped_object_is_never_collected_for_a_namespaced_owner() {
    let w = World::new().await;
    let a = w.map("a", &[]).await;
    let class = json!({"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "value": 5,
        "metadata": {"name": "p", "ownerReferences": [reference(&a, false)]}});
    w.create(class).await;
    w.settle().await;
    w.remove("a", "Background").await;
    w.settle().await;
    assert_eq!(w.sandbox.get("priorityclasses.scheduling.k8s.io", None, "p").await.unwrap()["value"], 5);
}

#[tokio::test(start_paused = true)]
async fn an_object_with_very_many_owners_goes_when_the_last_has_gone() {
    let w = World::new().await;
    let mut owners = Vec::new();
    for n in 0..200 {
        owners.push(w.map(&format!("o{n}"), &[]).await);
    }
    w.map("c", &owners.iter().collect::<Vec<_>>()).await;
    w.settle().await;
    for n in 0..199 {
        w.remove(&format!("o{n}"), "Background").await;
    }
    w.settle().await;
    assert_eq!(w.maps().await, ["c", "o199"]);
    w.remove("o199", "Background").await;
    w.settle().await;
    assert_eq!(w.maps().await, [""; 0]);
}

#[tokio::test(start_paused = true)]
async fn a_name_in_a_reference_reaches_no_other_path() {
    let w = World::new().await;
    let a = w.map("a", &[]).await;
    let names = ["a?x=1", "my owner", "a#b", "a/../a", "a/status", "..", "50%"];
    for (n, name) in names.into_iter().enumerate() {
        let mut forged = reference(&a, false);
        forged["name"] = json!(name);
        w.create(map(&format!("c{n}"), &[forged])).await;
    }
    let node = json!({"apiVersion": "v1", "kind": "Node", "name": "n/proxy/pods", "uid": "n"});
    w.create(map("d", &[node])).await;
    w.settle().await;
    // None of them is the name of the object of that uid, nor of any other.
    assert_eq!(w.maps().await, ["a"]);
    let asked = w.sandbox.requests().all();
    let astray: Vec<_> = asked.keys().filter(|r| r.identity == ME && r.resource.contains('/')).collect();
    assert!(astray.is_empty(), "{astray:?}");
    assert_eq!(w.asked("get", "nodes"), 0);
}

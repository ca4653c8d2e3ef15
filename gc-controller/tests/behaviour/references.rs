//! Owner references with a wrong kind, name, UID or namespace.

use crate::world::*;

/// A name is not a UID, and must not read as an object that does not exist.
#[tokio::test(start_paused = true)]
async fn the_name_of_an_object_is_not_a_key() {
    let w = with_collector().await;
    let shown = w.loops().explain(Some("shop/web"))[0].to_string();
    assert!(shown.contains("is not a key of this loop: a key is the UID of an object"), "{shown}");
    assert!(!shown.contains("gone"), "{shown}");
}

/// GC-38.
#[tokio::test(start_paused = true)]
async fn an_owner_in_another_namespace_does_not_count_and_is_reported() {
    let w = with_collector().await;
    let mut a = map("a", &[]);
    a["metadata"]["namespace"] = json!(OTHER_NAMESPACE);
    let a = w.create_and_settle(a).await;
    w.create_and_settle(map("c", &[reference(&a, false)])).await;
    assert_eq!(maps(&w).await, [""; 0]);
    let events = w.list("events").await;
    let uid = a["metadata"]["uid"].as_str().unwrap();
    assert_eq!(events.len(), 1, "{events:#?}");
    assert_eq!(events[0]["reason"], "OwnerRefInvalidNamespace");
    assert_eq!(
        events[0]["message"],
        format!(
            "ownerRef [v1/ConfigMap, namespace: {NAMESPACE}, name: a, uid: {uid}] does not exist in namespace \"{NAMESPACE}\""
        )
    );
}

/// GC-41.
#[tokio::test(start_paused = true)]
async fn a_forged_reference_does_not_affect_right_ones() {
    for forged_first in [true, false] {
        let mut w = without_collector().await;
        let a = create_map(&w, "a", &[]).await;
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
        w.hold(MAPS);
        w.start();
        w.wait(60).await;
        w.release(MAPS);
        w.settle().await;
        assert_eq!(maps(&w).await, ["a", "good"], "forged first: {forged_first}");
    }
}

/// GC-43, GC-83.
#[tokio::test(start_paused = true)]
async fn of_two_references_with_one_uid_the_right_one_is_never_removed() {
    let w = with_collector().await;
    let a = create_map(&w, "a", &[]).await;
    let mut wrong = reference(&a, false);
    wrong["name"] = json!("z");
    let gone = json!({"apiVersion": "v1", "kind": "ConfigMap", "name": "x", "uid": "x"});
    w.create_and_settle(map("c", &[reference(&a, false), wrong, gone])).await;
    assert_eq!(owner_names(&w.get(MAPS, "c").await), ["a", "z"]);
}

/// GC-40.
#[tokio::test(start_paused = true)]
async fn a_cluster_scoped_object_is_never_collected_for_a_namespaced_owner() {
    let w = with_collector().await;
    let a = create_map(&w, "a", &[]).await;
    let class = json!({"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "value": 5,
        "metadata": {"name": "p", "ownerReferences": [reference(&a, false)]}});
    w.create_and_settle(class).await;
    delete_map_and_settle(&w, "a", "Background").await;
    assert_eq!(w.sandbox.get("priorityclasses.scheduling.k8s.io", None, "p").await.unwrap()["value"], 5);
}

/// GC-20, GC-21.
#[tokio::test(start_paused = true)]
async fn an_object_with_very_many_owners_is_deleted_after_the_last_of_them() {
    const MANY: usize = 1000;
    let w = with_collector().await;
    let mut owners = Vec::new();
    for n in 0..MANY {
        owners.push(create_map(&w, &format!("o{n}"), &[]).await);
    }
    let all: Vec<_> = owners.iter().map(|owner| reference(owner, true)).collect();
    w.create_and_settle(map("c", &all)).await;
    w.clear_log();
    // The owners are deleted faster than the collector can write.
    let slow = Action::Latency(Duration::from_secs(1));
    w.fault(rule(slow, "patch", ""));
    for n in 0..MANY - 1 {
        delete_map(&w, &format!("o{n}"), "Background").await;
    }
    w.settle().await;
    assert_eq!(maps(&w).await, ["c", "o999"]);
    assert_eq!(owner_names(&w.get(MAPS, "c").await), ["o999"]);
    let asked = w.count("get", MAPS) + w.count("patch", MAPS);
    assert!(asked < 10, "{asked} requests");
    delete_map_and_settle(&w, "o999", "Background").await;
    assert_eq!(maps(&w).await, [""; 0]);
}

/// GC-45.
#[tokio::test(start_paused = true)]
async fn a_forged_name_in_a_reference_reaches_no_other_path() {
    let w = with_collector().await;
    let a = create_map(&w, "a", &[]).await;
    let names = ["a?x=1", "my owner", "a#b", "a/../a", "a/status", "..", "50%"];
    for (n, name) in names.into_iter().enumerate() {
        let mut forged = reference(&a, false);
        forged["name"] = json!(name);
        w.create(map(&format!("c{n}"), &[forged])).await;
    }
    let node = json!({"apiVersion": "v1", "kind": "Node", "name": "n/proxy/pods", "uid": "n"});
    w.create_and_settle(map("d", &[node])).await;
    // No object can have one of these names, so the owners do not exist and every dependent is deleted.
    assert_eq!(maps(&w).await, ["a"]);
    let asked = w.sandbox.requests().all();
    let astray: Vec<_> = asked.keys().filter(|r| r.identity == CONTROLLER && r.resource.contains('/')).collect();
    assert!(astray.is_empty(), "{astray:?}");
    assert_eq!(w.count("get", "nodes"), 0);
}

/// Delays each read of an object of this resource by two seconds.
fn slow_reads(w: &World, resource: &str) {
    let slow = Action::Latency(Duration::from_secs(2));
    w.fault(rule(slow, "get", resource));
}

/// GC-37, GC-79.
#[tokio::test(start_paused = true)]
async fn a_reference_that_is_corrected_during_the_judgement_stays() {
    for custom in [false, true] {
        let w = with_collector().await;
        let (p, q) = (create_map(&w, "p", &[]).await, create_map(&w, "q", &[]).await);
        let mut wrong = reference(&q, false);
        wrong["kind"] = json!("Secret");
        let mut c = map("c", &[reference(&p, false), wrong]);
        if custom {
            w.create(crate::custom::definition("Namespaced")).await;
            w.wait(20).await;
            (c["apiVersion"], c["kind"]) = (json!("example.com/v1"), json!("Widget"));
        }
        let resource = if custom { "widgets.example.com" } else { MAPS };
        slow_reads(&w, "secrets");
        w.create(c).await;
        w.wait(1).await;
        w.patch_and_settle(
            resource,
            "c",
            json!({"metadata": {"ownerReferences": [reference(&p, false), reference(&q, false)]}}),
        )
        .await;
        let c = w.get(resource, "c").await;
        assert_eq!(owner_names(&c), ["p", "q"], "custom: {custom}");
    }
}

/// GC-37.
#[tokio::test(start_paused = true)]
async fn a_reference_that_is_removed_while_a_cycle_is_broken_does_not_come_back() {
    let w = with_collector().await;
    create_cycle(&w).await;
    slow_reads(&w, MAPS);
    delete_map(&w, "a", "Foreground").await;
    w.wait(1).await;
    w.patch_and_settle(MAPS, "b", json!({"metadata": {"ownerReferences": null}})).await;
    assert_eq!(maps(&w).await, ["b"], "the object has no owner any more");
    assert!(owner_names(&w.get(MAPS, "b").await).is_empty());
}

/// Builds a ConfigMap with one owner reference. The fields in `change` replace fields of the reference.
fn child(name: &str, owner: &Value, blocks: bool, change: Value) -> Value {
    let mut reference = reference(owner, blocks);
    for (field, value) in change.as_object().unwrap() {
        reference[field] = value.clone();
    }
    map(name, &[reference])
}

/// GC-8.
#[tokio::test(start_paused = true)]
async fn a_kind_in_lower_case_names_the_same_owner() {
    for propagation in ["Background", "Foreground"] {
        for blocks in [true, false] {
            let w = with_collector().await;
            let a = create_map(&w, "a", &[]).await;
            w.create(child("b", &a, blocks, json!({"kind": "configmap"}))).await;
            w.create_and_settle(child("c", &a, blocks, json!({}))).await;
            assert_eq!(maps(&w).await, ["a", "b", "c"], "the owner exists");
            delete_map_and_settle(&w, "a", propagation).await;
            assert_eq!(maps(&w).await, [""; 0], "{propagation} {blocks}");
            assert_eq!(w.metric("nonet_gc_objects_parked"), 0);
        }
    }
}

/// GC-8, GC-55.
#[tokio::test(start_paused = true)]
async fn a_dependent_with_a_kind_in_lower_case_is_orphaned_like_any_other() {
    let w = with_collector().await;
    let a = create_map(&w, "a", &[]).await;
    w.create_and_settle(child("b", &a, true, json!({"kind": "configmap"}))).await;
    delete_map_and_settle(&w, "a", "Orphan").await;
    assert_eq!(maps(&w).await, ["b"]);
    assert_eq!(owner_names(&w.get(MAPS, "b").await), [""; 0]);
}

/// GC-8.
#[tokio::test(start_paused = true)]
async fn another_version_of_a_group_names_the_same_owner_in_lower_case_as_well() {
    for propagation in ["Background", "Foreground"] {
        let w = with_collector().await;
        let autoscaler = json!({"apiVersion": "autoscaling/v2", "kind": "HorizontalPodAutoscaler",
            "metadata": {"name": "h", "namespace": NAMESPACE},
            "spec": {"maxReplicas": 2, "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "d"}}});
        let owner = w.create(autoscaler).await;
        let lower = json!({"kind": "horizontalpodautoscaler"});
        let older = json!({"apiVersion": "autoscaling/v1"});
        let both = json!({"apiVersion": "autoscaling/v1", "kind": "horizontalpodautoscaler"});
        for (name, change) in [("lower", lower), ("older", older), ("both", both)] {
            w.create(child(name, &owner, true, change)).await;
        }
        w.settle().await;
        assert_eq!(maps(&w).await, ["both", "lower", "older"], "the owner exists");
        let path = format!("/apis/autoscaling/v2/namespaces/{NAMESPACE}/horizontalpodautoscalers/h");
        let options = json!({"kind": "DeleteOptions", "apiVersion": "v1", "propagationPolicy": propagation});
        w.sandbox.send(Method::DELETE, &path, "application/json", Some(&options)).await.unwrap();
        w.settle().await;
        assert_eq!(maps(&w).await, [""; 0], "{propagation}");
        assert!(
            w.sandbox.get("horizontalpodautoscalers.autoscaling", Some(NAMESPACE), "h").await.is_err(),
            "{propagation}"
        );
    }
}

/// GC-46, GC-86.
#[tokio::test(start_paused = true)]
async fn the_kind_of_a_list_is_not_the_kind_of_an_owner() {
    for kind in ["ConfigMapList", "configmaplist", "configMap", MAPS] {
        let w = with_collector().await;
        let a = create_map(&w, "a", &[]).await;
        w.create(child("b", &a, false, json!({ "kind": kind }))).await;
        w.wait(3600).await;
        assert_eq!(maps(&w).await, ["a", "b"], "{kind}: the owner exists");
        assert_eq!(w.metric("nonet_gc_objects_parked"), 1, "{kind}: the object waits for a kind with this name");
    }
}

/// GC-71.
#[tokio::test(start_paused = true)]
async fn the_explanation_names_an_owner_that_does_not_exist() {
    let w = with_collector().await;
    let a = create_map(&w, "a", &[]).await;
    let mut wrong = reference(&a, false);
    wrong["name"] = json!("other");
    let c = w.create_and_settle(map("c", &[wrong])).await;
    assert_eq!(maps(&w).await, ["a"]);
    let recent = w.loops().explain(None)[0]["recent"].clone();
    let of_c = |sync: &&Value| sync["key"] == c["metadata"]["uid"];
    let sync = recent.as_array().unwrap().iter().find(of_c).unwrap();
    let deleted = "delete ConfigMap c: no owner keeps it; propagation policy Background; \
        1 added: owner v1/ConfigMap other does not exist";
    assert_eq!(sync["actions"], json!([deleted]));
}

/// GC-27, GC-42.
#[tokio::test(start_paused = true)]
async fn each_missing_owner_is_looked_up_once() {
    const OWNERS: usize = 30;
    let w = with_collector().await;
    w.settle().await;
    w.clear_log();
    let nobody = |name: &str, n: usize| {
        let (version, kind) =
            [("v1", "ConfigMap"), ("v1", "Namespace"), ("neighbour.example.com/v1", "Nothing")][n % 3];
        json!({"apiVersion": version, "kind": kind, "name": name, "blockOwnerDeletion": true,
            "uid": format!("00000000-0000-4000-8000-{n:012x}")})
    };
    let kept = |name: &str, references: &[Value]| {
        let mut kept = map(name, references);
        kept["metadata"]["finalizers"] = json!(["example.com/keep"]);
        kept
    };
    // The two objects name each other, by UIDs that further references use for different objects.
    for n in 0..2 {
        w.create(kept(&format!("ring-{n}"), &[nobody(&format!("ring-{}", 1 - n), 1 - n)])).await;
    }
    for number in 0..10 {
        let numbers = number * OWNERS..(number + 1) * OWNERS;
        let references: Vec<Value> = numbers.map(|n| nobody(&format!("nobody-{n}"), n)).collect();
        w.create(kept(&format!("kept-{number}"), &references)).await;
    }
    w.wait(3600).await;
    assert_eq!(maps(&w).await.len(), 12, "owners of a kind that is not served may exist");
    let asked = (w.count("get", MAPS), w.count("get", "namespaces"));
    assert!(asked.0 <= 10 * OWNERS as u64 && asked.1 <= 10 * OWNERS as u64, "{asked:?}");
}

/// GC-69.
#[tokio::test(start_paused = true)]
async fn denied_changes_of_references_are_reported_on_the_object_of_the_sync() {
    let w = with_collector().await;
    let a = create_map(&w, "a", &[]).await;
    let b = create_map(&w, "b", &[]).await;
    let stays = create_map(&w, "stays", &[]).await;
    create_map(&w, "kept", &[&a, &stays]).await;
    create_map(&w, "orphan", &[&b]).await;
    w.settle().await;
    w.clear_log();
    w.fault(rule(Action::Forbidden, "patch", MAPS));
    delete_map(&w, "a", "Background").await;
    delete_map(&w, "b", "Orphan").await;
    w.wait(60).await;
    let events = w.list("events").await;
    let messages = |name: &str| {
        let of = events.iter().filter(|event| event["involvedObject"]["name"] == name);
        of.map(|event| format!("{} {} {}", event["type"], event["reason"], event["message"])).collect::<Vec<_>>()
    };
    for name in ["kept", "b"] {
        let messages = messages(name);
        let start = "\"Warning\" \"FailedUpdate\" \"Error: changing the owner references of";
        assert!(
            messages.iter().any(|event| event.starts_with(start) && event.contains("is forbidden")),
            "{name}: {messages:?}"
        );
    }
    let tries = w.count("patch", MAPS);
    assert!(tries <= 60, "retries must back off: {tries}");
    w.clear_faults();
    w.wait(200).await;
    assert_eq!(maps(&w).await, ["kept", "orphan", "stays"]);
}

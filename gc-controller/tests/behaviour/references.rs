//! Owner references with a wrong kind, name, UID or namespace.

use crate::{
    custom::{WIDGETS, create_definition},
    world::*,
};

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
    let a = w.create_and_settle(merged(map("a", &[]), json!({"metadata": {"namespace": OTHER_NAMESPACE}}))).await;
    w.create_and_settle(map("c", &[reference(&a, false)])).await;
    assert_eq!(graph(&w).await, "");
    let uid = text(&a["metadata"], "uid");
    let event = format!(
        "Warning OwnerRefInvalidNamespace ownerRef [v1/ConfigMap, namespace: {NAMESPACE}, name: a, uid: {uid}] does not exist in \
         namespace \"{NAMESPACE}\""
    );
    assert_eq!(w.events().await, [event]);
}

/// GC-40.
#[tokio::test(start_paused = true)]
async fn a_cluster_scoped_object_is_never_collected_for_a_namespaced_owner() {
    let w = with_collector().await;
    let a = create_map(&w, "a").await;
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
    let owners: Vec<String> = (0..MANY).map(|n| format!("o{n}")).collect();
    let w = collector_with(&format!("{}; c: {}!", owners.join("; "), owners.join("! "))).await;
    // The owners are deleted faster than the collector can write.
    w.fault(rule(Action::Latency(Duration::from_secs(1)), "patch", ""));
    for owner in &owners[1..] {
        delete_map(&w, owner, "Background").await;
    }
    w.settle().await;
    assert_eq!(graph(&w).await, "c: o0!; o0");
    let asked = w.count("get", MAPS) + w.count("patch", MAPS);
    assert!(asked < 10, "{asked} requests");
    delete_map_and_settle(&w, "o0", "Background").await;
    assert_eq!(graph(&w).await, "");
}

/// GC-45.
#[tokio::test(start_paused = true)]
async fn a_forged_name_in_a_reference_reaches_no_other_path() {
    let w = with_collector().await;
    let a = create_map(&w, "a").await;
    for (n, name) in ["a?x=1", "my owner", "a#b", "a/../a", "a/status", "..", "50%"].into_iter().enumerate() {
        w.create(child(&format!("c{n}"), &a, false, json!({ "name": name }))).await;
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

/// GC-37, GC-79.
#[tokio::test(start_paused = true)]
async fn a_reference_that_is_corrected_during_the_judgement_stays() {
    for resource in [MAPS, WIDGETS] {
        let w = collector_with("p; q").await;
        let [p, q] = [reference(&w.get(MAPS, "p").await, false), reference(&w.get(MAPS, "q").await, false)];
        let mut c = map("c", &[p.clone(), merged(q.clone(), json!({"kind": "Secret"}))]);
        if resource == WIDGETS {
            create_definition(&w, "Namespaced").await;
            w.wait(20).await;
            (c["apiVersion"], c["kind"]) = (json!("example.com/v1"), json!("Widget"));
        }
        w.fault(rule(Action::Latency(Duration::from_secs(2)), "get", "secrets"));
        w.create(c).await;
        w.wait(1).await;
        w.patch_and_settle(resource, "c", json!({"metadata": {"ownerReferences": [p, q]}})).await;
        assert_eq!(owner_names(&w.get(resource, "c").await), ["p", "q"], "{resource}");
    }
}

/// GC-37.
#[tokio::test(start_paused = true)]
async fn a_reference_that_is_removed_while_a_cycle_is_broken_does_not_come_back() {
    let w = collector_with("a: b!; b: a!").await;
    w.fault(rule(Action::Latency(Duration::from_secs(2)), "get", MAPS));
    delete_map(&w, "a", "Foreground").await;
    w.wait(1).await;
    w.patch_and_settle(MAPS, "b", json!({"metadata": {"ownerReferences": null}})).await;
    assert_eq!(graph(&w).await, "b", "the object has no owner any more");
}

/// Builds a ConfigMap with one owner reference, into which `change` is merged.
fn child(name: &str, owner: &Value, blocks: bool, change: Value) -> Value {
    map(name, &[merged(reference(owner, blocks), change)])
}

/// GC-8.
#[tokio::test(start_paused = true)]
async fn another_version_of_a_group_names_the_same_owner_in_lower_case_as_well() {
    for propagation in ["Background", "Foreground"] {
        let w = with_collector().await;
        let target = json!({"apiVersion": "apps/v1", "kind": "Deployment", "name": "d"});
        let spec = json!({"maxReplicas": 2, "scaleTargetRef": target});
        let owner = w.create(object("autoscaling/v2", "HorizontalPodAutoscaler", "h", spec)).await;
        let lower = json!({"kind": "horizontalpodautoscaler"});
        let older = json!({"apiVersion": "autoscaling/v1"});
        for (name, change) in [("both", merged(lower.clone(), older.clone())), ("lower", lower), ("older", older)] {
            w.create(child(name, &owner, true, change)).await;
        }
        w.settle().await;
        assert_eq!(graph(&w).await, "both: h!; lower: h!; older: h!", "the owner exists");
        let path = format!("/apis/autoscaling/v2/namespaces/{NAMESPACE}/horizontalpodautoscalers/h");
        w.delete_with(&path, json!({"propagationPolicy": propagation})).await;
        w.settle().await;
        assert_eq!(graph(&w).await, "", "{propagation}");
        assert!(w.find("horizontalpodautoscalers.autoscaling", "h").await.is_none(), "{propagation}");
    }
}

/// GC-46, GC-86.
#[tokio::test(start_paused = true)]
async fn the_kind_of_a_list_or_another_spelling_is_not_the_kind_of_an_owner() {
    for kind in ["ConfigMapList", "configmaplist", "configMap", MAPS] {
        let w = with_collector().await;
        let a = create_map(&w, "a").await;
        w.create(child("b", &a, false, json!({ "kind": kind }))).await;
        w.wait(3600).await;
        assert_eq!(maps(&w).await, ["a", "b"], "{kind}: the owner exists");
        assert_eq!(w.metric(PARKED), 1, "{kind}: the object waits for a kind with this name");
    }
}

/// GC-71.
#[tokio::test(start_paused = true)]
async fn the_explanation_names_an_owner_that_does_not_exist() {
    let w = with_collector().await;
    let a = create_map(&w, "a").await;
    let c = w.create_and_settle(child("c", &a, false, json!({"name": "other"}))).await;
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
    let nobody = |name: &str, n: usize| {
        let (version, kind) =
            [("v1", "ConfigMap"), ("v1", "Namespace"), ("neighbour.example.com/v1", "Nothing")][n % 3];
        json!({"apiVersion": version, "kind": kind, "name": name, "blockOwnerDeletion": true,
            "uid": format!("00000000-0000-4000-8000-{n:012x}")})
    };
    let kept = |name: &str, references: &[Value]| {
        merged(map(name, references), json!({"metadata": {"finalizers": ["example.com/keep"]}}))
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
    let w = collector_with("a; b; kept: a stays; orphan: b; stays").await;
    w.fault(rule(Action::Forbidden, "patch", MAPS));
    delete_map(&w, "a", "Background").await;
    delete_map(&w, "b", "Orphan").await;
    w.wait(60).await;
    let events = w.list("events").await;
    let is_denial = |event: &&Value| {
        let message = text(event, "message");
        (text(event, "type"), text(event, "reason")) == ("Warning", "FailedUpdate")
            && message.starts_with("Error: changing the owner references of")
            && message.contains("is forbidden")
    };
    let reported: BTreeSet<&str> =
        events.iter().filter(is_denial).map(|event| text(&event["involvedObject"], "name")).collect();
    assert_eq!(reported, ["b", "kept"].into(), "{events:#?}");
    let tries = w.count("patch", MAPS);
    assert!(tries <= 60, "retries must back off: {tries}");
    w.clear_faults();
    w.wait(200).await;
    assert_eq!(maps(&w).await, ["kept", "orphan", "stays"]);
}

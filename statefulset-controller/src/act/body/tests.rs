use common::meta::Uid;

use super::*;
use crate::world::{World, world};

fn claims() -> World {
    let claims = json!([
        {"metadata": {"name": "data", "labels": {"app": "db", "tier": "x"}, "annotations": {"a": "1"}},
            "spec": {"fromTheFuture": [1, 2.50]}, "status": {"phase": "Pending"}},
        {"metadata": {"name": "log"}, "spec": {}},
    ]);
    world(1).spec("volumeClaimTemplates", claims)
}

/// STATEFULSET-13, STATEFULSET-14, STATEFULSET-15.
#[test]
fn a_pod_has_the_template_the_name_and_the_claims() {
    let snapshot = claims().snapshot();
    let template = json!({
        "metadata": {"labels": {"app": "web"}, "annotations": {"a": "1"}, "finalizers": ["example.com/f"], "name": "ignored"},
        "spec": {"hostname": "ignored", "volumes": [{"name": "log", "emptyDir": {}}, {"name": "tmp", "emptyDir": {}}],
            "containers": [{"name": "c", "futureField": {"x": [1, 2.50]}}]},
    });
    let pod = build_pod(&snapshot.set, &snapshot.owner, 7, template, "web-x").unwrap();
    assert_eq!(
        pod,
        json!({"apiVersion": "v1", "kind": "Pod",
            "metadata": {"name": "web-7", "generateName": "web-", "namespace": "shop",
                "labels": {"app": "web", "statefulset.kubernetes.io/pod-name": "web-7", "apps.kubernetes.io/pod-index": "7",
                    "controller-revision-hash": "web-x"},
                "annotations": {"a": "1"}, "finalizers": ["example.com/f"],
                "ownerReferences": [{"apiVersion": "apps/v1", "kind": "StatefulSet", "name": "web", "uid": "SET",
                    "controller": true, "blockOwnerDeletion": true}]},
            "spec": {"hostname": "web-7", "subdomain": "web",
                "volumes": [{"name": "data", "persistentVolumeClaim": {"claimName": "data-web-7"}},
                    {"name": "log", "persistentVolumeClaim": {"claimName": "log-web-7"}}, {"name": "tmp", "emptyDir": {}}],
                "containers": [{"name": "c", "futureField": {"x": [1, 2.50]}}]}})
    );
}

/// STATEFULSET-13.
#[test]
fn a_set_without_a_service_or_claims_adds_neither() {
    let snapshot = world(1).spec("serviceName", json!("")).snapshot();
    let template = json!({"metadata": null, "spec": {"subdomain": "ignored", "containers": []}});
    let pod = build_pod(&snapshot.set, &snapshot.owner, 0, template, "r").unwrap();
    assert_eq!(pod["spec"], json!({"hostname": "web-0", "containers": []}));
    assert!(super::build_pod(&snapshot.set, &snapshot.owner, 0, json!({"spec": 7}), "r").is_none());
}

/// STATEFULSET-40.
#[test]
fn a_claim_is_its_template_with_the_labels_of_the_selector() {
    let snapshot = claims().snapshot();
    let set = &snapshot.set;
    assert_eq!(
        build_volume_claim(set, &set.volume_claim_templates[0], "data-web-0").unwrap(),
        json!({"apiVersion": "v1", "kind": "PersistentVolumeClaim",
            "metadata": {"name": "data-web-0", "namespace": "shop", "labels": {"app": "web", "tier": "x"},
                "annotations": {"a": "1"}},
            "spec": {"fromTheFuture": [1, 2.50]}})
    );
    assert_eq!(
        build_volume_claim(set, &set.volume_claim_templates[1], "log-web-0").unwrap()["metadata"]["labels"],
        json!({"app": "web"})
    );
}

/// STATEFULSET-32, STATEFULSET-33.
#[test]
fn a_revision_holds_the_bytes_that_are_hashed() {
    let mut world = world(1);
    world.set["metadata"]["annotations"] = json!({"kubernetes.io/change-cause": "a < b"});
    world.set["spec"]["template"]["spec"]["containers"][0]["args"] = json!(["a<b", "\u{2028}"]);
    let snapshot = world.snapshot();
    let hash = world.template_hash(0);
    let text = build_revision(&snapshot, 3, 0, &format!("web-{hash}")).unwrap();
    // The exact bytes matter: a server stores them unchanged, and a JSON parser would hide the differences.
    let data = concat!(
        r#"{"spec":{"template":{"$patch":"replace","metadata":{"labels":{"app":"web"}},"#,
        r#""spec":{"containers":[{"args":["a\u003cb","\u2028"],"image":"img:a","name":"c"}]}}}}"#
    );
    assert!(text.get().contains(&format!(r#""data":{data},"revision":3"#)), "{}", text.get());
    assert_eq!(
        snapshot.template.revision_data().bytes(),
        data.as_bytes(),
        "the bytes that are sent are the bytes that are hashed"
    );
    let value: Value = serde_json::from_str(text.get()).unwrap();
    assert_eq!(value["metadata"]["labels"], json!({"app": "web", "controller.kubernetes.io/hash": hash}));
    assert_eq!(value["metadata"]["annotations"], json!({"kubernetes.io/change-cause": "a < b"}));
    assert_eq!(value["metadata"]["ownerReferences"][0]["uid"], json!(Uid::new("SET")));
    assert_eq!(value["revision"], 3);
}

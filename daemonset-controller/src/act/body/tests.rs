use common::{object::Object, refs::Owner};

use super::*;
use crate::objects::DAEMON_SETS;

fn pod(template: Value, name: &str, annotations: Value) -> Value {
    let set = json!({"metadata": {"name": name, "namespace": "shop", "uid": "U", "annotations": annotations},
        "spec": {"selector": {"matchLabels": {"app": "agent"}}, "template": template}});
    let set: DaemonSet = serde_json::from_str(&set.to_string()).unwrap();
    let owner = Owner::new(DAEMON_SETS, set.meta());
    let source = PodBodyTemplate::new(&set, &owner, "abc").unwrap();
    serde_json::from_str(&serde_json::to_string(&source.pod_body_for_node("node-1")).unwrap()).unwrap()
}

fn automatic() -> Vec<Value> {
    let toleration = |(key, effect): &(&str, &str)| json!({"key": format!("node.kubernetes.io/{key}"), "operator": "Exists", "effect": effect});
    let taints = [
        ("not-ready", "NoExecute"),
        ("unreachable", "NoExecute"),
        ("disk-pressure", "NoSchedule"),
        ("memory-pressure", "NoSchedule"),
        ("pid-pressure", "NoSchedule"),
        ("unschedulable", "NoSchedule"),
    ];
    taints.iter().map(toleration).collect()
}

fn pin() -> Value {
    json!({"nodeSelectorTerms": [{"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["node-1"]}]}]})
}

/// DAEMONSET-15, DAEMONSET-32, DAEMONSET-33, DAEMONSET-34.
#[test]
fn a_pod_has_the_template_and_is_pinned_to_its_node() {
    let template = json!({
        "metadata": {"labels": {"app": "agent"}, "annotations": {"a": "1"}, "finalizers": ["example.com/f"],
            "creationTimestamp": null, "name": "ignored", "namespace": "ignored"},
        "spec": {"containers": [{"name": "c", "futureField": {"x": [1, 2.5]}}], "fromTheFuture": true},
    });
    let owner = json!({"apiVersion": "apps/v1", "kind": "DaemonSet", "name": "agent", "uid": "U", "controller": true,
        "blockOwnerDeletion": true});
    assert_eq!(
        pod(template, "agent", json!({"deprecated.daemonset.template.generation": "7"})),
        json!({"apiVersion": "v1", "kind": "Pod",
            "metadata": {"generateName": "agent-", "annotations": {"a": "1"}, "finalizers": ["example.com/f"],
                "labels": {"app": "agent", "controller-revision-hash": "abc", "pod-template-generation": "7"},
                "ownerReferences": [owner]},
            "spec": {"containers": [{"name": "c", "futureField": {"x": [1, 2.5]}}], "fromTheFuture": true,
                "affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": pin()}},
                "tolerations": automatic()}})
    );
}

/// DAEMONSET-34.
#[test]
fn preferences_and_other_affinities_stay_and_required_terms_are_replaced() {
    let preferred = json!([{"weight": 1, "preference": {}}]);
    let affinity = json!({"podAffinity": {"a": 1}, "nodeAffinity": {
        "preferredDuringSchedulingIgnoredDuringExecution": preferred,
        "requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [{"matchExpressions": []}]}}});
    for (affinity, wanted) in [
        (
            affinity,
            json!({"podAffinity": {"a": 1}, "nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": preferred,
                "requiredDuringSchedulingIgnoredDuringExecution": pin()}}),
        ),
        (json!(null), json!({"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": pin()}})),
        (
            json!({"nodeAffinity": null}),
            json!({"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": pin()}}),
        ),
    ] {
        let pod = pod(json!({"spec": {"affinity": affinity}}), "agent", json!({}));
        assert_eq!(pod["spec"]["affinity"], wanted);
    }
}

/// DAEMONSET-35.
#[test]
fn an_equal_toleration_of_the_template_is_replaced_in_its_place() {
    let key = "node.kubernetes.io/unreachable";
    let own = json!({"key": key, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300});
    let other = json!({"key": key, "operator": "Exists", "effect": "NoSchedule"});
    let got = pod(json!({"spec": {"hostNetwork": true, "tolerations": [own, other]}}), "agent", json!({}));
    let mut wanted = automatic();
    let unreachable = wanted.remove(1);
    wanted.insert(0, unreachable);
    wanted.insert(1, other);
    wanted.push(json!({"key": "node.kubernetes.io/network-unavailable", "operator": "Exists", "effect": "NoSchedule"}));
    assert_eq!(got["spec"]["tolerations"], json!(wanted));
}

/// DAEMONSET-32, DAEMONSET-33.
#[test]
fn the_dash_of_a_long_name_and_an_invalid_generation_are_omitted() {
    let long = "a".repeat(253);
    let got = pod(json!({}), &long, json!({"deprecated.daemonset.template.generation": "many"}));
    assert_eq!(got["metadata"]["generateName"], long);
    assert_eq!(got["metadata"]["labels"], json!({"controller-revision-hash": "abc"}));
    assert_eq!(
        pod(json!({}), &"a".repeat(252), json!({}))["metadata"]["generateName"],
        format!("{}-", "a".repeat(252))
    );
}

/// DAEMONSET-35.
#[test]
fn every_equal_toleration_is_replaced() {
    let key = "node.kubernetes.io/not-ready";
    let forever = json!({"key": key, "operator": "Exists", "effect": "NoExecute"});
    let for_seconds = |seconds: u32| {
        let mut toleration = forever.clone();
        toleration["tolerationSeconds"] = json!(seconds);
        toleration
    };
    let own = [for_seconds(300), forever.clone(), for_seconds(60)];
    let got = pod(json!({"spec": {"tolerations": own}}), "agent", json!({}));
    let all = got["spec"]["tolerations"].as_array().unwrap();
    let same: Vec<_> = all.iter().filter(|toleration| toleration["key"] == key).collect();
    assert_eq!(same, [&forever, &forever, &forever]);
}

use common::partial_object::PartialObject;
use serde_json::{Value, json};

use super::*;
use crate::{
    objects::{Claim, CountedObject as _, DEVICE_CLASSES, Pod, ResourceClaim, Service},
    world::{GATES, at, decoded, snapshot, sums_of},
};

fn pods(pods: &[Value]) -> (&'static str, KindState) {
    ("pods", KindState::Counted(sums_of::<Pod>(pods)))
}

fn cpu_pod(requests: &str, patch: &Value) -> Value {
    let mut pod = json!({"spec": {"containers": [{"name": "a", "resources": {"requests": {"cpu": requests}}}]}});
    for (field, value) in patch.as_object().unwrap() {
        pod["spec"][field] = value.clone();
    }
    pod
}

fn used(plan: &Plan) -> Vec<(String, String)> {
    plan.used.iter().map(|(name, limit)| (name.to_string(), limit.text.to_string())).collect()
}

fn texts(expected: &[(&str, &str)]) -> Vec<(String, String)> {
    expected.iter().map(|(name, text)| ((*name).to_owned(), (*text).to_owned())).collect()
}

#[test]
fn every_hard_name_that_is_counted_gets_a_value() {
    // RESOURCEQUOTA-57, RESOURCEQUOTA-98: also a name without any object, and no name that left the spec.
    let hard = json!({"pods": "10", "count/pods": "10", "requests.cpu": "4", "limits.memory": "1Gi"});
    let status = json!({"hard": {"secrets": "1"}, "used": {"secrets": "1"}});
    let finished = json!({"status": {"phase": "Failed"}});
    let kinds = [pods(&[cpu_pod("500m", &json!({})), cpu_pod("1", &json!({})), finished])];
    let plan = decide(&snapshot(&json!({"hard": hard}), &status, &kinds));
    assert_eq!(
        used(&plan),
        texts(&[("count/pods", "3"), ("limits.memory", "0"), ("pods", "2"), ("requests.cpu", "1500m")])
    );
    assert!(plan.is_write_needed && plan.is_recount_needed, "admission charged nothing yet");
    let status =
        json!({"hard": hard, "used": {"count/pods": "2", "limits.memory": "0", "pods": "2", "requests.cpu": "1500m"}});
    let plan = decide(&snapshot(&json!({"hard": hard}), &status, &kinds));
    assert!(plan.is_write_needed && !plan.is_recount_needed);
}

#[test]
fn an_equal_status_is_not_written_in_any_notation() {
    // RESOURCEQUOTA-61, RESOURCEQUOTA-91
    let hard = json!({"requests.cpu": "1"});
    let kinds = [pods(&[cpu_pod("500m", &json!({}))])];
    let is_written = |status| decide(&snapshot(&json!({"hard": hard}), &status, &kinds)).is_write_needed;
    assert!(!is_written(json!({"hard": {"requests.cpu": "1000m"}, "used": {"requests.cpu": "0.5"}})));
    assert!(is_written(json!({"hard": {"requests.cpu": "2"}, "used": {"requests.cpu": "0.5"}})));
    assert!(is_written(json!({"hard": hard, "used": {"requests.cpu": "0.6"}})));
    assert!(is_written(json!({"hard": hard})));
    assert!(!decide(&snapshot(&json!({}), &json!({}), &[])).is_write_needed);
}

#[test]
fn a_name_that_nothing_counts_keeps_its_value() {
    // RESOURCEQUOTA-21, RESOURCEQUOTA-58
    let hard = json!({"example.com/gpu": "1", "count/widgets.example.com": "5", "limits.hugepages-2Mi": "1"});
    let status = json!({"hard": hard, "used": {"count/widgets.example.com": "3"}});
    let plan = decide(&snapshot(&json!({"hard": hard}), &status, &[]));
    assert_eq!(used(&plan), texts(&[("count/widgets.example.com", "3")]));
    assert!(!plan.is_write_needed && plan.failures.is_empty());
    assert_eq!(
        plan.wait_reasons()[0],
        "count/widgets.example.com is not counted, because the server serves no such kind"
    );
}

#[test]
fn a_kind_that_cannot_be_counted_keeps_only_its_own_names() {
    // RESOURCEQUOTA-60
    let hard = json!({"pods": "1", "services": "5", "services.nodeports": "5"});
    let status = json!({"hard": hard, "used": {"pods": "7", "services": "3"}});
    let kinds = [pods(&[]), ("services", KindState::Failed("services cannot be listed: 403".to_owned()))];
    let plan = decide(&snapshot(&json!({"hard": hard}), &status, &kinds));
    assert_eq!(used(&plan), texts(&[("pods", "0"), ("services", "3")]));
    assert_eq!(plan.failures, ["services cannot be listed: 403"]);
    assert!(plan.is_write_needed && plan.is_recount_needed);
}

#[test]
fn bare_names_and_counts_are_the_number_of_objects() {
    // RESOURCEQUOTA-16, RESOURCEQUOTA-17, RESOURCEQUOTA-31, RESOURCEQUOTA-36
    let two = |kind| (kind, KindState::Counted(sums_of::<PartialObject>(&[json!({}), json!({})])));
    let hard = json!({"configmaps": "9", "count/configmaps": "9", "secrets": "9", "replicationcontrollers": "9",
        "resourcequotas": "9", "count/deployments.apps": "9", "services": "9", "persistentvolumeclaims": "9"});
    let kinds = [
        two("configmaps"),
        two("secrets"),
        two("replicationcontrollers"),
        two("resourcequotas"),
        two("deployments.apps"),
        ("services", KindState::Counted(sums_of::<Service>(&[json!({}), json!({})]))),
        ("persistentvolumeclaims", KindState::Counted(sums_of::<Claim>(&[json!({}), json!({})]))),
    ];
    let plan = decide(&snapshot(&json!({"hard": hard}), &json!({}), &kinds));
    assert_eq!(plan.used.len(), 8);
    assert!(plan.used.values().all(|limit| &*limit.text == "2"), "{:?}", used(&plan));
}

#[test]
fn scopes_select_pods() {
    // RESOURCEQUOTA-48, RESOURCEQUOTA-49, RESOURCEQUOTA-51, RESOURCEQUOTA-53
    let all = [
        cpu_pod("1", &json!({})),
        cpu_pod("2", &json!({"activeDeadlineSeconds": 5})),
        cpu_pod("4", &json!({"priorityClassName": "gold"})),
        cpu_pod("8", &json!({"priorityClassName": "iron", "activeDeadlineSeconds": 5})),
    ];
    let priority = |operator: &str, values: &[&str]| json!([{"scopeName": "PriorityClass", "operator": operator, "values": values}]);
    let many = "x".repeat(100);
    for (scopes, expressions, sum) in [
        (json!(["Terminating"]), json!([]), "10"),
        (json!(["NotTerminating"]), json!([]), "5"),
        (json!([]), priority("Exists", &[]), "12"),
        (json!([]), priority("In", &["gold", &many]), "4"),
        (json!([]), priority("NotIn", &["gold"]), "11"),
        (json!([]), priority("DoesNotExist", &[]), "3"),
        (json!(["Terminating"]), priority("Exists", &[]), "8"),
        (json!(["VolumeAttributesClass"]), json!([]), "0"),
        (json!(["Invented"]), json!([]), "0"),
        (json!([]), priority("Invented", &[]), "0"),
    ] {
        let spec = json!({"hard": {"cpu": "1", "count/pods": "1"}, "scopes": scopes,
            "scopeSelector": {"matchExpressions": expressions}});
        let plan = decide(&snapshot(&spec, &json!({}), &[pods(&all)]));
        assert_eq!(&*plan.used["cpu"].text, sum, "{spec}");
        assert_eq!(&*plan.used["count/pods"].text == "0", sum == "0", "{spec}");
    }
}

#[test]
fn a_scope_of_attributes_classes_selects_volume_claims() {
    // RESOURCEQUOTA-50, RESOURCEQUOTA-55
    let claim = |spec: &str, current: &str| json!({"spec": {"volumeAttributesClassName": spec}, "status": {"currentVolumeAttributesClassName": current}});
    let sums = sums_of::<Claim>(&[claim("", ""), claim("gold", ""), claim("gold", "iron")]);
    for (operator, values, count) in [
        ("Exists", &[][..], "2"),
        ("DoesNotExist", &[], "1"),
        ("In", &["iron"], "1"),
        ("NotIn", &["gold"], "2"),
        ("NotIn", &["iron"], "3"),
    ] {
        let condition = json!({"scopeName": "VolumeAttributesClass", "operator": operator, "values": values});
        let spec = json!({"hard": {"persistentvolumeclaims": "1"}, "scopeSelector": {"matchExpressions": [condition]}});
        let kinds = [("persistentvolumeclaims", KindState::Counted(sums.clone()))];
        let plan = decide(&snapshot(&spec, &json!({}), &kinds));
        assert_eq!(&*plan.used["persistentvolumeclaims"].text, count, "{condition}");
    }
}

#[test]
fn a_terminating_pod_counts_until_its_end() {
    // RESOURCEQUOTA-29
    let metadata = json!({"deletionTimestamp": at(0), "deletionGracePeriodSeconds": 30});
    let kinds = [pods(&[json!({"metadata": metadata})])];
    let mut snapshot = snapshot(&json!({"hard": {"pods": "1", "count/pods": "1"}}), &json!({}), &kinds);
    for (seconds, count) in [(30, "1"), (31, "0")] {
        snapshot.now = at(seconds);
        let plan = decide(&snapshot);
        assert_eq!(used(&plan), texts(&[("count/pods", "1"), ("pods", count)]));
    }
}

#[test]
fn negative_huge_and_unknown_limits_are_passed_on_and_counted() {
    // RESOURCEQUOTA-56, RESOURCEQUOTA-64
    let hard = json!({"pods": "-5", "cpu": "1e40", "memory": "9223372036854775808", "what.ever/x": "1"});
    let memory = json!({"spec": {"containers": [{"name": "a", "resources": {"requests": {"memory": "8Ei"}}}]}});
    let plan = decide(&snapshot(&json!({"hard": hard}), &json!({}), &[pods(&[memory.clone(), memory])]));
    assert_eq!(used(&plan), texts(&[("cpu", "0"), ("memory", "18446744073709551614"), ("pods", "2")]));
}

#[test]
fn claims_add_to_extended_resources_what_their_pods_do_not_use() {
    // RESOURCEQUOTA-41, RESOURCEQUOTA-45, RESOURCEQUOTA-47, RESOURCEQUOTA-59, RESOURCEQUOTA-97
    let gpu =
        |count| json!({"spec": {"containers": [{"name": "a", "resources": {"requests": {"example.com/gpu": count}}}]}});
    let usage = |object: &Value| Arc::new(decoded::<Pod>(object).usage(GATES).usage);
    let request = |class: &str, count: u32| json!({"name": class, "exactly": {"deviceClassName": class, "allocationMode": "ExactCount", "count": count}});
    let requests = [request("gpu", 3), request("big", 2)];
    let claim = decoded::<ResourceClaim>(&json!({"spec": {"devices": {"requests": requests}}}));
    let claim = Arc::new(claim.usage(GATES).usage);
    let implicit = "requests.deviceclass.resource.kubernetes.io/gpu";
    let hard = json!({"requests.example.com/gpu": "9", implicit: "9"});
    let counted = |resources: &[(&str, Option<&str>)], pod: Option<Value>| {
        let mut snapshot = snapshot(&json!({"hard": hard}), &json!({}), &[pods(&[gpu("2")])]);
        let resources = resources.iter().map(|(class, extended)| (Text::new(class), extended.map(Text::new))).collect();
        snapshot.extended = ExtendedUsage { resources, claims: vec![(Arc::clone(&claim), pod.as_ref().map(usage))] };
        let plan = decide(&snapshot);
        ["requests.example.com/gpu", implicit].map(|name| plan.used[name].text.to_string())
    };
    assert_eq!(counted(&[], None), ["2", "0"]);
    assert_eq!(counted(&[("gpu", None)], None), ["2", "0"], "a class without an extended resource");
    let class = [("gpu", Some("example.com/gpu"))];
    assert_eq!(counted(&class, None), ["5", "3"]);
    assert_eq!(counted(&class, Some(gpu("2"))), ["3", "3"]);
    assert_eq!(counted(&class, Some(gpu("4"))), ["2", "3"]);
    let mut gone = gpu("2");
    gone["metadata"] = json!({"deletionTimestamp": at(-100), "deletionGracePeriodSeconds": 30});
    assert_eq!(counted(&class, Some(gone)), ["5", "3"], "a Pod that no longer counts is not subtracted");
    let both = [class[0], ("big", Some("example.com/gpu"))];
    assert_eq!(counted(&both, None), ["5", "3"], "the largest number of one class");
    let spec = json!({"hard": hard, "scopes": ["NotTerminating"]});
    let mut scoped = snapshot(&spec, &json!({}), &[pods(&[gpu("2")])]);
    let resources = [(Text::new("gpu"), Some(Text::new("example.com/gpu")))].into_iter().collect();
    scoped.extended = ExtendedUsage { resources, claims: vec![(Arc::clone(&claim), None)] };
    assert_eq!(&*decide(&scoped).used["requests.example.com/gpu"].text, "2", "a claim satisfies no scope");
}

#[test]
fn device_kinds_that_cannot_be_counted_keep_extended_resources() {
    // RESOURCEQUOTA-60
    let (hard, claims) = (json!({"requests.example.com/gpu": "9", "pods": "5"}), RESOURCE_CLAIMS.to_string());
    let mut snapshot = snapshot(&json!({"hard": hard}), &json!({}), &[pods(&[json!({})])]);
    snapshot.kinds.insert(Text::new(&claims), KindState::Failed("claims cannot be listed: 403".to_owned()));
    let names = |plan: &Plan| plan.used.keys().map(ToString::to_string).collect::<Vec<_>>();
    snapshot.kinds.insert(Text::new(&DEVICE_CLASSES.to_string()), KindState::Unserved);
    let plan = decide(&snapshot);
    assert_eq!(names(&plan), ["pods"]);
    assert_eq!(plan.failures, ["claims cannot be listed: 403"]);
}

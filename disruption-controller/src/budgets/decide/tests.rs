use std::collections::BTreeMap;

use common::{conditions, discovery::DiscoveredResources, meta::OwnerRef};
use serde_json::{Value, json};

use super::*;
use crate::{
    objects::{ReplicaSets, Workload},
    world::{at, budget, pod, ready_pods, snapshot},
};

fn planned(spec: &Value, pods: usize, replicas: i32) -> Status {
    let snapshot = snapshot(budget(spec, &json!({})), &ready_pods(pods), replicas);
    decide(&snapshot).conclusion.unwrap().unwrap()
}

fn counts(status: &Status) -> [i32; 4] {
    [status.expected_pods, status.desired_healthy, status.current_healthy, status.disruptions_allowed]
}

/// DISRUPTION-8, DISRUPTION-9, DISRUPTION-10, DISRUPTION-11, DISRUPTION-12, DISRUPTION-13, DISRUPTION-32, DISRUPTION-33.
#[test]
fn the_limits_of_a_budget_give_the_counts() {
    // The spec, the number of Pods, the size of their owner, and expected, desired and healthy Pods with the allowed evictions.
    for (spec, pods, replicas, expected) in [
        (json!({"minAvailable": 2}), 3, 9, [3, 2, 3, 1]),
        (json!({"minAvailable": 5}), 3, 9, [3, 5, 3, 0]),
        (json!({"minAvailable": 0}), 3, 9, [3, 0, 3, 3]),
        (json!({"minAvailable": "50%"}), 4, 5, [5, 3, 4, 1]),
        (json!({"minAvailable": "100%"}), 5, 5, [5, 5, 5, 0]),
        (json!({"maxUnavailable": 2}), 5, 5, [5, 3, 5, 2]),
        (json!({"maxUnavailable": 9}), 5, 5, [5, 0, 5, 5]),
        (json!({"maxUnavailable": "30%"}), 5, 5, [5, 3, 5, 2]),
        (json!({"maxUnavailable": 1, "minAvailable": 9}), 3, 3, [3, 2, 3, 1]),
        (json!({}), 3, 3, [0, 0, 3, 0]),
        (json!({"minAvailable": 2}), 0, 9, [0, 2, 0, 0]),
        (json!({"maxUnavailable": 2}), 0, 9, [0, 0, 0, 0]),
        (json!({"maxUnavailable": 1}), 3, 0, [0, 0, 3, 0]),
    ] {
        assert_eq!(counts(&planned(&spec, pods, replicas)), expected, "{spec}");
    }
    assert_eq!(planned(&json!({"minAvailable": 2}), 3, 9).observed_generation, 3);
}

/// DISRUPTION-11.
#[test]
fn a_text_that_is_no_percentage_fails_the_sync() {
    let snapshot = snapshot(budget(&json!({"minAvailable": "two"}), &json!({})), &ready_pods(1), 1);
    let failure = decide(&snapshot).conclusion.unwrap().unwrap_err();
    assert_eq!(failure.text, "invalid value for IntOrString: \"two\" is not a percentage");
    assert_eq!(failure.step, FailedStep::CountExpectedPods);
}

/// DISRUPTION-12, DISRUPTION-67.
#[test]
fn each_owner_counts_once_and_the_sum_does_not_overflow() {
    let sizes = |sizes: &[(&str, i32)]| -> Vec<OwnerSize> {
        sizes.iter().map(|(uid, replicas)| OwnerSize { uid: Uid::new(uid), replicas: *replicas }).collect()
    };
    let spec = crate::objects::BudgetSpec { max_unavailable: Some(1.into()), ..Default::default() };
    for (owners, sum) in [(sizes(&[("a", 3), ("b", 4), ("a", 3)]), 7), (sizes(&[("a", i32::MAX), ("b", 4)]), i32::MAX)]
    {
        assert_eq!(status::expected_counts(&spec, 9, &owners).unwrap().expected, sum);
    }
}

/// DISRUPTION-12, DISRUPTION-23, DISRUPTION-25, DISRUPTION-60.
#[test]
fn owners_are_in_the_order_of_their_first_pods() {
    let none = json!({});
    let pods = [("a", "x"), ("b", "y"), ("c", "x"), ("d", ""), ("e", "y")].map(|(name, owner)| pod(name, owner, &none));
    let pods = pods.into_iter().collect();
    let owners = |spec: &Value| {
        let census = count_pods(&budget(spec, &none), &pods, at(0));
        let owners = census.owners.iter().map(|owner| format!("{} {}", owner.reference.name, owner.pod));
        (owners.collect::<Vec<_>>(), census.has_unmanaged_pods, census.healthy)
    };
    assert_eq!(owners(&json!({"maxUnavailable": 1})), (vec!["x a".to_owned(), "y b".to_owned()], true, 5));
    assert_eq!(owners(&json!({"minAvailable": 1})), (Vec::new(), false, 5));
}

/// DISRUPTION-27.
#[test]
fn a_pod_is_healthy_if_it_is_ready_and_not_terminating() {
    for (patch, healthy) in [
        (json!({}), 1),
        (json!({"status": {"phase": "Failed"}}), 1),
        (json!({"status": {"conditions": [{"type": "Ready", "status": "Unknown"}]}}), 0),
        (json!({"status": {"conditions": null}}), 0),
        (json!({"metadata": {"deletionTimestamp": at(0).to_string()}}), 0),
    ] {
        let pods = [pod("web", "web", &patch)].into_iter().collect();
        assert_eq!(count_pods(&budget(&json!({}), &json!({})), &pods, at(0)).healthy, healthy, "{patch}");
    }
}

/// DISRUPTION-7, DISRUPTION-27, DISRUPTION-28, DISRUPTION-30, DISRUPTION-31.
#[test]
fn an_entry_is_kept_until_its_pod_is_terminating_or_two_minutes_have_passed() {
    let terminating = json!({"metadata": {"deletionTimestamp": at(0).to_string()}});
    let unready = json!({"status": {"conditions": []}});
    let pods = ["fresh", "ending", "ended", "timeless"].map(|name| pod(name, "web", &json!({})));
    let others = [pod("terminating", "web", &terminating), pod("unready", "web", &unready)];
    let pods = pods.into_iter().chain(others).collect();
    let entry = |seconds: i64| at(seconds).to_string();
    let entries = json!({"disruptedPods": {"fresh": entry(-20), "ending": entry(-120), "ended": entry(-121),
        "terminating": entry(-1), "gone": entry(-1), "timeless": null, "unready": entry(-50)}});
    let spec = json!({"minAvailable": 1});
    let census = count_pods(&budget(&spec, &entries), &pods, at(0));
    assert_eq!(census.disrupted_pods.keys().map(Text::as_str).collect::<Vec<_>>(), ["ending", "fresh", "unready"]);
    assert_eq!(census.disrupted_pods["fresh"], Some(at(-20)));
    assert_eq!(census.not_deleted.iter().map(|pod| &*pod.metadata.name).collect::<Vec<_>>(), ["ended", "timeless"]);
    // The Pods `ending`, `ended` and `timeless`.
    assert_eq!(census.healthy, 3);
    let entries = json!({"disruptedPods": {"fresh": entry(-20), "unready": entry(-10)}});
    let snapshot = snapshot(budget(&spec, &entries), &pods, 1);
    assert_eq!(decide(&snapshot).requeue_after(), Some(Duration::from_millis(100_001)));
}

fn condition_of(status: &Status) -> Value {
    serde_json::to_value(conditions::get(&status.conditions, DISRUPTION_ALLOWED).unwrap()).unwrap()
}

/// DISRUPTION-34, DISRUPTION-35, DISRUPTION-36.
#[test]
fn the_condition_says_whether_an_eviction_is_allowed() {
    let old = at(-500).to_string();
    let other = json!({"type": "Other", "status": "True", "reason": "R", "lastTransitionTime": old, "newer": 1});
    let known = json!({"type": DISRUPTION_ALLOWED, "status": "False", "reason": "SyncFailed", "message": "m",
        "lastTransitionTime": old, "observedGeneration": 1});
    let status = |spec: &Value| {
        let budget = budget(spec, &json!({"conditions": [other, known]}));
        decide(&snapshot(budget, &ready_pods(3), 3)).conclusion.unwrap().unwrap()
    };
    let forbidden = status(&json!({"minAvailable": 3}));
    let expected = json!({"type": DISRUPTION_ALLOWED, "status": "False", "reason": "InsufficientPods",
        "lastTransitionTime": old, "observedGeneration": 3});
    assert_eq!(condition_of(&forbidden), expected);
    let allowed = status(&json!({"minAvailable": 2}));
    let expected = json!({"type": DISRUPTION_ALLOWED, "status": "True", "reason": "SufficientPods",
        "lastTransitionTime": at(0).to_string(), "observedGeneration": 3});
    assert_eq!(condition_of(&allowed), expected);
    assert_eq!(serde_json::to_value(&allowed.conditions[0]).unwrap(), other);

    assert!(allowed.is_settled_by(&allowed) && !allowed.is_settled_by(&forbidden));
    let mut stored = allowed.clone();
    stored.conditions[1].message = "old".into();
    stored.conditions[1].extra = BTreeMap::new();
    assert!(allowed.is_settled_by(&stored));
    stored.conditions[1].reason = Text::new("Other");
    assert!(!allowed.is_settled_by(&stored));
    assert!(!allowed.is_settled_by(&Status { observed_generation: 2, ..allowed.clone() }));
    assert!(!allowed.is_settled_by(&Status { expected_pods: 2, ..allowed.clone() }));
}

/// DISRUPTION-38, DISRUPTION-39, DISRUPTION-66.
#[test]
fn a_failure_closes_the_budget_and_leaves_the_counts() {
    let entries = json!({"a": at(0).to_string()});
    let old = json!({"disruptionsAllowed": 2, "currentHealthy": 5, "desiredHealthy": 3, "expectedPods": 5,
        "observedGeneration": 1, "disruptedPods": entries});
    let old = budget(&json!({}), &old).status.declared;
    let closed = closed_status(&old, "no size", at(9));
    assert_eq!(Status { disruptions_allowed: 2, conditions: Vec::new(), ..closed.clone() }, old);
    assert_eq!(closed.disruptions_allowed, 0);
    let expected = json!({"type": DISRUPTION_ALLOWED, "status": "False", "reason": SYNC_FAILED, "message": "no size",
        "lastTransitionTime": at(9).to_string(), "observedGeneration": 1});
    assert_eq!(condition_of(&closed), expected);
    let unobserved = closed_status(&Status { observed_generation: 0, ..old.clone() }, "no size", at(9));
    assert_eq!(condition_of(&unobserved)["observedGeneration"], Value::Null);
    let long = closed_status(&old, &"ä".repeat(20_000), at(9)).conditions[0].message.clone();
    assert!(long.len() <= 32_768 && long.len() > 32_760 && long.ends_with("ä..."), "{}", long.len());
}

/// DISRUPTION-23.
#[test]
fn the_first_owner_that_has_no_size_decides() {
    let failure = || Err(Failure::without_owner("b"));
    for (sizes, expected) in
        [(vec![Ok(None), failure()], None), (vec![failure(), Ok(None)], Some("found no controllers for pod \"b\""))]
    {
        let mut snapshot = snapshot(budget(&json!({"maxUnavailable": 1}), &json!({})), &ready_pods(2), 1);
        snapshot.pods.as_mut().unwrap().sizes = sizes;
        let text = decide(&snapshot).conclusion.map(|conclusion| conclusion.unwrap_err().text);
        assert_eq!(text.as_deref(), expected);
    }
}

/// DISRUPTION-15.
#[test]
fn an_owner_without_a_size_has_the_size_one() {
    let set = r#"{"metadata": {"name": "web", "namespace": "shop", "uid": "U"}, "spec": {}}"#;
    assert_eq!(serde_json::from_str::<Workload<ReplicaSets>>(set).unwrap().replicas, 1);
}

#[test]
fn a_budget_that_allows_no_eviction_says_why() {
    let entries = || BTreeMap::from([(Text::new("a"), None), (Text::new("b"), None)]);
    let status = |expected_pods: i32, disruptions_allowed: i32| Status {
        expected_pods,
        disruptions_allowed,
        desired_healthy: 3,
        current_healthy: 2,
        ..Status::default()
    };
    let needs = "it needs 3 healthy Pods and has 2";
    let entry = "2 approved evictions have not deleted their Pods yet, the first that of a";
    for (status, expected) in [
        (status(3, 1), vec![]),
        (status(3, 0), vec![needs]),
        (status(0, 0), vec!["no Pods are expected, so no eviction is allowed"]),
        (Status { disrupted_pods: entries(), ..status(3, 0) }, vec![needs, entry]),
    ] {
        assert_eq!(blocking_reasons(&status), expected);
    }
}

fn discovered() -> DiscoveredResources {
    let resource = |name: &str, kind: &str, has_scale: bool| {
        let subresources = if has_scale { json!([{"subresource": "scale"}]) } else { json!([]) };
        json!({"resource": name, "responseKind": {"kind": kind}, "scope": "Namespaced", "subresources": subresources})
    };
    let version = |version: &str, freshness: &str, resources: Vec<Value>| json!({"version": version, "freshness": freshness, "resources": resources});
    let group = |name: &str, versions: Vec<Value>| json!({"metadata": {"name": name}, "versions": versions});
    let document = json!({"kind": "APIGroupDiscoveryList", "items": [
        group("", vec![version("v1", "Current", vec![resource("nodes", "Node", false)])]),
        group("batch", vec![version("v1", "Current", vec![resource("jobs", "Job", false)])]),
        group("sim", vec![version("v2", "Current", vec![resource("widgets", "Widget", true)]),
            version("v1", "Current", vec![resource("widgets", "Widget", false)])]),
        group("lost", vec![version("v1", "Stale", vec![resource("things", "Thing", true)])]),
    ]});
    let mut discovered = DiscoveredResources::default();
    discovered.add_document(document.to_string().as_bytes()).unwrap();
    discovered
}

/// DISRUPTION-14, DISRUPTION-16, DISRUPTION-18, DISRUPTION-19, DISRUPTION-62.
#[test]
fn a_scale_is_read_in_the_preferred_version_of_a_served_kind() {
    for (api_version, kind, expected) in [
        ("sim/v2", "Widget", "sim/v2"),
        ("sim/v1", "Widget", "sim/v2"),
        ("sim/v3", "Widget", "no matches for kind \"Widget\" in version \"sim/v3\""),
        ("sim/v1", "widget", "no matches for kind \"widget\" in version \"sim/v1\""),
        ("v1", "Thing", "no matches for kind \"Thing\" in version \"v1\""),
        ("lost/v1", "Thing", "no matches for kind \"Thing\" in version \"lost/v1\""),
        ("batch/v1", "Job", "jobs.batch does not implement the scale subresource"),
        ("v1", "Node", "nodes does not implement the scale subresource"),
    ] {
        let owner: OwnerRef =
            serde_json::from_value(json!({"apiVersion": api_version, "kind": kind, "name": "w", "uid": "W"})).unwrap();
        let found = find_scaled_resource(&discovered(), &owner);
        let found = found.map_or_else(|failure| failure.text, |resource| resource.api_version());
        assert_eq!(found, expected);
        assert_eq!(CachedKind::of(&owner), None);
    }
    for (api_version, kind, cached) in [
        ("v1", "ReplicationController", Some(CachedKind::ReplicationController)),
        ("extensions/v1beta1", "ReplicaSet", Some(CachedKind::ReplicaSet)),
        ("apps/v9", "Deployment", Some(CachedKind::Deployment)),
        ("extensions/v1beta1", "Deployment", Some(CachedKind::Deployment)),
        ("apps/v1", "StatefulSet", Some(CachedKind::StatefulSet)),
        ("extensions/v1beta1", "StatefulSet", None),
        ("apps/v1", "ReplicationController", None),
    ] {
        let owner = json!({"apiVersion": api_version, "kind": kind, "name": "w", "uid": "W"});
        assert_eq!(CachedKind::of(&serde_json::from_value(owner).unwrap()), cached, "{api_version} {kind}");
    }
}

/// DISRUPTION-20, DISRUPTION-22.
#[test]
fn only_a_scale_of_the_owner_has_its_size() {
    for (answer, expected) in [
        (
            json!({"apiVersion": "autoscaling/v1", "kind": "Scale", "metadata": {"uid": "W"}, "spec": {"replicas": 4}}),
            Ok(Some(4)),
        ),
        (json!({"apiVersion": "apps/v1beta2", "kind": "Scale", "metadata": {"uid": "W"}}), Ok(Some(0))),
        (json!({"apiVersion": "autoscaling/v1", "kind": "Scale", "metadata": {"uid": "other"}}), Ok(None)),
        (json!({"apiVersion": "autoscaling/v2", "kind": "Scale", "metadata": {"uid": "W"}}), Err(())),
        (json!({"apiVersion": "autoscaling/v1", "kind": "Widget", "metadata": {"uid": "W"}}), Err(())),
    ] {
        let scale: Scale = serde_json::from_value(answer.clone()).unwrap();
        let size = scale.size_of(&Uid::new("W")).map(|size| size.map(|size| size.replicas)).map_err(drop);
        assert_eq!(size, expected, "{answer}");
    }
}

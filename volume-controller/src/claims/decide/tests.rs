use serde_json::{Value, json};

use super::*;
use crate::{
    objects::NamesClasses as _,
    world::{claim_source, ephemeral_source, held_claim, object, pod, terminating},
};

const NONE: Value = Value::Null;

/// The metadata of a Pod that is terminating with this grace period.
fn ending(seconds: i64) -> Value {
    json!({"deletionTimestamp": "2026-11-30T08:00:00Z", "deletionGracePeriodSeconds": seconds})
}

/// VOLUME-17.
#[test]
fn a_pod_with_a_node_uses_the_claims_that_its_volumes_name_as_long_as_it_exists() {
    let sources = [claim_source("other"), claim_source("data")];
    for owner in [None, Some("web-uid"), Some("other-uid")] {
        let claim = held_claim("data", owner);
        for metadata in [NONE, ending(30), ending(0)] {
            for phase in ["Pending", "Running", "Succeeded", "Failed", ""] {
                assert!(uses(&pod("web", &sources, &metadata, phase), &claim), "{owner:?} {metadata} {phase}");
            }
        }
        assert!(!uses(&pod("web", &sources[..1], &NONE, "Running"), &claim));
    }
}

/// VOLUME-18, VOLUME-19, VOLUME-20.
#[test]
fn an_ephemeral_volume_uses_the_claim_that_the_pod_controls_until_the_pod_is_shut_down() {
    let sources = [claim_source("other"), ephemeral_source()];
    let own = held_claim("web-v1", Some("web-uid"));
    for (metadata, is_used) in [(NONE, true), (ending(30), true), (ending(1), true), (ending(0), false)] {
        let pod = pod("web", &sources, &metadata, "Failed");
        assert_eq!(uses(&pod, &own), is_used, "{metadata}");
        for foreign in [held_claim("web-v1", None), held_claim("web-v1", Some("x")), held_claim("v1", Some("web-uid"))]
        {
            assert!(!uses(&pod, &foreign), "{foreign:?}");
        }
    }
    // A volume of each kind names the same claim.
    let both = pod("web", &[claim_source("web-v1"), ephemeral_source()], &ending(0), "Running");
    assert!(uses(&both, &own));
}

/// VOLUME-16.
#[test]
fn a_pod_without_a_node_uses_no_claim_and_refers_to_it() {
    let claim = held_claim("data", None);
    let volumes = json!([{"name": "v", "persistentVolumeClaim": {"claimName": "data"}}]);
    for node in [NONE, json!("")] {
        let waiting: Arc<Pod> = object(&json!({"metadata": {"name": "p", "namespace": "shop", "uid": "p"},
            "spec": {"nodeName": node, "volumes": volumes}}));
        assert!(!uses(&waiting, &claim) && refers_to(&waiting, &claim));
    }
}

/// VOLUME-29.
#[test]
fn a_finished_pod_refers_to_no_claim() {
    let claim = held_claim("data", None);
    let finished = |deleting: bool, status: Value| {
        let mut metadata = json!({"name": "p", "namespace": "shop", "uid": "p"});
        if deleting {
            metadata["deletionTimestamp"] = json!("2026-11-30T08:00:00Z");
        }
        let spec = json!({"volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": "data"}}]});
        let pod = object(&json!({"metadata": metadata, "spec": spec, "status": status}));
        !refers_to(&pod, &claim)
    };
    let states = |list: &str, states: &[Value]| {
        let statuses: Vec<Value> = states.iter().map(|state| json!({"name": "c", "state": state})).collect();
        json!({"phase": "Running", list: statuses})
    };
    let [waiting, running, terminated] = ["waiting", "running", "terminated"].map(|state| json!({state: {}}));
    for phase in ["Succeeded", "Failed"] {
        assert!(finished(false, json!({"phase": phase})));
    }
    assert!(!finished(false, json!({"phase": "Pending"})) && finished(true, json!({"phase": "Pending"})));
    for list in ["containerStatuses", "initContainerStatuses", "ephemeralContainerStatuses"] {
        for (all, is_finished) in [
            (vec![terminated.clone(), waiting.clone()], true),
            (vec![terminated.clone(), running.clone()], false),
            (vec![json!({})], false),
            (vec![NONE], false),
        ] {
            assert_eq!(finished(true, states(list, &all)), is_finished, "{list} {all:?}");
            assert!(!finished(false, states(list, &all)));
        }
    }
    let ephemeral = pod("web", &[ephemeral_source()], &ending(0), "Running");
    assert!(!refers_to(&ephemeral, &held_claim("web-v0", Some("web-uid"))));
    let shut_down = json!({"metadata": ephemeral_metadata(), "spec": {"volumes": [{"name": "v0", "ephemeral": {}}]},
        "status": states("containerStatuses", &[running])});
    assert!(refers_to(&object(&shut_down), &held_claim("web-v0", Some("web-uid"))));
    assert!(!refers_to(&object(&shut_down), &held_claim("web-v0", None)));
}

fn ephemeral_metadata() -> Value {
    let mut metadata = ending(0);
    for field in ["name", "namespace"] {
        metadata[field] = json!("web");
    }
    metadata["uid"] = json!("web-uid");
    metadata
}

fn plan(claim: &Arc<Claim>, pods: &[Arc<Pod>], is_used_on_server: Option<bool>, writes_condition: bool) -> Plan {
    decide(&Snapshot { claim: Arc::clone(claim), pods: pods.to_vec(), is_used_on_server, writes_condition })
}

/// VOLUME-22, VOLUME-25, VOLUME-26, VOLUME-59.
#[test]
fn the_cache_comes_before_the_list_and_the_list_before_the_removal() {
    let claim = held_claim("data", None);
    let users: Vec<_> = (0..12).map(|n| pod(&format!("web-{n}"), &[claim_source("data")], &NONE, "Running")).collect();
    for answer in [None, Some(false), Some(true)] {
        let used = plan(&claim, &users, answer, false);
        assert_eq!((used.step, used.user_count, used.users.len()), (FinalizerStep::AwaitUsers, 12, 10));
        assert_eq!((used.requeue_after(), used.situation()), (None, "12 cached Pods use it".to_owned()));
        assert_eq!(used.wait_reasons()[0], "Pod web-0 uses it");
    }
    for (answer, step, delay) in [
        (None, FinalizerStep::Remove, None),
        (Some(false), FinalizerStep::Remove, None),
        (Some(true), FinalizerStep::AwaitUsers, Some(Duration::from_secs(5))),
    ] {
        let unused = plan(&claim, &[], answer, false);
        assert_eq!((unused.step, unused.requeue_after()), (step, delay), "{answer:?}");
        assert_eq!(unused.wait_reasons().len(), usize::from(delay.is_some()));
    }
    let live: Arc<Claim> = object(&json!({"metadata": {"name": "data", "namespace": "shop"}}));
    let added = plan(&live, &users, Some(true), false);
    assert_eq!((added.step, added.requeue_after(), added.user_count), (FinalizerStep::Add, None, 0));
}

fn claim_with_condition(status: Option<&str>) -> Arc<Claim> {
    let conditions: Vec<Value> = status.into_iter().map(|status| json!({"type": "Unused", "status": status})).collect();
    let other = json!({"type": "Resizing", "status": "True"});
    let conditions: Vec<Value> = std::iter::once(other).chain(conditions).collect();
    object(&json!({"metadata": {"name": "data", "namespace": "shop", "finalizers": [Claim::FINALIZER]},
        "status": {"conditions": conditions}}))
}

/// VOLUME-28, VOLUME-31, VOLUME-32, VOLUME-33.
#[test]
fn the_condition_follows_the_pods_that_refer_to_the_claim() {
    let referring = [pod("web", &[claim_source("data")], &NONE, "Running")];
    let finished = [pod("web", &[claim_source("data")], &NONE, "Succeeded")];
    for (stored, pods, expected) in [
        (None, &[][..], Some("True")),
        (None, &referring, Some("False")),
        (None, &finished, Some("True")),
        (Some("True"), &[], None),
        (Some("True"), &finished, None),
        (Some("True"), &referring, Some("False")),
        (Some("False"), &[], Some("True")),
        (Some("False"), &referring, None),
        (Some("Unknown"), &[], Some("True")),
        (Some("Unknown"), &referring, None),
    ] {
        let claim = claim_with_condition(stored);
        assert_eq!(plan(&claim, pods, None, true).unused, expected, "{stored:?}");
        assert_eq!(plan(&claim, pods, None, false).unused, None);
    }
    assert_eq!(plan(&held_claim("data", None), &[], None, true).unused, None);
}

/// VOLUME-23, VOLUME-25.
#[test]
fn a_list_answers_for_each_claim_that_was_terminating() {
    let claims = || [held_claim("data", None), held_claim("web-v1", Some("web-uid")), held_claim("free", None)];
    let mut usage = LiveUsage::new(claims());
    let sources = [claim_source("data"), ephemeral_source(), claim_source("unknown"), claim_source("data")];
    usage.add(&pod("web", &sources, &NONE, "Running"));
    usage.add(&pod("late", &[claim_source("data")], &NONE, "Running"));
    assert_eq!(usage.take_user(&claims()[0]).as_deref(), Some("web"));
    let answers: Vec<_> =
        usage.into_answers().map(|(claim, is_used)| (claim.metadata.name.to_string(), is_used)).collect();
    assert_eq!(answers, [("free".to_owned(), false), ("web-v1".to_owned(), true)]);

    let mut usage = LiveUsage::new(claims());
    usage.add(&pod("web", &sources, &NONE, "Running"));
    usage.restart();
    usage.add(&pod("web", &sources, &ending(0), "Running"));
    assert_eq!(usage.take_user(&claims()[1]), None);
    assert_eq!(usage.take_user(&claims()[0]).as_deref(), Some("web"));
}

/// VOLUME-2, VOLUME-3, VOLUME-4.
#[test]
fn names_of_claims_and_classes_are_read_from_all_fields() {
    let mounted = pod("web", &[claim_source("a"), ephemeral_source(), claim_source("b")], &NONE, "Running");
    let names: Vec<_> = mounted.all_claim_names().map(Text::as_str).collect();
    assert_eq!((names, mounted.is_cached()), (vec!["a", "b", "web-v1"], true));
    assert!(!pod("web", &[json!({"emptyDir": {}})], &NONE, "Running").is_cached());
    assert!(!pod("web", &[], &NONE, "Running").is_cached());
    let claim: Arc<Claim> = object(&json!({"metadata": terminating("data", &[]),
        "spec": {"volumeAttributesClassName": "a"}, "status": {"currentVolumeAttributesClassName": "b",
        "modifyVolumeStatus": {"targetVolumeAttributesClassName": "c", "status": "InProgress"}}}));
    assert_eq!(claim.class_names().into_iter().map(Text::as_str).collect::<Vec<_>>(), ["a", "b", "c"]);
    let claim: Arc<Claim> = object(&json!({"metadata": terminating("data", &[]),
        "spec": {"volumeAttributesClassName": ""}, "status": {"modifyVolumeStatus": {"status": "Pending"}}}));
    assert!(claim.class_names().is_empty());
}

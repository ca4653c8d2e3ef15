use serde_json::{Value, json};

use common::prelude::{SyncPlan as _, *};

use super::*;
use crate::{
    objects::NamesClasses as _,
    protection::decide::{FinalizerChange, Plan, Snapshot, UNSEEN_USER_RECHECK_DELAY, decide},
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
fn a_pod_without_a_node_uses_no_claim() {
    let claim = held_claim("data", None);
    let volumes = json!([{"name": "v", "persistentVolumeClaim": {"claimName": "data"}}]);
    for node in [NONE, json!("")] {
        let waiting: Arc<Pod> = object(&json!({"metadata": {"name": "p", "namespace": "shop", "uid": "p"},
            "spec": {"nodeName": node, "volumes": volumes}}));
        assert!(!uses(&waiting, &claim));
    }
}

fn plan(claim: &Arc<Claim>, pods: &[Arc<Pod>], is_used_on_server: Option<bool>) -> Plan {
    let usage = usage_of_claim(claim, pods, is_used_on_server);
    decide(&Snapshot { object: Arc::clone(claim), usage })
}

/// VOLUME-22, VOLUME-25, VOLUME-26, VOLUME-52.
#[test]
fn the_cache_comes_before_the_list_and_the_list_before_the_removal() {
    let claim = held_claim("data", None);
    let mut pods: Vec<_> =
        (0..12).map(|n| pod(&format!("web-{n}"), &[claim_source("data")], &NONE, "Running")).collect();
    pods.push(pod("other", &[claim_source("other")], &NONE, "Running"));
    for answer in [None, Some(false), Some(true)] {
        let used = plan(&claim, &pods, answer);
        assert_eq!((used.change, used.wait_reasons().len()), (None, 10));
        assert_eq!((used.requeue_after(), used.situation()), (None, "12 cached Pods use it".to_owned()));
        assert_eq!(used.wait_reasons()[0], "Pod web-0 uses it");
    }
    let removal = Some(FinalizerChange::Remove);
    for (answer, change, needs_live_list, delay) in [
        (None, removal, true, None),
        (Some(false), removal, false, None),
        (Some(true), None, false, Some(UNSEEN_USER_RECHECK_DELAY)),
    ] {
        let unused = plan(&claim, &pods[12..], answer);
        let decided = (unused.change, unused.usage.needs_live_list, unused.requeue_after());
        assert_eq!(decided, (change, needs_live_list, delay), "{answer:?}");
        assert_eq!(unused.wait_reasons().len(), usize::from(delay.is_some()));
    }
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

use serde_json::json;

use super::*;

fn web() -> Value {
    json!({
        "metadata": {"name": "web", "namespace": "shop", "uid": "u", "annotations": {"a": "b"}},
        "spec": {"replicas": 3, "selector": {"matchLabels": {"app": "web"}}, "serviceName": "web",
            "podManagementPolicy": "Parallel", "updateStrategy": {"type": "RollingUpdate", "rollingUpdate": {"partition": 1}},
            "template": {"metadata": {"labels": {"app": "web"}}, "spec": {"containers": []}},
            "volumeClaimTemplates": [{"metadata": {"name": "data"}, "spec": {"fromTheFuture": true}}],
            "persistentVolumeClaimRetentionPolicy": {"whenDeleted": "Retain", "whenScaled": "Delete"}},
        "status": {"replicas": 2, "currentRevision": "web-1"},
    })
}

fn read(value: &Value) -> Result<StatefulSet, String> {
    serde_json::from_str(&value.to_string()).map_err(|error| error.to_string())
}

#[test]
fn a_set_is_decoded_with_defaults() {
    let set = read(&web()).unwrap();
    assert_eq!((set.replicas, set.first_ordinal, set.revision_history_limit, set.partition()), (3, 0, 10, 1));
    assert_eq!(
        (set.pod_management_policy, set.volume_claim_retention_policy.when_scaled),
        (PodManagementPolicy::Parallel, VolumeClaimRetention::Delete)
    );
    assert_eq!(set.volume_claim_name(&set.volume_claim_templates[0], 7), "data-web-7");
    assert!(serde_json::to_string(&set.volume_claim_templates[0].raw).unwrap().contains("fromTheFuture"));
    assert_eq!((set.status.replicas, set.status.collision_count), (2, None));
    assert_eq!(set.metadata.annotations.get("a"), Some("b"));
}

/// STATEFULSET-25.
#[test]
fn a_range_ends_at_the_greatest_ordinal() {
    let mut object = web();
    object["spec"]["ordinals"] = json!({"start": 2_147_483_646});
    let set = read(&object).unwrap();
    assert!(set.contains_ordinal(i32::MAX) && !set.contains_ordinal(2_147_483_645));
    object["spec"]["replicas"] = json!(0);
    assert!(!read(&object).unwrap().contains_ordinal(2_147_483_646));
}

/// STATEFULSET-25.
#[test]
fn the_end_of_a_range_never_overflows() {
    for (start, replicas, last, count) in [
        (0, 0, -1, 0),
        (0, 3, 2, 3),
        (5, 2, 6, 2),
        (0, i32::MAX, i32::MAX - 1, i64::from(i32::MAX)),
        (i32::MAX, i32::MAX, i32::MAX, 1),
        (i32::MAX, 0, i32::MAX - 1, 0),
    ] {
        let mut object = web();
        object["spec"]["replicas"] = json!(replicas);
        object["spec"]["ordinals"] = json!({ "start": start });
        let range = read(&object).unwrap().ordinals();
        assert_eq!(*range.end(), last, "{start} {replicas}");
        assert_eq!(i64::from(*range.end()) - i64::from(*range.start()) + 1, count, "{start} {replicas}");
    }
}

/// STATEFULSET-90.
#[test]
fn unknown_values_count_as_the_values_that_delete_less() {
    let mut object = web();
    object["spec"]["podManagementPolicy"] = json!("Whenever");
    object["spec"]["persistentVolumeClaimRetentionPolicy"] = json!({"whenDeleted": "Delete", "whenScaled": "Shred"});
    let set = read(&object).unwrap();
    assert!(set.is_ordered_ready());
    assert_eq!(set.volume_claim_retention_policy, VolumeClaimRetentionPolicy::default());
}

/// STATEFULSET-90.
#[test]
fn invalid_objects_are_refused() {
    for (path, value, error) in [
        ("/spec/replicas", json!(-1), "spec.replicas is -1"),
        ("/spec/replicas", json!(null), "spec.replicas is missing"),
        ("/spec/selector", json!(null), "spec.selector is missing"),
        ("/spec/selector", json!({}), "spec.selector selects every Pod"),
        ("/spec/template", json!("x"), "expected an object"),
        ("/spec/volumeClaimTemplates", json!([{}]), "spec.volumeClaimTemplates: missing field"),
        ("/spec/updateStrategy/rollingUpdate/partition", json!(-2), "partition is -2"),
    ] {
        let mut object = web();
        *object.pointer_mut(path).unwrap() = value.clone();
        let got = read(&object).unwrap_err();
        assert!(got.contains(error), "{path} = {value}: {got}");
    }
}

/// STATEFULSET-52.
#[test]
fn an_absent_collision_count_is_written_as_zero() {
    assert_eq!(serde_json::to_value(Status::default()).unwrap()["collisionCount"], 0);
}

/// STATEFULSET-52.
#[test]
fn a_collision_count_alone_causes_no_write() {
    let stored = Status { replicas: 1, observed_generation: 2, ..Status::default() };
    assert!(!Status { collision_count: Some(1), ..stored.clone() }.differs_from(&stored));
    assert!(!Status { observed_generation: 1, ..stored.clone() }.differs_from(&stored));
    assert!(Status { observed_generation: 3, ..stored.clone() }.differs_from(&stored));
    assert!(Status { current_replicas: 1, ..stored.clone() }.differs_from(&stored));
}

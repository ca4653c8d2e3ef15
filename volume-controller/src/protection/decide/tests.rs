use serde_json::{Value, json};

use super::*;
use crate::{
    objects::Class,
    world::{object, terminating},
};

fn volume(metadata: &Value, phase: &Value) -> Arc<PersistentVolume> {
    object(&json!({"metadata": metadata, "status": {"phase": phase}}))
}

/// VOLUME-7, VOLUME-8, VOLUME-9.
#[test]
fn a_finalizer_is_added_while_its_object_lives_and_removed_when_it_is_not_used() {
    let (add, remove) = (Some(FinalizerChange::Add), Some(FinalizerChange::Remove));
    let live = |finalizers: &[&str]| json!({"name": "v", "finalizers": finalizers});
    let finalizer = PersistentVolume::FINALIZER;
    for (metadata, unused, used) in [
        (live(&[]), add, add),
        (live(&["example.com/other"]), add, add),
        (live(&[finalizer]), None, None),
        (live(&["kubernetes.io/pvc-protection"]), add, add),
        (terminating("v", &["example.com/other"]), None, None),
        (terminating("v", &[finalizer]), remove, None),
        (terminating("v", &["example.com/other", finalizer, finalizer]), remove, None),
    ] {
        for (is_used, change) in [(false, unused), (true, used)] {
            let object = volume(&metadata, &json!("Available"));
            let plan = decide(&Snapshot { object, usage: Usage { is_used, ..Usage::default() } });
            assert_eq!(plan.change, change, "{metadata}");
        }
    }
}

/// VOLUME-29.
#[test]
fn only_a_bound_volume_is_used() {
    for (phase, is_used) in [
        (json!("Bound"), true),
        (json!("Available"), false),
        (json!("Released"), false),
        (json!("Failed"), false),
        (json!("Pending"), false),
        (json!(""), false),
        (Value::Null, false),
    ] {
        let metadata = terminating("v", &[PersistentVolume::FINALIZER]);
        let object = volume(&metadata, &phase);
        let plan = decide(&Snapshot { usage: usage_of_volume(&object), object });
        assert_eq!(plan.change, (!is_used).then_some(FinalizerChange::Remove), "{phase}");
        assert_eq!(plan.situation(), format!("its phase is {:?}", phase.as_str().unwrap_or_default()));
        assert_eq!(plan.wait_reasons().len(), usize::from(is_used));
    }
}

/// VOLUME-33, VOLUME-52.
#[test]
fn a_class_is_used_by_the_claims_and_volumes_that_name_it() {
    let class: Arc<Class> = object(&json!({"metadata": terminating("fast", &[Class::FINALIZER])}));
    let claims: Vec<Arc<Claim>> =
        (0..9).map(|n| object(&json!({"metadata": {"name": format!("c{n}"), "namespace": "shop"}}))).collect();
    let volumes: Vec<_> = (0..3).map(|n| volume(&json!({"name": format!("v{n}")}), &Value::Null)).collect();
    let plan = |counts, claims: &[_], volumes: &[_]| {
        decide(&Snapshot { object: Arc::clone(&class), usage: usage_of_class(counts, claims, volumes) })
    };
    assert_eq!(plan([0, 0], &[], &[]).change, Some(FinalizerChange::Remove));
    for counts in [[1, 0], [0, 1], [5000, 7]] {
        assert_eq!(plan(counts, &[], &[]).change, None);
    }
    let used = plan([5000, 3], &claims, &volumes);
    assert_eq!(used.situation(), "5000 claims and 3 PersistentVolumes name it");
    let reasons = used.wait_reasons();
    assert_eq!(
        (reasons.len(), &*reasons[8], &*reasons[9]),
        (10, "PersistentVolumeClaim shop/c8", "PersistentVolume v0")
    );
}

use serde_json::json;

use super::*;
use crate::world::{claim_source, ephemeral_source, held_claim, object, pod};

#[expect(clippy::option_option, reason = "a claim may be missing, and may have no owner")]
fn snapshot(owners: [Option<Option<&str>>; 3]) -> Snapshot {
    let sources = [ephemeral_source(), claim_source("data"), ephemeral_source(), ephemeral_source()];
    let pod = pod("web", &sources, &Value::Null, "Pending");
    let names = pod.ephemeral_volumes.iter().map(|volume| volume.claim_name.clone());
    let claims = names.zip(owners).map(|(name, owner)| owner.map(|owner| held_claim(&name, owner))).collect();
    Snapshot { pod, claims }
}

/// VOLUME-38, VOLUME-39, VOLUME-42.
#[test]
fn missing_claims_are_created_in_order_up_to_a_foreign_one() {
    let own = Some(Some("web-uid"));
    for (owners, created, foreign) in [
        ([None, None, None], vec!["v0", "v2", "v3"], None),
        ([own, own, own], vec![], None),
        ([own, None, own], vec!["v2"], None),
        ([None, Some(None), None], vec!["v0"], Some("v2")),
        ([Some(Some("other")), None, Some(None)], vec![], Some("v0")),
    ] {
        let plan = decide(&snapshot(owners));
        assert_eq!(plan.created.iter().map(|volume| volume.name.as_str()).collect::<Vec<_>>(), created, "{owners:?}");
        assert_eq!(plan.foreign.as_ref().map(|(volume, _)| volume.name.as_str()), foreign, "{owners:?}");
        assert_eq!(plan.wait_reasons().len(), usize::from(foreign.is_some()));
    }
    let plan = decide(&snapshot([own, Some(None), None]));
    assert_eq!(plan.situation(), "1 claims exist, and 0 are missing");
    assert_eq!(plan.wait_reasons(), ["PVC shop/web-v2 was not created for pod shop/web (pod is not owner)"]);
}

/// VOLUME-40, VOLUME-41.
#[test]
fn a_claim_has_labels_annotations_and_spec_of_its_template_and_the_pod_as_its_owner() {
    let pod = pod("web", &[], &Value::Null, "Pending");
    let owner = json!({"apiVersion": "v1", "kind": "Pod", "name": "web", "uid": "web-uid", "controller": true,
        "blockOwnerDeletion": true});
    let expected = |metadata: Value, spec: Value| {
        let mut claim =
            json!({"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": metadata, "spec": spec});
        claim["metadata"]["name"] = json!("web-v0");
        claim["metadata"]["namespace"] = json!("shop");
        claim["metadata"]["ownerReferences"] = json!([owner]);
        claim
    };
    let (labels, annotations, spec) = (json!({"a": "b"}), json!({"c": "d"}), json!({"accessModes": ["X"], "newer": 1}));
    let metadata = json!({"labels": labels, "annotations": annotations, "name": "ignored", "finalizers": ["ignored"]});
    let template = json!({"metadata": metadata, "spec": spec});
    assert_eq!(
        new_claim(&pod, "web-v0", template),
        expected(json!({"labels": labels, "annotations": annotations}), spec.clone())
    );
    assert_eq!(new_claim(&pod, "web-v0", json!({"spec": spec})), expected(json!({}), spec));
    let _: Arc<Claim> = object(&expected(json!({}), json!({})));
}

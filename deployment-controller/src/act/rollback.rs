//! Restores the template of an old ReplicaSet in the Deployment.
//!
//! A merge patch cannot replace a nested object as a whole. The Deployment is therefore read from the API server, changed, and
//! written back with all other fields as they were, including fields unknown to this version.

use common::{prelude::*, template::POD_TEMPLATE_HASH_LABEL};
use serde_json::{Map, Value};

use super::{PlanRun, StepStop};
use crate::{
    objects::{DEPLOYMENTS, ROLLBACK_TO_ANNOTATION, is_never_copied_annotation},
    plan::{ReplicaSetNameAndUid, Step},
};

impl PlanRun<'_> {
    /// Gives the Deployment the template of a ReplicaSet. Fails if the Deployment was changed, or the ReplicaSet was replaced.
    pub(super) async fn roll_back(
        &mut self,
        step: &Step,
        ReplicaSetNameAndUid { name, uid }: &ReplicaSetNameAndUid,
    ) -> Result<(), StepStop> {
        let (io, meta) = (self.io, self.meta());
        let read = self.get_deployment().with_reason("the rollback replaces the whole object");
        let deployment = io
            .send_and_decode::<Value>(read)
            .await
            .map_err(|refusal| SyncError::from_refusal(&format!("cannot read Deployment {}", meta.name), &refusal))?;
        let set = io.send_and_decode::<Value>(self.get_set(name).with_reason("its template is restored")).await;
        let set =
            set.map_err(|refusal| SyncError::from_refusal(&format!("cannot read ReplicaSet {name}"), &refusal))?;
        // A forecast, which sends no requests, assumes that the Deployment and the ReplicaSet are as in the cache.
        let mut deployment = deployment.unwrap_or_default();
        if let Some(set) = set {
            let is = |object: &Value, uid: &Uid| object["metadata"]["uid"] == uid.to_string();
            let version = deployment["metadata"]["resourceVersion"].as_str().unwrap_or_default();
            let is_unchanged = is(&deployment, &meta.uid) && ResourceVersion::parse(version) == self.version;
            if !is_unchanged || !is(&set, uid) {
                io.explain_deviation("the Deployment or the ReplicaSet has changed");
                let text = format!("cannot roll back Deployment {}: it has changed in the meantime", meta.name);
                return Err(SyncError::new(SyncErrorClass::Conflict, text).into());
            }
            restore(&mut deployment, &set);
        }
        self.write_deployment(step, Request::replace(DEPLOYMENTS, meta, io.encode_body(|| &deployment))).await
    }
}

/// Gives a Deployment the template and the annotations of a ReplicaSet. The Deployment keeps only those of its annotations that
/// are excluded from copying.
fn restore(deployment: &mut Value, set: &Value) {
    let mut template = set["spec"]["template"].clone();
    if let Some(labels) = template.pointer_mut("/metadata/labels").and_then(Value::as_object_mut) {
        labels.remove(POD_TEMPLATE_HASH_LABEL);
    }
    deployment["spec"]["template"] = template;
    let annotations = |object: &Value| object["metadata"]["annotations"].as_object().cloned().unwrap_or_default();
    let own = annotations(deployment)
        .into_iter()
        .filter(|(key, _)| is_never_copied_annotation(key) && key != ROLLBACK_TO_ANNOTATION);
    let restored = annotations(set).into_iter().filter(|(key, _)| !is_never_copied_annotation(key));
    let annotations: Map<String, Value> = own.chain(restored).collect();
    deployment["metadata"]["annotations"] = Value::Object(annotations);
    if let Some(metadata) = deployment["metadata"].as_object_mut() {
        metadata.remove("managedFields");
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// DEPLOYMENT-47.
    #[test]
    fn a_rollback_restores_the_whole_template_without_its_hash() {
        let mut deployment = json!({
            "metadata": {"name": "web", "resourceVersion": "7", "managedFields": [{}], "annotations": {
                "deployment.kubernetes.io/revision": "3", ROLLBACK_TO_ANNOTATION: "1", "note": "new"}},
            "spec": {"replicas": 2, "later": true, "template": {"spec": {"containers": [1], "new": 1}}},
            "status": {"replicas": 2},
        });
        let set = json!({
            "metadata": {"annotations": {"deployment.kubernetes.io/revision": "1", "note": "old", "other": "1"}},
            "spec": {"template": {"metadata": {"labels": {"app": "web", POD_TEMPLATE_HASH_LABEL: "x"}},
                "spec": {"containers": [2], "nobodyKnows": {"a": null}}}},
        });
        restore(&mut deployment, &set);
        assert_eq!(
            deployment,
            json!({
                "metadata": {"name": "web", "resourceVersion": "7", "annotations": {
                    "deployment.kubernetes.io/revision": "3", "note": "old", "other": "1"}},
                "spec": {"replicas": 2, "later": true, "template": {"metadata": {"labels": {"app": "web"}},
                    "spec": {"containers": [2], "nobodyKnows": {"a": null}}}},
                "status": {"replicas": 2},
            })
        );
    }
}

//! Putting a template back into the Deployment.
//!
//! A merge patch cannot replace an object in an object, so the Deployment is read live, changed where it must be, and put
//! back as it was read otherwise: fields nobody here knows survive.

use std::sync::Arc;

use common::{
    api::Patch,
    meta::{Uid, Version},
    template::POD_TEMPLATE_HASH,
};
use serde_json::{Map, Value, json};

use super::{Done, Error, Sync, failed, read, written};
use crate::objects::{ROLLBACK_TO, is_never_copied};

impl Sync<'_> {
    pub(super) async fn roll_back(&mut self, set: &Arc<str>, uid: &Uid) -> Result<Done, Error> {
        let name = Arc::clone(&self.meta().name);
        let body = self.api().get(self.deployment()).await;
        let body = body.map_err(|source| failed("read Deployment", &name, source))?;
        let mut deployment: Value = read("read Deployment", &name, &body)?;
        let body = self.api().get(self.set(set)).await;
        let body = body.map_err(|source| failed("read ReplicaSet", set, source))?;
        let set: Value = read("read ReplicaSet", set, &body)?;
        let is = |object: &Value, uid: &Uid| object["metadata"]["uid"] == uid.to_string();
        let unchanged = Version::parse(deployment["metadata"]["resourceVersion"].as_str().unwrap_or_default());
        if !is(&deployment, &self.meta().uid) || !is(&set, uid) || unchanged != self.version {
            return Err(Error::Changed(format!("roll back Deployment {name}")));
        }
        restore(&mut deployment, &set);
        let body = self.api().replace(self.deployment(), &deployment).await;
        let body = body.map_err(|source| failed("roll back Deployment", &name, source))?;
        self.note_deployment(written("roll back Deployment", &name, &body)?.metadata.resource_version);
        Ok(Done::Yes)
    }

    pub(super) async fn clear_rollback(&mut self) -> Result<Done, Error> {
        let name = Arc::clone(&self.meta().name);
        let patch = json!({"metadata": {"resourceVersion": self.version, "uid": self.meta().uid,
            "annotations": {ROLLBACK_TO: null}}});
        let body = self.api().patch(self.deployment(), Patch::Merge, &patch).await;
        let body = body.map_err(|source| failed("end the rollback request of", &name, source))?;
        self.note_deployment(written("end the rollback request of", &name, &body)?.metadata.resource_version);
        Ok(Done::Yes)
    }
}

/// Gives a Deployment the template and annotations of a ReplicaSet. Only the annotations that are never copied stay its own.
fn restore(deployment: &mut Value, set: &Value) {
    let mut template = set["spec"]["template"].clone();
    if let Some(labels) = template.pointer_mut("/metadata/labels").and_then(Value::as_object_mut) {
        labels.remove(POD_TEMPLATE_HASH);
    }
    deployment["spec"]["template"] = template;
    let annotations = |object: &Value| object["metadata"]["annotations"].as_object().cloned().unwrap_or_default();
    let own = annotations(deployment).into_iter().filter(|(key, _)| is_never_copied(key) && key != ROLLBACK_TO);
    let restored = annotations(set).into_iter().filter(|(key, _)| !is_never_copied(key));
    let annotations: Map<String, Value> = own.chain(restored).collect();
    deployment["metadata"]["annotations"] = Value::Object(annotations);
    if let Some(metadata) = deployment["metadata"].as_object_mut() {
        metadata.remove("managedFields");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_template_comes_back_whole_and_without_its_hash() {
        let mut deployment = json!({
            "metadata": {"name": "web", "resourceVersion": "7", "managedFields": [{}], "annotations": {
                "deployment.kubernetes.io/revision": "3", ROLLBACK_TO: "1", "note": "new"}},
            "spec": {"replicas": 2, "later": true, "template": {"spec": {"containers": [1], "new": 1}}},
            "status": {"replicas": 2},
        });
        let set = json!({
            "metadata": {"annotations": {"deployment.kubernetes.io/revision": "1", "note": "old", "other": "1"}},
            "spec": {"template": {"metadata": {"labels": {"app": "web", POD_TEMPLATE_HASH: "x"}},
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

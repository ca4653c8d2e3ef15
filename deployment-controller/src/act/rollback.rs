//! Putting a template back into the Deployment.
//!
//! A merge patch cannot replace an object in an object, so the Deployment is read live, changed where it must be, and put
//! back as it was read otherwise: fields nobody here knows survive.

use common::{
    io::{Failed, Fields, Request, Role},
    meta::{Uid, Version},
    template::POD_TEMPLATE_HASH,
};
use serde_json::{Map, Value};

use super::{Rollout, Stop};
use crate::{
    objects::{DEPLOYMENTS, ROLLBACK_TO, is_never_copied},
    plan::{SetRef, Step},
};

impl Rollout<'_> {
    /// Gives the Deployment the template of a ReplicaSet, if both are as they were judged.
    pub(super) async fn roll_back(&self, step: &Step, SetRef { name, uid }: &SetRef) -> Result<Fields, Stop> {
        let (io, meta) = (self.io, self.meta());
        let unread = |what: &str, name: &str| format!("cannot read {what} {name}");
        let live = io.send_and_read::<Value>(self.get_deployment().because("it is rolled back as a whole")).await;
        let live = live.map_err(|refusal| Failed::request(&unread("Deployment", &meta.name), &refusal))?;
        let set = io.send_and_read::<Value>(self.get_set(name).because("its template comes back")).await;
        let set = set.map_err(|refusal| Failed::request(&unread("ReplicaSet", name), &refusal))?;
        // A forecast expects both to be as they are in the cache.
        let mut deployment = live.unwrap_or_default();
        if let Some(set) = set {
            if !self.is_as_judged(&deployment, &set, uid) {
                io.deviate("the Deployment or the ReplicaSet has changed");
                let failed = format!("cannot roll back Deployment {}: it has changed in the meantime", meta.name);
                return Err(Failed::new("conflict", failed).into());
            }
            restore(&mut deployment, &set);
        }
        let request = Request::replace(DEPLOYMENTS, meta, io.body(|| &deployment)).role(Role::Itself);
        let answer = self.send(step, request).await.map_err(|refusal| self.refused(step, &refusal))?;
        Ok(answer.fields)
    }

    /// Whether the Deployment, read live, is as this sync has left it, and the ReplicaSet the one with that uid.
    fn is_as_judged(&self, deployment: &Value, set: &Value, uid: &Uid) -> bool {
        let is = |object: &Value, uid: &Uid| object["metadata"]["uid"] == uid.to_string();
        let version = Version::parse(deployment["metadata"]["resourceVersion"].as_str().unwrap_or_default());
        is(deployment, &self.meta().uid) && is(set, uid) && version == self.version
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
    use serde_json::json;

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

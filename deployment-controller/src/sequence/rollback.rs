//! Putting a template back into the Deployment.
//!
//! A merge patch cannot replace an object in an object, so the Deployment is read live, changed where it must be, and put
//! back as it was read otherwise: fields nobody here knows survive.

use common::{
    meta::{Uid, Version},
    sequence::{Failed, Precondition, Request, Role, Turn, Verb},
    template::POD_TEMPLATE_HASH,
};
use serde_json::{Map, Value};

use super::{Next, Note, State};
use crate::{
    objects::{ROLLBACK_TO, is_never_copied},
    plan::Action,
};

impl<'a> State<'a> {
    pub(super) fn roll_back(&self) -> Next<'a> {
        Next::Send(self.get_deployment().because("it is rolled back as a whole"), Self::read_deployment)
    }

    fn read_deployment(&mut self, turn: &mut Turn<Note>) -> Next<'a> {
        let Some(Action::RollBack { set, .. }) = self.step().map(|step| &step.action) else { return self.finish(turn) };
        let request = self.get_set(set).because("its template comes back");
        match turn.read::<Value>() {
            Ok(live) => {
                self.live = live.unwrap_or_default();
                Next::Send(request, Self::read_set)
            }
            Err(refusal) => {
                let what = format!("cannot read Deployment {}", self.meta().name);
                self.fails(turn, Failed::request(&what, &refusal))
            }
        }
    }

    fn read_set(&mut self, turn: &mut Turn<Note>) -> Next<'a> {
        let Some(step) = self.step() else { return self.finish(turn) };
        let Action::RollBack { set, uid } = &step.action else { return self.finish(turn) };
        let meta = self.meta();
        let why = step.reason();
        match turn.read::<Value>() {
            Ok(Some(live)) if !self.is_as_judged(&live, uid) => {
                let failed = format!("cannot roll back Deployment {}: it has changed in the meantime", meta.name);
                turn.deviates("the Deployment or the ReplicaSet has changed");
                return self.fails(turn, Failed::new("conflict", failed));
            }
            Ok(Some(live)) => restore(&mut self.live, &live),
            Ok(None) => {}
            Err(refusal) => {
                let what = format!("cannot read ReplicaSet {set}");
                return self.fails(turn, Failed::request(&what, &refusal));
            }
        }
        let verb = Verb::Replace(turn.body(|| &self.live));
        let request = Request { verb, precondition: Some(Precondition::of(meta)), ..self.get_deployment() };
        Next::Send(request.role(Role::Itself).doing("roll back").because(why), Self::answered)
    }

    /// Whether the Deployment, read live, is as this sync has left it, and the ReplicaSet the one with that uid.
    fn is_as_judged(&self, set: &Value, uid: &Uid) -> bool {
        let is = |object: &Value, uid: &Uid| object["metadata"]["uid"] == uid.to_string();
        let version = Version::parse(self.live["metadata"]["resourceVersion"].as_str().unwrap_or_default());
        is(&self.live, &self.meta().uid) && is(set, uid) && version == self.version
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

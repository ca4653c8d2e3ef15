//! Creating Pods: slowly at first, so that a set whose Pods are refused costs one request a sync.

use common::{
    api::{self, Target},
    batch::{all, slow_start},
    events::EventType,
    intern::Labels,
    meta::{Annotations, OwnerRef, Uid, Version},
    pods::PODS,
    template::Template,
};
use serde::{Deserialize, Serialize, Serializer, ser::SerializeMap as _};
use serde_json::value::RawValue;

use crate::{
    ReplicaController,
    decide::{PodRef, Snapshot},
    error::Error,
    kind::Kind,
};

/// What became of one create.
enum Created {
    /// There is a Pod more.
    Yes,
    /// No more Pods are to be created: the namespace is going away, or this process is. Nothing is wrong with that.
    NoMore,
}

/// What is read of a created Pod.
#[derive(Deserialize)]
struct Answer {
    metadata: AnswerMeta,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct AnswerMeta {
    name: String,
    uid: Uid,
    resource_version: Version,
}

impl<K: Kind> ReplicaController<K> {
    /// Creates `count` Pods in batches of 1, 2, 4, ...; the first batch with a failure is the last.
    ///
    /// Upstream: `pkg/controller/replicaset`, `slowStartBatch`.
    pub(super) async fn create_pods(&self, snapshot: &Snapshot, count: usize) -> Result<(), Error> {
        let Some(template) = &snapshot.set.template else { return Err(Error::Template("no template")) };
        let body = body(&snapshot.owner.name, template, snapshot.owner.controller_ref())
            .map_err(|error| Error::Create(api::Error::Unsent(format!("cannot encode the Pod: {error}"))))?;
        if let Some(backoff) = &self.backoff {
            backoff.replacing(&snapshot.owner.uid);
        }
        // What the cache shows before the first request: a Pod that appears later may be one whose answer is lost.
        let before = self.children(&snapshot.owner.namespace, &snapshot.owner.uid);
        for batch in slow_start(count) {
            let calls = (0..batch).map(|_| self.create_pod(snapshot, &body, &before));
            let results = all(calls).await;
            let mut go_on = true;
            for result in results {
                go_on &= matches!(result.map_err(Error::Create)?, Created::Yes);
            }
            if !go_on {
                break;
            }
        }
        Ok(())
    }

    async fn create_pod(&self, snapshot: &Snapshot, body: &RawValue, before: &[PodRef]) -> Result<Created, api::Error> {
        if self.queue.is_closed() {
            return Ok(Created::NoMore);
        }
        let owner = &snapshot.owner.uid;
        let target = Target { resource: PODS, namespace: &snapshot.owner.namespace, name: "", subresource: "" };
        let answer = self.context.api.create(target, body).await;
        let read = answer.and_then(|answer| Ok(serde_json::from_slice::<Answer>(&answer)?.metadata));
        match read {
            Ok(AnswerMeta { name, uid, resource_version }) => {
                self.ledger.created(owner, PODS, &uid, resource_version);
                self.event(snapshot, EventType::Normal, "SuccessfulCreate", format!("Created pod: {name}"));
                Ok(Created::Yes)
            }
            Err(error) if error.is_namespace_terminating() => {
                let key = snapshot.set.metadata.key();
                tracing::debug!(logger = K::QUEUE, key = %key, "The namespace is terminating, creating no Pods");
                self.refused.insert(owner);
                Ok(Created::NoMore)
            }
            Err(error) => {
                if error.may_have_happened() {
                    self.ledger.lost_create(owner, PODS, || before.iter().map(|pod| pod.meta().uid.clone()).collect());
                }
                if !matches!(error, api::Error::NotLeader) {
                    self.event(snapshot, EventType::Warning, "FailedCreate", format!("Error creating: {error}"));
                }
                Err(error)
            }
        }
    }

    pub(super) fn event(&self, snapshot: &Snapshot, kind: EventType, reason: &'static str, message: String) {
        self.context.recorder.event(&Self::reference(snapshot), kind, reason, message);
    }
}

/// The Pods of one sync: they differ in nothing.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Body<'a> {
    kind: &'a str,
    api_version: &'a str,
    metadata: Metadata<'a>,
    #[serde(skip_serializing_if = "Option::is_none")]
    spec: Option<common::json::Raw>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Metadata<'a> {
    generate_name: String,
    #[serde(skip_serializing_if = "Labels::is_empty")]
    labels: &'a Labels,
    #[serde(skip_serializing_if = "Annotations::is_empty", serialize_with = "map")]
    annotations: Annotations,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    finalizers: Vec<common::intern::Text>,
    owner_references: [OwnerRef; 1],
}

fn map<S: Serializer>(annotations: &Annotations, serializer: S) -> Result<S::Ok, S::Error> {
    let mut out = serializer.serialize_map(None)?;
    for (key, value) in annotations.iter() {
        out.serialize_entry(key, value)?;
    }
    out.end()
}

/// A Pod from a template: labels, annotations and finalizers of its metadata, and its specification, unread.
///
/// Upstream: `pkg/controller`, `GetPodFromTemplate`.
fn body(owner: &str, template: &Template, reference: OwnerRef) -> serde_json::Result<Box<RawValue>> {
    serde_json::value::to_raw_value(&Body {
        kind: PODS.kind,
        api_version: PODS.version,
        metadata: Metadata {
            generate_name: format!("{owner}-"),
            labels: template.labels(),
            annotations: template.annotations(),
            finalizers: template.finalizers(),
            owner_references: [reference],
        },
        spec: template.spec(),
    })
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    #[test]
    fn a_pod_is_its_template_and_its_owner() {
        let template = Template::from_value(&json!({
            "metadata": {"labels": {"app": "web"}, "annotations": {"a": "1"}, "finalizers": ["example.com/f"],
                "name": "ignored", "namespace": "ignored", "generateName": "ignored-"},
            "spec": {"containers": [{"name": "c", "futureField": {"x": [1, 2.50]}}], "fromTheFuture": true},
        }));
        let reference =
            OwnerRef { kind: "ReplicaSet".into(), uid: Uid::new("U"), controller: Some(true), ..OwnerRef::default() };
        let body: Value = serde_json::from_str(body("web", &template, reference).unwrap().get()).unwrap();
        assert_eq!(
            body,
            json!({"kind": "Pod", "apiVersion": "v1",
                "metadata": {"generateName": "web-", "labels": {"app": "web"}, "annotations": {"a": "1"},
                    "finalizers": ["example.com/f"],
                    "ownerReferences": [{"apiVersion": "", "kind": "ReplicaSet", "name": "", "uid": "U", "controller": true}]},
                "spec": {"containers": [{"name": "c", "futureField": {"x": [1, 2.50]}}], "fromTheFuture": true}})
        );
    }

    #[test]
    fn what_a_template_has_not_a_pod_has_not() {
        let template = Template::from_value(&json!({"metadata": {"labels": {"app": "web"}}, "spec": {}}));
        let body: Value = serde_json::from_str(body("web", &template, OwnerRef::default()).unwrap().get()).unwrap();
        let metadata = body["metadata"].as_object().unwrap();
        assert_eq!(metadata.keys().collect::<Vec<_>>(), ["generateName", "labels", "ownerReferences"]);
    }
}

//! Allocations for the body that replaces a status, and its size.

use allocation_counter::measure;
use common::{
    api::{EncodedBody, WireFormat},
    io::StatusReplacement,
    meta::{MapEdits, MetadataReplacement},
    object::{EncodedObject, Object},
    wire::{WatchEvent, WithUndeclared},
};
use sandbox::{
    guards::{Guards, Unmeasured},
    recorded,
};
use serde::Serialize;
use serde_json::{Value, json};

use super::{caches::FORMATS, hold};

/// What a controller sends of an object: its metadata, with changes, and its status.
type Sent<'a, S> = (MetadataReplacement<'a>, &'a WithUndeclared<S>);

/// Counts the body with the status of an object, which has the metadata of the recorded Pod and a condition of another writer.
fn add<K: Object, S: Serialize>(
    guards: &mut Guards,
    spec: &Value,
    mut status: Value,
    sent: for<'a> fn(&'a K) -> Sent<'a, S>,
) {
    let (resource, schema) = (K::RESOURCE, K::PROTOBUF_SCHEMA.unwrap());
    let metadata = recorded::object("pods", "web-0").unwrap()["metadata"].take();
    status["conditions"] = json!([{"type": "example.com/Foreign", "status": "True",
        "lastTransitionTime": "2026-01-01T00:00:00Z", "reason": "Example", "message": "An example."}]);
    let object = json!({"apiVersion": resource.api_version(), "kind": resource.kind(), "metadata": metadata, "spec": spec,
        "status": status});
    for (name, format) in FORMATS {
        let (text, frame) = (object.to_string(), recorded::frame(WireFormat::Protobuf, "ADDED", &object).unwrap());
        let received = match format {
            WireFormat::Json => EncodedObject::Json(&text),
            WireFormat::Protobuf => EncodedObject::Protobuf(WatchEvent::decode(&frame).unwrap().object.object),
        };
        let received: K = received.decode().unwrap();
        let mut body = None;
        let cost = measure(|| {
            let (metadata, status) = sent(&received);
            let replacement = StatusReplacement::new(&resource, metadata, &status.declared, &status.undeclared);
            let (api_version, kind) = (resource.api_version(), resource.kind());
            body = Some(EncodedBody::object(format, &api_version, kind, schema, &replacement).unwrap());
        });
        let body = body.unwrap();
        assert_eq!(body.format, format);
        let path = format!("{}/{name}", resource.kind().to_lowercase());
        guards.add(&path, "allocations", cost.count_total);
        guards.add(&path, "bytes", cost.bytes_total);
        guards.add(&path, "sent", body.bytes.len() as u64);
    }
}

#[test]
fn the_body_of_a_status_costs_no_more_than_recorded() {
    use daemonset_controller::objects::DaemonSet;
    use deployment_controller::objects::{Deployment, REVISION_ANNOTATION};
    use disruption_controller::objects::Budget;
    use job_controller::objects::Job;
    use replicaset_controller::{kind::ReplicaSets, objects::CachedSet};
    use statefulset_controller::objects::StatefulSet;

    let mut guards = Guards::new("writes/status", Unmeasured::Fails);
    let labels = json!({"app": "web"});
    let template = json!({"metadata": {"labels": labels}, "spec": {"containers": [{"name": "c", "image": "i"}]}});
    let spec = json!({"selector": {"matchLabels": labels}, "template": template});
    let replicated = json!({"replicas": 3, "selector": {"matchLabels": labels}, "template": template});
    let with_service =
        json!({"serviceName": "web", "replicas": 3, "selector": {"matchLabels": labels}, "template": template});
    add(
        &mut guards,
        &spec,
        json!({"currentNumberScheduled": 5, "numberMisscheduled": 1, "desiredNumberScheduled": 5, "numberReady": 4,
            "observedGeneration": 3, "updatedNumberScheduled": 2, "numberAvailable": 4, "numberUnavailable": 1}),
        |set: &DaemonSet| (set.metadata.replacement(), &set.status),
    );
    add(
        &mut guards,
        &replicated,
        json!({"observedGeneration": 3, "replicas": 4, "updatedReplicas": 2, "readyReplicas": 3, "availableReplicas": 3,
            "unavailableReplicas": 1, "terminatingReplicas": 1}),
        |deployment: &Deployment| {
            let revision = MapEdits::from([(REVISION_ANNOTATION, Some("2"))]);
            (deployment.metadata.replacement().with_annotation_edits(revision), &deployment.status)
        },
    );
    add(
        &mut guards,
        &json!({"selector": {"matchLabels": labels}, "maxUnavailable": 1}),
        json!({"observedGeneration": 3, "disruptionsAllowed": 1, "currentHealthy": 3, "desiredHealthy": 2,
            "expectedPods": 3, "disruptedPods": {"web-0": "2026-01-01T00:00:00Z"}}),
        |budget: &Budget| (budget.metadata.replacement(), &budget.status),
    );
    add(
        &mut guards,
        &spec,
        json!({"startTime": "2026-01-01T00:00:00Z", "active": 2, "ready": 1, "terminating": 0, "succeeded": 3, "failed": 1,
            "uncountedTerminatedPods": {"succeeded": ["2ff731ae-b0d1-491c-a286-da4a1c1a8b15"]}}),
        |job: &Job| (job.metadata.replacement(), &job.status),
    );
    add(
        &mut guards,
        &replicated,
        json!({"replicas": 3, "fullyLabeledReplicas": 3, "readyReplicas": 2, "availableReplicas": 2,
            "observedGeneration": 3, "terminatingReplicas": 1}),
        |set: &CachedSet<ReplicaSets>| (set.replica_set.metadata.replacement(), &set.replica_set.status),
    );
    add(
        &mut guards,
        &with_service,
        json!({"replicas": 3, "readyReplicas": 2, "currentReplicas": 2, "updatedReplicas": 1, "availableReplicas": 2,
            "currentRevision": "web-7c99d5cb8d", "updateRevision": "web-5d5d59f6b4", "observedGeneration": 3}),
        |set: &StatefulSet| (set.metadata.replacement(), &set.status),
    );
    hold(guards);
}

//! A PodDisruptionBudget whose Pods become ready, and of which one is evicted. There were no nodes, and the test does what their
//! kubelets did in the recording.

use common::settings::OperatorSettings;
use e2e::sandbox::Sandbox;
use http::Method;
use serde_json::{Value, json};

use super::{
    Step, recorded,
    signature::{EventText, Signature, masked},
};
use crate::world::World;

const NAMESPACE: &str = "budget-evicted";

/// The statuses of the budget, and the Events. How long an entry stays in `disruptedPods` depends on which event comes first.
fn story(steps: &[Step]) -> Signature {
    let mut story = Signature::default();
    for step in steps {
        let (object, status) = (&step.object, &step.object["status"]);
        match step.resource.as_str() {
            "poddisruptionbudgets" if status["disruptedPods"].is_null() => story.push("status", masked(status)),
            "events" => {
                let EventText { about, note, component } = EventText::of(object);
                story.push("Events", format!("{} {} {component} {note}", about["kind"], object["reason"]));
            }
            _ => {}
        }
    }
    story
}

async fn send(world: &World, method: Method, path: &str, body: Value) -> u16 {
    let path = format!("/api/v1/namespaces/{NAMESPACE}/pods/{path}");
    let answer = world.sandbox.send(method, &path, "application/json", Some(&body)).await;
    answer.map_or_else(|refused| refused.code, |_| 200)
}

/// DISRUPTION-8, DISRUPTION-10, DISRUPTION-12, DISRUPTION-28, DISRUPTION-34, DISRUPTION-35, DISRUPTION-52.
#[tokio::test(start_paused = true)]
async fn pods_become_ready_and_one_is_evicted() {
    let mut world = World::new(NAMESPACE, "2026-11-30T12:04:50.2Z", Sandbox::builder()).await;
    world.start_loops("controllers", OperatorSettings::new(), disruption_controller::LOOPS);
    let (labels, containers) = (json!({"app": "web"}), json!([{"name": "c", "image": "img:1"}]));
    let selector = json!({"matchLabels": labels});
    let owner = world
        .create(
            json!({"apiVersion": "apps/v1", "kind": "ReplicaSet", "metadata": {"name": "web"}, "spec": {"replicas": 3,
            "selector": selector, "template": {"metadata": {"labels": labels}, "spec": {"containers": containers}}}}),
        )
        .await;
    world
        .create(json!({"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": {"name": "web"},
            "spec": {"maxUnavailable": "30%", "selector": selector}}))
        .await;
    world.pass(2).await;
    let owner = json!({"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web", "uid": owner["metadata"]["uid"],
        "controller": true});
    let pods = ["web-0", "web-1", "web-2"];
    for name in pods {
        let metadata = json!({"name": name, "labels": labels, "ownerReferences": [owner]});
        let spec = json!({"nodeName": "node-0", "containers": containers});
        world.create(json!({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec})).await;
    }
    world.pass(2).await;
    for name in pods {
        let status = json!({"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]});
        world.merge_status("pods", name, &status).await;
        world.pass(2).await;
    }
    let eviction = |name: &str| json!({"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": name}});
    assert_eq!(send(&world, Method::POST, "web-0/eviction", eviction("web-0")).await, 200);
    world.pass(3).await;
    assert_eq!(send(&world, Method::DELETE, "web-0", json!({"gracePeriodSeconds": 0})).await, 200);
    world.pass(2).await;
    assert_eq!(send(&world, Method::POST, "web-1/eviction", eviction("web-1")).await, 429);
    let writes = world.sandbox.writes().all();
    let steps: Vec<Step> =
        writes.iter().filter(|write| write.namespace == NAMESPACE).map(|write| Step::written(write)).collect();
    let theirs = story(&recorded(NAMESPACE));
    assert_eq!(theirs.values("status").len(), 7);
    story(&steps).assert_same(&theirs);
}

//! ResourceQuotas over objects that come, change and go. There were no nodes in the recording, and no other controller.

use common::settings::OperatorSettings;
use e2e::sandbox::Sandbox;
use http::Method;
use serde_json::{Value, json};

use super::{Step, recorded, signature::Signature};
use crate::world::World;

const NAMESPACE: &str = "quota-counts";

/// The statuses of each quota.
fn story(steps: &[Step]) -> Signature {
    let mut story = Signature::default();
    for step in
        steps.iter().filter(|step| step.resource == "resourcequotas" && !step.object["status"]["used"].is_null())
    {
        story.push(step.name(), step.object["status"].to_string());
    }
    story
}

/// Sends a request of the user, and returns the message of a refusal.
async fn send(world: &World, method: Method, path: &str, body: Value) -> Option<String> {
    let path = format!("/api/v1/namespaces/{NAMESPACE}/{path}");
    let format = if method == Method::PATCH { "application/merge-patch+json" } else { "application/json" };
    let answer = world.sandbox.send(method, &path, format, Some(&body)).await;
    world.pass(3).await;
    answer.err().map(|refused| refused.message)
}

fn pod(name: &str, deadline: Option<u32>, cpu: &str, memory: &str, limit: &str) -> Value {
    let resources = json!({"requests": {"cpu": cpu, "memory": memory}, "limits": {"cpu": limit}});
    let container = json!({"name": "c", "image": "img:1", "resources": resources});
    json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": {"terminationGracePeriodSeconds": 0,
        "schedulerName": "nobody", "containers": [container], "activeDeadlineSeconds": deadline}})
}

fn service(name: &str, ports: &[u16]) -> Value {
    let ports: Vec<Value> = ports.iter().map(|port| json!({"name": format!("p{port}"), "port": port})).collect();
    json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": name}, "spec": {"type": "LoadBalancer", "ports": ports}})
}

fn object(kind: &str, name: &str, spec: Value) -> Value {
    json!({"apiVersion": "v1", "kind": kind, "metadata": {"name": name}, "spec": spec})
}

/// RESOURCEQUOTA-13, RESOURCEQUOTA-14, RESOURCEQUOTA-22, RESOURCEQUOTA-29, RESOURCEQUOTA-33, RESOURCEQUOTA-39, RESOURCEQUOTA-51,
/// RESOURCEQUOTA-56, RESOURCEQUOTA-57, RESOURCEQUOTA-58, RESOURCEQUOTA-68, RESOURCEQUOTA-70.
#[tokio::test(start_paused = true)]
async fn objects_come_change_and_go_under_two_quotas() {
    let server = Sandbox::builder().without_quota_controller();
    let mut world = World::new(NAMESPACE, "2026-11-30T15:50:30.2Z", server).await;
    world.start_loops("controllers", OperatorSettings::new(), resourcequota_controller::LOOPS);
    let world = &world;
    let create = async |path: &str, object: Value| send(world, Method::POST, path, object).await;
    let secret = |name: &str| json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name}});
    create("pods", pod("a", None, "500m", "1536Mi", "1")).await;
    create("secrets", secret("a")).await;
    let hard = json!({"pods": "9", "requests.cpu": "4", "memory": "90Gi", "limits.cpu": "8", "count/secrets": "2", "services": "5",
        "services.nodeports": "9", "services.loadbalancers": "1", "persistentvolumeclaims": "4", "requests.storage": "10Gi",
        "gold.storageclass.storage.k8s.io/requests.storage": "10Gi", "count/widgets.example.com": "3", "example.com/gpu": "1"});
    create("resourcequotas", object("ResourceQuota", "web", json!({ "hard": hard }))).await;
    let short = json!({"hard": {"pods": "2"}, "scopes": ["Terminating"]});
    create("resourcequotas", object("ResourceQuota", "short", short)).await;
    create("pods", pod("b", None, "2", "512Mi", "2")).await;
    create("pods", pod("c", Some(600), "1", "1Gi", "1")).await;
    assert!(create("pods", pod("d", None, "1", "1Gi", "1")).await.unwrap().contains("exceeded quota: web"));
    send(world, Method::PATCH, "pods/b/status", json!({"status": {"phase": "Succeeded"}})).await;
    send(world, Method::DELETE, "pods/a", json!({})).await;
    create("services", service("s", &[80, 81])).await;
    assert!(create("services", service("second", &[80])).await.unwrap().contains("services.loadbalancers=1"));
    let internal = json!({"spec": {"type": "ClusterIP", "ports": service("s", &[80, 81])["spec"]["ports"]}});
    send(world, Method::PATCH, "services/s", internal).await;
    let claim = json!({"accessModes": ["ReadWriteOnce"], "storageClassName": "gold", "resources": {"requests": {"storage": "3Gi"}}});
    create("persistentvolumeclaims", object("PersistentVolumeClaim", "v", claim)).await;
    send(world, Method::DELETE, "persistentvolumeclaims/v", json!({})).await;
    create("secrets", secret("b")).await;
    assert!(create("secrets", secret("c")).await.unwrap().contains("count/secrets=2"));
    send(world, Method::DELETE, "secrets/a", json!({})).await;
    let hard = json!({"count/secrets": "1", "memory": null, "services": null, "cpu": "3"});
    send(world, Method::PATCH, "resourcequotas/web", json!({"spec": {"hard": hard}})).await;
    send(world, Method::DELETE, "pods/c", json!({})).await;
    let writes = world.sandbox.writes().all();
    let steps: Vec<Step> =
        writes.iter().filter(|write| write.namespace == NAMESPACE).map(|write| Step::written(write)).collect();
    story(&steps).assert_same(&story(&recorded(NAMESPACE)));
}

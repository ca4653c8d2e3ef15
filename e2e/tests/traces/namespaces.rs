//! Namespaces that are deleted, and a new one. In the recordings, one user did what the tests do, and there were no nodes.

use common::{
    runtime::LoopDefinition,
    settings::{OperatorSettings, TunableValue},
};
use e2e::sandbox::Sandbox;
use http::Method;
use serde_json::{Value, json};

use super::{
    Step, recorded,
    signature::{Signature, masked},
};
use crate::world::World;

const CA_FILE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../common/client/testdata/ca.crt");
/// The conditions that are about the Pods while Pods remain.
const ABOUT_CONTENT: [&str; 2] = ["NamespaceContentRemaining", "NamespaceFinalizersRemaining"];

/// The states of the namespace and of its objects, and the order in which they ended.
fn story(steps: &[Step]) -> Signature {
    let mut story = Signature::default();
    for step in steps {
        let (object, of) = (&step.object, format!("{} {}", step.resource, step.name()));
        for condition in object["status"]["conditions"].as_array().into_iter().flatten() {
            if step.resource == "namespaces" {
                let state = format!("{} {}: {}", condition["status"], condition["reason"], condition["message"]);
                story.push(condition["type"].as_str().unwrap(), state);
            }
        }
        if step.removed {
            story.push(&of, "gone");
            story.push("ended", &of);
            continue;
        }
        let fields = ["labels", "annotations", "finalizers"].map(|field| &object["metadata"][field]);
        let state = json!([masked(&json!(fields)), step.is_terminating(), object["data"], object["status"]["phase"]]);
        story.push(&of, state);
    }
    story
}

/// Starts these loops of ours beside a server without a namespace controller.
async fn world(namespace: &'static str, loops: &[LoopDefinition]) -> World {
    let server = Sandbox::builder().without_namespace_controller();
    let mut world = World::new(namespace, "2026-11-30T12:00:00.2Z", server).await;
    let settings = OperatorSettings::new().with_tunable("root-ca-file", TunableValue::File(CA_FILE));
    world.start_loops("controllers", settings, loops);
    world
}

/// What the namespace and its objects went through.
fn steps(world: &World) -> Vec<Step> {
    let writes = world.sandbox.writes().all();
    let of_namespace = writes.iter().filter(|write| [write.namespace.as_str(), &write.name].contains(&world.namespace));
    of_namespace.map(|write| Step::written(write)).collect()
}

fn config_map(name: &str, finalizers: &[&str]) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "finalizers": finalizers}, "data": {"k": name}})
}

async fn delete(world: &World, path: &str, options: Value) {
    let path = format!("/api/v1/namespaces/{}{path}", world.namespace);
    world.sandbox.send(Method::DELETE, &path, "application/json", Some(&options)).await.unwrap();
}

/// NAMESPACE-2, NAMESPACE-26, NAMESPACE-30, NAMESPACE-31, NAMESPACE-33.
#[tokio::test(start_paused = true)]
async fn a_finalizer_holds_a_namespace() {
    let world = world("namespace-held", namespace_controller::LOOPS).await;
    world.create(config_map("a", &["example.com/hold"])).await;
    world.create(config_map("b", &[])).await;
    delete(&world, "", json!({})).await;
    world.pass(20).await;
    world.merge("configmaps", "a", json!({"metadata": {"finalizers": null}})).await;
    world.pass(10).await;
    let theirs = story(&recorded(world.namespace));
    assert_eq!(theirs.values("NamespaceFinalizersRemaining").len(), 2);
    story(&steps(&world)).assert_same(&theirs);
}

/// NAMESPACE-12, NAMESPACE-62.
#[tokio::test(start_paused = true)]
async fn a_pod_with_a_grace_period_and_a_finalizer_holds_a_namespace() {
    let world = world("namespace-pods", namespace_controller::LOOPS).await;
    world.create(config_map("m", &[])).await;
    world
        .create(json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p", "finalizers": ["example.com/hold"]},
            "spec": {"nodeName": "node-0", "terminationGracePeriodSeconds": 12, "containers": [{"name": "c", "image": "img:1"}]}}))
        .await;
    delete(&world, "", json!({})).await;
    world.pass(13).await;
    delete(&world, "/pods/p", json!({"gracePeriodSeconds": 0})).await;
    world.pass(12).await;
    world.merge("pods", "p", json!({"metadata": {"finalizers": null}})).await;
    world.pass(10).await;
    let (mut ours, mut theirs) = (story(&steps(&world)), story(&recorded(world.namespace)));
    // While the Pod remained, upstream reported that nothing remained.
    for [kind, upstream] in [[ABOUT_CONTENT[0], "ContentRemoved"], [ABOUT_CONTENT[1], "ContentHasNoFinalizers"]] {
        let (ours, theirs) = (ours.take(kind), theirs.take(kind));
        assert!(theirs.len() == 1 && theirs[0].starts_with(&format!("\"False\" \"{upstream}\"")), "{theirs:?}");
        assert!(ours.len() == 2 && ours[0].starts_with("\"True\"") && ours[1] == theirs[0], "{ours:?}");
    }
    ours.assert_same(&theirs);
}

/// SERVICEACCOUNT-1, SERVICEACCOUNT-2, SERVICEACCOUNT-8, SERVICEACCOUNT-9, SERVICEACCOUNT-11.
#[tokio::test(start_paused = true)]
async fn a_new_namespace_gets_its_account_and_its_root_certificate() {
    let world = world("namespace-new", serviceaccount_controller::LOOPS).await;
    world.pass(2).await;
    delete(&world, "/serviceaccounts/default", json!({})).await;
    world.pass(2).await;
    let patch = json!({"metadata": {"labels": {"team": "a"}}, "data": {"ca.crt": "x", "other": "y"}});
    world.merge("configmaps", "kube-root-ca.crt", patch).await;
    world.pass(2).await;
    delete(&world, "/configmaps/kube-root-ca.crt", json!({})).await;
    world.pass(2).await;
    story(&steps(&world)).assert_same(&story(&recorded(world.namespace)));
}

//! Recorded runs of upstream's controllers are reproduced by ours: what does not race must be the same.
//!
//! Each test does what the user of the recording did, on the in-process sandbox in virtual time, and compares the
//! [`signature`] of both runs: sizes stepped through, annotations, conditions with reasons and messages, objects as created,
//! events, final statuses, names down to the hash.

mod budgets;
mod cluster_roles;
mod cron_jobs;
mod daemon_sets;
mod deletions;
mod endpoint_slices;
mod jobs;
mod namespaces;
mod nodes;
mod quotas;
mod signature;
mod stateful_sets;

use std::{fs, path::Path, time::Duration};

use common::{runtime::LoopDefinition, settings::OperatorSettings};
use e2e::{
    nodes::Nodes,
    sandbox::{Action, Rule, Sandbox},
};
use http_body_util::BodyExt as _;
use kube::client::Body;
use serde::Deserialize;
use serde_json::{Value, json, value::RawValue};
use signature::{Signature, Step, signature};

use crate::world::World;

/// The text of the recording of that name.
fn recording(name: &str) -> String {
    fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("goldens/traces/{name}.jsonl"))).unwrap()
}

/// A line of a recording that has a revision.
#[derive(Deserialize)]
struct Line<'a> {
    kind: &'a str,
    #[serde(borrow)]
    object: Revision<'a>,
}

#[derive(Deserialize)]
struct Revision<'a> {
    metadata: Named,
    #[serde(borrow)]
    data: &'a RawValue,
}

#[derive(Deserialize)]
struct Named {
    name: String,
}

/// The recording of that name.
fn recorded(name: &str) -> Vec<Step> {
    let line = |line: &str| Step::recorded(&serde_json::from_str(line).unwrap());
    recording(name).lines().map(line).collect()
}

/// A run of our controllers beside the recorded one, in a namespace with the name of the recording.
struct Replay {
    world: World,
    recorded: Vec<Step>,
}

impl Replay {
    async fn new(name: &'static str) -> Self {
        Self::at(name, "2026-11-21T09:37:27.2Z").await
    }

    /// The same, begun at another time.
    async fn at(name: &'static str, start: &str) -> Self {
        let loops = [
            replicaset_controller::LOOPS,
            deployment_controller::LOOPS,
            job_controller::LOOPS,
            cronjob_controller::LOOPS,
            statefulset_controller::LOOPS,
            daemonset_controller::LOOPS,
            // The recording had no other loop of this program.
            &[endpointslice_controller::slices::ENDPOINT_SLICE_LOOP],
        ];
        Self::of_loops(name, start, &loops.concat()).await
    }

    async fn of_loops(name: &'static str, start: &str, loops: &[LoopDefinition]) -> Self {
        let mut world = World::new(name, start, Sandbox::builder()).await;
        // Upstream was recorded over a network: nodes take a moment for everything they do.
        world.sandbox.faults().add(Rule::new(Action::Latency(Duration::from_millis(10))).identity("nodes"));
        world.start_nodes("nodes", Nodes::builder()).await;
        world.start_loops("controllers", OperatorSettings::new(), loops);
        Self { world, recorded: recorded(name) }
    }

    /// Creates the objects of a resource that the user of the recording created, as in `jobs`, or one of them, as in `jobs/ok`, and
    /// waits for so many seconds.
    async fn create(&self, objects: &str, seconds: f64) {
        let (resource, wanted) = objects.split_once('/').unwrap_or((objects, ""));
        let is_chosen = |step: &&Step| {
            let is_users = step.created && step.object["metadata"]["ownerReferences"].is_null();
            is_users && step.resource == resource && (wanted.is_empty() || step.name() == wanted)
        };
        for step in self.recorded.iter().filter(is_chosen) {
            self.world.create(as_users_wrote_it(step)).await;
        }
        self.world.pass(seconds).await;
    }

    /// Merges a patch into an object, and waits for so many seconds.
    async fn merge(&self, resource: &str, name: &str, patch: Value, seconds: f64) {
        self.world.merge(resource, name, patch).await;
        self.world.pass(seconds).await;
    }

    /// What objects went through.
    fn steps(&self) -> Vec<Step> {
        let writes = self.world.sandbox.writes().all();
        writes
            .iter()
            .filter(|write| write.namespace == self.world.namespace)
            .map(|write| Step::written(write))
            .collect()
    }

    /// Whether the revisions of the recording are stored with the same bytes. JSON shows the canonical form of any bytes, and
    /// protobuf the bytes themselves.
    async fn compare_revisions(&self) {
        let mut compared = 0;
        for line in recording(self.world.namespace).lines() {
            let Ok(Line { kind: "controllerrevisions", object }) = serde_json::from_str(line) else { continue };
            let (name, data) = (&object.metadata.name, object.data.get());
            let path = format!("/apis/apps/v1/namespaces/{}/controllerrevisions/{name}", self.world.namespace);
            let request = http::Request::get(path).header("accept", "application/vnd.kubernetes.protobuf");
            let client = self.world.sandbox.client("reader");
            let response = client.send(request.body(Body::empty()).unwrap()).await.unwrap();
            let stored = response.into_body().collect().await.unwrap().to_bytes();
            assert!(stored.windows(data.len()).any(|bytes| bytes == data.as_bytes()), "{name}: {stored:?}");
            compared += 1;
        }
        assert!(compared >= 2, "{compared} revisions");
    }

    /// Fails unless both runs have the same story.
    fn compare(&self, story: fn(&[Step]) -> Signature) {
        story(&self.steps()).assert_same(&story(&self.recorded));
    }
}

/// A created object without what the server added to it.
fn as_users_wrote_it(step: &Step) -> Value {
    let (mut object, metadata) = (step.object.clone(), &step.object["metadata"]);
    object["metadata"] = json!({"name": metadata["name"], "labels": metadata["labels"]});
    object["status"].take();
    let spec = &mut object["spec"];
    match step.resource.as_str() {
        "pods" => *spec = json!({"containers": spec["containers"]}),
        "jobs" => {
            for field in ["selector", "manualSelector"] {
                spec.as_object_mut().unwrap().remove(field);
            }
            for metadata in ["/metadata", "/spec/template/metadata"] {
                object.pointer_mut(metadata).unwrap().as_object_mut().unwrap().remove("labels");
            }
        }
        // The recorded cluster has another range of addresses.
        "services" if spec["clusterIP"] != "None" => {
            spec.as_object_mut().unwrap().retain(|field, _| !field.starts_with("clusterIP"));
        }
        _ => {}
    }
    object
}

fn image(image: &str) -> Value {
    json!({"spec": {"template": {"spec": {"containers": [{"name": "c", "image": image,
        "ports": [{"name": "http", "containerPort": 8080, "protocol": "TCP"}]}]}}}})
}

fn replicas(replicas: u32) -> Value {
    json!({"spec": {"replicas": replicas}})
}

/// DEPLOYMENT-20, DEPLOYMENT-27, DEPLOYMENT-28, DEPLOYMENT-55, DEPLOYMENT-58.
#[tokio::test(start_paused = true)]
async fn a_rollout_a_scale_up_and_a_rollback() {
    let replay = Replay::new("deployment-rollout").await;
    replay.create("deployments", 4.0).await;
    replay.merge("deployments.apps", "web", image("img:2"), 6.0).await;
    replay.merge("deployments.apps", "web", replicas(6), 4.0).await;
    replay.merge("deployments.apps", "web", image("img:1"), 8.0).await;
    replay.compare(signature);
}

/// DEPLOYMENT-35, DEPLOYMENT-44, DEPLOYMENT-45.
#[tokio::test(start_paused = true)]
async fn pausing_scaling_and_resuming_a_recreate_deployment() {
    let replay = Replay::new("deployment-pause-recreate").await;
    replay.create("deployments", 2.0).await;
    replay.merge("deployments.apps", "web", json!({"spec": {"paused": true}}), 1.0).await;
    replay.merge("deployments.apps", "web", image("img:2"), 1.0).await;
    replay.merge("deployments.apps", "web", replicas(4), 1.0).await;
    replay.merge("deployments.apps", "web", json!({"spec": {"paused": null}}), 4.0).await;
    replay.compare(signature);
}

/// DEPLOYMENT-60.
#[tokio::test(start_paused = true)]
async fn a_rollout_that_misses_its_deadline() {
    let replay = Replay::new("deployment-deadline").await;
    replay.create("deployments", 2.0).await;
    let slow = json!({"spec": {"template": {"metadata": {"annotations": {"sim/ready-after": "600"}}}}});
    replay.merge("deployments.apps", "web", slow, 10.0).await;
    replay.compare(signature);
}

#[tokio::test(start_paused = true)]
async fn a_stray_pod_is_adopted_and_released() {
    let replay = Replay::new("replicaset-adopt").await;
    replay.create("pods", 1.0).await;
    replay.create("replicasets", 2.0).await;
    replay.merge("pods", "stray", json!({"metadata": {"labels": {"app": "other"}}}), 2.0).await;
    replay.merge("replicasets.apps", "rs", replicas(1), 2.0).await;
    replay.compare(signature);
}

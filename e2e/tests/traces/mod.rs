//! Recorded runs of upstream's controllers are reproduced by ours: what does not race must be the same.
//!
//! Each test does what the user of the recording did, on the in-process sandbox in virtual time, and compares the
//! [`signature`] of both runs: sizes stepped through, annotations, conditions with reasons and messages, objects as created,
//! events, final statuses, names down to the hash.

mod cron_jobs;
mod daemon_sets;
mod endpoint_slices;
mod jobs;
mod nodes;
mod signature;
mod stateful_sets;

use std::{path::Path, time::Duration};

use common::{clock::Clock, settings::OperatorSettings};
use e2e::{
    loops::Loops,
    nodes::Nodes,
    sandbox::{Action, Change, Rule, Sandbox},
};
use http_body_util::BodyExt as _;
use jiff::Timestamp;
use kube::client::Body;
use serde::Deserialize;
use serde_json::{Value, json, value::RawValue};
use signature::{Step, signature};

/// The text of the recording of that name.
fn recording(name: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("goldens/traces/{name}.jsonl"));
    std::fs::read_to_string(path).unwrap()
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
    recording(name)
        .lines()
        .map(|line| {
            let line: Value = serde_json::from_str(line).unwrap();
            Step {
                resource: line["kind"].as_str().unwrap().to_owned(),
                created: line["type"] == "ADDED",
                removed: line["type"] == "DELETED",
                object: line["object"].clone(),
            }
        })
        .collect()
}

struct World {
    name: &'static str,
    sandbox: Sandbox,
    clock: Clock,
    _nodes: Nodes,
    _loops: Loops,
}

impl World {
    async fn new(name: &'static str) -> Self {
        Self::at(name, "2026-11-21T09:37:27.2Z").await
    }

    /// The same, begun at another time.
    async fn at(name: &'static str, start: &str) -> Self {
        let start: Timestamp = start.parse().unwrap();
        let clock = Clock::simulated(start, 42);
        let sandbox = Sandbox::builder().clock(clock.clone()).build();
        // Upstream was recorded over a network: nodes take a moment for everything they do.
        sandbox.faults().add(Rule::new(Action::Latency(Duration::from_millis(10))).identity("nodes"));
        let nodes = Nodes::builder().start(sandbox.client("nodes"), clock.clone());
        nodes.ready().await;
        let definitions = [
            replicaset_controller::LOOPS,
            deployment_controller::LOOPS,
            job_controller::LOOPS,
            cronjob_controller::LOOPS,
            statefulset_controller::LOOPS,
            daemonset_controller::LOOPS,
            // The recording had no other loop of this program.
            &[endpointslice_controller::slices::ENDPOINT_SLICE_LOOP],
        ]
        .concat();
        let loops = Loops::start(&sandbox.client("controllers"), &clock, OperatorSettings::new(), &definitions);
        sandbox.create(json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})).await.unwrap();
        Self { name, sandbox, clock, _nodes: nodes, _loops: loops }
    }

    /// The first state of an object in the recording, as a user wrote it.
    async fn create(&self, steps: &[Step], resource: &str) {
        let first = steps.iter().find(|s| s.resource == resource && s.created).unwrap();
        let mut object = first.object.clone();
        let metadata = &first.object["metadata"];
        object["metadata"] = json!({"name": metadata["name"], "namespace": self.name, "labels": metadata["labels"]});
        object["status"].take();
        if resource == "pods" {
            object["spec"] = json!({"containers": object["spec"]["containers"]});
        }
        self.sandbox.create(object).await.unwrap();
    }

    async fn merge(&self, resource: &str, name: &str, patch: Value) {
        self.sandbox.merge(resource, Some(self.name), name, None, patch).await.unwrap();
    }

    async fn pass(&self, seconds: f64) {
        self.clock.sleep(Duration::from_secs_f64(seconds)).await;
    }

    /// What objects went through.
    fn steps(&self) -> Vec<Step> {
        self.sandbox
            .writes()
            .all()
            .iter()
            .filter(|w| w.namespace == self.name)
            .map(|w| Step {
                resource: w.resource.clone(),
                created: w.change == Change::Added,
                removed: w.change == Change::Deleted,
                object: w.after().or_else(|| w.before()).map_or(Value::Null, |o| (*o).clone()),
            })
            .collect()
    }

    /// Whether the revisions of the recording are stored with the same bytes. JSON shows the canonical form of any bytes, and
    /// protobuf the bytes themselves.
    async fn compare_revisions(&self) {
        let mut compared = 0;
        for line in recording(self.name).lines() {
            let Ok(Line { kind: "controllerrevisions", object }) = serde_json::from_str(line) else { continue };
            let (name, data) = (&object.metadata.name, object.data.get());
            let path = format!("/apis/apps/v1/namespaces/{}/controllerrevisions/{name}", self.name);
            let request = http::Request::get(path).header("accept", "application/vnd.kubernetes.protobuf");
            let response = self.sandbox.client("reader").send(request.body(Body::empty()).unwrap()).await.unwrap();
            let stored = response.into_body().collect().await.unwrap().to_bytes();
            assert!(stored.windows(data.len()).any(|bytes| bytes == data.as_bytes()), "{name}: {stored:?}");
            compared += 1;
        }
        assert!(compared >= 2, "{compared} revisions");
    }

    fn compare(&self, steps: &[Step]) {
        signature(&self.steps()).assert_same(&signature(steps));
    }
}

fn image(image: &str) -> Value {
    json!({"spec": {"template": {"spec": {"containers": [{"name": "c", "image": image,
        "ports": [{"name": "http", "containerPort": 8080, "protocol": "TCP"}]}]}}}})
}

#[tokio::test(start_paused = true)]
async fn a_rollout_a_scale_up_and_a_rollback() {
    let steps = recorded("deployment-rollout");
    let world = World::new("deployment-rollout").await;
    world.create(&steps, "deployments").await;
    world.pass(4.0).await;
    world.merge("deployments.apps", "web", image("img:2")).await;
    world.pass(6.0).await;
    world.merge("deployments.apps", "web", json!({"spec": {"replicas": 6}})).await;
    world.pass(4.0).await;
    world.merge("deployments.apps", "web", image("img:1")).await;
    world.pass(8.0).await;
    world.compare(&steps);
}

#[tokio::test(start_paused = true)]
async fn pausing_scaling_and_resuming_a_recreate_deployment() {
    let steps = recorded("deployment-pause-recreate");
    let world = World::new("deployment-pause-recreate").await;
    world.create(&steps, "deployments").await;
    world.pass(2.0).await;
    world.merge("deployments.apps", "web", json!({"spec": {"paused": true}})).await;
    world.pass(1.0).await;
    world.merge("deployments.apps", "web", image("img:2")).await;
    world.pass(1.0).await;
    world.merge("deployments.apps", "web", json!({"spec": {"replicas": 4}})).await;
    world.pass(1.0).await;
    world.merge("deployments.apps", "web", json!({"spec": {"paused": null}})).await;
    world.pass(4.0).await;
    world.compare(&steps);
}

#[tokio::test(start_paused = true)]
async fn a_rollout_that_misses_its_deadline() {
    let steps = recorded("deployment-deadline");
    let world = World::new("deployment-deadline").await;
    world.create(&steps, "deployments").await;
    world.pass(2.0).await;
    let slow = json!({"spec": {"template": {"metadata": {"annotations": {"sim/ready-after": "600"}}}}});
    world.merge("deployments.apps", "web", slow).await;
    world.pass(10.0).await;
    world.compare(&steps);
}

#[tokio::test(start_paused = true)]
async fn a_stray_pod_is_adopted_and_released() {
    let steps = recorded("replicaset-adopt");
    let world = World::new("replicaset-adopt").await;
    world.create(&steps, "pods").await;
    world.pass(1.0).await;
    world.create(&steps, "replicasets").await;
    world.pass(2.0).await;
    world.merge("pods", "stray", json!({"metadata": {"labels": {"app": "other"}}})).await;
    world.pass(2.0).await;
    world.merge("replicasets.apps", "rs", json!({"spec": {"replicas": 1}})).await;
    world.pass(2.0).await;
    world.compare(&steps);
}

//! What the controllers would do if objects were applied, predicted without a write to the cluster.
//!
//! ```text
//! files ──► parse ───────► given objects ──┐
//! cluster ──► read ──► LiveState ──────────┴──► predict: sandbox, simulated nodes, all loops ──► steps ──► render
//! ```
//!
//! [`predict`] loads the live objects into an API server in memory, applies the given objects as `kubectl apply` does, and runs the
//! real loops in simulated time.
//!
//! # Assumptions
//! - A new Pod becomes ready after [`Options::ready_after`], and a deleted Pod ends at once. An existing Pod keeps its status until
//!   it is deleted.
//! - Nodes keep their health. CPU, memory and volumes of nodes are not considered.
//! - There are no admission webhooks, autoscalers, controllers of custom resources, and no other users.

use std::time::Duration;

use common::{clock::Clock, runtime::LoopDefinition, settings::OperatorSettings};
use jiff::Timestamp;
use sandbox::{Refused, Sandbox, loops::Loops, nodes::Nodes};
use serde_json::{Value, json};

use self::{
    live::{LiveState, is_read},
    steps::{ObjectName, Record, Step, text},
};
use crate::{controllers::PROGRAMS, facts::to_one_line};

pub mod files;
pub mod live;
pub mod read;
pub mod render;
pub mod steps;

/// Loops that do not run: the simulated nodes send no heartbeats, the sandbox empties namespaces and counts quotas itself, a plan contains no
/// evictions and no deletions of storage (`volume-controller`), the claims of ephemeral volumes start no Pod earlier or later, and
/// accounts, certificate authorities and cluster roles are not read from the cluster.
const OMITTED_LOOPS: [&str; 12] = [
    "node-lifecycle-controller",
    "namespace-controller",
    "serviceaccount-controller",
    "root-ca-certificate-publisher-controller",
    "kube-apiserver-serving-clustertrustbundle-publisher-controller",
    "clusterrole-aggregation-controller",
    "disruption-controller",
    "resourcequota-controller",
    "persistentvolumeclaim-protection-controller",
    "persistentvolume-protection-controller",
    "volumeattributesclass-protection-controller",
    "ephemeral-volume-controller",
];

/// Feature gate of the server and of statefulset-controller. With it, the server sets `maxUnavailable` of every StatefulSet.
const MAX_UNAVAILABLE_GATE: &str = "MaxUnavailableStatefulSet";

/// How a plan is computed.
#[derive(Clone, Debug)]
pub struct Options {
    /// Time of the simulated start.
    pub start: Timestamp,
    /// Length of the simulated time.
    pub duration: Duration,
    /// Time from the start of a new Pod's containers until it is ready.
    pub ready_after: Duration,
}

/// The predicted steps of the controllers.
#[derive(Debug)]
pub struct Prediction {
    /// The options that the prediction was made with.
    pub options: Options,
    /// Sentences about objects that are missing in the simulation.
    pub notes: Vec<String>,
    /// Steps of the given objects and of the objects that belong to them, in their order.
    pub steps: Vec<Step>,
    /// Given objects that still wait at the end, with their reasons.
    pub waiting: Vec<(ObjectName, Vec<String>)>,
    /// Number of steps of other objects.
    pub other_steps: usize,
}

/// Reasons why there is no prediction.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The server would not accept an object.
    #[error("the server would reject {object}: {why}")]
    Rejected {
        /// The rejected object.
        object: ObjectName,
        /// Message of the server.
        why: String,
    },
    /// No object has a kind that is simulated.
    #[error("no object can be simulated: {0}")]
    NotSimulated(String),
    /// The runtime of the simulation cannot start.
    #[error("cannot start the simulation: {0}")]
    Runtime(#[from] std::io::Error),
}

/// Whether objects of the same built-in kind have a namespace; `None` for custom resources.
pub(crate) fn is_namespaced(object: &Value) -> Option<bool> {
    sandbox::is_namespaced(text(object, "/apiVersion"), text(object, "/kind"))
}

/// Predicts the steps of the controllers after the given objects are applied to the live ones.
///
/// Blocks the thread. Async callers use `spawn_blocking`, because the simulation has a runtime of its own.
pub fn predict(live: LiveState, given: Vec<Value>, options: Options) -> Result<Prediction, Error> {
    let (given, unknown): (Vec<Value>, Vec<Value>) =
        given.into_iter().partition(|object| is_namespaced(object).is_some());
    let unknown: Vec<String> =
        unknown.iter().map(|object| format!("{} ({})", ObjectName::of(object), text(object, "/apiVersion"))).collect();
    if given.is_empty() {
        return Err(Error::NotSimulated(format!("{}: no built-in kind of Kubernetes 1.36", unknown.join(", "))));
    }
    let mut notes = live.notes();
    notes.extend(unknown.iter().map(|object| format!("{object} is a custom resource and is not simulated")));
    let unread: Vec<String> =
        given.iter().filter(|object| !is_read(object)).map(|object| ObjectName::of(object).to_string()).collect();
    if !unread.is_empty() {
        notes.push(format!("no controller acts on {}: their changes are not shown", unread.join(", ")));
    }
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build()?;
    let mut prediction = runtime.block_on(simulate(live.into_objects(), given, options))?;
    prediction.notes = notes;
    Ok(prediction)
}

async fn simulate(live: Vec<Value>, given: Vec<Value>, options: Options) -> Result<Prediction, Error> {
    // The simulated server counts in whole seconds.
    let start = Timestamp::from_second(options.start.as_second()).unwrap_or(options.start);
    let clock = Clock::simulated(start, start.as_second().cast_unsigned());
    let has_max_unavailable = |object: &Value| {
        text(object, "/kind") == "StatefulSet"
            && object.pointer("/spec/updateStrategy/rollingUpdate/maxUnavailable").is_some()
    };
    let is_gate_on = live.iter().any(has_max_unavailable);
    let sandbox = Sandbox::builder().clock(clock.clone()).gate(MAX_UNAVAILABLE_GATE, is_gate_on).writes(0).build();
    for object in &live {
        // A kind that is not served belongs to a custom resource, and no loop reads it.
        drop(sandbox.load([object.clone()]));
    }
    forget_removed_fields(&sandbox, &live, &given).await;
    let mut applied = Vec::new();
    for object in &given {
        let rejected =
            |Refused { message, .. }| Error::Rejected { object: ObjectName::of(object), why: to_one_line(&message) };
        applied.push(sandbox.apply(object.clone()).await.map_err(rejected)?);
    }
    let mut record = Record::new(start, &live, &applied);
    let mut feed = sandbox.writes().subscribe();
    let _nodes = start_nodes(&sandbox, &clock, options.ready_after).await;
    let definitions: Vec<LoopDefinition> = PROGRAMS
        .iter()
        .flat_map(|program| program.loops)
        .filter(|each| !OMITTED_LOOPS.contains(&each.name))
        .copied()
        .collect();
    let settings = OperatorSettings::new().with_feature_gate(MAX_UNAVAILABLE_GATE, is_gate_on);
    let loops = Loops::start(&sandbox.client("controllers"), &clock, settings, &definitions);
    clock.sleep(options.duration).await;
    while let Ok(write) = feed.try_recv() {
        record.add(&write);
    }
    let waiting = given.iter().filter_map(|object| {
        let reasons = reasons_to_wait(&loops, object).into_iter().map(|reason| record.hide_generated_names(&reason));
        let reasons: Vec<String> = reasons.collect();
        (!reasons.is_empty()).then(|| (ObjectName::of(object), reasons))
    });
    let waiting = waiting.collect();
    let (steps, other_steps) = record.into_steps();
    Ok(Prediction { options, notes: Vec::new(), steps, waiting, other_steps })
}

/// Makes the user own the fields that `kubectl apply` has applied before, so that the next apply removes those it does not repeat.
async fn forget_removed_fields(sandbox: &Sandbox, live: &[Value], given: &[Value]) {
    const LAST_APPLIED: &str = "/metadata/annotations/kubectl.kubernetes.io~1last-applied-configuration";
    for object in given {
        let Some(live) = live.iter().find(|live| ObjectName::of(live) == ObjectName::of(object)) else { continue };
        let Ok(last) = serde_json::from_str::<Value>(text(live, LAST_APPLIED)) else { continue };
        let mut unowned = live.clone();
        // With another owner a field would stay, and without any entry all fields would get another owner.
        unowned["metadata"]["managedFields"] =
            json!([{"manager": "sandbox", "operation": "Apply", "fieldsType": "FieldsV1", "fieldsV1": {}}]);
        // The last configuration may have a version that is no longer served. Then no field is removed.
        if sandbox.load([unowned]).is_ok() {
            drop(sandbox.apply(last).await);
        }
    }
}

/// Starts a scheduler, and a kubelet for each Node. Nodes that are not ready do not run Pods.
async fn start_nodes(sandbox: &Sandbox, clock: &Clock, ready_after: Duration) -> Nodes {
    // The simulated server refuses no list.
    let listed = sandbox.list("nodes", None).await.unwrap_or_default();
    let name = |node: &Value| text(node, "/metadata/name").to_owned();
    let builder = Nodes::builder().count(0).existing(listed.iter().map(name).collect()).ready_after(ready_after);
    let nodes = builder.start(sandbox.client("nodes"), clock.clone());
    let is_ready =
        |node: &Value| sandbox::nodes::condition(node, "Ready").is_some_and(|ready| ready["status"] == "True");
    for node in listed.iter().filter(|node| !is_ready(node)) {
        drop(nodes.silence(&name(node)));
    }
    nodes.ready().await;
    nodes
}

/// Returns the reasons for which the loop of a workload waits.
fn reasons_to_wait(loops: &Loops, object: &Value) -> Vec<String> {
    let name = match text(object, "/kind") {
        "Deployment" => "deployment-controller",
        "ReplicaSet" => "replicaset-controller",
        "ReplicationController" => "replicationcontroller-controller",
        "StatefulSet" => "statefulset-controller",
        "DaemonSet" => "daemonset-controller",
        "Job" => "job-controller",
        "CronJob" => "cronjob-controller",
        _ => return Vec::new(),
    };
    let key = format!("{}/{}", text(object, "/metadata/namespace"), text(object, "/metadata/name"));
    let (all, of_key) = (loops.explain(None), loops.explain(Some(&key)));
    let position = all.as_array().and_then(|all| all.iter().position(|each| each["name"] == name));
    let explained = position.and_then(|position| of_key.get(position));
    let waiting = explained.and_then(|explained| explained["waiting"].as_array()).into_iter().flatten();
    waiting.filter_map(|reason| reason.as_str().map(to_one_line)).collect()
}

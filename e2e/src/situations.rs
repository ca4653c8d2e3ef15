//! Stuck objects, as data: what users ask `kubectl nonet why` about.
//!
//! `e2e/situations.yaml` has them. A test builds each on a cluster and compares the answer; the playground has some to try.

use std::{collections::BTreeMap, time::Duration};

use common::clock::Clock;
use sandbox::nodes::Nodes;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::sandbox::{Refused, Sandbox};

/// The namespace of every situation.
pub const NAMESPACE: &str = "shop";

/// One stuck object, and how it comes about.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Situation {
    /// What is wrong, as a user would search for it.
    pub title: String,
    /// The object of the question: `deployment/web`.
    pub ask: String,
    /// Controllers that do not run.
    #[serde(default)]
    pub without: Vec<String>,
    /// What makes it stuck, in this order.
    pub steps: Vec<Step>,
}

/// One change of the cluster. Each step has one of the fields, `pods` and `of` with what they say.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Step {
    /// An object to apply. Without `metadata.namespace` it is in the namespace of the situations.
    apply: Option<Value>,
    /// A workload to apply, of which only what matters is said.
    workload: Option<Workload>,
    /// The Pods with this value of the label `app`, as many as `count` says, in the order of their names.
    pods: Option<String>,
    /// One object: `deployments.apps/web`.
    of: Option<String>,
    /// How many of `pods`; all of them if it is missing.
    count: Option<usize>,
    /// A merge patch of the status of `pods` or `of`.
    status: Option<Value>,
    /// A merge patch of `pods` or `of`.
    patch: Option<Value>,
    /// Whether `pods` or `of` are deleted.
    delete: bool,
    /// An Event about `pods` or `of`.
    event: Option<EventText>,
    /// Seconds to wait.
    wait: Option<u64>,
    /// A node to cut off.
    silence: Option<String>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Workload {
    kind: String,
    #[serde(default = "web")]
    name: String,
    /// Number of Pods; 1 if nothing else is said.
    replicas: Option<i32>,
    /// Annotations of the Pods.
    #[serde(default)]
    annotations: BTreeMap<String, String>,
    /// Merged into `spec`.
    #[serde(default)]
    spec: Value,
    /// Merged into the spec of the Pods.
    #[serde(default)]
    pod: Value,
    /// Merged into the container.
    #[serde(default)]
    container: Value,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct EventText {
    reason: String,
    message: String,
    by: String,
    #[serde(default = "warning", rename = "type")]
    kind: String,
}

fn web() -> String {
    "web".to_owned()
}

fn warning() -> String {
    "Warning".to_owned()
}

fn merge(into: &mut Value, patch: &Value) {
    match (into, patch) {
        (Value::Object(into), Value::Object(patch)) => {
            for (key, value) in patch {
                merge(into.entry(key.clone()).or_insert(Value::Null), value);
            }
        }
        (_, Value::Null) => {}
        (into, patch) => *into = patch.clone(),
    }
}

impl Workload {
    fn to_object(&self) -> Value {
        let name = &self.name;
        let labels = json!({"app": name});
        let mut container = json!({"name": "main", "image": "registry.example/web:1"});
        merge(&mut container, &self.container);
        let is_job = matches!(self.kind.as_str(), "Job" | "CronJob");
        let mut pod = json!({"terminationGracePeriodSeconds": 30, "containers": [container]});
        if is_job {
            pod["restartPolicy"] = json!("Never");
        }
        merge(&mut pod, &self.pod);
        let template = json!({"metadata": {"labels": labels, "annotations": self.annotations}, "spec": pod});
        let mut spec = match self.kind.as_str() {
            "Job" => json!({"template": template}),
            "CronJob" => json!({"schedule": "*/5 * * * *", "jobTemplate": {"spec": {"template": template}}}),
            "DaemonSet" => json!({"selector": {"matchLabels": labels}, "template": template}),
            "StatefulSet" => json!({"selector": {"matchLabels": labels}, "serviceName": name, "template": template}),
            _ => json!({"selector": {"matchLabels": labels}, "template": template}),
        };
        if !is_job && self.kind != "DaemonSet" {
            spec["replicas"] = json!(self.replicas.unwrap_or(1));
        }
        merge(&mut spec, &self.spec);
        let version = if is_job { "batch/v1" } else { "apps/v1" };
        json!({"apiVersion": version, "kind": self.kind, "metadata": {"name": name}, "spec": spec})
    }
}

/// Reads all situations.
///
/// # Errors
/// If `e2e/situations.yaml` is no list of situations.
pub fn all() -> Result<Vec<Situation>, serde_saphyr::Error> {
    serde_saphyr::from_str(include_str!("../situations.yaml"))
}

impl Situation {
    /// Makes the objects stuck.
    ///
    /// # Errors
    /// If the API server refuses a step.
    pub async fn build(&self, sandbox: &Sandbox, nodes: &Nodes, clock: &Clock) -> Result<(), Refused> {
        for step in &self.steps {
            step.take(sandbox, nodes, clock).await?;
        }
        Ok(())
    }
}

impl Step {
    async fn take(&self, sandbox: &Sandbox, nodes: &Nodes, clock: &Clock) -> Result<(), Refused> {
        let applied = self.apply.clone().into_iter().chain(self.workload.as_ref().map(Workload::to_object));
        for mut object in applied {
            if !matches!(object["kind"].as_str(), Some("Namespace" | "Node"))
                && object["metadata"]["namespace"].is_null()
            {
                object["metadata"]["namespace"] = json!(NAMESPACE);
            }
            let status = object.as_object_mut().and_then(|object| object.remove("status"));
            let made = sandbox.apply(object).await?;
            if let Some(status) = status {
                let (resource, name) = (resource_of(&made), made["metadata"]["name"].as_str().unwrap_or_default());
                let namespace = made["metadata"]["namespace"].as_str();
                sandbox.merge(&resource, namespace, name, Some("status"), json!({"status": status})).await?;
            }
        }
        for object in self.chosen(sandbox).await? {
            let resource = resource_of(&object);
            let (name, namespace) =
                (object["metadata"]["name"].as_str().unwrap_or_default(), object["metadata"]["namespace"].as_str());
            if let Some(patch) = &self.patch {
                sandbox.merge(&resource, namespace, name, None, patch.clone()).await?;
            }
            if let Some(status) = &self.status {
                sandbox.merge(&resource, namespace, name, Some("status"), json!({"status": status})).await?;
            }
            if let Some(event) = &self.event {
                sandbox.create(event.about(&object, clock)).await?;
            }
            if self.delete {
                sandbox.delete(&resource, namespace, name).await?;
            }
        }
        if let Some(node) = &self.silence {
            // The names of nodes are those of the situations.
            drop(nodes.silence(node));
        }
        if let Some(seconds) = self.wait {
            clock.sleep(Duration::from_secs(seconds)).await;
        }
        Ok(())
    }

    /// The objects that the step changes.
    async fn chosen(&self, sandbox: &Sandbox) -> Result<Vec<Value>, Refused> {
        let mut out = Vec::new();
        if let Some(app) = &self.pods {
            let mut pods = sandbox.list("pods", Some(NAMESPACE)).await?;
            pods.retain(|pod| pod["metadata"]["labels"]["app"] == json!(app));
            pods.sort_by_key(|pod| pod["metadata"]["name"].as_str().map(str::to_owned));
            pods.truncate(self.count.unwrap_or(usize::MAX));
            out.extend(pods.into_iter().map(|mut pod| {
                pod["apiVersion"] = json!("v1");
                pod["kind"] = json!("Pod");
                pod
            }));
        }
        if let Some((resource, name)) = self.of.as_deref().and_then(|of| of.split_once('/')) {
            let namespace = (!matches!(resource, "nodes" | "namespaces")).then_some(NAMESPACE);
            out.push(sandbox.get(resource, namespace, name).await?);
        }
        Ok(out)
    }
}

impl EventText {
    fn about(&self, object: &Value, clock: &Clock) -> Value {
        let now = format!("{:.0}", clock.now());
        let metadata = &object["metadata"];
        let name =
            format!("{}.{:x}", metadata["name"].as_str().unwrap_or_default(), clock.random_below(u32::MAX as usize));
        json!({
            "apiVersion": "v1", "kind": "Event",
            "metadata": {"name": name, "namespace": metadata["namespace"]},
            "involvedObject": {"apiVersion": object["apiVersion"], "kind": object["kind"], "name": metadata["name"],
                "namespace": metadata["namespace"], "uid": metadata["uid"]},
            "reason": self.reason, "message": self.message, "type": self.kind, "count": 1,
            "source": {"component": self.by}, "firstTimestamp": now, "lastTimestamp": now,
        })
    }
}

/// The resource of an object, as the sandbox names it: `deployments.apps`.
fn resource_of(object: &Value) -> String {
    let kind = object["kind"].as_str().unwrap_or_default().to_lowercase();
    let plural = if kind.ends_with("class") { format!("{kind}es") } else { format!("{kind}s") };
    match object["apiVersion"].as_str().unwrap_or_default().split_once('/') {
        Some((group, _)) => format!("{plural}.{group}"),
        None => plural,
    }
}

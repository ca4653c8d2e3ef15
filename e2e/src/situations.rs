//! Stuck objects, as data: what users ask `kubectl nonet why` about.
//!
//! `e2e/situations.yaml` has them. A test builds each on a cluster and compares the answer; the playground has some to try.

use std::{collections::BTreeMap, time::Duration};

use common::clock::Clock;
use sandbox::nodes::Nodes;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::suite::{Client, Refused};

/// The usual namespace of situations.
pub const NAMESPACE: &str = "shop";

/// Where a situation is built: a cluster, and a namespace that exists.
#[derive(Clone)]
pub struct Place<'a> {
    /// A client with all rights.
    pub client: kube::Client,
    /// The namespace of the objects.
    pub namespace: &'a str,
    /// The nodes of the cluster.
    pub nodes: &'a Nodes,
    /// The time of the cluster.
    pub clock: &'a Clock,
}

/// One stuck object, and how it comes about.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Situation {
    /// What is wrong, as a user would search for it.
    pub title: String,
    /// The object of the question: `deployment/web`.
    pub ask: String,
    /// The namespace in which the playground builds it; the playground leaves it out without one.
    pub namespace: Option<String>,
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
    /// An object to apply. Without `metadata.namespace` it is in the namespace of the place.
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
    pub async fn build(&self, place: &Place<'_>) -> Result<(), Refused> {
        for step in &self.steps {
            step.take(place).await?;
        }
        Ok(())
    }

    /// Whether other situations may be built beside this one, in a cluster with all its controllers.
    pub fn is_local(&self) -> bool {
        self.without.is_empty() && self.steps.iter().all(|step| step.silence.is_none() && !step.is_about_a_node())
    }

    /// How long it takes to build it.
    pub fn seconds(&self) -> u64 {
        self.steps.iter().filter_map(|step| step.wait).sum()
    }
}

impl Step {
    fn is_about_a_node(&self) -> bool {
        self.of.as_ref().is_some_and(|of| of.starts_with("nodes/"))
    }

    async fn take(&self, place: &Place<'_>) -> Result<(), Refused> {
        let applied = self.apply.clone().into_iter().chain(self.workload.as_ref().map(Workload::to_object));
        for mut object in applied {
            let status = object.as_object_mut().and_then(|object| object.remove("status"));
            let made = place.apply(object).await?;
            if let Some(status) = status {
                place.merge(&made, "/status", &json!({"status": status})).await?;
            }
        }
        for object in self.chosen(place).await? {
            if let Some(patch) = &self.patch {
                place.merge(&object, "", patch).await?;
            }
            if let Some(status) = &self.status {
                place.merge(&object, "/status", &json!({"status": status})).await?;
            }
            if let Some(event) = &self.event {
                place.create(event.about(&object, place.clock)).await?;
            }
            if self.delete {
                place.send("DELETE", &place.path_of(&object), "", None).await?;
            }
        }
        if let Some(node) = &self.silence {
            // The names of nodes are those of the situations.
            drop(place.nodes.silence(node));
        }
        if let Some(seconds) = self.wait {
            place.clock.sleep(Duration::from_secs(seconds)).await;
        }
        Ok(())
    }

    /// The objects that the step changes.
    async fn chosen(&self, place: &Place<'_>) -> Result<Vec<Value>, Refused> {
        let mut out = Vec::new();
        if let Some(app) = &self.pods {
            let path = format!("/api/v1/namespaces/{}/pods?labelSelector=app={app}", place.namespace);
            let list = place.send("GET", &path, "", None).await?;
            let mut pods = list["items"].as_array().cloned().unwrap_or_default();
            pods.sort_by_key(|pod| pod["metadata"]["name"].as_str().map(str::to_owned));
            pods.truncate(self.count.unwrap_or(usize::MAX));
            for mut pod in pods {
                pod["apiVersion"] = json!("v1");
                pod["kind"] = json!("Pod");
                out.push(pod);
            }
        }
        if let Some((resource, name)) = self.of.as_deref().and_then(|of| of.split_once('/')) {
            let (plural, group) = resource.split_once('.').unwrap_or((resource, ""));
            out.push(place.send("GET", &format!("{}/{name}", place.collection(group, plural, None)), "", None).await?);
        }
        Ok(out)
    }
}

impl Place<'_> {
    async fn send(&self, method: &str, path: &str, media: &str, body: Option<&Value>) -> Result<Value, Refused> {
        Client::new(self.client.clone()).send(method, path, media, body).await
    }

    async fn apply(&self, object: Value) -> Result<Value, Refused> {
        let path = format!("{}?fieldManager=user&force=true", self.path_of(&object));
        self.send("PATCH", &path, "application/apply-patch+yaml", Some(&object)).await
    }

    async fn create(&self, object: Value) -> Result<Value, Refused> {
        let path = self.path_of(&object);
        let collection = path.rsplit_once('/').map_or(path.as_str(), |(collection, _)| collection);
        self.send("POST", collection, "application/json", Some(&object)).await
    }

    async fn merge(&self, object: &Value, part: &str, patch: &Value) -> Result<Value, Refused> {
        let path = format!("{}{part}", self.path_of(object));
        self.send("PATCH", &path, "application/merge-patch+json", Some(patch)).await
    }

    /// The path of a list. All resources of the situations have the version v1.
    fn collection(&self, group: &str, plural: &str, namespace: Option<&str>) -> String {
        let root = if group.is_empty() { "/api/v1".to_owned() } else { format!("/apis/{group}/v1") };
        match plural {
            "nodes" | "namespaces" => format!("{root}/{plural}"),
            _ => format!("{root}/namespaces/{}/{plural}", namespace.unwrap_or(self.namespace)),
        }
    }

    fn path_of(&self, object: &Value) -> String {
        let kind = object["kind"].as_str().unwrap_or_default().to_lowercase();
        let group =
            object["apiVersion"].as_str().and_then(|version| version.split_once('/')).map_or("", |(group, _)| group);
        let metadata = &object["metadata"];
        let name = metadata["name"].as_str().unwrap_or_default();
        format!("{}/{name}", self.collection(group, &format!("{kind}s"), metadata["namespace"].as_str()))
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

//! Builders and readers of the objects of tests.

use serde_json::{Value, json};

use crate::objects::{merged, pod_spec, template};

/// The resources suites work with.
pub mod resources {
    #![allow(missing_docs, reason = "a resource has the name of its kind")]

    use common::object::Resource;

    const fn namespaced(group: &'static str, plural: &'static str, kind: &'static str) -> Resource {
        Resource::namespaced(group, "v1", plural, kind)
    }

    pub const DEPLOYMENTS: Resource = namespaced("apps", "deployments", "Deployment");
    pub const REPLICA_SETS: Resource = namespaced("apps", "replicasets", "ReplicaSet");
    pub const STATEFUL_SETS: Resource = namespaced("apps", "statefulsets", "StatefulSet");
    pub const DAEMON_SETS: Resource = namespaced("apps", "daemonsets", "DaemonSet");
    pub const CONTROLLER_REVISIONS: Resource = namespaced("apps", "controllerrevisions", "ControllerRevision");
    pub const CLAIMS: Resource = namespaced("", "persistentvolumeclaims", "PersistentVolumeClaim");
    pub const REPLICATION_CONTROLLERS: Resource = namespaced("", "replicationcontrollers", "ReplicationController");
    pub const JOBS: Resource = namespaced("batch", "jobs", "Job");
    pub const CRON_JOBS: Resource = namespaced("batch", "cronjobs", "CronJob");
    pub const SERVICES: Resource = namespaced("", "services", "Service");
    pub const ENDPOINTS: Resource = namespaced("", "endpoints", "Endpoints");
    pub const ENDPOINT_SLICES: Resource = namespaced("discovery.k8s.io", "endpointslices", "EndpointSlice");
    pub const CONFIG_MAPS: Resource = namespaced("", "configmaps", "ConfigMap");
    pub const SECRETS: Resource = namespaced("", "secrets", "Secret");
    pub const PODS: Resource = namespaced("", "pods", "Pod");
    pub const EVENTS: Resource = namespaced("", "events", "Event");
    pub const RESOURCE_QUOTAS: Resource = namespaced("", "resourcequotas", "ResourceQuota");
    pub const BUDGETS: Resource = namespaced("policy", "poddisruptionbudgets", "PodDisruptionBudget");
    pub const SERVICE_ACCOUNTS: Resource = namespaced("", "serviceaccounts", "ServiceAccount");
    pub const LEASES: Resource = namespaced("coordination.k8s.io", "leases", "Lease");
    pub const NAMESPACES: Resource = Resource::cluster_scoped("", "v1", "namespaces", "Namespace");
    pub const NODES: Resource = Resource::cluster_scoped("", "v1", "nodes", "Node");
    pub const CLUSTER_ROLES: Resource =
        Resource::cluster_scoped("rbac.authorization.k8s.io", "v1", "clusterroles", "ClusterRole");
    pub const DEFINITIONS: Resource =
        Resource::cluster_scoped("apiextensions.k8s.io", "v1", "customresourcedefinitions", "CustomResourceDefinition");

    /// What a test may leave in its namespace, owners first.
    pub const CLEANED: [Resource; 15] = [
        CRON_JOBS,
        DEPLOYMENTS,
        REPLICA_SETS,
        REPLICATION_CONTROLLERS,
        STATEFUL_SETS,
        DAEMON_SETS,
        JOBS,
        PODS,
        CONTROLLER_REVISIONS,
        CLAIMS,
        SERVICES,
        ENDPOINTS,
        ENDPOINT_SLICES,
        RESOURCE_QUOTAS,
        EVENTS,
    ];
}

/// An object being made.
#[derive(Clone, Debug)]
pub struct Builder(Value);

/// A Deployment of one replica whose Pods are labelled `app=<name>`, with short waits.
pub fn deployment(name: &str) -> Builder {
    workload("apps/v1", "Deployment", name, json!({"matchLabels": {"app": name}}))
}

/// A ReplicaSet of one replica whose Pods are labelled `app=<name>`.
pub fn replica_set(name: &str) -> Builder {
    workload("apps/v1", "ReplicaSet", name, json!({"matchLabels": {"app": name}}))
}

/// A ReplicationController of one replica whose Pods are labelled `app=<name>`.
pub fn replication_controller(name: &str) -> Builder {
    workload("v1", "ReplicationController", name, json!({"app": name}))
}

/// A StatefulSet of one replica whose Pods are labelled `app=<name>`.
pub fn stateful_set(name: &str) -> Builder {
    let set = workload("apps/v1", "StatefulSet", name, json!({"matchLabels": {"app": name}}));
    set.set("spec/serviceName", name)
}

/// A DaemonSet whose Pods are labelled `app=<name>`.
pub fn daemon_set(name: &str) -> Builder {
    let mut set = workload("apps/v1", "DaemonSet", name, json!({"matchLabels": {"app": name}}));
    if let Some(spec) = set.0["spec"].as_object_mut() {
        spec.remove("replicas");
    }
    set
}

/// A Job that wants one completion, of Pods that run until they are told to exit.
pub fn job(name: &str) -> Builder {
    Builder(json!({
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": name},
        "spec": {"template": merged(template(name), json!({"spec": {"restartPolicy": "Never"}}))},
    }))
}

/// A Pod labelled `app=<app>`.
pub fn pod(name: &str, app: &str) -> Builder {
    Builder(json!({
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "labels": {"app": app}},
        "spec": pod_spec("img:1"),
    }))
}

/// A merge patch that gives the Pods of a workload another image.
pub fn image(image: &str) -> Value {
    json!({"spec": {"template": {"spec": pod_spec(image)}}})
}

fn workload(api_version: &str, kind: &str, name: &str, selector: Value) -> Builder {
    Builder(json!({
        "apiVersion": api_version,
        "kind": kind,
        "metadata": {"name": name, "labels": {"app": name}},
        "spec": {
            "replicas": 1,
            "selector": selector,
            "template": template(name),
        },
    }))
}

impl Builder {
    /// Sets the value at a path such as `spec/strategy/type`, making what is missing on the way.
    #[must_use]
    pub fn set(mut self, path: &str, value: impl Into<Value>) -> Self {
        let mut at = &mut self.0;
        for part in path.split('/') {
            let index = part.parse::<usize>().ok();
            at = match (at.is_array(), index) {
                (true, Some(index)) => &mut at[index],
                _ => &mut at[part],
            };
        }
        *at = value.into();
        self
    }

    /// Its size.
    #[must_use]
    pub fn replicas(self, replicas: u32) -> Self {
        self.set("spec/replicas", replicas)
    }

    /// The image of its Pods.
    #[must_use]
    pub fn image(self, image: &str) -> Self {
        self.set("spec/template/spec/containers/0/image", image)
    }

    /// An annotation of its Pods, by which nodes run them ([`sandbox::nodes`]).
    #[must_use]
    pub fn script(mut self, annotation: &str, value: &str) -> Self {
        let root = if self.0["kind"] == "Pod" { &mut self.0 } else { &mut self.0["spec"]["template"] };
        root["metadata"]["annotations"][annotation] = value.into();
        self
    }

    /// How many Pods may be there beyond its size, and how many may be missing.
    #[must_use]
    pub fn rolling(self, max_surge: impl Into<Value>, max_unavailable: impl Into<Value>) -> Self {
        self.set("spec/strategy/rollingUpdate/maxSurge", max_surge)
            .set("spec/strategy/rollingUpdate/maxUnavailable", max_unavailable)
    }

    /// All Pods go before new ones come.
    #[must_use]
    pub fn recreate(self) -> Self {
        self.set("spec/strategy/type", "Recreate")
    }

    /// The object.
    pub fn build(self) -> Value {
        self.0
    }
}

impl From<Builder> for Value {
    fn from(builder: Builder) -> Self {
        builder.0
    }
}

pub(super) fn controller_of(object: &Value) -> Option<&str> {
    let owners = object["metadata"]["ownerReferences"].as_array()?;
    owners.iter().find(|o| o["controller"] == true)?["uid"].as_str()
}

pub(super) fn revision(set: &Value) -> u64 {
    let annotation = set["metadata"]["annotations"]["deployment.kubernetes.io/revision"].as_str();
    annotation.and_then(|r| r.parse().ok()).unwrap_or(0)
}

pub(super) fn is_rolled_out(deployment: &Value) -> bool {
    let (spec, status) = (&deployment["spec"], &deployment["status"]);
    let wanted = spec["replicas"].as_i64().unwrap_or(1);
    let number = |field: &str| status[field].as_i64().unwrap_or(0);
    let observed = status["observedGeneration"].as_i64() >= deployment["metadata"]["generation"].as_i64();
    observed
        && ["replicas", "updatedReplicas", "readyReplicas", "availableReplicas"].iter().all(|f| number(f) == wanted)
}

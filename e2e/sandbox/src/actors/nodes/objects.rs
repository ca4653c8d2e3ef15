//! What the scheduler and the kubelets read of Pods and Nodes.

use common::{
    intern::{Labels, Text},
    meta::Meta,
    object::{Object, Resource},
};
use jiff::Timestamp;
use serde::Deserialize;

pub(crate) const PODS: Resource = Resource::namespaced("", "v1", "pods", "Pod");
pub(crate) const NODES: Resource = Resource::cluster_scoped("", "v1", "nodes", "Node");
pub(crate) const LEASES: Resource = Resource::namespaced("coordination.k8s.io", "v1", "leases", "Lease");

/// The annotation a Job writes its completion index into.
pub(super) const COMPLETION_INDEX: &str = "batch.kubernetes.io/job-completion-index";
/// The condition of a Pod that serves.
pub(super) const READY: &str = "Ready";

#[derive(Debug, Deserialize)]
pub(crate) struct Pod {
    pub(super) metadata: Meta,
    #[serde(default)]
    pub(super) spec: PodSpec,
    #[serde(default)]
    pub(super) status: PodStatus,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct PodSpec {
    pub(super) node_name: Text,
    pub(super) scheduler_name: Text,
    pub(super) restart_policy: RestartPolicy,
    pub(super) containers: Box<[Container]>,
    pub(super) init_containers: Box<[Container]>,
    pub(super) node_selector: Labels,
    pub(super) affinity: Option<Box<Affinity>>,
    pub(super) tolerations: Box<[Toleration]>,
    pub(super) scheduling_gates: Box<[serde::de::IgnoredAny]>,
    pub(super) readiness_gates: Box<[ReadinessGate]>,
    pub(super) active_deadline_seconds: Option<u32>,
    pub(super) host_network: bool,
}

/// What a node does with a container that ends.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
pub(super) enum RestartPolicy {
    /// Starts it again.
    #[default]
    Always,
    /// Starts it again unless it ended with 0.
    OnFailure,
    /// Leaves it.
    Never,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct Container {
    pub(super) name: Text,
    pub(super) image: Text,
    pub(super) command: Box<[Text]>,
    pub(super) args: Box<[Text]>,
    /// Set on init containers that stay: sidecars.
    pub(super) restart_policy: Option<RestartPolicy>,
}

/// A condition somebody else must set before the Pod is Ready.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct ReadinessGate {
    pub(super) condition_type: Text,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Toleration {
    pub(super) key: Text,
    pub(super) operator: Text,
    pub(super) value: Text,
    pub(super) effect: Text,
}

/// Affinity, of which only the required node affinity is honoured.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct Affinity {
    pub(super) node_affinity: NodeAffinity,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct NodeAffinity {
    #[serde(rename = "requiredDuringSchedulingIgnoredDuringExecution")]
    pub(super) required: Option<NodeSelector>,
}

/// Terms of which one must match.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct NodeSelector {
    pub(super) node_selector_terms: Box<[NodeSelectorTerm]>,
}

/// Requirements that must all be met.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct NodeSelectorTerm {
    pub(super) match_expressions: Box<[Requirement]>,
    pub(super) match_fields: Box<[Requirement]>,
}

/// One requirement.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Requirement {
    pub(super) key: Text,
    pub(super) operator: Text,
    pub(super) values: Box<[Text]>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct PodStatus {
    pub(super) phase: Text,
    pub(super) start_time: Option<Timestamp>,
    #[serde(rename = "podIP")]
    pub(super) pod_ip: Option<Box<str>>,
    pub(super) conditions: Vec<Condition>,
    pub(super) container_statuses: Box<[ContainerStatus]>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Condition {
    #[serde(rename = "type")]
    pub(super) kind: Text,
    pub(super) status: Text,
}

/// What a node reported of a container before.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct ContainerStatus {
    pub(super) restart_count: u32,
    pub(super) state: ContainerState,
}

/// The state of a container, as far as it runs.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct ContainerState {
    pub(super) running: Option<Running>,
}

/// A running container.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct Running {
    pub(super) started_at: Option<Timestamp>,
}

impl Pod {
    /// Whether the Pod has ended for good.
    pub(super) fn is_terminal(&self) -> bool {
        matches!(self.status.phase.as_str(), "Succeeded" | "Failed")
    }

    /// Whether a condition is reported as `True`.
    pub(super) fn has_condition(&self, kind: &str) -> bool {
        self.status.conditions.iter().any(|c| c.kind == kind && c.status == "True")
    }
}

impl Object for Pod {
    const RESOURCE: Resource = PODS;
    type Indexes = ();

    fn meta(&self) -> &Meta {
        &self.metadata
    }

    fn drop_unneeded_fields(&mut self) {
        let meta = &mut self.metadata;
        meta.annotations.retain(|key| key.starts_with(super::script::PREFIX) || key == COMPLETION_INDEX);
        meta.labels = Labels::default();
        meta.owners = common::meta::OwnerRefs::default();
        if !self.spec.node_name.is_empty() {
            self.spec.tolerations = Box::default();
            self.spec.affinity = None;
            self.spec.node_selector = Labels::default();
        }
        let gates = &self.spec.readiness_gates;
        let is_used = |kind: &str| ["PodScheduled", READY].contains(&kind);
        self.status.conditions.retain(|c| is_used(&c.kind) || gates.iter().any(|g| g.condition_type == c.kind));
    }
}

/// A Node, as the scheduler sees it.
#[derive(Debug, Deserialize)]
pub(crate) struct Node {
    pub(super) metadata: Meta,
    #[serde(default)]
    pub(super) spec: NodeSpec,
    #[serde(default)]
    pub(super) status: NodeStatus,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct NodeSpec {
    pub(super) unschedulable: bool,
    pub(super) taints: Vec<Taint>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Taint {
    pub(super) key: Text,
    pub(super) value: Text,
    pub(super) effect: Text,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct NodeStatus {
    pub(super) conditions: Vec<Condition>,
}

impl Object for Node {
    const RESOURCE: Resource = NODES;
    type Indexes = ();

    fn meta(&self) -> &Meta {
        &self.metadata
    }

    fn drop_unneeded_fields(&mut self) {
        self.metadata.annotations = common::meta::Annotations::default();
        self.status.conditions.retain(|c| c.kind == "Ready");
    }
}

//! What is read of Nodes and their Leases.

use common::{
    conditions::{self, Condition},
    intern::Text,
    meta::{Annotations, Meta},
    object::{Object, Resource},
    taints::{NO_EXECUTE, Taint},
};
use serde::Deserialize;

/// Nodes on the API server.
pub const NODES: Resource = Resource { group: "", version: "v1", plural: "nodes", kind: "Node", namespaced: false };
/// Leases on the API server.
pub const LEASES: Resource =
    Resource { group: "coordination.k8s.io", version: "v1", plural: "leases", kind: "Lease", namespaced: true };

/// The taint with which an operator declares that nothing runs on a node any more.
const OUT_OF_SERVICE: &str = "node.kubernetes.io/out-of-service";

/// A Node.
#[derive(Clone, Debug, Default, Deserialize)]
pub struct Node {
    /// Metadata, without annotations and finalizers.
    pub metadata: Meta,
    #[serde(default)]
    spec: Option<Spec>,
    #[serde(default)]
    status: Option<Status>,
}

#[derive(Clone, Debug, Default, Deserialize)]
struct Spec {
    #[serde(default)]
    unschedulable: bool,
    taints: Option<Vec<Taint>>,
}

#[derive(Clone, Debug, Default, Deserialize)]
struct Status {
    conditions: Option<Vec<Condition>>,
}

impl Node {
    /// Its taints, in their order.
    pub fn taints(&self) -> &[Taint] {
        self.spec.as_ref().and_then(|spec| spec.taints.as_deref()).unwrap_or_default()
    }

    /// Those of its taints that Pods have to leave for.
    pub fn evicting(&self) -> impl Iterator<Item = &Taint> {
        self.taints().iter().filter(|taint| taint.effect == NO_EXECUTE)
    }

    /// Whether an operator has declared the node dead and it does not report to be ready.
    pub fn is_out_of_service(&self) -> bool {
        !self.is_ready() && self.taints().iter().any(|taint| taint.key == OUT_OF_SERVICE)
    }

    /// Whether nothing is to be scheduled there.
    pub fn is_unschedulable(&self) -> bool {
        self.spec.as_ref().is_some_and(|spec| spec.unschedulable)
    }

    /// Its conditions.
    pub fn conditions(&self) -> &[Condition] {
        self.status.as_ref().and_then(|status| status.conditions.as_deref()).unwrap_or_default()
    }

    /// Whether it says that it is ready; one that says nothing is not.
    pub fn is_ready(&self) -> bool {
        conditions::is_true(self.conditions(), "Ready")
    }
}

impl Object for Node {
    const RESOURCE: Resource = NODES;

    fn meta(&self) -> &Meta {
        &self.metadata
    }

    fn trim(&mut self) {
        self.metadata.annotations = Annotations::default();
        self.metadata.finalizers = Box::default();
    }
}

/// A Lease that a node renews.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
pub struct Lease {
    /// Metadata.
    pub metadata: Meta,
    #[serde(default)]
    spec: Option<LeaseSpec>,
}

#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase")]
struct LeaseSpec {
    renew_time: Option<Text>,
}

impl Lease {
    /// When it was renewed last.
    pub fn renewed(&self) -> Option<jiff::Timestamp> {
        self.spec.as_ref()?.renew_time.as_ref()?.parse().ok()
    }
}

impl Object for Lease {
    const RESOURCE: Resource = LEASES;

    fn meta(&self) -> &Meta {
        &self.metadata
    }

    fn trim(&mut self) {
        self.metadata.annotations = Annotations::default();
        self.metadata.owners = common::meta::Owners::default();
    }
}

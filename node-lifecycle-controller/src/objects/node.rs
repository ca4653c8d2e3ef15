//! The fields of Nodes and of their Leases that this program reads.

use std::{borrow::Cow, sync::Arc};

use common::{
    conditions::{self, Condition, FALSE, TRUE, UNKNOWN},
    intern::{Labels, Text},
    meta::{Annotations, Meta, OwnerRefs},
    object::{Object, Resource},
    taints::{NO_EXECUTE, Taint},
    wire::{MessageSchema, messages},
};
use jiff::Timestamp;
use serde::{Deserialize, Deserializer};

/// The API resource of Nodes, which have no namespace.
pub const NODES: Resource = Resource::cluster_scoped("", "v1", "nodes", "Node");
/// The API resource of Leases; the kubelet of a node renews the Lease of that node as a heartbeat.
pub const LEASES: Resource = Resource::namespaced("coordination.k8s.io", "v1", "leases", "Lease");

/// Namespace of the Leases that nodes renew.
pub const NODE_LEASE_NAMESPACE: &str = "kube-node-lease";
/// Type of the condition that shows whether a node can run Pods, and whether a Pod can serve requests.
pub const READY_CONDITION: &str = "Ready";

/// Key of the taint by which an operator declares that a node is shut down and runs no Pods.
const OUT_OF_SERVICE_TAINT: &str = "node.kubernetes.io/out-of-service";
/// Label that excludes a node from the counts that decide the state of its zone; the value of the label is ignored.
const EXCLUDE_DISRUPTION_LABEL: &str = "node.kubernetes.io/exclude-disruption";
/// Labels with the region of a node; the first label that exists counts, even if its value is empty.
const REGION_LABELS: [&str; 2] = ["failure-domain.beta.kubernetes.io/region", "topology.kubernetes.io/region"];
/// Labels with the zone of a node; the first label that exists counts, even if its value is empty.
const ZONE_LABELS: [&str; 2] = ["failure-domain.beta.kubernetes.io/zone", "topology.kubernetes.io/zone"];

/// `metadata.name` of a node; clones share the text.
pub type NodeName = Arc<str>;

/// `spec.renewTime` of a Lease; `None` if it is missing or unreadable.
pub type RenewTime = Option<Timestamp>;

/// Status of the condition `Ready` of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NodeReadyStatus {
    /// The condition is missing.
    Missing,
    /// The node can run Pods and needs no `NoExecute` taint.
    True,
    /// The kubelet reports that the node cannot run Pods; the node gets the taint `not-ready`.
    False,
    /// Usually written by a node monitor because heartbeats are missing; the node gets the taint `unreachable`.
    Unknown,
    /// A status that no kubelet writes. The node counts as not ready, but gets no taint.
    Other,
}

impl NodeReadyStatus {
    /// Returns the status for explanations; `none` if the condition is missing.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Missing => "none",
            Self::True => TRUE,
            Self::False => FALSE,
            Self::Unknown => UNKNOWN,
            Self::Other => "neither True, False nor Unknown",
        }
    }
}

/// The fields of a Node that this program reads.
#[derive(Clone, Debug, Default, Deserialize)]
pub struct Node {
    /// Metadata of the node; the cache does not store the annotations and finalizers.
    pub metadata: Meta,
    spec: Option<Spec>,
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
    /// Returns `spec.taints`; empty if the field is missing.
    pub fn taints(&self) -> &[Taint] {
        self.spec.as_ref().and_then(|spec| spec.taints.as_deref()).unwrap_or_default()
    }

    /// Returns the taints with the effect `NoExecute`, which evict Pods without a matching toleration.
    pub fn no_execute_taints(&self) -> impl Iterator<Item = &Taint> {
        self.taints().iter().filter(|taint| taint.effect == NO_EXECUTE)
    }

    /// Whether the node has the out-of-service taint and is not ready.
    pub fn is_out_of_service(&self) -> bool {
        self.ready_status() != NodeReadyStatus::True
            && self.taints().iter().any(|taint| taint.key == OUT_OF_SERVICE_TAINT)
    }

    /// Whether the node is cordoned: `spec.unschedulable` is true.
    pub fn is_unschedulable(&self) -> bool {
        self.spec.as_ref().is_some_and(|spec| spec.unschedulable)
    }

    /// Returns `status.conditions`; empty if the field is missing.
    pub fn conditions(&self) -> &[Condition] {
        self.status.as_ref().and_then(|status| status.conditions.as_deref()).unwrap_or_default()
    }

    /// Returns the status of the condition `Ready`.
    pub fn ready_status(&self) -> NodeReadyStatus {
        match conditions::get(self.conditions(), READY_CONDITION).map(|ready| ready.status.as_str()) {
            None => NodeReadyStatus::Missing,
            Some(TRUE) => NodeReadyStatus::True,
            Some(FALSE) => NodeReadyStatus::False,
            Some(UNKNOWN) => NodeReadyStatus::Unknown,
            Some(_) => NodeReadyStatus::Other,
        }
    }

    /// Returns `lastHeartbeatTime` of the condition `Ready`, as text that is only compared for equality.
    pub fn last_heartbeat_time(&self) -> Option<&str> {
        conditions::get(self.conditions(), READY_CONDITION)?.extra.get("lastHeartbeatTime")?.as_str()
    }

    /// Returns the key of the node's zone; empty if the node has neither a region nor a zone.
    pub fn zone_key(&self) -> Text {
        let label = |keys: [&str; 2]| keys.iter().find_map(|key| self.metadata.labels.get(key)).unwrap_or_default();
        let (region, zone) = (label(REGION_LABELS), label(ZONE_LABELS));
        if region.is_empty() && zone.is_empty() {
            return Text::default();
        }
        Text::new(&format!("{region}:\0:{zone}"))
    }

    /// Whether a label excludes the node from the counts that decide the state of its zone.
    pub fn is_excluded_from_zone_state(&self) -> bool {
        self.metadata.labels.get(EXCLUDE_DISRUPTION_LABEL).is_some()
    }
}

impl Object for Node {
    const RESOURCE: Resource = NODES;
    type Indexes = ();
    const PROTOBUF_SCHEMA: Option<&'static MessageSchema> = Some(&messages::NODE);

    fn meta(&self) -> &Meta {
        &self.metadata
    }

    fn drop_unneeded_fields(&mut self) {
        self.metadata.annotations = Annotations::default();
        self.metadata.finalizers = Box::default();
    }
}

/// The fields of a node's Lease that this program reads.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
pub struct Lease {
    /// Metadata of the Lease; the cache does not store the labels, annotations, owners and finalizers.
    pub metadata: Meta,
    spec: Option<LeaseSpec>,
}

#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase")]
struct LeaseSpec {
    #[serde(default, deserialize_with = "time")]
    renew_time: Option<Timestamp>,
}

/// Decodes a time; text that is not a time becomes `None`.
fn time<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Timestamp>, D::Error> {
    Ok(Option::<Cow<'de, str>>::deserialize(deserializer)?.and_then(|text| text.parse().ok()))
}

impl Lease {
    /// Returns `spec.renewTime`; `None` if it is missing or unreadable.
    pub fn renew_time(&self) -> RenewTime {
        self.spec.as_ref()?.renew_time
    }
}

impl Object for Lease {
    const RESOURCE: Resource = LEASES;
    type Indexes = ();
    const PROTOBUF_SCHEMA: Option<&'static MessageSchema> = Some(&messages::LEASE);

    fn meta(&self) -> &Meta {
        &self.metadata
    }

    fn drop_unneeded_fields(&mut self) {
        self.metadata.annotations = Annotations::default();
        self.metadata.owners = OwnerRefs::default();
        self.metadata.labels = Labels::default();
        self.metadata.finalizers = Box::default();
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::world;

    fn node(labels: Value) -> Arc<Node> {
        world::node("n", json!({"metadata": {"labels": labels}}))
    }

    /// NODE-31.
    #[test]
    fn the_older_labels_of_zone_and_region_have_precedence() {
        for (labels, zone) in [
            (json!({}), ""),
            (
                json!({"topology.kubernetes.io/region": "us-east1", "topology.kubernetes.io/zone": "us-east1-b"}),
                "us-east1:\0:us-east1-b",
            ),
            (json!({"topology.kubernetes.io/zone": "a"}), ":\0:a"),
            (
                json!({"failure-domain.beta.kubernetes.io/zone": "x", "topology.kubernetes.io/zone": "y",
                "topology.kubernetes.io/region": "r"}),
                "r:\0:x",
            ),
            (json!({"failure-domain.beta.kubernetes.io/zone": "", "topology.kubernetes.io/zone": "y"}), ""),
        ] {
            assert_eq!(node(labels.clone()).zone_key(), zone, "{labels}");
        }
    }

    /// NODE-36.
    #[test]
    fn the_label_excludes_a_node_whatever_its_value() {
        assert!(node(json!({"node.kubernetes.io/exclude-disruption": "false"})).is_excluded_from_zone_state());
        assert!(!node(json!({})).is_excluded_from_zone_state());
    }

    #[test]
    fn a_lease_without_a_readable_time_has_none() {
        let lease = |renewed: Value| {
            let lease = json!({"metadata": {"name": "n"}, "spec": {"renewTime": renewed}});
            serde_json::from_str::<Lease>(&lease.to_string()).unwrap().renew_time()
        };
        assert_eq!(lease(json!("2026-11-21T09:00:00.000001Z")), Some("2026-11-21T09:00:00.000001Z".parse().unwrap()));
        assert_eq!((lease(json!("soon")), lease(json!(null))), (None, None));
    }
}

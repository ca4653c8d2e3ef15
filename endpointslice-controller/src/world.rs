//! Builders of snapshots for tests.

use std::sync::Arc;

use common::prelude::*;
use serde_json::{Value, json};

use crate::{
    memory::ServiceMemory,
    mirroring,
    objects::{MANAGED_BY_LABEL, MANAGED_BY_SLICE_CONTROLLER, Node, Pod, SERVICE_NAME_LABEL, Service, Slice},
    slices::decide::{MAX_NEW_SLICE_PORTS, Snapshot},
    zones::ZonesByNode,
};

const UID: &str = "service-uid";
/// The Node of all Pods; it has no zone.
pub(crate) const NODE_NAME: &str = "n";

fn decode<T: Object>(object: Value) -> T {
    serde_json::from_value(object).unwrap()
}

pub(crate) fn service(spec: &Value) -> Arc<Service> {
    let mut object = json!({"metadata": {"name": "web", "namespace": "ns", "uid": UID,
        "creationTimestamp": "2026-01-01T10:00:00Z"},
        "spec": {"type": "ClusterIP", "clusterIP": "10.0.0.1", "ipFamilies": ["IPv4"], "selector": {"app": "web"},
            "ports": [{"name": "http", "port": 80, "targetPort": 8080, "protocol": "TCP"}]}});
    for (key, value) in spec.as_object().unwrap() {
        object["spec"][key] = value.clone();
    }
    Arc::new(decode(object))
}

/// Builds the ready Pod `p<index>` with an address of each family.
pub(crate) fn pod(index: usize) -> Pod {
    let (name, ip) = (format!("p{index:04}"), format!("10.{}.{}.{}", index / 62_500, index / 250 % 250, index % 250));
    decode(json!({"metadata": {"name": name, "namespace": "ns", "uid": name}, "spec": {"nodeName": NODE_NAME},
        "status": {"phase": "Running", "podIP": ip, "podIPs": [{"ip": ip}, {"ip": format!("fd00::{index:x}")}],
            "conditions": [{"type": "Ready", "status": "True"}]}}))
}

pub(crate) fn node(zone: &str, cpu: &str) -> Node {
    decode(json!({"metadata": {"name": format!("n-{zone}"), "labels": {"topology.kubernetes.io/zone": zone}},
        "status": {"allocatable": {"cpu": cpu}, "conditions": [{"type": "Ready", "status": "True"}]}}))
}

/// Builds the snapshot of a Service with these Pods and no slices.
pub(crate) fn snapshot(pods: impl IntoIterator<Item = Pod>, max_endpoints: usize) -> Snapshot {
    let mut zones = ZonesByNode::default();
    zones.insert(NODE_NAME.into(), Text::default());
    Snapshot {
        service: service(&json!({})),
        pods: pods.into_iter().map(Arc::new).collect(),
        zones_by_node: Arc::new(zones),
        slices: Vec::new(),
        memory: ServiceMemory::default(),
        zone_cpu_shares: None,
        max_endpoints_per_slice: max_endpoints,
        max_new_slice_ports: MAX_NEW_SLICE_PORTS,
        min_pods_to_record_slices: 0,
    }
}

/// Builds a slice of the Service with the endpoints of these Pods.
pub(crate) fn slice(name: &str, pods: impl IntoIterator<Item = usize>) -> Arc<Slice> {
    let endpoints: Vec<Value> = pods
        .into_iter()
        .map(|index| {
            let pod = pod(index);
            json!({"addresses": [pod.pod_ips[0].to_string()], "nodeName": NODE_NAME, "targetRef": {"kind": "Pod", "namespace": "ns",
                "name": pod.metadata.name, "uid": pod.metadata.uid},
                "conditions": {"ready": true, "serving": true, "terminating": false}})
        })
        .collect();
    Arc::new(decode(json!({"metadata": {"name": name, "namespace": "ns", "uid": name,
        "labels": {SERVICE_NAME_LABEL: "web", MANAGED_BY_LABEL: MANAGED_BY_SLICE_CONTROLLER},
        "ownerReferences": [{"apiVersion": "v1", "kind": "Service", "name": "web", "uid": UID, "controller": true}]},
        "addressType": "IPv4", "endpoints": endpoints, "ports": [{"name": "http", "port": 8080, "protocol": "TCP"}]})))
}

/// Builds hand-made Endpoints `web` with these subsets, and the slices that mirror them.
pub(crate) fn mirroring_snapshot(subsets: &Value, slices: &[Value]) -> mirroring::decide::Snapshot {
    let meta = json!({"name": "web", "namespace": "ns", "uid": "e"});
    mirroring::decide::Snapshot {
        key: NamespacedName::new("ns", "web"),
        endpoints: Some(Arc::new(decode(json!({"metadata": meta, "subsets": subsets})))),
        service: Some(Arc::new(decode(json!({"metadata": meta, "spec": {}})))),
        slices: slices.iter().map(|slice| Arc::new(decode(slice.clone()))).collect(),
        max_endpoints_per_subset: 1000,
    }
}

pub(crate) fn mirrored_slice(name: &str, family: &str, addresses: &[&str]) -> Value {
    let endpoints: Vec<Value> =
        addresses.iter().map(|ip| json!({"addresses": [ip], "conditions": {"ready": true}})).collect();
    json!({"metadata": {"name": name, "namespace": "ns", "uid": name}, "addressType": family, "endpoints": endpoints,
        "ports": [{"name": "", "port": 80, "protocol": "TCP"}]})
}

pub(crate) fn port_80() -> Value {
    json!([{"port": 80, "protocol": "TCP"}])
}

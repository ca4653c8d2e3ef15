//! The endpoints a Service is to have, grouped by the ports they have.

use std::{collections::BTreeMap, sync::Arc};

use common::{intern::Text, intstr::IntOrString};

use crate::{
    address,
    objects::{AddressType, Conditions, Endpoint, Pod, Port, Service, ServicePort, TargetRef},
    snapshot::{Member, Place, Snapshot},
};

/// Endpoints with the same ports.
#[derive(Clone, Debug, PartialEq)]
pub struct Group {
    /// The ports, in the Service's order.
    pub ports: Vec<Port>,
    /// The endpoints, by the names of their Pods.
    pub endpoints: Vec<Endpoint>,
}

/// What is wanted of one address type.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Desired {
    /// The groups; ports differ between any two.
    pub groups: Vec<Group>,
    /// Pods that were left out because nobody has heard of their node.
    pub left_out: Vec<String>,
}

/// Ports in whatever order: what slices are told apart by.
pub fn port_key(ports: &[Port]) -> Vec<Port> {
    let mut key = ports.to_vec();
    key.sort();
    key
}

/// The endpoints of one address type that the Pods of a Service make.
///
/// Upstream: `staging/src/k8s.io/endpointslice`, `reconcileByAddressType`.
pub fn desired(snapshot: &Snapshot, kind: AddressType) -> Desired {
    let service = &snapshot.service;
    let mut out = Desired::default();
    // Most Pods resolve the ports as the one before.
    let mut by_numbers: BTreeMap<Vec<Option<i32>>, usize> = BTreeMap::new();
    let mut by_key: BTreeMap<Vec<Port>, usize> = BTreeMap::new();
    for Member { pod, place } in &snapshot.members {
        if !pod.is_eligible() {
            continue;
        }
        let numbers: Vec<Option<i32>> = service.spec.ports.iter().map(|port| resolve(port, pod)).collect();
        let group = match by_numbers.get(&numbers) {
            Some(known) => *known,
            None => {
                let ports = ports(service, &numbers);
                let group = *by_key.entry(port_key(&ports)).or_insert(out.groups.len());
                if group == out.groups.len() {
                    out.groups.push(Group { ports, endpoints: Vec::new() });
                }
                by_numbers.insert(numbers, group);
                group
            }
        };
        if matches!(place, Place::Unknown) && !service.spec.publish_not_ready_addresses {
            let (namespace, pod_name, name) = (&pod.metadata.namespace, &pod.metadata.name, &service.metadata.name);
            let node = &pod.node;
            out.left_out.push(format!("skipping Pod {pod_name} for Service {namespace}/{name}: Node {node} Not Found"));
            continue;
        }
        if let Some(endpoint) = endpoint(pod, place, service, kind) {
            out.groups[group].endpoints.push(endpoint);
        }
    }
    out
}

/// The number a port of a Service has on a Pod.
pub fn resolve(port: &ServicePort, pod: &Pod) -> Option<i32> {
    match &port.target_port {
        None => Some(port.port),
        Some(IntOrString::Int(number)) => Some(*number),
        Some(IntOrString::Text(name)) => {
            let same = pod.ports.iter().find(|own| own.name == *name && own.protocol == port.protocol);
            same.map(|own| own.number)
        }
    }
}

fn ports(service: &Service, numbers: &[Option<i32>]) -> Vec<Port> {
    let known = service.spec.ports.iter().zip(numbers).filter_map(|(port, number)| number.map(|n| (port, n)));
    known
        .map(|(port, number)| Port {
            name: port.name.clone(),
            port: Some(number),
            protocol: port.protocol.clone(),
            app_protocol: port.app_protocol.clone(),
        })
        .collect()
}

/// The name of a Pod in the domain of a Service, if it has one there.
pub fn hostname(pod: &Pod, service: &Service) -> Option<Text> {
    let named = !pod.hostname.is_empty() && *pod.subdomain == *service.metadata.name;
    named.then(|| pod.hostname.clone())
}

/// A reference to a Pod.
pub fn target(pod: &Pod) -> TargetRef {
    TargetRef {
        kind: Text::new("Pod"),
        namespace: pod.metadata.namespace.clone(),
        name: Arc::clone(&pod.metadata.name),
        uid: pod.metadata.uid.clone(),
        ..TargetRef::default()
    }
}

/// The endpoint that a Pod makes; none if it has no address of that type.
fn endpoint(pod: &Pod, place: &Place, service: &Service, kind: AddressType) -> Option<Endpoint> {
    let ours = pod.ips.iter().filter(|address| address::family(**address) == kind);
    let mut addresses: Vec<Box<str>> = ours.map(|address| address.to_string().into()).collect();
    if addresses.is_empty() {
        return None;
    }
    addresses.sort_unstable();
    let (serving, terminating) = (pod.is_ready, pod.metadata.is_deleting());
    let ready = service.spec.publish_not_ready_addresses || (serving && !terminating);
    let zone = if let Place::On(node) = place { Some(&node.zone).filter(|zone| !zone.is_empty()) } else { None };
    Some(Endpoint {
        addresses: addresses.into(),
        conditions: Conditions { ready: Some(ready), serving: Some(serving), terminating: Some(terminating) },
        hostname: hostname(pod, service),
        target_ref: Some(target(pod)),
        node_name: Some(pod.node.clone()).filter(|node| !node.is_empty()),
        zone: zone.cloned(),
        hints: None,
    })
}

//! The wanted endpoints of a Service, grouped by their ports.

use std::{collections::BTreeMap, sync::Arc};

use common::prelude::Text;

use crate::{
    address,
    decide::ports::{NamedPortNumbers, ServicePorts},
    objects::{AddressType, Endpoint, EndpointConditions, Pod, Service, TargetRef},
    pods_in_slices::{PortGroupSize, PortGroupSizes},
    slices::decide::Snapshot,
};

/// A Pod that should have an endpoint of one address type.
///
/// A candidate is compared with the existing endpoint field by field, without building another endpoint, because most endpoints
/// of a large Service need no change.
#[derive(Clone, Copy, Debug)]
pub struct EndpointCandidate<'a> {
    pod: &'a Pod,
    service: &'a Service,
    zone: Option<&'a Text>,
    address_type: AddressType,
}

/// Candidates with the same port numbers.
#[derive(Clone, Debug)]
pub struct PortGroup<'a> {
    /// The numbers of the named ports, which are the same on all Pods of the group.
    pub port_numbers: Arc<NamedPortNumbers>,
    /// The counts of all Pods of the Service with these port numbers, including Pods that this sync does not compare.
    pub size: PortGroupSize,
    /// The candidates among the Pods that this sync compares, sorted by the name of the Pod.
    pub candidates: Vec<EndpointCandidate<'a>>,
}

/// The wanted endpoints of one address type.
#[derive(Clone, Debug, Default)]
pub struct WantedPodEndpoints<'a> {
    /// The ports of the Service, with their indexes.
    pub service_ports: ServicePorts<'a>,
    /// Groups, sorted by port numbers.
    pub port_groups: Vec<PortGroup<'a>>,
    /// The position of each group in the list of groups, by port numbers.
    pub port_group_indexes: BTreeMap<Arc<NamedPortNumbers>, usize>,
    /// The eligible Pods that this sync compares, sorted by name, each with the port numbers of its group.
    pub eligible_pods_with_port_numbers: Vec<(&'a Arc<Pod>, Arc<NamedPortNumbers>)>,
    /// One message for each Pod that was omitted because its Node is not in the cache.
    pub omitted_pod_messages: Vec<String>,
}

/// Returns the wanted endpoints of one address type for these Pods of a Service. `sizes` counts the other Pods of the Service.
///
/// Upstream: `staging/src/k8s.io/endpointslice`, `reconcileByAddressType`.
pub fn wanted_endpoints_of_pods<'a>(
    snapshot: &'a Snapshot,
    pods: &[&'a Arc<Pod>],
    sizes: PortGroupSizes,
    address_type: AddressType,
) -> WantedPodEndpoints<'a> {
    let service = &snapshot.service;
    let mut out = WantedPodEndpoints { service_ports: ServicePorts::new(service), ..WantedPodEndpoints::default() };
    for (numbers, size) in sizes {
        out.port_group_indexes.insert(Arc::clone(&numbers), out.port_groups.len());
        out.port_groups.push(PortGroup { port_numbers: numbers, size, candidates: Vec::new() });
    }
    let mut numbers = Vec::new();
    for pod in pods.iter().filter(|pod| pod.is_eligible_for_endpoints()) {
        out.service_ports.resolve_named_ports(pod, &mut numbers);
        let group = match out.port_group_indexes.get(&*numbers) {
            Some(known) => *known,
            None => {
                let group = out.port_groups.len();
                // Most Services have one group, so the list of the first group gets room for all Pods.
                let expected = if group == 0 { pods.len() } else { 0 };
                let numbers: Arc<NamedPortNumbers> = numbers.as_slice().into();
                let (size, candidates) = (PortGroupSize::default(), Vec::with_capacity(expected));
                out.port_groups.push(PortGroup { port_numbers: Arc::clone(&numbers), size, candidates });
                out.port_group_indexes.insert(numbers, group);
                group
            }
        };
        let group = &mut out.port_groups[group];
        group.size.eligible_pod_count += 1;
        out.eligible_pods_with_port_numbers.push((*pod, Arc::clone(&group.port_numbers)));
        let zone = snapshot.zones_by_node.get(&pod.node_name);
        if zone.is_none() && !service.spec.publish_not_ready_addresses {
            let (pod_name, node, key) = (&pod.metadata.name, &pod.node_name, service.metadata.key());
            let message = format!("skipping Pod {pod_name} for Service {key}: Node {node} Not Found");
            out.omitted_pod_messages.push(message);
            continue;
        }
        if has_address_of_type(pod, address_type) {
            let zone = zone.filter(|zone| !zone.is_empty());
            group.size.candidate_pod_count += 1;
            group.candidates.push(EndpointCandidate { pod, service, zone, address_type });
        }
    }
    out.sort_groups();
    out
}

impl WantedPodEndpoints<'_> {
    /// Sorts the groups by port numbers and removes empty groups. Therefore a sync that compares only changes has the same
    /// groups as a sync that compares all Pods.
    fn sort_groups(&mut self) {
        let mut groups: Vec<Option<PortGroup<'_>>> =
            std::mem::take(&mut self.port_groups).into_iter().map(Some).collect();
        self.port_group_indexes.retain(|_, at| {
            let Some(group) = groups[*at].take_if(|group| group.size.eligible_pod_count > 0) else { return false };
            *at = self.port_groups.len();
            self.port_groups.push(group);
            true
        });
    }

    /// Returns the sizes of all groups, by port numbers.
    pub fn port_group_sizes(&self) -> PortGroupSizes {
        self.port_groups.iter().map(|group| (Arc::clone(&group.port_numbers), group.size)).collect()
    }
}

/// Whether a Pod has an address of this type.
pub(super) fn has_address_of_type(pod: &Pod, address_type: AddressType) -> bool {
    pod.pod_ips.iter().any(|ip| address::address_type_of(*ip) == address_type)
}

impl<'a> EndpointCandidate<'a> {
    /// Returns the name of the Pod, which is also the name in the `targetRef` of its endpoint.
    pub fn pod_name(&self) -> &'a str {
        &self.pod.metadata.name
    }

    /// Whether an endpoint of a slice has the same target, hostname and addresses as this candidate.
    pub fn has_same_identity_as(&self, endpoint: &Endpoint) -> bool {
        let Some(target) = &endpoint.target_ref else { return false };
        *target.name == *self.pod.metadata.name
            && target.namespace == self.pod.metadata.namespace
            && endpoint.hostname.as_deref().unwrap_or_default()
                == self.pod.hostname_in_domain_of(self.service).map_or("", |name| name.as_str())
            && self.has_addresses(&endpoint.addresses)
    }

    fn has_addresses(&self, sorted: &[Box<str>]) -> bool {
        let mut ours = self.pod.pod_ips.iter().filter(|ip| address::address_type_of(**ip) == self.address_type);
        match (ours.next(), ours.next(), sorted) {
            (Some(only), None, [text]) => address::is_canonical_text(*only, text),
            (Some(_), Some(_), texts) if texts.len() > 1 => *self.addresses() == *texts,
            _ => false,
        }
    }

    /// Returns those Pod addresses that have the candidate's address type, as sorted strings.
    fn addresses(&self) -> Box<[Box<str>]> {
        let ours = self.pod.pod_ips.iter().filter(|ip| address::address_type_of(**ip) == self.address_type);
        let mut addresses: Box<[Box<str>]> = ours.map(|ip| ip.to_string().into()).collect();
        addresses.sort_unstable();
        addresses
    }

    fn conditions(&self) -> EndpointConditions {
        let serving = self.pod.is_ready;
        let terminating = self.pod.metadata.is_deleting();
        let ready = self.service.spec.publish_not_ready_addresses || (serving && !terminating);
        EndpointConditions { ready: Some(ready), serving: Some(serving), terminating: Some(terminating) }
    }

    /// Whether the existing endpoint of this candidate has the wanted content, ignoring hints.
    pub fn is_endpoint_up_to_date(&self, endpoint: &Endpoint) -> bool {
        let node = Some(&self.pod.node_name).filter(|node| !node.is_empty());
        let is_target = |target: &TargetRef| {
            target.kind == "Pod"
                && target.uid == self.pod.metadata.uid
                && target.api_version.is_empty()
                && target.field_path.is_empty()
        };
        endpoint.conditions == self.conditions()
            && endpoint.node_name.as_ref() == node
            && endpoint.zone.as_ref() == self.zone
            && endpoint.target_ref.as_ref().is_some_and(is_target)
    }

    /// Builds the endpoint in the wanted state, without hints.
    pub fn build_endpoint(&self) -> Endpoint {
        let pod = self.pod;
        Endpoint {
            addresses: self.addresses(),
            conditions: self.conditions(),
            hostname: pod.hostname_in_domain_of(self.service).cloned(),
            target_ref: Some(TargetRef::from_pod(pod)),
            node_name: Some(pod.node_name.clone()).filter(|node| !node.is_empty()),
            zone: self.zone.cloned(),
            hints: None,
        }
    }
}

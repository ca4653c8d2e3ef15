//! Decides the content of the Endpoints object of a Service with a selector. Pure code: no requests, no clock, no randomness.

use std::{collections::BTreeMap, net::IpAddr, sync::Arc};

use common::{intern::Labels, prelude::*};

use crate::{
    address::{self, AddressText},
    decide::{
        ports::ServicePorts,
        subsets::{self, MAX_PROCESSED_ADDRESSES},
        trigger,
    },
    memory::{InSyncVersions, SyncedServiceState},
    objects::{
        AddressType, EndpointAddress, Endpoints, HEADLESS_LABEL, NameSortedPods, Pod, Service, Subset, SubsetPort,
        TRIGGER_TIME_ANNOTATION, TargetRef,
    },
};

/// The label key that names the writer of an Endpoints object.
pub const ENDPOINTS_MANAGED_BY_LABEL: &str = "endpoints.kubernetes.io/managed-by";
/// The value of [`ENDPOINTS_MANAGED_BY_LABEL`] for this loop.
pub const ENDPOINT_CONTROLLER_NAME: &str = "endpoint-controller";
/// The key of the annotation on Endpoints from which addresses or ports were omitted.
pub const OVER_CAPACITY_ANNOTATION: &str = "endpoints.kubernetes.io/over-capacity";
/// The maximum number of addresses in one Endpoints object. Upstream: `maxCapacity`.
const MAX_CAPACITY: usize = 1000;

/// The maximum number of ports in one Endpoints object. The API server rejects an object with more ports as too large.
pub const MAX_PORTS_PER_ENDPOINTS_OBJECT: usize = 100_000;

/// A Service and the Pods that it selects.
#[derive(Clone, Debug)]
pub struct ServiceWithPods {
    /// The Service in the cache, with or without a selector.
    pub service: Arc<Service>,
    /// Selected Pods, sorted by name; empty without a selector.
    pub pods: NameSortedPods,
    /// The state of the Service and its Pods in the last sync; `None` before the first sync.
    pub synced_state: Option<Arc<SyncedServiceState>>,
    /// The versions of the Service and its Endpoints in the last sync; `None` if that sync needed a write.
    pub in_sync_versions: Option<InSyncVersions>,
}

/// Everything that a sync reads about one Service and its Endpoints.
#[derive(Clone, Debug)]
pub struct Snapshot {
    /// Namespace and name, the same for the Service and its Endpoints.
    pub key: NamespacedName,
    /// The Service and its Pods; `None` if the Service does not exist.
    pub service_with_pods: Option<ServiceWithPods>,
    /// The cached Endpoints; `None` if they do not exist.
    pub endpoints: Option<Arc<Endpoints>>,
}

/// The decision about the Endpoints of one Service.
#[derive(Clone, Debug, Default)]
pub enum Plan {
    /// No write: the Service has no selector, or it does not exist and there are no Endpoints to delete.
    #[default]
    NothingToDo,
    /// Delete these Endpoints, because their Service does not exist.
    Delete(Arc<Endpoints>),
    /// No write: the Endpoints, the Service and its Pods have not changed since a sync that needed no write.
    Unchanged(Arc<Endpoints>),
    /// Create or replace the Endpoints if [`WantedEndpoints::is_write_needed`] is set; store the synced state in any case.
    WriteIfNeeded(Box<WantedEndpoints>),
}

/// The wanted labels, annotations and subsets of an Endpoints object, compared with the cached object.
#[derive(Clone, Debug)]
pub struct WantedEndpoints {
    /// Whether the Endpoints are missing in the cache or differ from the wanted state.
    pub is_write_needed: bool,
    /// The cached Endpoints; `None` to create them.
    pub existing_endpoints: Option<Arc<Endpoints>>,
    /// The labels of the Service, together with the labels that this loop sets.
    pub labels: Labels,
    /// The value of the annotation with the time of the change that caused this sync; `None` if the time is unknown.
    pub trigger_time: Option<String>,
    /// The state of the Service and its Pods in this sync, with which the next sync compares.
    pub synced_state: SyncedServiceState,
    /// The value of the annotation [`OVER_CAPACITY_ANNOTATION`]; `None` if nothing is omitted.
    pub over_capacity_annotation: Option<&'static str>,
    /// The wanted `subsets`, in canonical form.
    pub subsets: Vec<Subset>,
}

impl WantedEndpoints {
    /// Returns the annotations that this loop writes; `None` removes the annotation.
    pub fn annotations(&self) -> [(&'static str, Option<&str>); 2] {
        [
            (TRIGGER_TIME_ANNOTATION, self.trigger_time.as_deref()),
            (OVER_CAPACITY_ANNOTATION, self.over_capacity_annotation),
        ]
    }
}

impl SyncPlan for Plan {
    fn situation(&self) -> String {
        let subsets = match self {
            Self::NothingToDo => return "no Endpoints are wanted".to_owned(),
            Self::Delete(_) => return "the Service does not exist".to_owned(),
            Self::Unchanged(endpoints) => &endpoints.subsets,
            Self::WriteIfNeeded(wanted) => &wanted.subsets,
        };
        let ready: usize = subsets.iter().map(|subset| subset.addresses.len()).sum();
        let not_ready: usize = subsets.iter().map(|subset| subset.not_ready_addresses.len()).sum();
        format!("{ready} ready addresses and {not_ready} that are not ready")
    }
}

/// Decides whether the Endpoints are deleted, and otherwise their wanted content.
///
/// Upstream: `pkg/controller/endpoint`, `syncService`.
pub fn decide(snapshot: &Snapshot) -> Plan {
    let existing_endpoints = snapshot.endpoints.clone();
    let Some(ServiceWithPods { service, pods, synced_state, in_sync_versions }) = &snapshot.service_with_pods else {
        let to_delete = existing_endpoints.filter(|endpoints| !endpoints.metadata.is_deleting());
        return to_delete.map_or(Plan::NothingToDo, Plan::Delete);
    };
    if !service.has_applicable_selector() {
        return Plan::NothingToDo;
    }
    if let Some(endpoints) = &existing_endpoints
        && synced_state.as_ref().is_some_and(|synced| synced.pods.shares_storage_with(pods))
        && *in_sync_versions == Some(InSyncVersions::new(service, endpoints))
    {
        return Plan::Unchanged(Arc::clone(endpoints));
    }
    let (subsets, truncated) = subsets_of(service, pods);
    let labels = labels(service);
    let (trigger_time, synced_state) = trigger::trigger_time_and_synced_state(synced_state.as_deref(), service, pods);
    let over_capacity_annotation = truncated.then_some("truncated");
    let is_as_wanted = |endpoints: &Endpoints| {
        // This loop writes no object with more addresses than the limit, so a larger object differs from the wanted one.
        let (canonical_subsets, omitted_address_count) =
            subsets::canonical_subsets_and_omitted_address_count(&endpoints.subsets, MAX_PROCESSED_ADDRESSES);
        omitted_address_count == 0
            && canonical_subsets == subsets
            && same_labels(&endpoints.metadata.labels, &labels)
            && endpoints.metadata.annotations.get(OVER_CAPACITY_ANNOTATION) == over_capacity_annotation
    };
    Plan::WriteIfNeeded(Box::new(WantedEndpoints {
        is_write_needed: !existing_endpoints.as_deref().is_some_and(is_as_wanted),
        existing_endpoints,
        labels,
        trigger_time,
        synced_state,
        over_capacity_annotation,
        subsets,
    }))
}

fn labels(service: &Service) -> Labels {
    let headless = service.is_headless().then_some((HEADLESS_LABEL, ""));
    let own = service.metadata.labels.iter().filter(|(key, _)| *key != HEADLESS_LABEL);
    Labels::from_pairs(own.chain(headless).chain([(ENDPOINTS_MANAGED_BY_LABEL, ENDPOINT_CONTROLLER_NAME)]))
}

/// Whether labels are equal, ignoring the label that marks headless Services.
fn same_labels(labels: &Labels, wanted: &Labels) -> bool {
    let is_compared = |(key, _): &(&str, &str)| *key != HEADLESS_LABEL;
    labels == wanted || labels.iter().filter(is_compared).eq(wanted.iter().filter(is_compared))
}

/// Returns the primary address family of the Service; `None` if the Service has no family. The caller then uses for each Pod
/// the family of the first address of that Pod.
fn service_address_type(service: &Service) -> Option<AddressType> {
    let of_family = service.spec.ip_families.first().and_then(|family| AddressType::of_ip_family(family));
    of_family.or_else(|| address::parse_ip(&service.spec.cluster_ip).map(address::address_type_of))
}

/// Pods on which each named port has the same number, together with the address of each Pod.
#[derive(Default)]
struct Group<'a> {
    ready: Vec<(&'a Pod, IpAddr)>,
    not_ready: Vec<(&'a Pod, IpAddr)>,
}

/// Groups the Pods of a Service so that each named port has the same number on all Pods of a group.
fn groups<'a>(
    service: &Service,
    pods: &'a NameSortedPods,
    ports: &ServicePorts<'_>,
) -> BTreeMap<Vec<(usize, i32)>, Group<'a>> {
    let publishes = service.spec.publish_not_ready_addresses;
    let of_service = service_address_type(service);
    let mut numbers = Vec::new();
    let mut groups: BTreeMap<Vec<(usize, i32)>, Group<'a>> = BTreeMap::new();
    for pod in pods.iter().filter(|pod| pod.is_eligible_for_endpoints()) {
        if pod.metadata.is_deleting() && !publishes {
            continue;
        }
        let family = of_service.or_else(|| pod.pod_ip.map(address::address_type_of));
        let Some(ip) = pod.pod_ips.iter().find(|ip| family == Some(address::address_type_of(**ip))) else { continue };
        ports.resolve_named_ports(pod, &mut numbers);
        if ports.service_port_count_on_pod(&numbers) == 0 && !is_portless(service) {
            continue;
        }
        if !groups.contains_key(&numbers) {
            groups.insert(numbers.clone(), Group::default());
        }
        let Some(group) = groups.get_mut(&numbers) else { continue };
        let list = if publishes || pod.is_ready { &mut group.ready } else { &mut group.not_ready };
        list.push((pod, *ip));
    }
    groups
}

/// Whether addresses are published without ports: the Service is headless and has no ports.
fn is_portless(service: &Service) -> bool {
    service.spec.ports.is_empty() && service.is_headless()
}

/// Returns the subsets of a Service in canonical form, and whether they were truncated.
///
/// For a low cost, addresses beyond the limit are never built, and ports with the same Pods are built as one subset.
fn subsets_of(service: &Service, pods: &NameSortedPods) -> (Vec<Subset>, bool) {
    let ports = ServicePorts::new(service);
    let groups = groups(service, pods, &ports);
    // For each named port with its number, the groups of Pods that have it. `None` stands for the ports that all groups have.
    let mut groups_of: BTreeMap<Option<(usize, i32)>, Vec<usize>> = BTreeMap::new();
    if !groups.is_empty() && (ports.service_port_count_of_target_port(None) > 0 || is_portless(service)) {
        groups_of.insert(None, (0..groups.len()).collect());
    }
    for (at, numbers) in groups.keys().enumerate() {
        for number in numbers {
            groups_of.entry(Some(*number)).or_default().push(at);
        }
    }
    let groups: Vec<Group<'_>> = groups.into_values().collect();
    let mut truncated = false;
    let mut number_of_ports = 0;
    let mut ports_of: BTreeMap<Vec<usize>, Vec<SubsetPort>> = BTreeMap::new();
    for (target, with_port) in groups_of {
        number_of_ports += ports.service_port_count_of_target_port(target.map(|(target, _)| target));
        if number_of_ports > MAX_PORTS_PER_ENDPOINTS_OBJECT {
            truncated = true;
            break;
        }
        ports_of.entry(with_port).or_default().extend(ports.service_ports_of_target_port(target).map(
            |(port, number)| SubsetPort {
                name: port.name.clone(),
                port: number,
                protocol: port.protocol.clone(),
                app_protocol: port.app_protocol.clone(),
            },
        ));
    }
    let mut lists: Vec<(Vec<SubsetPort>, Vec<usize>)> = ports_of.into_iter().map(|(of, ports)| (ports, of)).collect();
    for (ports, _) in &mut lists {
        ports.sort();
        ports.dedup();
    }
    lists.sort();
    let size = |at: &usize| (groups[*at].ready.len(), groups[*at].not_ready.len());
    let sum = |of: &[usize]| of.iter().map(size).fold((0, 0), |sum, size| (sum.0 + size.0, sum.1 + size.1));
    let sizes: Vec<(usize, usize)> = lists.iter().map(|(_, of)| sum(of)).collect();
    let kept = subsets::truncated_address_counts(&sizes, MAX_CAPACITY);
    let is_cut = kept != sizes;
    let mut subsets: Vec<Subset> = Vec::new();
    for ((ports, of), (ready, not_ready)) in lists.into_iter().zip(kept) {
        if ready + not_ready > 0 {
            let addresses = first_addresses(of.iter().flat_map(|at| &groups[*at].ready), ready, service);
            let not_ready_addresses =
                first_addresses(of.iter().flat_map(|at| &groups[*at].not_ready), not_ready, service);
            subsets.push(Subset { addresses, not_ready_addresses, ports });
        }
    }
    if is_cut {
        // After truncation, ports in different subsets may have the same addresses.
        subsets = subsets::canonical_subsets(&subsets);
    }
    (subsets, truncated || is_cut)
}

/// Returns the first `most` addresses of these Pods, in the order of canonical subsets.
fn first_addresses<'a>(
    pods: impl Iterator<Item = &'a (&'a Pod, IpAddr)>,
    most: usize,
    service: &Service,
) -> Vec<EndpointAddress> {
    if most == 0 {
        return Vec::new();
    }
    let mut pods: Vec<(AddressText, IpAddr, &Pod)> = pods.map(|(pod, ip)| (AddressText::new(*ip), *ip, *pod)).collect();
    let order = |a: &(AddressText, IpAddr, &Pod), b: &(AddressText, IpAddr, &Pod)| {
        (&a.0, &a.2.metadata.uid).cmp(&(&b.0, &b.2.metadata.uid))
    };
    // Only the first `most` addresses need to be sorted.
    if most < pods.len() {
        pods.select_nth_unstable_by(most, order);
        pods.truncate(most);
    }
    pods.sort_unstable_by(order);
    let address = |(_, ip, pod): (AddressText, IpAddr, &Pod)| EndpointAddress {
        ip: ip.to_string().into(),
        hostname: pod.hostname_in_domain_of(service).cloned().unwrap_or_default(),
        node_name: Some(pod.node_name.clone()).filter(|node| !node.is_empty()),
        target_ref: Some(TargetRef::from_pod(pod)),
    };
    pods.into_iter().map(address).collect()
}

#[cfg(test)]
mod tests;

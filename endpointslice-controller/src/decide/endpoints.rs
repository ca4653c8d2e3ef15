//! What the Endpoints object of a Service with a selector is to hold: pure.

use std::{collections::BTreeMap, sync::Arc};

use common::{
    controller::{Explain, Explanation},
    intern::Labels,
};

use super::{
    desired, mirror,
    ports::{Numbers, ServicePorts},
    subsets, trigger,
};
use crate::{
    address,
    memory::Seen,
    objects::{
        Address, AddressType, Endpoints, HEADLESS, Pod, Port, Service, Subset, SubsetPort, TRIGGER_TIME, TargetRef,
    },
};

/// The label of Endpoints that names their writer.
pub const ENDPOINTS_MANAGED_BY: &str = "endpoints.kubernetes.io/managed-by";
/// The value of that label for this loop.
pub const ENDPOINT_CONTROLLER: &str = "endpoint-controller";
/// The annotation of Endpoints that lack some addresses.
pub const OVER_CAPACITY: &str = "endpoints.kubernetes.io/over-capacity";
/// Its value.
const TRUNCATED: &str = "truncated";
/// The most addresses of one object. Upstream: `maxCapacity`.
const MAX_CAPACITY: usize = 1000;

/// A Service and its Pods.
#[derive(Clone, Debug)]
pub struct Members {
    /// The Service.
    pub service: Arc<Service>,
    /// The Pods that it selects, by name.
    pub pods: Arc<[Arc<Pod>]>,
    /// What the last sync saw; `None` before the first one.
    pub seen: Option<Arc<Seen>>,
}

/// Everything one sync may look at.
#[derive(Clone, Debug)]
pub struct EndpointsSnapshot {
    /// The Service and its Pods; `None` if the Service is gone.
    pub members: Option<Members>,
    /// The Endpoints in the cache.
    pub endpoints: Option<Arc<Endpoints>>,
}

/// What is done about the Endpoints of a Service.
#[derive(Clone, Debug, Default)]
pub enum EndpointsPlan {
    /// Nothing.
    #[default]
    Leave,
    /// Delete them: the Service is gone.
    Delete(Arc<Endpoints>),
    /// Bring them to this state. They may be in it already.
    Keep(Box<Wanted>),
}

/// The wanted state of Endpoints.
#[derive(Clone, Debug)]
pub struct Wanted {
    /// Whether the Endpoints in the cache differ.
    pub write: bool,
    /// The Endpoints in the cache.
    pub base: Option<Arc<Endpoints>>,
    /// Their labels.
    pub labels: Labels,
    /// When the change happened that this sync reacts to, if it is known.
    pub trigger_time: Option<String>,
    /// What the next sync is to know of this one.
    pub seen: Seen,
    /// The value of the annotation [`OVER_CAPACITY`], if any.
    pub over_capacity: Option<&'static str>,
    /// Their addresses.
    pub subsets: Vec<Subset>,
}

/// Decides what the Endpoints of a Service are.
///
/// Upstream: `pkg/controller/endpoint`, `syncService`.
pub fn decide(snapshot: &EndpointsSnapshot) -> EndpointsPlan {
    let base = &snapshot.endpoints;
    let Some(members) = &snapshot.members else {
        let base = base.clone().filter(|there| !there.metadata.is_deleting());
        return base.map_or(EndpointsPlan::Leave, EndpointsPlan::Delete);
    };
    let Members { service, pods, seen } = members;
    if !service.selects() {
        return EndpointsPlan::Leave;
    }
    let mut subsets = subsets::canonical(&subsets_of(service, pods));
    let truncated = subsets::truncate(&mut subsets, MAX_CAPACITY);
    if truncated {
        // What is left of two ports may be the same addresses.
        subsets = subsets::canonical(&subsets);
    }
    let labels = labels(service);
    let (trigger_time, seen) = trigger::trigger_time(seen.as_deref(), service, pods);
    let over_capacity = truncated.then_some(TRUNCATED);
    let is_as_wanted = |there: &Endpoints| {
        // One that is larger than anything written here is not looked at in full.
        subsets::canonical_within(&there.subsets, mirror::MAX_ADDRESSES) == (subsets.clone(), 0)
            && same_labels(&there.metadata.labels, &labels)
            && there.metadata.annotations.get(OVER_CAPACITY) == over_capacity
    };
    let write = !base.as_deref().is_some_and(is_as_wanted);
    let base = base.clone();
    EndpointsPlan::Keep(Box::new(Wanted { write, base, labels, trigger_time, seen, over_capacity, subsets }))
}

fn labels(service: &Service) -> Labels {
    let headless = service.is_headless().then_some((HEADLESS, ""));
    let own = service.metadata.labels.iter().filter(|(key, _)| *key != HEADLESS);
    Labels::from_pairs(own.chain(headless).chain([(ENDPOINTS_MANAGED_BY, ENDPOINT_CONTROLLER)]))
}

/// Whether labels are the same but for the one that marks headless Services.
fn same_labels(there: &Labels, wanted: &Labels) -> bool {
    fn others(labels: &Labels) -> impl Iterator<Item = (&str, &str)> {
        labels.iter().filter(|(key, _)| *key != HEADLESS)
    }
    there == wanted || others(there).eq(others(wanted))
}

/// The family of the one address that a Pod has in Endpoints; its own if the Service names none.
fn family(service: &Service) -> Option<AddressType> {
    match service.spec.ip_families.first().map(|family| &**family) {
        Some("IPv4") => Some(AddressType::Ipv4),
        Some("IPv6") => Some(AddressType::Ipv6),
        _ => address::parse(&service.spec.cluster_ip).map(address::family),
    }
}

/// The addresses of all Pods, one subset for each distinct list of port numbers.
fn subsets_of(service: &Service, pods: &[Arc<Pod>]) -> Vec<Subset> {
    let publishes = service.spec.publish_not_ready_addresses;
    let of_service = family(service);
    let ports = ServicePorts::new(service);
    let mut numbers = Vec::new();
    let mut subsets: BTreeMap<Vec<(usize, i32)>, Subset> = BTreeMap::new();
    for pod in pods.iter().filter(|pod| pod.is_eligible()) {
        if pod.metadata.is_deleting() && !publishes {
            continue;
        }
        let family = of_service.or_else(|| pod.ip.map(address::family));
        let Some(ip) = pod.ips.iter().find(|ip| family == Some(address::family(**ip))) else { continue };
        ports.resolve(pod, &mut numbers);
        // A headless Service without ports has addresses without ports.
        let is_portless = service.spec.ports.is_empty() && service.is_headless();
        if !is_portless && ports.count(&numbers) == 0 {
            continue;
        }
        if !subsets.contains_key(&numbers) {
            subsets.insert(numbers.clone(), Subset { ports: subset_ports(&ports, &numbers), ..Subset::default() });
        }
        let Some(subset) = subsets.get_mut(&numbers) else { continue };
        let is_ready = publishes || pod.is_ready;
        let list = if is_ready { &mut subset.addresses } else { &mut subset.not_ready_addresses };
        list.push(Address {
            ip: ip.to_string().into(),
            hostname: desired::hostname(pod, service).cloned().unwrap_or_default(),
            node_name: Some(pod.node.clone()).filter(|node| !node.is_empty()),
            target_ref: Some(TargetRef::to_pod(pod)),
        });
    }
    subsets.into_values().collect()
}

fn subset_ports(ports: &ServicePorts<'_>, numbers: &Numbers) -> Vec<SubsetPort> {
    let port = |port: &Port| {
        Some(SubsetPort {
            name: port.name.clone(),
            port: port.port?,
            protocol: port.protocol.clone(),
            app_protocol: port.app_protocol.clone(),
        })
    };
    ports.list(numbers).iter().filter_map(port).collect()
}

impl Wanted {
    /// The annotations that this loop writes, each with its value.
    pub fn annotations(&self) -> [(&'static str, Option<&str>); 2] {
        [(TRIGGER_TIME, self.trigger_time.as_deref()), (OVER_CAPACITY, self.over_capacity)]
    }
}

impl Explain for EndpointsPlan {
    fn explain(&self) -> Explanation {
        let (situation, action) = match self {
            Self::Leave => ("there is nothing to keep".to_owned(), None),
            Self::Delete(_) => ("the Service is gone".to_owned(), Some("delete the Endpoints")),
            Self::Keep(wanted) => {
                let (ready, not_ready) = subsets::count(&wanted.subsets);
                let situation = format!("{ready} addresses, and {not_ready} that are not ready");
                (situation, wanted.write.then_some("write the Endpoints"))
            }
        };
        Explanation { situation, waiting: Vec::new(), actions: action.map(str::to_owned).into_iter().collect() }
    }

    fn acts(&self) -> bool {
        match self {
            Self::Leave => false,
            Self::Delete(_) => true,
            Self::Keep(wanted) => wanted.write,
        }
    }
}

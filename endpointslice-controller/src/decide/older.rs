//! Endpoints of Services with a selector, the older form of slices: pure.

use std::sync::Arc;

use common::{
    controller::{Explain, Explanation},
    intern::Labels,
};

use super::{desired, mirror, subsets, trigger};
use crate::{
    address,
    objects::{Address, AddressType, Endpoints, HEADLESS, Pod, Service, Subset, SubsetPort, TRIGGER_TIME},
    snapshot::Snapshot,
};

/// The label of Endpoints that says who writes them.
pub const ENDPOINTS_MANAGED_BY: &str = "endpoints.kubernetes.io/managed-by";
/// What writes them.
pub const ENDPOINT_CONTROLLER: &str = "endpoint-controller";
/// The annotation of Endpoints that lack some addresses.
pub const OVER_CAPACITY: &str = "endpoints.kubernetes.io/over-capacity";
/// What it says then.
const TRUNCATED: &str = "truncated";
/// The most addresses of one object. Upstream: `maxCapacity`.
const MOST: usize = 1000;

/// Everything one sync may look at.
#[derive(Clone, Debug)]
pub struct OlderSnapshot {
    /// The Service, its Pods and what is remembered; none if it is gone.
    pub service: Option<Snapshot>,
    /// The Endpoints, if they are there.
    pub endpoints: Option<Arc<Endpoints>>,
}

/// What is done about the Endpoints of a Service.
#[derive(Clone, Debug, Default)]
pub enum OlderPlan {
    /// Nothing.
    #[default]
    Leave,
    /// They go, since the Service is gone.
    Delete(Arc<Endpoints>),
    /// They are as this says, and perhaps were already.
    Keep(Box<Wanted>),
}

/// What Endpoints are to be.
#[derive(Clone, Debug, Default)]
pub struct Wanted {
    /// Whether that is to be written.
    pub write: bool,
    /// The Endpoints that are there.
    pub base: Option<Arc<Endpoints>>,
    /// Their labels.
    pub labels: Labels,
    /// When the newest change happened, if it is known.
    pub trigger_time: Option<String>,
    /// What is to be remembered of changes.
    pub seen: crate::memory::Seen,
    /// What the older annotation says, if anything.
    pub over_capacity: Option<&'static str>,
    /// Their addresses.
    pub subsets: Vec<Subset>,
}

/// Decides what the Endpoints of a Service are.
///
/// Upstream: `pkg/controller/endpoint`, `syncService`.
pub fn decide(snapshot: &OlderSnapshot) -> OlderPlan {
    let base = &snapshot.endpoints;
    let Some(of) = &snapshot.service else {
        let base = base.clone().filter(|there| !there.metadata.is_deleting());
        return base.map_or(OlderPlan::Leave, OlderPlan::Delete);
    };
    if !of.service.selects() {
        return OlderPlan::Leave;
    }
    let mut subsets = subsets::canonical(&made(of));
    let truncated = subsets::truncate(&mut subsets, MOST);
    if truncated {
        // What is left of two ports may be the same addresses.
        subsets = subsets::canonical(&subsets);
    }
    let labels = labels(&of.service);
    let (trigger_time, seen) = trigger::newest_change(of);
    let over_capacity = truncated.then_some(TRUNCATED);
    let is_as_wanted = |there: &Endpoints| {
        // One that is larger than anything written here is not looked at in full.
        subsets::canonical_within(&there.subsets, mirror::MAX_ADDRESSES) == (subsets.clone(), 0)
            && same_labels(&there.metadata.labels, &labels)
            && there.metadata.annotations.get(OVER_CAPACITY) == over_capacity
    };
    let write = !base.as_deref().is_some_and(is_as_wanted);
    let base = base.clone();
    OlderPlan::Keep(Box::new(Wanted { write, base, labels, trigger_time, seen, over_capacity, subsets }))
}

fn labels(service: &Service) -> Labels {
    let headless = service.is_headless().then_some((HEADLESS, ""));
    let own = service.metadata.labels.iter().filter(|(key, _)| *key != HEADLESS);
    Labels::from_pairs(own.chain(headless).chain([(ENDPOINTS_MANAGED_BY, ENDPOINT_CONTROLLER)]))
}

/// Whether labels are the same but for whether the Service has an IP.
fn same_labels(there: &Labels, wanted: &Labels) -> bool {
    let free = |labels: &Labels| {
        let free = labels.as_slice().iter().filter(|(key, _)| *key != HEADLESS);
        free.cloned().collect::<Vec<_>>()
    };
    there == wanted || free(there) == free(wanted)
}

/// The family of the one address that a Pod has in Endpoints; its own if the Service names none.
fn family(service: &Service) -> Option<AddressType> {
    match service.spec.ip_families.first().map(|family| &**family) {
        Some("IPv4") => Some(AddressType::Ipv4),
        Some("IPv6") => Some(AddressType::Ipv6),
        _ => address::parse(&service.spec.cluster_ip).map(address::family),
    }
}

/// What each Pod adds by itself.
fn made(snapshot: &Snapshot) -> Vec<Subset> {
    let service = &snapshot.service;
    let publishes = service.spec.publish_not_ready_addresses;
    let mut out = Vec::new();
    for pod in snapshot.members.iter().map(|member| &member.pod) {
        if !pod.is_eligible() || (pod.metadata.is_deleting() && !publishes) {
            continue;
        }
        let family = family(service).or_else(|| pod.ip.map(address::family));
        let Some(ip) = pod.ips.iter().find(|ip| family == Some(address::family(**ip))) else { continue };
        let port = |port: &crate::objects::ServicePort| {
            Some(SubsetPort {
                name: port.name.clone(),
                port: desired::resolve(port, pod)?,
                protocol: port.protocol.clone(),
                app_protocol: port.app_protocol.clone(),
            })
        };
        let ports: Vec<SubsetPort> = service.spec.ports.iter().filter_map(port).collect();
        if ports.is_empty() && !(service.spec.ports.is_empty() && service.is_headless()) {
            continue;
        }
        let (mut addresses, mut not_ready_addresses) = (Vec::new(), Vec::new());
        let list = if publishes || pod.is_ready { &mut addresses } else { &mut not_ready_addresses };
        list.push(entry(pod, service, ip.to_string()));
        out.push(Subset { addresses, not_ready_addresses, ports });
    }
    out
}

fn entry(pod: &Pod, service: &Service, ip: String) -> Address {
    Address {
        ip: ip.into(),
        hostname: desired::hostname(pod, service).unwrap_or_default(),
        node_name: Some(pod.node.clone()).filter(|node| !node.is_empty()),
        target_ref: Some(desired::target(pod)),
    }
}

impl Wanted {
    /// The annotations that are ours, each with what it says.
    pub fn annotations(&self) -> [(&'static str, Option<&str>); 2] {
        [(TRIGGER_TIME, self.trigger_time.as_deref()), (OVER_CAPACITY, self.over_capacity)]
    }
}

impl Explain for OlderPlan {
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

//! Decides the slices that mirror hand-made Endpoints. Pure code: no requests, no clock, no randomness.

use std::{collections::BTreeMap, sync::Arc};

use common::{intern::Labels, meta::Annotations, prelude::*};

use crate::{
    address,
    decide::{
        subsets::{self, MAX_PROCESSED_ADDRESSES},
        write_order::{SliceCreationPermission, order_writes},
    },
    objects::{
        AddressType, ENDPOINTS, Endpoint, EndpointAddress, EndpointConditions, EndpointIdentity, Endpoints,
        MANAGED_BY_LABEL, MANAGED_BY_MIRRORING, SERVICE_NAME_LABEL, Service, Slice, SlicePort, Subset, SubsetPort,
        TRIGGER_TIME_ANNOTATION,
    },
    plan::{PlannedEvent, SliceDraft, SliceMetadata, SliceWrites, SyncCounts, describe_wanted_counts},
};

/// Everything that a sync reads about one Endpoints object and its slices.
#[derive(Clone, Debug)]
pub struct Snapshot {
    /// Namespace and name, the same for the Endpoints and their Service.
    pub key: NamespacedName,
    /// The cached Endpoints; `None` if they do not exist.
    pub endpoints: Option<Arc<Endpoints>>,
    /// The cached Service with the same name; `None` if it does not exist.
    pub service: Option<Arc<Service>>,
    /// The cached slices that mirror the Endpoints, sorted by name, without terminating slices.
    pub slices: Vec<Arc<Slice>>,
    /// The maximum number of mirrored addresses per subset, from `--mirroring-max-endpoints-per-subset`.
    pub max_endpoints_per_subset: usize,
}

impl Snapshot {
    /// Returns the Endpoints if their Service exists and has no selector, and if the Endpoints are not excluded from mirroring.
    pub(super) fn mirrored_endpoints(&self) -> Option<&Endpoints> {
        let is_served = self.service.as_ref().is_some_and(|service| service.spec.selector.is_empty());
        self.endpoints.as_deref().filter(|endpoints| is_served && endpoints.is_mirrorable())
    }
}

/// The wanted writes of one sync, with Events and counts for metrics.
#[derive(Clone, Debug, Default)]
pub struct Plan {
    /// Whether the Endpoints exist and are to be mirrored; otherwise all their slices are deleted.
    pub are_endpoints_mirrored: bool,
    /// The labels, annotations and owner of every written slice.
    pub slice_metadata: SliceMetadata,
    /// The writes for each address type. If the Endpoints are not mirrored, one element with the deletions of both types.
    pub slice_writes: Vec<SliceWrites>,
    /// Events about the Endpoints, to emit before the writes.
    pub events: Vec<PlannedEvent>,
    /// The number of addresses that are not mirrored, because they are invalid or beyond a limit.
    pub skipped_address_count: usize,
    /// The number of endpoints that are in the slice before and after the sync, with different content.
    pub updated_endpoint_count: usize,
}

impl SyncPlan for Plan {
    fn situation(&self) -> String {
        if self.are_endpoints_mirrored {
            describe_wanted_counts(&self.slice_writes)
        } else {
            "there is nothing to mirror".to_owned()
        }
    }
}

/// The key of the annotation that `kubectl apply` writes. The annotation is not copied to slices.
const LAST_APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";

/// Decides which slices to write so that they mirror hand-made Endpoints.
///
/// Upstream: `pkg/controller/endpointslicemirroring`, `syncEndpoints` and `reconcile`.
pub fn decide(snapshot: &Snapshot) -> Plan {
    let Some(endpoints) = snapshot.mirrored_endpoints() else {
        let writes = SliceWrites { slices_to_delete: snapshot.slices.clone(), ..SliceWrites::default() };
        return Plan { slice_writes: vec![writes], ..Plan::default() };
    };
    let mut plan = Plan { are_endpoints_mirrored: true, slice_metadata: slice_metadata(endpoints), ..Plan::default() };
    let mut wanted_slices = wanted_slices(&endpoints.subsets, snapshot.max_endpoints_per_subset, &mut plan);
    let permission = SliceCreationPermission::for_owner(&endpoints.metadata);
    for address_type in [AddressType::Ipv4, AddressType::Ipv6] {
        let wanted_slices = wanted_slices.remove(&address_type).unwrap_or_default();
        let writes = decide_address_type(&mut plan, address_type, &snapshot.slices, wanted_slices, permission);
        plan.slice_writes.push(writes);
    }
    plan
}

/// Returns the sorted ports, so that slices with the same ports in a different order get the same key.
fn port_key(ports: &[SlicePort]) -> Vec<SlicePort> {
    let mut key = ports.to_vec();
    key.sort();
    key
}

/// Wanted slices of one address type, by their sorted ports. A list of ports with addresses of only one type also has a slice
/// of the other type here, without endpoints.
type WantedSlices = BTreeMap<Vec<SlicePort>, Mirror>;

#[derive(Default)]
struct Mirror {
    ports: Arc<[SlicePort]>,
    endpoints: Vec<Endpoint>,
    /// The position of each endpoint in `endpoints`, by its identity.
    positions: HashMap<EndpointKey, usize>,
}

/// The identity of a mirrored endpoint: address, hostname, namespace of the target, and name of the target.
type EndpointKey = (Box<str>, Text, Text, Arc<str>);

impl Mirror {
    /// Adds an endpoint, or replaces the endpoint with the same identity. Of several endpoints with the same identity, the last
    /// one remains, as upstream.
    fn insert(&mut self, address: Box<str>, endpoint: Endpoint) {
        let target = endpoint.target_ref.as_ref().map(|target| (target.namespace.clone(), Arc::clone(&target.name)));
        let (namespace, name) = target.unwrap_or_default();
        let key = (address, endpoint.hostname.clone().unwrap_or_default(), namespace, name);
        let at = *self.positions.entry(key).or_insert(self.endpoints.len());
        match self.endpoints.get_mut(at) {
            Some(known) => *known = endpoint,
            None => self.endpoints.push(endpoint),
        }
    }
}

fn decide_address_type(
    plan: &mut Plan,
    address_type: AddressType,
    slices: &[Arc<Slice>],
    wanted_slices: WantedSlices,
    permission: SliceCreationPermission,
) -> SliceWrites {
    let mut slices_by_ports: BTreeMap<Vec<SlicePort>, Vec<Arc<Slice>>> = BTreeMap::new();
    for slice in slices.iter().filter(|slice| slice.has_address_type(address_type)) {
        slices_by_ports.entry(port_key(&slice.ports)).or_default().push(Arc::clone(slice));
    }
    let mut sync_counts = SyncCounts::default();
    let (mut create, mut update, mut delete): (Vec<SliceDraft>, Vec<SliceDraft>, Vec<Arc<Slice>>) = Default::default();
    for (key, Mirror { ports, endpoints, .. }) in wanted_slices {
        let mut with_ports = slices_by_ports.remove(&key).unwrap_or_default();
        if endpoints.is_empty() {
            sync_counts.removed_endpoint_count += with_ports.iter().map(|slice| slice.endpoints.len()).sum::<usize>();
            delete.extend(with_ports);
            continue;
        }
        sync_counts.wanted_endpoint_count += endpoints.len();
        sync_counts.wanted_slice_count += 1;
        sync_counts.min_slice_count += 1;
        if with_ports.is_empty() {
            sync_counts.added_endpoint_count += endpoints.len();
            create.push(SliceDraft { existing_slice: None, endpoints, ports });
            continue;
        }
        let first = with_ports.remove(0);
        delete.extend(with_ports);
        let changes = compare(&first.endpoints, &endpoints);
        sync_counts.added_endpoint_count += changes.added;
        sync_counts.removed_endpoint_count += changes.removed;
        plan.updated_endpoint_count += changes.updated;
        if changes != Changes::default() || !has_wanted_metadata(&first, &plan.slice_metadata) {
            update.push(SliceDraft { existing_slice: Some(first), endpoints, ports });
        }
    }
    delete.extend(slices_by_ports.into_values().flatten());
    SliceWrites { address_type, sync_counts, ..order_writes(create, update, delete, permission, |_| true) }
}

/// Counts the endpoints that an update of a slice adds, changes and removes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Changes {
    added: usize,
    updated: usize,
    removed: usize,
}

fn compare(old: &[Endpoint], new: &[Endpoint]) -> Changes {
    let known: BTreeMap<EndpointIdentity<'_>, &Endpoint> = old.iter().map(|old| (old.identity(), old)).collect();
    let mut changes = Changes { removed: old.len(), ..Changes::default() };
    for new in new {
        match known.get(&new.identity()) {
            None => changes.added += 1,
            Some(old) => {
                changes.removed = changes.removed.saturating_sub(1);
                changes.updated += usize::from(!old.has_same_content(new));
            }
        }
    }
    changes
}

/// Whether labels and annotations are as wanted, and no owner reference to these Endpoints has another UID.
fn has_wanted_metadata(slice: &Slice, slice_metadata: &SliceMetadata) -> bool {
    let meta = &slice.metadata;
    let SliceMetadata { labels, annotations, owner_reference, .. } = slice_metadata;
    let is_replaced = |owner: &OwnerRef| {
        owner.kind == ENDPOINTS.kind() && owner.name == owner_reference.name && owner.uid != owner_reference.uid
    };
    meta.labels == *labels && meta.annotations == *annotations && !meta.owners.iter().any(is_replaced)
}

fn slice_metadata(endpoints: &Endpoints) -> SliceMetadata {
    let meta = &endpoints.metadata;
    let own = [(SERVICE_NAME_LABEL, &*meta.name), (MANAGED_BY_LABEL, MANAGED_BY_MIRRORING)];
    let mut annotations = meta.annotations.clone();
    annotations.retain(|key| key != TRIGGER_TIME_ANNOTATION && key != LAST_APPLIED);
    let labels = Labels::from_pairs(meta.labels.iter().chain(own));
    SliceMetadata {
        annotations: Annotations::from_pairs(annotations.iter()),
        ..SliceMetadata::new(ENDPOINTS, meta, labels)
    }
}

/// Returns the wanted slices of each address type, and adds Events about omitted addresses to the plan.
///
/// A small object with many ports in many subsets can expand to millions of addresses. Therefore the number of processed
/// addresses is limited. A malicious object then causes omitted addresses only in its own slices.
fn wanted_slices(subsets: &[Subset], most: usize, plan: &mut Plan) -> BTreeMap<AddressType, WantedSlices> {
    let (subsets, beyond_limit) =
        subsets::canonical_subsets_and_omitted_address_count(subsets, MAX_PROCESSED_ADDRESSES);
    plan.skipped_address_count = beyond_limit;
    let mut out: BTreeMap<AddressType, WantedSlices> = BTreeMap::new();
    let mut invalid = 0;
    for subset in subsets {
        let port = |port: &SubsetPort| SlicePort {
            name: port.name.clone(),
            port: Some(port.port),
            protocol: port.protocol.clone(),
            app_protocol: port.app_protocol.clone(),
        };
        let ports: Arc<[SlicePort]> = subset.ports.iter().map(port).collect();
        let key = port_key(&ports);
        let new_mirror = || Mirror { ports: Arc::clone(&ports), ..Mirror::default() };
        let mut mirrors = [AddressType::Ipv4, AddressType::Ipv6].map(|address_type| (address_type, new_mirror()));
        let mut taken = 0;
        for (at, ready) in subset.addresses_with_readiness() {
            if taken == most {
                break;
            }
            let Some(parsed) = address::parse_ip(&at.ip) else {
                invalid += 1;
                continue;
            };
            let text: Box<str> = parsed.to_string().into();
            let wanted = address::address_type_of(parsed);
            for (_, mirror) in mirrors.iter_mut().filter(|(address_type, _)| *address_type == wanted) {
                mirror.insert(text.clone(), endpoint_from_address(at, text.clone(), ready));
            }
            taken += 1;
        }
        for (address_type, mirror) in mirrors {
            out.entry(address_type).or_default().insert(key.clone(), mirror);
        }
        plan.skipped_address_count += subset.addresses_with_readiness().count() - taken;
    }
    let warn = |reason, message| PlannedEvent { kind: EventType::Warning, reason, message };
    if invalid > 0 {
        let message = format!("Skipped {invalid} invalid IP addresses when mirroring to EndpointSlices");
        plan.events.push(warn("InvalidIPAddress", message));
    }
    if plan.skipped_address_count > invalid {
        let skipped = plan.skipped_address_count;
        let message = format!(
            "A max of {most} addresses can be mirrored to EndpointSlices per Endpoints subset. {skipped} addresses were skipped"
        );
        plan.events.push(warn("TooManyAddressesToMirror", message));
    }
    out
}

fn endpoint_from_address(address: &EndpointAddress, text: Box<str>, ready: bool) -> Endpoint {
    Endpoint {
        addresses: [text].into(),
        conditions: EndpointConditions { ready: Some(ready), ..EndpointConditions::default() },
        hostname: Some(address.hostname.clone()).filter(|name| !name.is_empty()),
        target_ref: address.target_ref.clone(),
        node_name: address.node_name.clone(),
        ..Endpoint::default()
    }
}

#[cfg(test)]
mod tests;

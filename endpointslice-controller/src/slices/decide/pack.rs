//! Assigns endpoints to slices with as few writes as possible.

use std::{cmp::Reverse, collections::BTreeMap, sync::Arc};

use common::prelude::HashMap;

use super::{
    desired::{EndpointCandidate, PortGroup, WantedPodEndpoints},
    slice_metadata::has_wanted_labels,
};
use crate::{
    decide::ports::{NamedPortNumbers, ServicePorts},
    objects::{Endpoint, Service, Slice, SlicePort},
    plan::{DeferredWriteCounts, SliceDraft, SliceMetadata},
    pods_in_slices::UpToDateSlice,
};

/// The slices of one address type, grouped by the kind of write that they need.
#[derive(Clone, Debug, Default)]
pub struct SlicesByNeededWrite {
    /// Slices to create; `existing_slice` is `None` in each draft.
    pub slices_to_create: Vec<SliceDraft>,
    /// Slices to update; each draft has its `existing_slice`.
    pub slices_to_update: Vec<SliceDraft>,
    /// Slices that were compared with the wanted endpoints and need no write.
    pub unchanged_slices: Vec<Arc<Slice>>,
    /// Slices that were up to date after the last sync, have not changed since then, and need no write.
    pub up_to_date_slices: Vec<UpToDateSlice>,
    /// Slices to delete, in the order of the comparison.
    pub slices_to_delete: Vec<Arc<Slice>>,
    /// The number of endpoints that this sync adds to slices.
    pub added_endpoint_count: usize,
    /// The number of endpoints that this sync removes from slices.
    pub removed_endpoint_count: usize,
    /// Endpoints and slices deferred to the next sync. Deferred slices are in none of the lists.
    pub deferred_write_counts: DeferredWriteCounts,
}

impl SlicesByNeededWrite {
    /// Returns the number of slices that remain after the sync, including slices with deferred changes.
    pub fn wanted_slice_count(&self) -> usize {
        self.slices_to_create.len()
            + self.slices_to_update.len()
            + self.unchanged_slices.len()
            + self.up_to_date_slices.len()
            + self.deferred_write_counts.slice_count
    }

    /// Iterates over all wanted endpoints: first those of new slices, then of changed slices, then of unchanged ones.
    pub fn endpoints(&self) -> impl Iterator<Item = &Endpoint> {
        let drafts = self.slices_to_create.iter().chain(&self.slices_to_update).flat_map(|draft| &draft.endpoints);
        let up_to_date = self.up_to_date_slices.iter().map(|known| &known.slice);
        drafts.chain(self.unchanged_slices.iter().chain(up_to_date).flat_map(|slice| &slice.endpoints))
    }

    /// Iterates over the endpoints of new and changed slices.
    pub fn endpoints_to_write(&mut self) -> impl Iterator<Item = &mut Endpoint> {
        self.slices_to_create.iter_mut().chain(&mut self.slices_to_update).flat_map(|draft| &mut draft.endpoints)
    }

    /// Moves unchanged slices to the slices to update if `changes` returns true for them.
    pub fn rewrite_unchanged_slices_where(&mut self, mut changes: impl FnMut(&Slice) -> bool) {
        let rewritten = self.unchanged_slices.extract_if(.., |slice| changes(slice));
        self.slices_to_update.extend(rewritten.map(|slice| SliceDraft::from_slice(&slice)));
    }

    /// Moves slices to update to the unchanged slices if they are equal to their draft.
    pub fn drop_needless_slice_updates(&mut self, slice_metadata: &SliceMetadata) {
        let is_as_wanted = |draft: &mut SliceDraft| {
            draft.existing_slice.as_ref().is_some_and(|slice| {
                slice.endpoints == draft.endpoints && has_wanted_labels(&slice.metadata.labels, &slice_metadata.labels)
            })
        };
        let unchanged = self.slices_to_update.extract_if(.., is_as_wanted);
        self.unchanged_slices.extend(unchanged.filter_map(|draft| draft.existing_slice));
    }
}

/// The position of each candidate, by the name of its Pod: the index of the group, and the index within the group.
type Places<'a> = HashMap<&'a str, (usize, usize)>;

/// The existing slices of one Service that have one address type, sorted by name.
#[derive(Clone, Debug, Default)]
pub struct ExistingSlices {
    /// Slices with endpoints to compare with the candidates.
    pub slices_to_compare: Vec<Arc<Slice>>,
    /// Slices that the last sync found up to date, and that have not changed. None of their Pods is a candidate in this sync.
    pub up_to_date_slices: Vec<UpToDateSlice>,
}

/// Limits for the slices of one address type.
pub struct SliceLimits<'a> {
    /// The number of endpoints at which a slice is full.
    pub max_endpoints_per_slice: usize,
    /// The number of ports that new slices of this sync may still have. As long as the count is above zero, one more slice with
    /// any number of ports is allowed.
    pub remaining_new_slice_ports: &'a mut usize,
}

/// Assigns endpoints to slices, up to the maximum count of endpoints in each slice.
///
/// Endpoints remain in their slices. New endpoints go to slices that need an update for another reason, and the last remaining
/// endpoints can change one more slice. A new slice starts with the endpoints of a slice to delete, and can replace that slice
/// without moving endpoints. Upstream: `staging/src/k8s.io/endpointslice`, `reconcileByPortMapping`.
///
/// If the new slices need more ports than the limits allow, the remaining endpoints are deferred to the next sync, together
/// with the changes of the slices that hold these endpoints now.
pub fn pack_endpoints_into_slices<'a>(
    service: &Service,
    metadata: &SliceMetadata,
    slices: ExistingSlices,
    wanted: WantedPodEndpoints<'a>,
    limits: SliceLimits<'_>,
) -> SlicesByNeededWrite {
    let may_defer = may_exceed_port_limit(&wanted, &limits);
    let WantedPodEndpoints { service_ports, port_groups, port_group_indexes, .. } = wanted;
    let SliceLimits { max_endpoints_per_slice, remaining_new_slice_ports } = limits;
    let mut sorted_slices = SlicesByNeededWrite::default();
    let mut places: Places<'a> = HashMap::default();
    places.reserve(port_groups.iter().map(|group| group.candidates.len()).sum());
    for (at, group) in port_groups.iter().enumerate() {
        places
            .extend(group.candidates.iter().enumerate().map(|(place, candidate)| (candidate.pod_name(), (at, place))));
    }
    let mut packings: Vec<GroupPacking<'a>> = port_groups.into_iter().map(GroupPacking::new).collect();
    for known in slices.up_to_date_slices {
        if let Some(group) = port_group_indexes.get(&known.port_numbers) {
            packings[*group].up_to_date.push(known);
        }
    }
    let mut mixed: Vec<(usize, &Arc<Slice>)> = Vec::new();
    for slice in &slices.slices_to_compare {
        let numbers = service_ports.named_port_numbers_of_slice(&slice.ports).filter(|_| slice.is_owned_by(service));
        match numbers.and_then(|numbers| port_group_indexes.get(&*numbers)) {
            Some(group) if may_defer && holds_other_groups(*group, slice, &places, &packings) => {
                mixed.push((*group, slice));
            }
            Some(group) => packings[*group].sort_in(*group, slice, &places, metadata, &mut sorted_slices),
            None => sorted_slices.slices_to_delete.push(Arc::clone(slice)),
        }
    }
    for (group, slice) in mixed {
        if holds_other_groups(group, slice, &places, &packings) {
            // This slice is deferred, so its endpoints must not be assigned to another slice.
            for endpoint in &slice.endpoints {
                packings[group].take_same(group, endpoint, &places);
            }
            sorted_slices.deferred_write_counts.slice_count += 1;
        } else {
            packings[group].sort_in(group, slice, &places, metadata, &mut sorted_slices);
        }
    }
    for slice in sorted_slices.slices_to_delete.iter().filter(|slice| slice.is_owned_by(service)) {
        let mut shared: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
        for (group, place) in
            slice.endpoints.iter().filter_map(|endpoint| find_unassigned(endpoint, &places, &packings))
        {
            shared.entry(group).or_default().push(place);
        }
        // The group that has the most endpoints in this slice starts a new slice with these endpoints.
        let most = shared.into_iter().max_by_key(|(group, places)| (places.len(), Reverse(*group)));
        if let Some((group, places)) = most {
            packings[group].seeds.push(places);
        }
    }
    for packing in &mut packings {
        packing.fill(&service_ports, max_endpoints_per_slice, remaining_new_slice_ports, &mut sorted_slices);
    }
    if sorted_slices.deferred_write_counts.endpoint_count > 0 {
        let before = sorted_slices.slices_to_delete.len();
        let is_needed = |slice: &Slice| {
            slice.endpoints.iter().any(|endpoint| find_unassigned(endpoint, &places, &packings).is_some())
        };
        sorted_slices.slices_to_delete.retain(|slice| !is_needed(slice));
        sorted_slices.deferred_write_counts.slice_count += before - sorted_slices.slices_to_delete.len();
    }
    sorted_slices
}

/// Whether the new slices could together have more ports than `remaining_new_slice_ports`.
pub fn may_exceed_port_limit(wanted: &WantedPodEndpoints<'_>, limits: &SliceLimits<'_>) -> bool {
    let slices = |group: &PortGroup<'_>| group.size.candidate_pod_count.div_ceil(limits.max_endpoints_per_slice);
    let most_ports =
        |group: &PortGroup<'_>| wanted.service_ports.service_port_count_on_pod(&group.port_numbers) * slices(group);
    wanted.port_groups.iter().map(most_ports).fold(0, usize::saturating_add) > *limits.remaining_new_slice_ports
}

/// Whether a slice of a group also holds endpoints of other groups that are not assigned to a slice yet.
fn holds_other_groups(group: usize, slice: &Slice, places: &Places<'_>, packings: &[GroupPacking<'_>]) -> bool {
    slice.endpoints.iter().filter_map(|endpoint| find_unassigned(endpoint, places, packings)).any(|(of, _)| of != group)
}

/// Returns the position of the unassigned candidate that matches an endpoint; `None` if no unassigned candidate matches.
fn find_unassigned(endpoint: &Endpoint, places: &Places<'_>, packings: &[GroupPacking<'_>]) -> Option<(usize, usize)> {
    let (group, place) = *places.get(&*endpoint.target_ref.as_ref()?.name)?;
    let packing = &packings[group];
    (!packing.taken[place] && packing.candidates[place].has_same_identity_as(endpoint)).then_some((group, place))
}

/// The assignment of one group of candidates to slices.
struct GroupPacking<'a> {
    numbers: Arc<NamedPortNumbers>,
    candidates: Vec<EndpointCandidate<'a>>,
    /// For each candidate, whether it is assigned to a slice.
    taken: Vec<bool>,
    /// The number of candidates that are not assigned to a slice yet.
    unassigned_count: usize,
    /// All candidates before this index are assigned to a slice.
    next: usize,
    update: Vec<SliceDraft>,
    keep: Vec<Arc<Slice>>,
    up_to_date: Vec<UpToDateSlice>,
    /// The candidates in each slice to delete. A new slice starts with the candidates of one list.
    seeds: Vec<Vec<usize>>,
}

impl<'a> GroupPacking<'a> {
    fn new(group: PortGroup<'a>) -> Self {
        let PortGroup { port_numbers: numbers, candidates, .. } = group;
        let (taken, unassigned_count) = (vec![false; candidates.len()], candidates.len());
        let (update, keep, up_to_date, seeds) = Default::default();
        Self { numbers, candidates, taken, unassigned_count, next: 0, update, keep, up_to_date, seeds }
    }

    fn take(&mut self, place: usize) -> bool {
        let is_free = !std::mem::replace(&mut self.taken[place], true);
        self.unassigned_count -= usize::from(is_free);
        is_free
    }

    /// Marks the candidate with the same Pod, hostname and addresses as this endpoint as assigned. Returns its index; `None`
    /// if this group has no such candidate, or if that candidate is already assigned.
    fn take_same(&mut self, group: usize, endpoint: &Endpoint, places: &Places<'_>) -> Option<usize> {
        let (of, place) = *places.get(&*endpoint.target_ref.as_ref()?.name)?;
        (of == group && self.candidates[place].has_same_identity_as(endpoint) && self.take(place)).then_some(place)
    }

    /// Decides whether an existing slice with the ports of this group is kept, updated or deleted.
    fn sort_in(
        &mut self,
        group: usize,
        slice: &Arc<Slice>,
        places: &Places<'_>,
        metadata: &SliceMetadata,
        sorted_slices: &mut SlicesByNeededWrite,
    ) {
        let mut kept: Vec<usize> = Vec::with_capacity(slice.endpoints.len());
        let mut changed = false;
        for endpoint in &slice.endpoints {
            match self.take_same(group, endpoint, places) {
                Some(place) => {
                    changed |= !self.candidates[place].is_endpoint_up_to_date(endpoint);
                    kept.push(place);
                }
                None => {
                    changed = true;
                    sorted_slices.removed_endpoint_count += 1;
                }
            }
        }
        if changed && kept.is_empty() {
            sorted_slices.slices_to_delete.push(Arc::clone(slice));
        } else if changed {
            let endpoints = kept.iter().map(|place| self.candidates[*place].build_endpoint()).collect();
            self.update.push(SliceDraft {
                existing_slice: Some(Arc::clone(slice)),
                endpoints,
                ports: Arc::clone(&slice.ports),
            });
        } else if has_wanted_labels(&slice.metadata.labels, &metadata.labels) {
            self.keep.push(Arc::clone(slice));
        } else {
            self.update.push(SliceDraft::from_slice(slice));
        }
    }

    /// Adds unassigned candidates to the endpoints of a slice, up to `max_endpoints` in total.
    fn top_up(&mut self, endpoints: &mut Vec<Endpoint>, max_endpoints: usize) {
        while self.unassigned_count > 0 && endpoints.len() < max_endpoints {
            if self.take(self.next) {
                endpoints.push(self.candidates[self.next].build_endpoint());
            }
            self.next += 1;
        }
    }

    /// Assigns every remaining candidate to a slice, within the limit `max_new_ports` for new slices.
    fn fill(
        &mut self,
        ports: &ServicePorts<'_>,
        max_endpoints: usize,
        max_new_ports: &mut usize,
        sorted_slices: &mut SlicesByNeededWrite,
    ) {
        let before = self.unassigned_count;
        let mut update = std::mem::take(&mut self.update);
        update.sort_by_key(|draft| Reverse(draft.endpoints.len()));
        for draft in &mut update {
            self.top_up(&mut draft.endpoints, max_endpoints);
        }
        // `new_slice` takes the last list, and should start with the largest one.
        self.seeds.sort_by_key(Vec::len);
        let mut list: Option<Arc<[SlicePort]>> = None;
        while self.unassigned_count > 0 {
            let fits =
                if self.unassigned_count < max_endpoints { self.take_closest_to_full(max_endpoints) } else { None };
            let mut draft = match fits {
                Some(slice) => SliceDraft::from_slice(&slice),
                None if *max_new_ports == 0 => break,
                None => {
                    let list = list.get_or_insert_with(|| ports.build_slice_ports(&self.numbers));
                    *max_new_ports = max_new_ports.saturating_sub(list.len());
                    self.new_slice(Arc::clone(list), max_endpoints)
                }
            };
            self.top_up(&mut draft.endpoints, max_endpoints);
            if draft.existing_slice.is_some() { update.push(draft) } else { sorted_slices.slices_to_create.push(draft) }
        }
        sorted_slices.added_endpoint_count += before - self.unassigned_count;
        sorted_slices.deferred_write_counts.endpoint_count += self.unassigned_count;
        sorted_slices.slices_to_update.append(&mut update);
        sorted_slices.unchanged_slices.append(&mut self.keep);
        sorted_slices.up_to_date_slices.append(&mut self.up_to_date);
    }

    /// Removes and returns the fullest slice with room for all remaining candidates; of equally full slices, the first by name.
    fn take_closest_to_full(&mut self, max_endpoints: usize) -> Option<Arc<Slice>> {
        let slices = self.keep.iter().chain(self.up_to_date.iter().map(|known| &known.slice)).enumerate();
        let fits = slices.filter(|(_, slice)| slice.endpoints.len() + self.unassigned_count <= max_endpoints);
        let ranked = fits.map(|(at, slice)| (slice.endpoints.len(), Reverse(&slice.metadata.name), at));
        let (_, _, at) = ranked.max()?;
        let from_up_to_date = at.checked_sub(self.keep.len());
        Some(from_up_to_date.map_or_else(|| self.keep.remove(at), |at| self.up_to_date.remove(at).slice))
    }

    /// Builds a new slice from the endpoints of a slice to delete, without the endpoints that another slice holds.
    fn new_slice(&mut self, ports: Arc<[SlicePort]>, max_endpoints: usize) -> SliceDraft {
        let mut draft = SliceDraft::new(ports);
        for place in self.seeds.pop().unwrap_or_default().into_iter().take(max_endpoints) {
            if self.take(place) {
                draft.endpoints.push(self.candidates[place].build_endpoint());
            }
        }
        draft
    }
}

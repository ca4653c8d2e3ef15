//! The Pods and slices that a sync compares: all of them, or those that changed after the last sync.
//!
//! The last sync of a large Service records the slice of each Pod. If only Pods and slices have changed since, the next sync
//! compares:
//!
//! - Pods that were added, changed or deleted, Pods in slices that the last sync wrote, and Pods named by changed slices;
//! - slices that hold one of these Pods, changed slices, and all other Pods of these slices.
//!
//! Every other Pod is in one up-to-date slice, and every other slice holds only such Pods. Therefore the result is the same as
//! if the sync compared everything. After any other change, for example of the Service or of the zone of a Node, the next
//! sync compares everything.

use std::{collections::BTreeSet, sync::Arc};

use common::{name_sorted_list::NamedEntry, prelude::HashMap};

use super::{
    desired::has_address_of_type,
    pack::{ExistingSlices, SlicesByNeededWrite},
};
use crate::{
    decide::ports::NamedPortNumbers,
    objects::{AddressType, Endpoint, NameSortedPods, Pod, Slice},
    pods_in_slices::{AddressTypePodsInSlices, PodWithSlice, PortGroupSizes, UpToDateSlice},
    slices::decide::Snapshot,
};

/// The Pods and slices that a sync compares with each other for one address type.
pub struct PodsAndSlicesToCompare<'a> {
    /// The slice of each Pod, as recorded by the last sync; `None` if everything is compared.
    pub(super) last_pods_in_slices: Option<&'a AddressTypePodsInSlices>,
    /// The sorted names of the compared Pods, including deleted Pods; empty if everything is compared.
    names: Vec<&'a str>,
    pub(super) pods: Vec<&'a Arc<Pod>>,
    /// The size of each group of Pods, not counting the compared Pods.
    pub(super) sizes: PortGroupSizes,
    pub(super) existing_slices: ExistingSlices,
}

fn names(slice: &Slice) -> impl Iterator<Item = &str> {
    slice.endpoints.iter().filter_map(|endpoint| Some(&*endpoint.target_ref.as_ref()?.name))
}

impl<'a> PodsAndSlicesToCompare<'a> {
    /// Returns the scope with all Pods and with `slices`, which are all slices of the address type.
    pub fn with_all_pods_and_slices(snapshot: &'a Snapshot, slices: &[Arc<Slice>]) -> Self {
        let (base, names, sizes) = Default::default();
        let slices = ExistingSlices { slices_to_compare: slices.to_vec(), up_to_date_slices: Vec::new() };
        Self { last_pods_in_slices: base, names, pods: snapshot.pods.iter().collect(), sizes, existing_slices: slices }
    }

    /// Returns the scope with the changes since the last sync; `None` if the snapshot has no record of that sync, or if the
    /// Service, the zones or the slice size differ from it. `slices` are all slices of the address type, sorted by name.
    pub fn with_changes_since_last_sync(
        snapshot: &'a Snapshot,
        address_type: AddressType,
        slices: &'a [Arc<Slice>],
    ) -> Option<Self> {
        let last = snapshot.memory.pods_in_slices.as_deref()?;
        let is_usable = Arc::ptr_eq(&last.service, &snapshot.service)
            && Arc::ptr_eq(&last.zones_by_node, &snapshot.zones_by_node)
            && last.max_endpoints_per_slice == snapshot.max_endpoints_per_slice;
        let base = last.by_address_type.get(&address_type).filter(|_| is_usable)?;
        let differences = NameSortedPods::entry_differences(&last.pods, &snapshot.pods, Arc::ptr_eq);
        let changed = differences.into_iter().filter_map(|(old, new)| old.or(new)).map(NamedEntry::name);
        let mut names_in_scope: Vec<&str> =
            changed.chain(base.pod_names_in_written_slices.iter().map(|name| &**name)).collect();
        let up_to_date = slices.iter().filter_map(|slice| {
            let name = &slice.metadata.name;
            let at = base.up_to_date_slices.binary_search_by(|known| known.slice.metadata.name.cmp(name)).ok()?;
            Some(&base.up_to_date_slices[at]).filter(|known| Arc::ptr_eq(&known.slice, slice))
        });
        let up_to_date: Vec<&UpToDateSlice> = up_to_date.collect();
        let is_changed = |slice: &&Arc<Slice>| {
            up_to_date.binary_search_by(|known| known.slice.metadata.name.cmp(&slice.metadata.name)).is_err()
        };
        let all_slices = base.up_to_date_slices.iter().map(|known| &known.slice).chain(slices);
        names_in_scope.extend(all_slices.filter(is_changed).flat_map(|slice| names(slice)));
        let mut compared: Vec<Arc<Slice>> = slices.iter().filter(is_changed).cloned().collect();
        let slice_of = |name: &&str| base.pods_with_slices.get(name)?.slice_name.as_deref();
        let touched: BTreeSet<&str> = names_in_scope.iter().filter_map(slice_of).collect();
        let is_touched = |known: &&UpToDateSlice| touched.contains(&*known.slice.metadata.name);
        let (touched, untouched): (Vec<&UpToDateSlice>, Vec<&UpToDateSlice>) =
            up_to_date.into_iter().partition(is_touched);
        for known in touched {
            names_in_scope.extend(names(&known.slice));
            compared.push(Arc::clone(&known.slice));
        }
        compared.sort_by(|a, b| a.metadata.name.cmp(&b.metadata.name));
        names_in_scope.sort_unstable();
        names_in_scope.dedup();
        let mut sizes = base.port_group_sizes.clone();
        for place in names_in_scope.iter().filter_map(|name| base.pods_with_slices.get(name)) {
            if let Some(size) = sizes.get_mut(&place.port_numbers) {
                let is_candidate = has_address_of_type(&place.pod, address_type);
                size.eligible_pod_count = size.eligible_pod_count.saturating_sub(1);
                size.candidate_pod_count = size.candidate_pod_count.saturating_sub(usize::from(is_candidate));
            }
        }
        let pods = names_in_scope.iter().filter_map(|name| snapshot.pods.get(name)).collect();
        let slices =
            ExistingSlices { slices_to_compare: compared, up_to_date_slices: untouched.into_iter().cloned().collect() };
        Some(Self { last_pods_in_slices: Some(base), names: names_in_scope, pods, sizes, existing_slices: slices })
    }

    /// Records each Pod's slice for the next sync, after a sync with this scope has assigned all endpoints.
    pub fn pods_in_slices_for_next_sync(
        &self,
        eligible_pods: &[(&Arc<Pod>, Arc<NamedPortNumbers>)],
        sizes: PortGroupSizes,
        slices: &SlicesByNeededWrite,
    ) -> AddressTypePodsInSlices {
        let kept = slices.unchanged_slices.iter().map(|slice| (&slice.metadata.name, slice.endpoints.as_slice()));
        let update = slices.slices_to_update.iter();
        let updated = update
            .filter_map(|draft| Some((&draft.existing_slice.as_ref()?.metadata.name, draft.endpoints.as_slice())));
        let mut slice_of: HashMap<&str, &Arc<str>> = HashMap::default();
        for (slice, endpoints) in kept.chain(updated) {
            slice_of.extend(endpoints.iter().filter_map(target).map(|name| (&**name, slice)));
        }
        let place = |(pod, numbers): &(&Arc<Pod>, Arc<NamedPortNumbers>)| PodWithSlice {
            pod: Arc::clone(pod),
            port_numbers: Arc::clone(numbers),
            slice_name: slice_of.get(pod.name()).map(|slice| Arc::clone(slice)),
        };
        let mut new = eligible_pods.iter().map(place);
        let places = match self.last_pods_in_slices {
            None => new.collect(),
            Some(base) => {
                let mut places = base.pods_with_slices.clone();
                let mut new = new.by_ref().peekable();
                for name in &self.names {
                    match new.next_if(|place| place.name() == *name) {
                        Some(place) if places.get(name).is_some_and(|known| known.is_same_pod_and_slice(&place)) => {}
                        Some(place) => places.insert_or_replace(place),
                        None => places.remove(name),
                    }
                }
                places
            }
        };
        let mut up_to_date = slices.up_to_date_slices.clone();
        up_to_date.extend(slices.unchanged_slices.iter().filter_map(|slice| {
            let place = places.get(names(slice).next()?)?;
            Some(UpToDateSlice { slice: Arc::clone(slice), port_numbers: Arc::clone(&place.port_numbers) })
        }));
        up_to_date.sort_by(|a, b| a.slice.metadata.name.cmp(&b.slice.metadata.name));
        let drafts = slices.slices_to_create.iter().chain(&slices.slices_to_update);
        let pending = drafts.flat_map(|draft| &draft.endpoints).filter_map(target).cloned().collect();
        AddressTypePodsInSlices {
            up_to_date_slices: up_to_date,
            pods_with_slices: places,
            pod_names_in_written_slices: pending,
            port_group_sizes: sizes,
        }
    }
}

fn target(endpoint: &Endpoint) -> Option<&Arc<str>> {
    Some(&endpoint.target_ref.as_ref()?.name)
}

#[cfg(test)]
impl PodsAndSlicesToCompare<'_> {
    /// Returns the count of compared Pods and the number of compared slices.
    pub(super) fn compared_pod_and_slice_counts(&self) -> (usize, usize) {
        (self.pods.len(), self.existing_slices.slices_to_compare.len())
    }
}

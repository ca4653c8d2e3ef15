//! Which endpoint is in which slice: as few writes as possible.

use std::{collections::BTreeMap, sync::Arc};

use common::map::HashMap;

use super::{
    desired::{Group, port_key},
    face, is_owned,
};
use crate::{
    objects::{Endpoint, Identity, Port, Service, Slice},
    plan::{Draft, Face},
};

/// What becomes of slices.
#[derive(Clone, Debug, Default)]
pub struct Sorted {
    /// New ones.
    pub create: Vec<Draft>,
    /// Those that change.
    pub update: Vec<Draft>,
    /// Those that stay as they are.
    pub keep: Vec<Arc<Slice>>,
    /// Those that go.
    pub delete: Vec<Arc<Slice>>,
    /// How many endpoints came.
    pub added: usize,
    /// How many endpoints went.
    pub removed: usize,
}

impl Sorted {
    /// Every endpoint there is to be: those of new slices, of those that change, of the others.
    pub fn endpoints(&self) -> impl Iterator<Item = &Endpoint> {
        let drafts = self.create.iter().chain(&self.update).flat_map(|draft| &draft.endpoints);
        drafts.chain(self.keep.iter().flat_map(|slice| &slice.endpoints))
    }

    /// Every endpoint of the slices that are written.
    pub fn written(&mut self) -> impl Iterator<Item = &mut Endpoint> {
        self.create.iter_mut().chain(&mut self.update).flat_map(|draft| &mut draft.endpoints)
    }

    /// Makes those of the slices that stay change which `changes` says.
    pub fn rewrite(&mut self, mut changes: impl FnMut(&Slice) -> bool) {
        let (rewritten, keep) = std::mem::take(&mut self.keep).into_iter().partition(|slice| changes(slice));
        self.keep = keep;
        let rewritten: Vec<Arc<Slice>> = rewritten;
        self.update.extend(rewritten.iter().map(Draft::of));
    }

    /// Writes nothing where a slice would come out as it is.
    pub fn leave_what_is_as_wanted(&mut self, wanted: &Face) {
        let is_as_wanted = |draft: &Draft| {
            draft.base.as_ref().is_some_and(|base| {
                base.endpoints == draft.endpoints && face::same_labels(&base.metadata.labels, &wanted.labels)
            })
        };
        let (same, update): (Vec<_>, Vec<_>) = std::mem::take(&mut self.update).into_iter().partition(is_as_wanted);
        self.update = update;
        self.keep.extend(same.into_iter().filter_map(|draft| draft.base));
    }
}

/// Puts endpoints into slices, `most` into each.
///
/// Endpoints stay where they are, slices that change anyway are filled first, and at most one slice is changed to take what
/// is left. Upstream: `staging/src/k8s.io/endpointslice`, `reconcileByPortMapping`.
pub fn pack(service: &Service, face: &Face, slices: &[Arc<Slice>], groups: Vec<Group>, most: usize) -> Sorted {
    let mut sorted = Sorted::default();
    let mut there: BTreeMap<Vec<Port>, Vec<Arc<Slice>>> = BTreeMap::new();
    for slice in slices {
        if is_owned(slice, service) {
            there.entry(port_key(&slice.ports)).or_default().push(Arc::clone(slice));
        } else {
            sorted.delete.push(Arc::clone(slice));
        }
    }
    for group in groups {
        let own = there.remove(&port_key(&group.ports)).unwrap_or_default();
        pack_group(&mut sorted, face, own, group, most);
    }
    sorted.delete.extend(there.into_values().flatten());
    sorted
}

/// The endpoints of a group that are in no slice yet.
struct Left {
    endpoints: Vec<Option<Endpoint>>,
    count: usize,
    next: usize,
}

impl Left {
    fn take(&mut self, at: usize) -> Option<Endpoint> {
        let taken = self.endpoints[at].take();
        self.count -= usize::from(taken.is_some());
        taken
    }

    /// Moves up to `room` of them.
    fn fill(&mut self, slice: &mut Vec<Endpoint>, room: usize) {
        let mut room = room.min(self.count);
        while room > 0 {
            if let Some(endpoint) = self.take(self.next) {
                slice.push(endpoint);
                room -= 1;
            }
            self.next += 1;
        }
    }
}

fn pack_group(sorted: &mut Sorted, face: &Face, slices: Vec<Arc<Slice>>, group: Group, most: usize) {
    let Group { ports, endpoints } = group;
    let positions: HashMap<Identity<'_>, usize> =
        endpoints.iter().enumerate().map(|(at, endpoint)| (endpoint.identity(), at)).collect();
    // Where each endpoint of each slice is among those that are wanted.
    let places: Vec<Vec<Option<usize>>> = slices
        .iter()
        .map(|slice| slice.endpoints.iter().map(|old| positions.get(&old.identity()).copied()).collect())
        .collect();
    drop(positions);
    let mut left = Left { count: endpoints.len(), endpoints: endpoints.into_iter().map(Some).collect(), next: 0 };
    let (mut update, mut keep): (Vec<Draft>, Vec<Arc<Slice>>) = (Vec::new(), Vec::new());
    for (slice, places) in slices.into_iter().zip(places) {
        let mut changed = false;
        let mut kept = Vec::with_capacity(slice.endpoints.len());
        for (old, place) in slice.endpoints.iter().zip(places) {
            let Some(new) = place.and_then(|at| left.take(at)) else {
                sorted.removed += 1;
                changed = true;
                continue;
            };
            changed |= !old.says_the_same(&new);
            kept.push(new);
        }
        if changed && kept.is_empty() {
            sorted.delete.push(slice);
        } else if changed {
            let ports = slice.ports.clone();
            update.push(Draft { base: Some(slice), endpoints: kept, ports });
        } else if face::same_labels(&slice.metadata.labels, &face.labels) {
            keep.push(slice);
        } else {
            update.push(Draft::of(&slice));
        }
    }
    sorted.added += left.count;
    update.sort_by_key(|draft| std::cmp::Reverse(draft.endpoints.len()));
    for draft in &mut update {
        let room = most.saturating_sub(draft.endpoints.len());
        left.fill(&mut draft.endpoints, room);
    }
    while left.count > 0 {
        let fits = if left.count < most { closest_to_full(&keep, left.count, most) } else { None };
        let mut draft = fits.map_or_else(|| Draft::new(ports.clone()), |at| Draft::of(&keep.remove(at)));
        let room = most.saturating_sub(draft.endpoints.len());
        left.fill(&mut draft.endpoints, room);
        if draft.base.is_some() { update.push(draft) } else { sorted.create.push(draft) }
    }
    sorted.update.append(&mut update);
    sorted.keep.append(&mut keep);
}

/// The slice that is fullest once it has taken all of `more`, if one has room for them.
fn closest_to_full(slices: &[Arc<Slice>], more: usize, most: usize) -> Option<usize> {
    let fits = slices.iter().enumerate().filter(|(_, slice)| slice.endpoints.len() + more <= most);
    // Of several the first.
    fits.max_by_key(|(at, slice)| (slice.endpoints.len(), std::cmp::Reverse(*at))).map(|(at, _)| at)
}

//! The order of writes in which no endpoint is missing between two writes.
//!
//! Consumers use the endpoints of all slices of a Service, and they see each write separately. Creations come first and
//! deletions come last, so that no endpoint is removed before another slice contains it. If an endpoint moves from one
//! existing slice to another, the slice that receives the endpoint is updated first.

use std::{
    cmp::Reverse,
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use common::prelude::*;

use crate::{
    objects::{Endpoint, Slice},
    plan::{SliceDraft, SliceWrites},
};

/// Whether [`order_writes`] may add the creation of a slice to a plan.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SliceCreationPermission {
    /// The owner of the slices exists and is not terminating.
    Allowed,
    /// The owner of the slices is terminating, so the garbage collector is about to delete the slices.
    Forbidden,
}

impl SliceCreationPermission {
    /// Returns the permission for the owner with this metadata.
    pub fn for_owner(owner: &Meta) -> Self {
        if owner.is_deleting() { Self::Forbidden } else { Self::Allowed }
    }
}

/// Orders the writes. A creation and a deletion become one update of the slice to delete if `may_reuse` is true for that slice.
///
/// A new slice reuses the slice to delete that has the most endpoints in common with it. An endpoint that is ready before the
/// first and after the last write is in some slice after each write. If two updates exchange endpoints, one of the updates
/// becomes a creation and a deletion, which costs one more write.
pub fn order_writes(
    slices_to_create: Vec<SliceDraft>,
    mut slices_to_update: Vec<SliceDraft>,
    slices_to_delete: Vec<Arc<Slice>>,
    permission: SliceCreationPermission,
    may_reuse: impl Fn(&Slice) -> bool,
) -> SliceWrites {
    let mut writes = SliceWrites::default();
    let (reusable, others): (Vec<_>, Vec<_>) = slices_to_delete.into_iter().partition(|slice| may_reuse(slice));
    pair_with_deleted_slices(slices_to_create, reusable, &mut slices_to_update, &mut writes);
    writes.slices_to_delete.extend(others);
    slices_to_update.sort_by(|a, b| existing_name(a).cmp(existing_name(b)));
    if permission == SliceCreationPermission::Forbidden {
        writes.slices_to_create.clear();
    }
    order_updates(slices_to_update, permission, &mut writes);
    writes.slices_to_delete.sort_by(|a, b| a.metadata.name.cmp(&b.metadata.name));
    writes
}

fn existing_name(draft: &SliceDraft) -> &str {
    draft.existing_slice.as_ref().map_or("", |slice| &slice.metadata.name)
}

/// Pairs new slices with slices to delete, and makes each pair an update. The most endpoints in common decide about the pairs.
fn pair_with_deleted_slices(
    slices_to_create: Vec<SliceDraft>,
    slices_to_delete: Vec<Arc<Slice>>,
    slices_to_update: &mut Vec<SliceDraft>,
    writes: &mut SliceWrites,
) {
    let mut pairs: Vec<(Reverse<usize>, usize, usize)> = Vec::new();
    if !slices_to_create.is_empty() {
        let mut draft_of: HashMap<&[Box<str>], usize> = HashMap::default();
        for (at, draft) in slices_to_create.iter().enumerate() {
            draft_of.extend(draft.endpoints.iter().map(|endpoint| (&*endpoint.addresses, at)));
        }
        for (at, slice) in slices_to_delete.iter().enumerate() {
            let mut shared: BTreeMap<usize, usize> = BTreeMap::new();
            for draft in slice.endpoints.iter().filter_map(|endpoint| draft_of.get(&*endpoint.addresses)) {
                *shared.entry(*draft).or_default() += 1;
            }
            pairs.extend(shared.into_iter().map(|(draft, count)| (Reverse(count), at, draft)));
        }
    }
    pairs.sort_unstable();
    let mut drafts: Vec<Option<SliceDraft>> = slices_to_create.into_iter().map(Some).collect();
    let mut slices: Vec<Option<Arc<Slice>>> = slices_to_delete.into_iter().map(Some).collect();
    for (_, slice, draft) in pairs {
        if slices[slice].is_some()
            && let Some(draft) = drafts[draft].take()
        {
            slices_to_update.push(SliceDraft { existing_slice: slices[slice].take(), ..draft });
        }
    }
    let mut drafts = drafts.into_iter().flatten();
    for slice in slices.into_iter().flatten() {
        match drafts.next() {
            Some(draft) => slices_to_update.push(SliceDraft { existing_slice: Some(slice), ..draft }),
            None => writes.slices_to_delete.push(slice),
        }
    }
    writes.slices_to_create.extend(drafts);
}

fn ready(endpoints: &[Endpoint]) -> impl Iterator<Item = &[Box<str>]> {
    endpoints.iter().filter(|endpoint| endpoint.is_ready()).map(|endpoint| &*endpoint.addresses)
}

/// Returns for each update the indexes of the updates that must come first, because they add a ready endpoint that it removes.
fn predecessors(drafts: &[SliceDraft]) -> Vec<BTreeSet<usize>> {
    let mut gained_by: HashMap<&[Box<str>], usize> = HashMap::default();
    let mut lost: Vec<Vec<&[Box<str>]>> = Vec::new();
    for (at, draft) in drafts.iter().enumerate() {
        let old: BTreeSet<&[Box<str>]> =
            draft.existing_slice.iter().flat_map(|slice| ready(&slice.endpoints)).collect();
        let new: BTreeSet<&[Box<str>]> = ready(&draft.endpoints).collect();
        gained_by.extend(new.difference(&old).map(|address| (*address, at)));
        lost.push(old.difference(&new).copied().collect());
    }
    let gainers =
        |addresses: &Vec<&[Box<str>]>| addresses.iter().filter_map(|lost| gained_by.get(lost).copied()).collect();
    lost.iter().map(gainers).collect()
}

/// Puts each update after its [`predecessors`]. An update on a cycle becomes a creation and a deletion if creation is allowed.
fn order_updates(drafts: Vec<SliceDraft>, permission: SliceCreationPermission, writes: &mut SliceWrites) {
    if drafts.len() < 2 {
        writes.slices_to_update.extend(drafts);
        return;
    }
    let waits_for = predecessors(&drafts);
    let mut followers: Vec<Vec<usize>> = vec![Vec::new(); drafts.len()];
    let mut missing: Vec<usize> = waits_for.iter().map(BTreeSet::len).collect();
    for (at, before) in waits_for.iter().enumerate() {
        for before in before {
            followers[*before].push(at);
        }
    }
    let mut drafts: Vec<Option<SliceDraft>> = drafts.into_iter().map(Some).collect();
    let mut free: BTreeSet<usize> = (0..drafts.len()).filter(|at| missing[*at] == 0).collect();
    let mut first_remaining = 0;
    loop {
        let next = free.pop_first();
        let at = match next {
            Some(at) => at,
            None => {
                while drafts.get(first_remaining).is_some_and(Option::is_none) {
                    first_remaining += 1;
                }
                if first_remaining == drafts.len() {
                    return;
                }
                find_update_on_cycle(first_remaining, &waits_for, &drafts)
            }
        };
        let Some(draft) = drafts[at].take() else { continue };
        match &draft.existing_slice {
            Some(slice) if next.is_none() && permission == SliceCreationPermission::Allowed => {
                writes.slices_to_delete.push(Arc::clone(slice));
                writes.slices_to_create.push(SliceDraft { existing_slice: None, ..draft });
            }
            _ => writes.slices_to_update.push(draft),
        }
        for follower in &followers[at] {
            missing[*follower] = missing[*follower].saturating_sub(1);
            if missing[*follower] == 0 {
                free.insert(*follower);
            }
        }
    }
}

/// Follows predecessors from `from` to an update on a cycle. Requires that every remaining update has a remaining predecessor.
fn find_update_on_cycle(from: usize, waits_for: &[BTreeSet<usize>], drafts: &[Option<SliceDraft>]) -> usize {
    let mut visited = BTreeSet::new();
    let mut at = from;
    while visited.insert(at) {
        let Some(before) = waits_for[at].iter().find(|before| drafts[**before].is_some()) else { break };
        at = *before;
    }
    at
}

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

use common::map::HashMap;

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

/// Orders the writes. A creation and a deletion become one update of the slice to delete if `may_reuse` is true for that slice.
///
/// A new slice reuses the slice to delete that has the most endpoints in common with it. An endpoint that is ready before the
/// first and after the last write is in some slice after each write. If two updates exchange endpoints, one of the updates
/// becomes a creation and a deletion, which costs one more write.
pub fn order_writes(
    create: Vec<SliceDraft>,
    update: Vec<SliceDraft>,
    delete: Vec<Arc<Slice>>,
    creation: SliceCreationPermission,
    may_reuse: impl Fn(&Slice) -> bool,
) -> SliceWrites {
    let mut out = SliceWrites::default();
    let (reusable, others): (Vec<_>, Vec<_>) = delete.into_iter().partition(|slice| may_reuse(slice));
    let mut updates = update;
    pair_with_deleted_slices(create, reusable, &mut updates, &mut out);
    out.slices_to_delete.extend(others);
    updates.sort_by(|a, b| base_name(a).cmp(base_name(b)));
    if creation == SliceCreationPermission::Forbidden {
        out.slices_to_create.clear();
    }
    order_updates(updates, creation, &mut out);
    out.slices_to_delete.sort_by(|a, b| a.metadata.name.cmp(&b.metadata.name));
    out
}

fn base_name(draft: &SliceDraft) -> &str {
    draft.existing_slice.as_ref().map_or("", |base| &base.metadata.name)
}

/// Pairs new slices with slices to delete, and makes each pair an update. The most endpoints in common decide about the pairs.
fn pair_with_deleted_slices(
    create: Vec<SliceDraft>,
    delete: Vec<Arc<Slice>>,
    update: &mut Vec<SliceDraft>,
    out: &mut SliceWrites,
) {
    let mut pairs: Vec<(Reverse<usize>, usize, usize)> = Vec::new();
    if !create.is_empty() {
        let mut draft_of: HashMap<&[Box<str>], usize> = HashMap::default();
        for (at, draft) in create.iter().enumerate() {
            draft_of.extend(draft.endpoints.iter().map(|endpoint| (&*endpoint.addresses, at)));
        }
        for (at, slice) in delete.iter().enumerate() {
            let mut shared: BTreeMap<usize, usize> = BTreeMap::new();
            for draft in slice.endpoints.iter().filter_map(|endpoint| draft_of.get(&*endpoint.addresses)) {
                *shared.entry(*draft).or_default() += 1;
            }
            pairs.extend(shared.into_iter().map(|(draft, count)| (Reverse(count), at, draft)));
        }
    }
    pairs.sort_unstable();
    let mut create: Vec<Option<SliceDraft>> = create.into_iter().map(Some).collect();
    let mut delete: Vec<Option<Arc<Slice>>> = delete.into_iter().map(Some).collect();
    for (_, slice, draft) in pairs {
        if delete[slice].is_some()
            && let Some(draft) = create[draft].take()
        {
            update.push(SliceDraft { existing_slice: delete[slice].take(), ..draft });
        }
    }
    let mut create = create.into_iter().flatten();
    for slice in delete.into_iter().flatten() {
        match create.next() {
            Some(draft) => update.push(SliceDraft { existing_slice: Some(slice), ..draft }),
            None => out.slices_to_delete.push(slice),
        }
    }
    out.slices_to_create.extend(create);
}

fn ready(endpoints: &[Endpoint]) -> impl Iterator<Item = &[Box<str>]> {
    endpoints.iter().filter(|endpoint| endpoint.is_ready()).map(|endpoint| &*endpoint.addresses)
}

/// Returns for each update the indexes of the updates that must come first, because they add a ready endpoint that it removes.
fn predecessors(updates: &[SliceDraft]) -> Vec<BTreeSet<usize>> {
    let mut gained_by: HashMap<&[Box<str>], usize> = HashMap::default();
    let mut lost: Vec<Vec<&[Box<str>]>> = Vec::new();
    for (at, draft) in updates.iter().enumerate() {
        let old: BTreeSet<&[Box<str>]> = draft.existing_slice.iter().flat_map(|base| ready(&base.endpoints)).collect();
        let new: BTreeSet<&[Box<str>]> = ready(&draft.endpoints).collect();
        gained_by.extend(new.difference(&old).map(|address| (*address, at)));
        lost.push(old.difference(&new).copied().collect());
    }
    let gainers =
        |addresses: &Vec<&[Box<str>]>| addresses.iter().filter_map(|lost| gained_by.get(lost).copied()).collect();
    lost.iter().map(gainers).collect()
}

/// Puts each update after its [`predecessors`]. An update on a cycle becomes a creation and a deletion if creation is allowed.
fn order_updates(updates: Vec<SliceDraft>, creation: SliceCreationPermission, out: &mut SliceWrites) {
    if updates.len() < 2 {
        out.slices_to_update.extend(updates);
        return;
    }
    let waits_for = predecessors(&updates);
    let mut followers: Vec<Vec<usize>> = vec![Vec::new(); updates.len()];
    let mut missing: Vec<usize> = waits_for.iter().map(BTreeSet::len).collect();
    for (at, before) in waits_for.iter().enumerate() {
        for before in before {
            followers[*before].push(at);
        }
    }
    let mut updates: Vec<Option<SliceDraft>> = updates.into_iter().map(Some).collect();
    let mut free: BTreeSet<usize> = (0..updates.len()).filter(|at| missing[*at] == 0).collect();
    let mut first_left = 0;
    loop {
        let next = free.pop_first();
        let at = match next {
            Some(at) => at,
            None => {
                while updates.get(first_left).is_some_and(Option::is_none) {
                    first_left += 1;
                }
                if first_left == updates.len() {
                    return;
                }
                find_update_on_cycle(first_left, &waits_for, &updates)
            }
        };
        let Some(draft) = updates[at].take() else { continue };
        match &draft.existing_slice {
            Some(base) if next.is_none() && creation == SliceCreationPermission::Allowed => {
                out.slices_to_delete.push(Arc::clone(base));
                out.slices_to_create.push(SliceDraft { existing_slice: None, ..draft });
            }
            _ => out.slices_to_update.push(draft),
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
fn find_update_on_cycle(from: usize, waits_for: &[BTreeSet<usize>], updates: &[Option<SliceDraft>]) -> usize {
    let mut visited = BTreeSet::new();
    let mut at = from;
    while visited.insert(at) {
        let Some(before) = waits_for[at].iter().find(|before| updates[**before].is_some()) else { break };
        at = *before;
    }
    at
}

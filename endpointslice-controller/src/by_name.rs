//! Sorted lists with cheap copies: a copy shares all elements with the original, and a change copies only one part of the list.

use std::{cmp::Ordering, sync::Arc};

use crate::objects::Pod;

/// The Pods of a Service or of a label set, sorted by name.
pub type NameSortedPods = NameSortedList<Arc<Pod>>;

/// The maximum number of elements in one part of a list; a change of a shared list copies one part.
const MAX_PART_LEN: usize = 64;

/// An element of a [`NameSortedList`].
pub trait NamedEntry {
    /// The sort key, unique in the list.
    fn name(&self) -> &str;
}

impl NamedEntry for Arc<Pod> {
    fn name(&self) -> &str {
        &self.metadata.name
    }
}

/// A list of elements sorted by name, split into parts of at most 64 elements.
///
/// Copies of a list share its parts. A change of one copy duplicates the changed part and the list of parts. A comparison of
/// two lists reads only the parts that the lists do not share, and compares one pointer for each shared part.
#[derive(Clone, Debug)]
pub struct NameSortedList<T> {
    /// The elements in order of names; no part is empty.
    parts: Arc<[Arc<[T]>]>,
    len: usize,
}

impl<T> Default for NameSortedList<T> {
    fn default() -> Self {
        Self { parts: Arc::default(), len: 0 }
    }
}

impl<T: NamedEntry + Clone> NameSortedList<T> {
    /// Returns the stored number of elements, in constant time.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether [`len`](Self::len) is 0.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Iterates over the elements in ascending order of their names, compared as bytes.
    pub fn iter(&self) -> impl Iterator<Item = &T> {
        self.parts.iter().flat_map(|part| part.iter())
    }

    /// Whether one list is an unchanged copy of the other; compares pointers. False for equal lists that were built separately.
    pub fn shares_storage_with(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.parts, &other.parts)
    }

    /// Returns the element with this name, in logarithmic time; `None` if no element has it.
    pub fn get(&self, name: &str) -> Option<&T> {
        let part = self.parts.get(self.part_of(name))?;
        part.get(find(part, name).ok()?)
    }

    /// Inserts an element, or replaces the element with the same name.
    pub fn insert_or_replace(&mut self, entry: T) {
        let at = self.part_of(entry.name());
        // A name that sorts after all existing names goes into the last part if that part has room.
        let last = self.parts.len().saturating_sub(1);
        let is_last = at > last && self.parts.get(last).is_some_and(|part| part.len() < MAX_PART_LEN);
        let at = if is_last { last } else { at };
        let Some(part) = self.parts.get(at) else {
            self.replace(at, 0, &[Arc::from([entry])]);
            self.len += 1;
            return;
        };
        match find(part, entry.name()) {
            Ok(place) => {
                Arc::make_mut(&mut Arc::make_mut(&mut self.parts)[at])[place] = entry;
            }
            Err(place) => {
                let (before, behind) = part.split_at(place);
                let entries = || before.iter().chain(std::iter::once(&entry)).chain(behind).cloned();
                if part.len() < MAX_PART_LEN {
                    let part = entries().collect();
                    Arc::make_mut(&mut self.parts)[at] = part;
                } else {
                    let halves =
                        [entries().take(MAX_PART_LEN / 2).collect(), entries().skip(MAX_PART_LEN / 2).collect()];
                    self.replace(at, 1, &halves);
                }
                self.len += 1;
            }
        }
    }

    /// Removes the element with this name; does nothing if no element has it.
    pub fn remove(&mut self, name: &str) {
        let at = self.part_of(name);
        let Some(part) = self.parts.get(at) else { return };
        let Ok(place) = find(part, name) else { return };
        self.len -= 1;
        let others = || part.iter().take(place).chain(part.iter().skip(place + 1)).cloned();
        let left = part.len() - 1;
        if left == 0 {
            self.replace(at, 1, &[]);
            return;
        }
        // Small neighbouring parts are merged, so that the number of parts stays close to the minimum.
        let next = self.parts.get(at + 1).filter(|next| next.len() + left <= MAX_PART_LEN / 2);
        if let Some(next) = next {
            let both = others().chain(next.iter().cloned()).collect();
            self.replace(at, 2, &[both]);
            return;
        }
        let before = at.checked_sub(1).and_then(|before| self.parts.get(before));
        if let Some(before) = before.filter(|before| before.len() + left <= MAX_PART_LEN / 2) {
            let both = before.iter().cloned().chain(others()).collect();
            self.replace(at - 1, 2, &[both]);
            return;
        }
        let part = others().collect();
        Arc::make_mut(&mut self.parts)[at] = part;
    }

    /// Returns the index of the first part that ends with `name` or a greater name; the number of parts if no part does.
    fn part_of(&self, name: &str) -> usize {
        let ends_before = |part: &Arc<[T]>| part.last().is_some_and(|last| last.name() < name);
        // Fast path: elements are usually inserted in order of names.
        if self.parts.last().is_none_or(ends_before) {
            return self.parts.len();
        }
        self.parts.partition_point(ends_before)
    }

    fn replace(&mut self, at: usize, count: usize, by: &[Arc<[T]>]) {
        let (before, rest) = self.parts.split_at(at);
        self.parts = before.iter().chain(by).chain(&rest[count..]).cloned().collect();
    }

    /// Returns the elements that differ between two lists, sorted by name, as pairs of the old and the new element. Pairs of
    /// elements for which `is_same` returns true are skipped.
    pub fn entry_differences<'a>(
        old: &'a Self,
        new: &'a Self,
        is_same: fn(&T, &T) -> bool,
    ) -> Vec<EntryDifference<'a, T>> {
        let mut out = Vec::new();
        let (mut before, mut after) = (Cursor::new(old), Cursor::new(new));
        loop {
            if let (Some(a), Some(b)) = (before.part(), after.part())
                && Arc::ptr_eq(a, b)
            {
                before.skip_part();
                after.skip_part();
                continue;
            }
            let order = match (before.entry(), after.entry()) {
                (None, None) => return out,
                (Some(_), None) => Ordering::Less,
                (None, Some(_)) => Ordering::Greater,
                (Some(a), Some(b)) => a.name().cmp(b.name()),
            };
            let one = if order.is_le() { before.next() } else { None };
            let other = if order.is_ge() { after.next() } else { None };
            if !matches!((one, other), (Some(one), Some(other)) if is_same(one, other)) {
                out.push((one, other));
            }
        }
    }
}

/// The elements of the old and of the new list with one name; `None` for a list without that name.
pub type EntryDifference<'a, T> = (Option<&'a T>, Option<&'a T>);

impl<T: NamedEntry + Clone> FromIterator<T> for NameSortedList<T> {
    fn from_iter<I: IntoIterator<Item = T>>(entries: I) -> Self {
        let mut entries: Vec<T> = entries.into_iter().collect();
        entries.sort_by(|a, b| a.name().cmp(b.name()));
        let len = entries.len();
        let mut entries = entries.into_iter();
        let parts = (0..len.div_ceil(MAX_PART_LEN)).map(|_| entries.by_ref().take(MAX_PART_LEN).collect()).collect();
        Self { parts, len }
    }
}

fn find<T: NamedEntry>(part: &[T], name: &str) -> Result<usize, usize> {
    part.binary_search_by(|entry| entry.name().cmp(name))
}

/// A reading position in a list, before the next element to read.
struct Cursor<'a, T> {
    list: &'a NameSortedList<T>,
    part: usize,
    place: usize,
}

impl<'a, T> Cursor<'a, T> {
    fn new(list: &'a NameSortedList<T>) -> Self {
        Self { list, part: 0, place: 0 }
    }

    /// Returns the current part if no element of this part has been read yet.
    fn part(&self) -> Option<&'a Arc<[T]>> {
        self.list.parts.get(self.part).filter(|_| self.place == 0)
    }

    fn skip_part(&mut self) {
        (self.part, self.place) = (self.part + 1, 0);
    }

    fn entry(&self) -> Option<&'a T> {
        self.list.parts.get(self.part)?.get(self.place)
    }

    fn next(&mut self) -> Option<&'a T> {
        let entry = self.entry()?;
        self.place += 1;
        if self.place == self.list.parts.get(self.part).map_or(0, |part| part.len()) {
            self.skip_part();
        }
        Some(entry)
    }
}

#[cfg(test)]
mod tests;

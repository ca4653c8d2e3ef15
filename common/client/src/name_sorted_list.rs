//! Sorted lists with cheap copies: a copy shares all elements with the original, and a change copies only one part of the list.

use std::{cmp::Ordering, sync::Arc};

use crate::object::Object;

/// The maximum number of elements in one part of a list; a change of a shared list copies one part.
const MAX_PART_LEN: usize = 64;

/// An element of a [`NameSortedList`].
pub trait NamedEntry {
    /// The sort key, unique in the list.
    fn name(&self) -> &str;
}

impl<K: Object> NamedEntry for Arc<K> {
    fn name(&self) -> &str {
        &self.meta().name
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
        let mut at = self.part_of(entry.name());
        // A name that sorts after all existing names goes into the last part if that part has room.
        if at == self.parts.len() && self.parts.last().is_some_and(|part| part.len() < MAX_PART_LEN) {
            at -= 1;
        }
        let Some(part) = self.parts.get(at) else {
            self.len += 1;
            return self.replace(at, 0, &[Arc::from([entry])]);
        };
        match find(part, entry.name()) {
            Ok(place) => Arc::make_mut(&mut Arc::make_mut(&mut self.parts)[at])[place] = entry,
            Err(place) => {
                self.len += 1;
                let (before, behind) = part.split_at(place);
                let entries = || before.iter().chain([&entry]).chain(behind).cloned();
                if part.len() < MAX_PART_LEN {
                    self.replace(at, 1, &[entries().collect()]);
                } else {
                    let half = MAX_PART_LEN / 2;
                    self.replace(at, 1, &[entries().take(half).collect(), entries().skip(half).collect()]);
                }
            }
        }
    }

    /// Removes the element with this name; does nothing if no element has it.
    pub fn remove(&mut self, name: &str) {
        let at = self.part_of(name);
        let Some(part) = self.parts.get(at) else { return };
        let Ok(place) = find(part, name) else { return };
        self.len -= 1;
        let rest = || part[..place].iter().chain(&part[place + 1..]).cloned();
        // Small neighbouring parts are merged, so that the number of parts stays close to the minimum.
        let is_small = |neighbour: &&Arc<[T]>| neighbour.len() + part.len() <= MAX_PART_LEN / 2 + 1;
        let before = at.checked_sub(1).and_then(|before| self.parts.get(before)).filter(is_small);
        if part.len() == 1 {
            self.replace(at, 1, &[]);
        } else if let Some(next) = self.parts.get(at + 1).filter(is_small) {
            self.replace(at, 2, &[rest().chain(next.iter().cloned()).collect()]);
        } else if let Some(before) = before {
            self.replace(at - 1, 2, &[before.iter().cloned().chain(rest()).collect()]);
        } else {
            self.replace(at, 1, &[rest().collect()]);
        }
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

    /// Replaces `count` parts that begin at the index `at`. One part is replaced without building a list of parts, unless
    /// another list shares it.
    fn replace(&mut self, at: usize, count: usize, parts: &[Arc<[T]>]) {
        if count == parts.len() {
            Arc::make_mut(&mut self.parts)[at..at + count].clone_from_slice(parts);
        } else {
            let (before, rest) = self.parts.split_at(at);
            self.parts = before.iter().chain(parts).chain(&rest[count..]).cloned().collect();
        }
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

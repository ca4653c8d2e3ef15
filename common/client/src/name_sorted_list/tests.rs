//! Applies the same changes to a `NameSortedList` and to a `BTreeMap`, and compares their contents.

use std::collections::BTreeMap;

use proptest::prelude::*;

use super::*;

#[derive(Clone, Debug, PartialEq)]
struct Entry {
    name: String,
    value: u8,
}

impl NamedEntry for Entry {
    fn name(&self) -> &str {
        &self.name
    }
}

fn entry(name: u16, value: u8) -> Entry {
    Entry { name: format!("{name:05}"), value }
}

type Model = BTreeMap<String, Entry>;

fn differences(old: &Model, new: &Model) -> Vec<(Option<Entry>, Option<Entry>)> {
    let mut names: Vec<&String> = old.keys().chain(new.keys()).collect();
    names.sort();
    names.dedup();
    let both = names.into_iter().map(|name| (old.get(name).cloned(), new.get(name).cloned()));
    both.filter(|(old, new)| old != new).collect()
}

proptest! {
    #[test]
    fn a_list_behaves_like_a_map_and_copies_do_not_change(
        first in prop::collection::btree_map(0..400u16, any::<u8>(), 0..400),
        changes in prop::collection::vec((0..400u16, prop::option::weighted(0.6, any::<u8>()), prop::bool::weighted(0.05)), 0..600),
    ) {
        let mut list: NameSortedList<Entry> = first.iter().map(|(name, value)| entry(*name, *value)).collect();
        let mut model: Model = list.iter().map(|entry| (entry.name.clone(), entry.clone())).collect();
        let mut kept = vec![(list.clone(), model.clone())];
        for (name, value, keep) in changes {
            let new = entry(name, value.unwrap_or(0));
            match value {
                Some(_) => {
                    list.insert_or_replace(new.clone());
                    model.insert(new.name.clone(), new);
                }
                None => {
                    list.remove(&new.name);
                    model.remove(&new.name);
                }
            }
            if keep {
                kept.push((list.clone(), model.clone()));
            }
        }
        kept.push((list.clone(), model.clone()));
        for (old, of_old) in &kept {
            prop_assert!(old.iter().eq(of_old.values()));
            prop_assert_eq!(old.len(), of_old.len());
            prop_assert!(old.parts.iter().all(|part| (1..=MAX_PART_LEN).contains(&part.len())));
            for name in 0..400 {
                let name = format!("{name:05}");
                prop_assert_eq!(old.get(&name), of_old.get(&name));
            }
            let found = NameSortedList::entry_differences(old, &list, Entry::eq);
            let found: Vec<_> = found.into_iter().map(|(old, new)| (old.cloned(), new.cloned())).collect();
            prop_assert_eq!(found, differences(of_old, &model));
        }
        // Two neighbouring parts together have more than `MAX_PART_LEN / 2` elements; otherwise `remove` merges them.
        prop_assert!(list.parts.len() <= 2 + list.len() / (MAX_PART_LEN / 4));
    }
}

#[test]
fn inserting_in_order_fills_the_parts() {
    let mut list = NameSortedList::default();
    (0..10 * MAX_PART_LEN as u16).for_each(|name| list.insert_or_replace(entry(name, 0)));
    assert_eq!(list.parts.len(), 10);
    let old = list.clone();
    list.insert_or_replace(entry(100, 1));
    let shared = old.parts.iter().zip(list.parts.iter()).filter(|(old, new)| Arc::ptr_eq(old, new)).count();
    assert_eq!(shared, 9);
}

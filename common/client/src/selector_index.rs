//! The objects that each label selector selects, and the selectors that select each object.
//!
//! Objects with the same labels share one *label set*, and a selector selects all objects of a label set or none. Each
//! namespace has two indexes:
//!
//! ```text
//! label ──► label sets with this label      finds the label sets of a new selector, by the rarest label that it requires
//! label ──► selectors under this label      finds the selectors of a new label set; each selector is under one label that
//!                                           it requires, the label with the fewest selectors
//! ```
//!
//! # Guarantees
//!
//! - The matches are stored: each label set lists its selectors, and each selector lists its label sets and its objects. Only a
//!   new label set or a new selector is tested for matches.
//! - The order of labels in a selector does not change the number of tests, and a label that many selectors share does not
//!   increase it.
//! - A selector that requires no label with a fixed value, for example one that has only `matchExpressions`, is tested once
//!   with each label set of its namespace.

use std::{
    borrow::Borrow,
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use crate::{
    intern::{Labels, Text},
    map::HashMap,
    meta::{Meta, NamespacedName},
    name_sorted_list::NameSortedList,
    object::{CachedObjectError, MalformedObject, Object},
    selector::Selector,
};

/// A label as a pair of key and value.
type Label = (Text, Text);
/// Identifies a label set in its namespace; counted up from 0 and never reused.
type LabelSetId = u64;

/// The names of selectors, sorted. A selector has the name of the object that contains it, for example of a Service.
pub type SelectorNames = BTreeSet<Arc<str>>;
/// The objects of a selector or of a label set, sorted by name.
pub type NameSortedObjects<K> = NameSortedList<Arc<K>>;

/// A selector that a [`SelectorIndex`] can hold.
pub trait IndexableSelector: Clone + PartialEq {
    /// Returns labels that every selected object has; empty if no label with a fixed value is required.
    fn required_labels(&self) -> &Labels;
    /// Whether the selector selects objects with these labels.
    fn selects(&self, labels: &Labels) -> bool;
}

/// The selector of a Service: equal labels. An empty selector selects nothing.
impl IndexableSelector for Labels {
    fn required_labels(&self) -> &Labels {
        self
    }

    fn selects(&self, labels: &Labels) -> bool {
        !self.is_empty() && labels.contains_all(self)
    }
}

/// A `LabelSelector`. An empty selector selects everything; a null or invalid selector selects nothing.
impl IndexableSelector for Selector {
    fn required_labels(&self) -> &Labels {
        self.match_labels()
    }

    fn selects(&self, labels: &Labels) -> bool {
        self.matches(labels)
    }
}

/// Counts operations of the index, for tests that bound their number.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct IndexOperationCounts {
    /// How often a selector was compared with a label set.
    pub selector_comparison_count: u64,
    /// How often a label was looked up in one of the two indexes by label.
    pub label_lookup_count: u64,
    /// How often an object was inserted into the list of a selector, replaced in it, or removed from it.
    pub object_list_change_count: u64,
}

/// Finds the objects that each selector selects, and the selectors that select each object, in all namespaces.
///
/// # Example
///
/// ```
/// # use std::sync::Arc;
/// # use nonet_client::selector_index::SelectorIndex;
/// # use nonet_objects::{intern::Text, meta::Meta, object::{Object, Resource}, selector::Selector};
/// # use serde_json::json;
/// # #[derive(serde::Deserialize)]
/// # struct Pod { metadata: Meta }
/// # impl Object for Pod {
/// #     const RESOURCE: Resource = Resource::namespaced("", "v1", "pods", "Pod");
/// #     type Indexes = ();
/// #     fn meta(&self) -> &Meta { &self.metadata }
/// # }
/// let pod = json!({"metadata": {"name": "web-1", "namespace": "shop", "labels": {"app": "web"}}});
/// let pod: Arc<Pod> = Arc::new(serde_json::from_value(pod)?);
/// let selector = json!({"matchExpressions": [{"key": "app", "operator": "In", "values": ["web", "api"]}]});
/// let selector = Selector::from_value(&selector);
///
/// let mut index = SelectorIndex::<Pod>::default();
/// index.set_selector(&Text::new("shop"), &Arc::from("budget"), &selector);
/// let (_, names) = index.add_or_replace_object(None, &pod);
/// assert!(names.contains("budget"));
/// let pods = index.selected_objects(&Text::new("shop"), "budget", &selector).unwrap().unwrap();
/// assert_eq!(pods.len(), 1);
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Debug)]
pub struct SelectorIndex<K, S = Selector> {
    namespaces: HashMap<Text, Namespace<K, S>>,
    counts: IndexOperationCounts,
}

#[derive(Debug)]
struct Namespace<K, S> {
    selectors: HashMap<Arc<str>, IndexedSelector<K, S>>,
    /// The names of the selectors that are indexed under each label. `None` stands for the selectors that require no label.
    filed_under: HashMap<Option<Label>, SelectorNames>,
    sets: HashMap<LabelSetId, LabelSet<K>>,
    set_of: HashMap<Labels, LabelSetId>,
    next_set_id: LabelSetId,
    /// The identifiers of the label sets that contain each label.
    sets_with: HashMap<Label, BTreeSet<LabelSetId>>,
    /// Objects that cannot be decoded, by name.
    malformed: BTreeMap<Arc<str>, Arc<MalformedObject>>,
}

/// A selector in the index, and the label sets and objects that it matches.
#[derive(Debug)]
struct IndexedSelector<K, S> {
    selector: S,
    /// The label under which the selector is indexed; `None` if the selector requires no label.
    label: Option<Label>,
    sets: BTreeSet<LabelSetId>,
    objects: NameSortedObjects<K>,
}

/// Objects with the same labels, and the selectors that select them.
#[derive(Debug)]
struct LabelSet<K> {
    labels: Labels,
    objects: NameSortedObjects<K>,
    names: SelectorNames,
}

impl<K, S> Default for SelectorIndex<K, S> {
    fn default() -> Self {
        Self { namespaces: HashMap::default(), counts: IndexOperationCounts::default() }
    }
}

impl<K, S> Default for Namespace<K, S> {
    fn default() -> Self {
        let (selectors, filed_under, sets, set_of, next_set_id) = Default::default();
        let (sets_with, malformed) = Default::default();
        Self { selectors, filed_under, sets, set_of, next_set_id, sets_with, malformed }
    }
}

impl<K: Object, S: IndexableSelector> SelectorIndex<K, S> {
    /// Returns the counters, which start at 0 when the index is created.
    pub fn operation_counts(&self) -> IndexOperationCounts {
        self.counts
    }

    /// Adds a selector, or finds the objects again if the index contains another selector under this name.
    pub fn set_selector(&mut self, namespace: &Text, name: &Arc<str>, selector: &S) {
        self.change_namespace(namespace, |namespace, counts| {
            if namespace.selectors.get(name).is_none_or(|known| known.selector != *selector) {
                namespace.remove_selector(name);
                namespace.add_selector(name, selector.clone(), counts);
            }
        });
    }

    /// Removes a selector; does nothing if the index does not contain the selector.
    pub fn remove_selector(&mut self, namespace: &Text, name: &str) {
        self.change_namespace(namespace, |namespace, _| namespace.remove_selector(name));
    }

    /// Adds the object `new`, or replaces the object `old` with the same name. Returns the selectors that selected the old
    /// object, and the selectors that select the new object.
    pub fn add_or_replace_object(&mut self, old: Option<&K>, new: &Arc<K>) -> (SelectorNames, SelectorNames) {
        let labels = &new.meta().labels;
        self.change_namespace(&new.meta().namespace, |namespace, counts| {
            let moved = old.map(Object::meta).filter(|old| old.labels != *labels);
            let names_before = moved.map(|old| namespace.remove_object(&old.labels, &old.name, counts));
            namespace.malformed.remove(&new.meta().name);
            let id = namespace.set_of.get(labels).copied().unwrap_or_else(|| namespace.add_set(labels, counts));
            let insert = |objects: &mut NameSortedObjects<K>| objects.insert_or_replace(Arc::clone(new));
            let names = namespace.change_objects(id, insert, counts);
            let unmoved_names = || if old.is_some() { names.clone() } else { SelectorNames::new() };
            (names_before.unwrap_or_else(unmoved_names), names)
        })
    }

    /// Removes an object, and returns the selectors that selected it.
    pub fn remove_object(&mut self, object: &K) -> SelectorNames {
        let Meta { namespace, name, labels, .. } = object.meta();
        self.change_namespace(namespace, |namespace, counts| namespace.remove_object(labels, name, counts))
    }

    /// Stores an object that cannot be decoded except for its metadata, or removes the object if `is_gone` is true. Returns the
    /// selectors that selected the object before, and the selectors that select the object now.
    pub fn apply_malformed_object_event(&mut self, malformed: &Arc<MalformedObject>, is_gone: bool) -> SelectorNames {
        let Meta { namespace, name, labels, .. } = &malformed.meta;
        self.change_namespace(namespace, |namespace, counts| {
            let mut names = namespace.find_and_remove_object(name, counts);
            let selecting = namespace.selectors.iter().filter(|(_, known)| known.selector.selects(labels));
            names.extend(selecting.map(|(name, _)| Arc::clone(name)));
            if is_gone {
                namespace.malformed.remove(name);
            } else {
                namespace.malformed.insert(Arc::clone(name), Arc::clone(malformed));
            }
            names
        })
    }

    /// Returns the objects that a selector selects, sorted by name; `None` while the index does not contain the selector, or
    /// contains another selector under this name.
    ///
    /// # Errors
    /// Fails if a selected object cannot be decoded, because a decision without this object would be wrong.
    pub fn selected_objects(
        &self,
        namespace: &Text,
        name: &str,
        selector: &S,
    ) -> Result<Option<NameSortedObjects<K>>, CachedObjectError> {
        let Some(namespace) = self.namespaces.get(namespace) else { return Ok(None) };
        let known = namespace.selectors.get(name).filter(|known| known.selector == *selector);
        let Some(known) = known else { return Ok(None) };
        if let Some(malformed) = namespace.malformed.values().find(|malformed| selector.selects(&malformed.meta.labels))
        {
            let (resource, key, error) = (K::RESOURCE, malformed.meta.key().to_string(), malformed.error.clone());
            return Err(CachedObjectError { resource, key, error });
        }
        Ok(Some(known.objects.clone()))
    }

    /// Returns the selectors that select an object for which `concerns` is true. The cost grows with the number of all objects.
    pub fn selectors_of_objects_where(&self, concerns: impl Fn(&K) -> bool) -> BTreeSet<NamespacedName> {
        let mut keys = BTreeSet::new();
        for (namespace, Namespace { sets, .. }) in &self.namespaces {
            let is_concerned = |set: &&LabelSet<K>| set.objects.iter().any(|object| concerns(object));
            for set in sets.values().filter(|set| !set.names.is_empty()).filter(is_concerned) {
                let names = set.names.iter().cloned();
                keys.extend(names.map(|name| NamespacedName { namespace: namespace.clone(), name }));
            }
        }
        keys
    }

    /// Changes a namespace of the index, which is created before the change and removed if it is empty after the change.
    fn change_namespace<R>(
        &mut self,
        name: &Text,
        change: impl FnOnce(&mut Namespace<K, S>, &mut IndexOperationCounts) -> R,
    ) -> R {
        let namespace = self.namespaces.entry(name.clone()).or_default();
        let result = change(namespace, &mut self.counts);
        if namespace.selectors.is_empty() && namespace.sets.is_empty() && namespace.malformed.is_empty() {
            self.namespaces.remove(name);
        }
        result
    }
}

impl<K: Object, S: IndexableSelector> Namespace<K, S> {
    fn add_selector(&mut self, name: &Arc<str>, selector: S, counts: &mut IndexOperationCounts) {
        let labels = selector.required_labels().as_slice();
        counts.label_lookup_count += 2 * labels.len() as u64;
        let filed_count = |label: &Option<Label>| self.filed_under.get(label).map_or(0, BTreeSet::len);
        let label = labels.iter().cloned().map(Some).min_by_key(filed_count).flatten();
        // If no object has some label of the selector, `rarest` is `None` and no label set is tested.
        let with = |label: &Label| self.sets_with.get(label);
        let rarest = labels.iter().map(with).min_by_key(|sets| sets.map_or(0, BTreeSet::len)).flatten();
        let all = label.is_none().then(|| self.sets.keys());
        let selects = |id: &&LabelSetId| {
            counts.selector_comparison_count += 1;
            self.sets.get(*id).is_some_and(|set| selector.selects(&set.labels))
        };
        let candidates = rarest.into_iter().flatten().chain(all.into_iter().flatten());
        let sets: BTreeSet<LabelSetId> = candidates.filter(selects).copied().collect();
        let mut lists = Vec::new();
        for id in &sets {
            if let Some(set) = self.sets.get_mut(id) {
                set.names.insert(Arc::clone(name));
                lists.push(set.objects.clone());
            }
        }
        let objects = match lists.as_slice() {
            [only] => only.clone(),
            lists => lists.iter().flat_map(NameSortedObjects::iter).cloned().collect(),
        };
        self.filed_under.entry(label.clone()).or_default().insert(Arc::clone(name));
        self.selectors.insert(Arc::clone(name), IndexedSelector { selector, label, sets, objects });
    }

    fn remove_selector(&mut self, name: &str) {
        let Some(IndexedSelector { label, sets, .. }) = self.selectors.remove(name) else { return };
        for id in &sets {
            if let Some(set) = self.sets.get_mut(id) {
                set.names.remove(name);
            }
        }
        remove_value(&mut self.filed_under, &label, name);
    }

    /// Adds a label set without objects, and finds the selectors that match it.
    fn add_set(&mut self, labels: &Labels, counts: &mut IndexOperationCounts) -> LabelSetId {
        let id = self.next_set_id;
        self.next_set_id += 1;
        let mut names = SelectorNames::new();
        counts.label_lookup_count += 2 * labels.as_slice().len() as u64;
        for label in labels.as_slice().iter().cloned().map(Some).chain([None]) {
            for name in self.filed_under.get(&label).into_iter().flatten() {
                counts.selector_comparison_count += 1;
                if let Some(known) = self.selectors.get_mut(name)
                    && known.selector.selects(labels)
                {
                    known.sets.insert(id);
                    names.insert(Arc::clone(name));
                }
            }
            if let Some(label) = label {
                self.sets_with.entry(label).or_default().insert(id);
            }
        }
        self.set_of.insert(labels.clone(), id);
        self.sets.insert(id, LabelSet { labels: labels.clone(), objects: NameSortedObjects::default(), names });
        id
    }

    /// Changes the list of objects in a label set and in each of its selectors, and returns these selectors.
    fn change_objects(
        &mut self,
        id: LabelSetId,
        change: impl Fn(&mut NameSortedObjects<K>),
        counts: &mut IndexOperationCounts,
    ) -> SelectorNames {
        let Some(LabelSet { objects, names, .. }) = self.sets.get_mut(&id) else { return SelectorNames::new() };
        change(objects);
        for name in &*names {
            if let Some(known) = self.selectors.get_mut(name) {
                counts.object_list_change_count += 1;
                change(&mut known.objects);
            }
        }
        names.clone()
    }

    fn remove_object(&mut self, labels: &Labels, name: &str, counts: &mut IndexOperationCounts) -> SelectorNames {
        let Some(id) = self.set_of.get(labels).copied() else { return SelectorNames::new() };
        let names = self.change_objects(id, |objects| objects.remove(name), counts);
        if self.sets.get(&id).is_some_and(|set| set.objects.is_empty()) {
            self.sets.remove(&id);
            self.set_of.remove(labels);
            for name in &names {
                if let Some(known) = self.selectors.get_mut(name) {
                    known.sets.remove(&id);
                }
            }
            for label in labels.as_slice() {
                remove_value(&mut self.sets_with, label, &id);
            }
        }
        names
    }

    /// Finds an object by linear search, and removes it. Only an object that has become malformed needs this, because its old
    /// labels are unknown.
    fn find_and_remove_object(&mut self, name: &str, counts: &mut IndexOperationCounts) -> SelectorNames {
        let has_object = |set: &&LabelSet<K>| set.objects.get(name).is_some();
        let labels = self.sets.values().find(has_object).map(|set| set.labels.clone());
        labels.map(|labels| self.remove_object(&labels, name, counts)).unwrap_or_default()
    }
}

/// Removes a value from the values of a key. If no value remains, also removes the key.
fn remove_value<L: Eq + std::hash::Hash, T: Ord + Borrow<Q>, Q: Ord + ?Sized>(
    index: &mut HashMap<L, BTreeSet<T>>,
    key: &L,
    value: &Q,
) {
    if let Some(values) = index.get_mut(key) {
        values.remove(value);
        if values.is_empty() {
            index.remove(key);
        }
    }
}

#[cfg(test)]
mod tests;

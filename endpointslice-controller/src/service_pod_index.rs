//! The Pods that each Service selects, and the Services that select each Pod.
//!
//! Pods with the same labels share one *label set*, and a Service selects all Pods of a label set or none. Each namespace has
//! two indexes:
//!
//! ```text
//! label ──► label sets with this label      finds the label sets of a new Service, by the rarest label of its selector
//! label ──► Services under this label       finds the Services of a new label set; each Service is under one label of
//!                                           its selector, the label with the fewest Services
//! ```
//!
//! The matches are stored: each label set lists its Services, and each Service lists its label sets and its Pods. Only a new
//! label set or a new selector is tested for matches. The order of labels in a selector does not change the number of tests,
//! and a label that many Services share does not increase it.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use common::{
    intern::{Labels, Text},
    map::{HashMap, HashSet},
    meta::NamespacedName,
    object::{CachedObjectError, MalformedObject, Object as _},
};

use crate::{
    by_name::NameSortedPods,
    objects::{Pod, Service},
};

/// A label as a pair of key and value.
type Label = (Text, Text);
/// Identifies a label set; counted up from 0 and never reused.
type LabelSetId = u64;

/// Counts operations of the index, for tests that bound their number.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct IndexOperationCounts {
    /// How often a selector was compared with a label set.
    pub selector_comparison_count: u64,
    /// How often a label was looked up in one of the two indexes by label.
    pub label_lookup_count: u64,
    /// How often a Pod was inserted into the list of a Service, replaced in it, or removed from it.
    pub pod_list_change_count: u64,
}

/// Finds the Pods of each Service and the Services of each Pod, in all namespaces.
#[derive(Debug, Default)]
pub struct ServicePodIndex {
    namespaces: HashMap<Text, Namespace>,
    next_set: LabelSetId,
    work: IndexOperationCounts,
}

#[derive(Debug, Default)]
struct Namespace {
    /// Services with a selector, by name.
    services: HashMap<Arc<str>, IndexedService>,
    /// The names of the Services that are indexed under each label; each Service is indexed under one label of its selector.
    filed_under: HashMap<Label, BTreeSet<Arc<str>>>,
    sets: HashMap<LabelSetId, LabelSet>,
    set_of: HashMap<Labels, LabelSetId>,
    /// The identifiers of the label sets that contain each label.
    sets_with: HashMap<Label, BTreeSet<LabelSetId>>,
    /// Pods that cannot be decoded, by name.
    unreadable: BTreeMap<Arc<str>, Arc<MalformedObject>>,
}

/// A Service in the index: its selector, and the label sets and Pods that the selector matches.
#[derive(Debug)]
struct IndexedService {
    selector: Labels,
    label: Label,
    sets: BTreeSet<LabelSetId>,
    pods: NameSortedPods,
}

/// Pods with the same labels, and the Services that select them.
#[derive(Debug)]
struct LabelSet {
    labels: Labels,
    pods: NameSortedPods,
    services: BTreeSet<Arc<str>>,
}

/// The names of Services that select a Pod, sorted.
pub type ServiceNames = BTreeSet<Arc<str>>;

impl ServicePodIndex {
    /// Returns the counters, which start at 0 when the index is created.
    pub fn operation_counts(&self) -> IndexOperationCounts {
        self.work
    }

    /// Adds a Service, or finds the Pods again if the selector of a Service in the index has changed.
    pub fn add_or_replace_service(&mut self, service: &Service) {
        let meta = &service.metadata;
        let selector = if service.has_applicable_selector() { service.spec.selector.clone() } else { Labels::empty() };
        let known = self.namespaces.get(&meta.namespace).and_then(|namespace| namespace.services.get(&meta.name));
        if known.is_some_and(|known| known.selector == selector) {
            return;
        }
        self.remove_service(&meta.namespace, &meta.name);
        if selector.is_empty() {
            return;
        }
        let namespace = self.namespaces.entry(meta.namespace.clone()).or_default();
        namespace.add_service(&meta.name, selector, &mut self.work);
    }

    /// Removes a Service; does nothing if the index does not contain the Service.
    pub fn remove_service(&mut self, namespace: &Text, name: &str) {
        if let Some(known) = self.namespaces.get_mut(namespace) {
            known.remove_service(name);
        }
        self.drop_if_empty(namespace);
    }

    /// Adds the Pod `new`, or replaces the Pod `old` with the same name. Returns the Services that selected the old Pod, and
    /// the Services that select the new Pod.
    pub fn add_or_replace_pod(&mut self, old: Option<&Pod>, new: &Arc<Pod>) -> (ServiceNames, ServiceNames) {
        let Self { namespaces, next_set, work } = self;
        let namespace = namespaces.entry(new.metadata.namespace.clone()).or_default();
        let labels = &new.metadata.labels;
        let moved = old.filter(|old| old.metadata.labels != *labels);
        let before = moved.map(|old| namespace.remove_pod(&old.metadata.labels, &old.metadata.name, work));
        let after = namespace.put_pod(labels, new, next_set, work);
        let before = before.unwrap_or_else(|| if old.is_some() { after.clone() } else { ServiceNames::new() });
        self.drop_if_empty(&new.metadata.namespace);
        (before, after)
    }

    /// Removes a Pod, and returns the Services that selected it.
    pub fn remove_pod(&mut self, pod: &Pod) -> ServiceNames {
        let meta = &pod.metadata;
        let Some(namespace) = self.namespaces.get_mut(&meta.namespace) else { return ServiceNames::new() };
        let services = namespace.remove_pod(&meta.labels, &meta.name, &mut self.work);
        self.drop_if_empty(&meta.namespace);
        services
    }

    /// Stores a Pod that cannot be decoded except for its metadata, or removes the Pod if `is_gone` is true. Returns the
    /// Services that selected the Pod before, and the Services that select the Pod now.
    pub fn apply_malformed_pod_event(&mut self, pod: &Arc<MalformedObject>, is_gone: bool) -> ServiceNames {
        let meta = &pod.meta;
        let namespace = self.namespaces.entry(meta.namespace.clone()).or_default();
        let mut services = namespace.find_and_remove_pod(&meta.name, &mut self.work);
        let selecting = namespace.services.iter().filter(|(_, known)| meta.labels.contains_all(&known.selector));
        services.extend(selecting.map(|(name, _)| Arc::clone(name)));
        if is_gone {
            namespace.unreadable.remove(&meta.name);
        } else {
            namespace.unreadable.insert(Arc::clone(&meta.name), Arc::clone(pod));
        }
        self.drop_if_empty(&meta.namespace);
        services
    }

    /// Returns the Pods of a Service with this selector, sorted by name; `None` while the index does not contain the Service,
    /// or contains it with another selector.
    ///
    /// # Errors
    /// Fails if a selected Pod cannot be decoded, because endpoints without this Pod would be wrong.
    pub fn selected_pods(
        &self,
        namespace: &Text,
        name: &str,
        selector: &Labels,
    ) -> Result<Option<NameSortedPods>, CachedObjectError> {
        let Some(namespace) = self.namespaces.get(namespace) else { return Ok(None) };
        let known = namespace.services.get(name).filter(|known| known.selector == *selector);
        let Some(known) = known else { return Ok(None) };
        if let Some(pod) = namespace.unreadable.values().find(|pod| pod.meta.labels.contains_all(selector)) {
            let (resource, key, error) = (Pod::RESOURCE, pod.meta.key().to_string(), pod.error.clone());
            return Err(CachedObjectError { resource, key, error });
        }
        Ok(Some(known.pods.clone()))
    }

    /// Returns the Services that select a Pod on one of these Nodes. The cost grows with the number of all Pods.
    pub fn services_on_nodes(&self, nodes: &HashSet<Text>) -> BTreeSet<NamespacedName> {
        let mut keys = BTreeSet::new();
        if nodes.is_empty() {
            return keys;
        }
        for (namespace, known) in &self.namespaces {
            let is_on = |set: &&LabelSet| set.pods.iter().any(|pod| nodes.contains(&pod.node_name));
            for set in known.sets.values().filter(|set| !set.services.is_empty()).filter(is_on) {
                let key = |name: &Arc<str>| NamespacedName { namespace: namespace.clone(), name: Arc::clone(name) };
                keys.extend(set.services.iter().map(key));
            }
        }
        keys
    }

    fn drop_if_empty(&mut self, name: &Text) {
        let is_empty = |namespace: &Namespace| {
            namespace.services.is_empty() && namespace.sets.is_empty() && namespace.unreadable.is_empty()
        };
        if self.namespaces.get(name).is_some_and(is_empty) {
            self.namespaces.remove(name);
        }
    }
}

impl Namespace {
    fn add_service(&mut self, name: &Arc<str>, selector: Labels, work: &mut IndexOperationCounts) {
        let labels = selector.as_slice();
        work.label_lookup_count += 2 * labels.len() as u64;
        let filed = |label: &&Label| self.filed_under.get(*label).map_or(0, BTreeSet::len);
        let Some(label) = labels.iter().min_by_key(filed).cloned() else { return };
        // If no Pod has some label of the selector, `rarest` is `None` and no label set is tested.
        let with = |label: &Label| self.sets_with.get(label);
        let rarest = labels.iter().map(with).min_by_key(|sets| sets.map_or(0, BTreeSet::len)).flatten();
        let selects = |set: &&LabelSetId| {
            work.selector_comparison_count += 1;
            self.sets.get(*set).is_some_and(|set| set.labels.contains_all(&selector))
        };
        let sets: BTreeSet<LabelSetId> = rarest.into_iter().flatten().filter(selects).copied().collect();
        for set in &sets {
            if let Some(set) = self.sets.get_mut(set) {
                set.services.insert(Arc::clone(name));
            }
        }
        let lists: Vec<&NameSortedPods> = sets.iter().filter_map(|set| Some(&self.sets.get(set)?.pods)).collect();
        let pods = match lists.as_slice() {
            [only] => NameSortedPods::clone(only),
            lists => lists.iter().flat_map(|pods| pods.iter()).cloned().collect(),
        };
        self.filed_under.entry(label.clone()).or_default().insert(Arc::clone(name));
        self.services.insert(Arc::clone(name), IndexedService { selector, label, sets, pods });
    }

    fn remove_service(&mut self, name: &str) {
        let Some(IndexedService { label, sets, .. }) = self.services.remove(name) else { return };
        for set in &sets {
            if let Some(set) = self.sets.get_mut(set) {
                set.services.remove(name);
            }
        }
        remove_from_label(&mut self.filed_under, &label, name);
    }

    fn put_pod(
        &mut self,
        labels: &Labels,
        pod: &Arc<Pod>,
        next: &mut LabelSetId,
        work: &mut IndexOperationCounts,
    ) -> ServiceNames {
        self.unreadable.remove(&pod.metadata.name);
        if labels.is_empty() {
            return ServiceNames::new();
        }
        let set = match self.set_of.get(labels) {
            Some(known) => *known,
            None => {
                *next += 1;
                self.add_set(*next, labels, work);
                *next
            }
        };
        let Some(set) = self.sets.get_mut(&set) else { return ServiceNames::new() };
        set.pods.insert_or_replace(Arc::clone(pod));
        for name in &set.services {
            if let Some(service) = self.services.get_mut(name) {
                work.pod_list_change_count += 1;
                service.pods.insert_or_replace(Arc::clone(pod));
            }
        }
        set.services.clone()
    }

    fn add_set(&mut self, id: LabelSetId, labels: &Labels, work: &mut IndexOperationCounts) {
        let mut services = ServiceNames::new();
        for label in labels.as_slice() {
            work.label_lookup_count += 2;
            self.sets_with.entry(label.clone()).or_default().insert(id);
            for name in self.filed_under.get(label).into_iter().flatten() {
                work.selector_comparison_count += 1;
                if let Some(service) = self.services.get_mut(name)
                    && labels.contains_all(&service.selector)
                {
                    service.sets.insert(id);
                    services.insert(Arc::clone(name));
                }
            }
        }
        self.set_of.insert(labels.clone(), id);
        self.sets.insert(id, LabelSet { labels: labels.clone(), pods: NameSortedPods::default(), services });
    }

    fn remove_pod(&mut self, labels: &Labels, name: &str, work: &mut IndexOperationCounts) -> ServiceNames {
        let Some(id) = self.set_of.get(labels).copied() else { return ServiceNames::new() };
        let Some(set) = self.sets.get_mut(&id) else { return ServiceNames::new() };
        set.pods.remove(name);
        let services = set.services.clone();
        for service in &services {
            if let Some(service) = self.services.get_mut(service) {
                work.pod_list_change_count += 1;
                service.pods.remove(name);
            }
        }
        if set.pods.is_empty() {
            self.remove_set(id, labels);
        }
        services
    }

    fn remove_set(&mut self, id: LabelSetId, labels: &Labels) {
        self.set_of.remove(labels);
        let services = self.sets.remove(&id).map(|set| set.services).unwrap_or_default();
        for service in &services {
            if let Some(service) = self.services.get_mut(service) {
                service.sets.remove(&id);
            }
        }
        for label in labels.as_slice() {
            remove_from_label(&mut self.sets_with, label, &id);
        }
    }

    /// Finds a Pod by linear search, and removes it. Only a Pod that has become unreadable needs this, because its old labels
    /// are unknown.
    fn find_and_remove_pod(&mut self, name: &str, work: &mut IndexOperationCounts) -> ServiceNames {
        let has_pod = |set: &&LabelSet| set.pods.get(name).is_some();
        let labels = self.sets.values().find(has_pod).map(|set| set.labels.clone());
        labels.map(|labels| self.remove_pod(&labels, name, work)).unwrap_or_default()
    }
}

/// Removes a value from the values of a label. If no value remains, also removes the label.
fn remove_from_label<T: Ord + std::borrow::Borrow<Q>, Q: Ord + ?Sized>(
    index: &mut HashMap<Label, BTreeSet<T>>,
    label: &Label,
    value: &Q,
) {
    if let Some(values) = index.get_mut(label) {
        values.remove(value);
        if values.is_empty() {
            index.remove(label);
        }
    }
}

#[cfg(test)]
mod tests;

//! The labels, owner and name prefix of the slices of a Service.

use common::{intern::Labels, meta::Annotations, refs::Owner};

use crate::{
    objects::{CONTROLLER, HEADLESS, MANAGED_BY, SERVICE_NAME, SERVICES, Service},
    plan::{SliceMetadata, generate_name},
};

/// The keys of labels that are not copied from the Service, because this loop sets them.
const RESERVED: [&str; 3] = [HEADLESS, SERVICE_NAME, MANAGED_BY];

/// Returns the metadata of every slice that this sync writes.
pub fn slice_metadata(service: &Service, trigger_time: Option<String>) -> SliceMetadata {
    let meta = &service.metadata;
    let mut labels: Vec<(&str, &str)> = meta.labels.iter().filter(|(key, _)| !RESERVED.contains(key)).collect();
    labels.extend([(SERVICE_NAME, &*meta.name), (MANAGED_BY, CONTROLLER)]);
    if service.is_headless() {
        labels.push((HEADLESS, ""));
    }
    SliceMetadata {
        generate_name: generate_name(&meta.name),
        namespace: meta.namespace.clone(),
        labels: Labels::from_pairs(labels),
        annotations: Annotations::default(),
        owner: Owner::new(SERVICES, meta).controller_ref(),
        trigger_time,
    }
}

/// Whether the labels of a slice are as wanted, ignoring the labels that are not copied from the Service.
pub fn same_labels(slice: &Labels, wanted: &Labels) -> bool {
    let is_copied = |(key, _): &(&str, &str)| !RESERVED.contains(key);
    slice == wanted || slice.iter().filter(is_copied).eq(wanted.iter().filter(is_copied))
}

/// Whether two sets of labels are equal if a missing label counts as an empty one.
pub fn same_but_empty(a: &Labels, b: &Labels) -> bool {
    let within = |a: &Labels, b: &Labels| a.iter().all(|(key, value)| b.get(key).unwrap_or_default() == value);
    within(a, b) && within(b, a)
}

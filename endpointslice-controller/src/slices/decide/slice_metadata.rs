//! The labels, owner and name prefix of the slices of a Service.

use common::intern::Labels;

use crate::{
    objects::{HEADLESS_LABEL, MANAGED_BY_LABEL, MANAGED_BY_SLICE_CONTROLLER, SERVICE_NAME_LABEL, SERVICES, Service},
    plan::SliceMetadata,
};

/// The keys of labels that are not copied from the Service, because this loop sets them.
const RESERVED: [&str; 3] = [HEADLESS_LABEL, SERVICE_NAME_LABEL, MANAGED_BY_LABEL];

/// Returns the metadata of every slice that this sync writes.
pub fn slice_metadata(service: &Service, trigger_time: Option<String>) -> SliceMetadata {
    let meta = &service.metadata;
    let mut labels: Vec<(&str, &str)> = meta.labels.iter().filter(|(key, _)| !RESERVED.contains(key)).collect();
    labels.extend([(SERVICE_NAME_LABEL, &*meta.name), (MANAGED_BY_LABEL, MANAGED_BY_SLICE_CONTROLLER)]);
    if service.is_headless() {
        labels.push((HEADLESS_LABEL, ""));
    }
    SliceMetadata { trigger_time, ..SliceMetadata::new(SERVICES, meta, Labels::from_pairs(labels)) }
}

/// Whether the labels of a slice are as wanted, ignoring the labels that are not copied from the Service.
pub fn has_wanted_labels(slice: &Labels, wanted: &Labels) -> bool {
    let is_copied = |(key, _): &(&str, &str)| !RESERVED.contains(key);
    slice == wanted || slice.iter().filter(is_copied).eq(wanted.iter().filter(is_copied))
}

/// Whether two sets of labels are equal if a missing label counts as an empty one.
pub fn is_equal_ignoring_empty_labels(a: &Labels, b: &Labels) -> bool {
    let within = |a: &Labels, b: &Labels| a.iter().all(|(key, value)| b.get(key).unwrap_or_default() == value);
    within(a, b) && within(b, a)
}

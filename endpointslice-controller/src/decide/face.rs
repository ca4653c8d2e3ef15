//! What slices of a Service say of themselves.

use common::{intern::Labels, meta::Annotations, refs::Owner, selector};

use crate::{
    objects::{CONTROLLER, HEADLESS, MANAGED_BY, SERVICE_NAME, SERVICES, Service},
    plan::Face,
};

/// Labels that are ours to write, whatever the Service says.
const RESERVED: [&str; 3] = [HEADLESS, SERVICE_NAME, MANAGED_BY];

/// What every slice of this Service says that is written now.
pub fn face(service: &Service, trigger_time: Option<String>) -> Face {
    let meta = &service.metadata;
    let mut labels: Vec<(&str, &str)> = meta.labels.iter().filter(|(key, _)| !RESERVED.contains(key)).collect();
    labels.extend([(SERVICE_NAME, &*meta.name), (MANAGED_BY, CONTROLLER)]);
    if service.is_headless() {
        labels.push((HEADLESS, ""));
    }
    Face {
        generate_name: generate_name(&meta.name),
        namespace: meta.namespace.clone(),
        labels: Labels::from_pairs(labels),
        annotations: Annotations::default(),
        owner: Owner::new(SERVICES, meta).controller_ref(),
        trigger_time,
    }
}

/// The beginning of the names of slices: the Service's name and a dash, where a name can begin like that.
pub fn generate_name(service: &str) -> String {
    if selector::is_dns_subdomain(&format!("{service}a")) { format!("{service}-") } else { service.to_owned() }
}

/// Whether a slice has the labels it is to have; a change of the reserved ones alone does not count.
pub fn same_labels(slice: &Labels, wanted: &Labels) -> bool {
    let free = |labels: &Labels| {
        let free = labels.as_slice().iter().filter(|(key, _)| !RESERVED.contains(&key.as_str()));
        free.cloned().collect::<Vec<_>>()
    };
    slice == wanted || free(slice) == free(wanted)
}

/// Whether two sets of labels are the same if one that is not there counts as an empty one.
pub fn same_but_empty(a: &Labels, b: &Labels) -> bool {
    let within = |a: &Labels, b: &Labels| a.iter().all(|(key, value)| b.get(key).unwrap_or_default() == value);
    within(a, b) && within(b, a)
}

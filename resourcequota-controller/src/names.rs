//! The names in quotas: which kinds use them.

use common::{pods::PODS, prelude::*};

use crate::objects::{CLAIMS, DEVICES_SUFFIX, RESOURCE_CLAIMS, SERVICES};

/// Prefix of the names of requests.
pub const REQUESTS: &str = "requests.";
/// Prefix of the names of limits.
pub const LIMITS: &str = "limits.";
/// Prefix of the names of huge pages.
pub const HUGE_PAGES: &str = "hugepages-";
/// Prefix of the names of extended resources that every DeviceClass has.
pub const IMPLICIT_EXTENDED_RESOURCE: &str = "deviceclass.resource.kubernetes.io/";
/// Prefix of the names that count objects.
const COUNT: &str = "count/";
/// Suffixes behind the name of a storage class.
const STORAGE_CLASS_SUFFIXES: [&str; 2] =
    [".storageclass.storage.k8s.io/persistentvolumeclaims", ".storageclass.storage.k8s.io/requests.storage"];
/// Resources of which the bare name counts objects, too.
const BARE_COUNTS: [&str; 6] =
    ["configmaps", "persistentvolumeclaims", "replicationcontrollers", "resourcequotas", "secrets", "services"];
/// Resources that are never counted.
const IGNORED: [&str; 10] = [
    "bindings",
    "componentstatuses",
    "events",
    "events.events.k8s.io",
    "localsubjectaccessreviews.authorization.k8s.io",
    "selfsubjectaccessreviews.authorization.k8s.io",
    "selfsubjectreviews.authentication.k8s.io",
    "selfsubjectrulesreviews.authorization.k8s.io",
    "subjectaccessreviews.authorization.k8s.io",
    "tokenreviews.authentication.k8s.io",
];
/// The resources of the core group that every server serves, with their kinds. They need no discovery.
const CORE_KINDS: [(&str, &str); 11] = [
    ("configmaps", "ConfigMap"),
    ("endpoints", "Endpoints"),
    ("limitranges", "LimitRange"),
    ("persistentvolumeclaims", "PersistentVolumeClaim"),
    ("podtemplates", "PodTemplate"),
    ("pods", "Pod"),
    ("replicationcontrollers", "ReplicationController"),
    ("resourcequotas", "ResourceQuota"),
    ("secrets", "Secret"),
    ("serviceaccounts", "ServiceAccount"),
    ("services", "Service"),
];

/// Whether Pods are counted by requests and by limits of the resource.
pub fn is_compute_resource(name: &str) -> bool {
    matches!(name, "cpu" | "memory" | "ephemeral-storage")
}

/// Whether the name of a resource in the requests of a Pod is that of an extended resource.
pub fn is_extended_resource(name: &str) -> bool {
    let is_foreign = name.contains('/') && !name.contains("kubernetes.io/") && !name.starts_with(REQUESTS);
    is_foreign || name.starts_with(IMPLICIT_EXTENDED_RESOURCE)
}

/// Returns the extended resource that a name in a quota limits; `None` if it limits something else.
pub fn limited_extended_resource(name: &str) -> Option<&str> {
    let resource = name.strip_prefix(REQUESTS)?;
    let is_foreign = name.contains('/') && !name.contains("kubernetes.io/");
    (is_foreign || resource.starts_with(IMPLICIT_EXTENDED_RESOURCE)).then_some(resource)
}

/// Whether a name in a quota limits an extended resource of Pods, for which ResourceClaims count, too.
pub fn is_extended(name: &str) -> bool {
    limited_extended_resource(name).is_some() && kind_of(name).is_some_and(|kind| kind == "pods")
}

/// Returns the `plural.group` of the kind whose objects have usage under a name in a quota, only `plural` for the core group. An
/// extended resource belongs to Pods. `None` if no kind has such a name.
pub fn kind_of(name: &str) -> Option<Text> {
    if let Some(kind) = name.strip_prefix(COUNT) {
        return (!kind.is_empty() && !IGNORED.contains(&kind)).then(|| Text::new(kind));
    }
    if BARE_COUNTS.contains(&name) {
        return Some(Text::new(name));
    }
    let bare = name.strip_prefix(REQUESTS).or_else(|| name.strip_prefix(LIMITS)).unwrap_or(name);
    let is_of_pods = name == "pods"
        || is_compute_resource(bare)
        || name.strip_prefix(REQUESTS).unwrap_or(name).starts_with(HUGE_PAGES)
        || limited_extended_resource(name).is_some();
    // The name of a class may begin with `requests.`.
    let resource = if name == "requests.storage" || STORAGE_CLASS_SUFFIXES.iter().any(|suffix| name.ends_with(suffix)) {
        CLAIMS
    } else if name.ends_with(DEVICES_SUFFIX) {
        RESOURCE_CLAIMS
    } else if is_of_pods {
        PODS
    } else if matches!(name, "services.nodeports" | "services.loadbalancers") {
        SERVICES
    } else {
        return None;
    };
    Some(Text::new(&resource.to_string()))
}

/// Whether a name counts the objects of its kind.
pub fn counts_objects(name: &str) -> bool {
    name.starts_with(COUNT) || BARE_COUNTS.contains(&name)
}

/// Returns the core resource of this plural name that every server serves; `None` for other names.
pub fn core_resource(kind: &str) -> Option<Resource> {
    let (plural, kind) = CORE_KINDS.iter().find(|(plural, _)| *plural == kind)?;
    Some(Resource::namespaced("", "v1", plural, kind))
}

/// Whether a resource is never counted.
pub fn is_ignored(resource: &Resource) -> bool {
    IGNORED.contains(&&*resource.to_string())
}

#[cfg(test)]
mod tests;

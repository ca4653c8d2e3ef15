//! What is read of StatefulSets, their Pods, their claims and their revisions.

mod pod;
mod set;

use std::ops::Deref;

use common::{
    meta::{Annotations, Meta},
    object::{Object, Resource},
    revision::{self, CONTROLLER_REVISIONS},
};
use serde::Deserialize;

pub use pod::{CachedPod, ordinal_of};
pub use set::{ClaimTemplate, Keep, Management, Retention, Rolling, StatefulSet, Status, Update};

/// StatefulSets on the API server.
pub const STATEFUL_SETS: Resource =
    Resource { group: "apps", version: "v1", plural: "statefulsets", kind: "StatefulSet", namespaced: true };
/// Claims on the API server.
pub const CLAIMS: Resource = Resource {
    group: "",
    version: "v1",
    plural: "persistentvolumeclaims",
    kind: "PersistentVolumeClaim",
    namespaced: true,
};

/// The label of a Pod that names its revision.
pub const REVISION_LABEL: &str = "controller-revision-hash";
/// The label of a Pod that says its name, so that a Service may select one.
pub const POD_NAME_LABEL: &str = "statefulset.kubernetes.io/pod-name";
/// The label of a Pod that says its ordinal.
pub const POD_INDEX_LABEL: &str = "apps.kubernetes.io/pod-index";
/// The label of a revision that holds the hash of its data.
pub const HASH_LABEL: &str = "controller.kubernetes.io/hash";

/// A `PersistentVolumeClaim`: who owns it and whether it goes. Nothing else of it is ever looked at.
#[derive(Debug, Deserialize)]
pub struct Claim {
    /// Its metadata, without labels, annotations and finalizers.
    pub metadata: Meta,
}

impl Object for Claim {
    const RESOURCE: Resource = CLAIMS;

    fn meta(&self) -> &Meta {
        &self.metadata
    }

    fn trim(&mut self) {
        self.metadata.labels = common::intern::Labels::empty();
        self.metadata.annotations = Annotations::default();
        self.metadata.finalizers = Box::default();
    }
}

/// A revision of a StatefulSet, or of nobody. Those of others are not cached.
#[derive(Debug, Deserialize)]
#[serde(transparent)]
pub struct ControllerRevision(revision::ControllerRevision);

impl Deref for ControllerRevision {
    type Target = revision::ControllerRevision;
    fn deref(&self) -> &revision::ControllerRevision {
        &self.0
    }
}

impl AsRef<revision::ControllerRevision> for ControllerRevision {
    fn as_ref(&self) -> &revision::ControllerRevision {
        &self.0
    }
}

impl Object for ControllerRevision {
    const RESOURCE: Resource = CONTROLLER_REVISIONS;

    fn meta(&self) -> &Meta {
        &self.0.meta
    }

    fn trim(&mut self) {
        self.0.meta.annotations = Annotations::default();
        self.0.meta.finalizers = Box::default();
    }

    fn keep(&self) -> bool {
        self.0.meta.controller().is_none_or(|owner| owner.kind == STATEFUL_SETS.kind)
    }
}

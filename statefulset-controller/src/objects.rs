//! Projections of StatefulSets, Pods, PersistentVolumeClaims and ControllerRevisions.

mod claim;
mod pod;
mod set;

use std::ops::Deref;

use common::{
    head::ObjectHead,
    prelude::*,
    revision::{self, CONTROLLER_REVISIONS, NumberEncoding, RevisionData, RevisionWithData},
    template::defaults::apply_pod_template_defaults,
    wire::{MessageSchema, messages},
};
use serde::{Deserialize, Deserializer};

pub use claim::{CachedVolumeClaim, VolumeClaimSpec};
pub use pod::{CachedPod, has_leading_zero, parse_ordinal};
pub use set::{
    PodManagementPolicy, RollingUpdate, StatefulSet, Status, UpdateStrategy, VolumeClaimRetention,
    VolumeClaimRetentionPolicy, VolumeClaimTemplate,
};

/// The resource that this controller syncs.
pub const STATEFUL_SETS: Resource = Resource::namespaced("apps", "v1", "statefulsets", "StatefulSet");
/// The resource of claims: volumes that a Pod requests by name.
pub const PERSISTENT_VOLUME_CLAIMS: Resource =
    Resource::namespaced("", "v1", "persistentvolumeclaims", "PersistentVolumeClaim");

/// Label of a Pod with the name of the revision that the Pod was created from.
pub const REVISION_LABEL: &str = "controller-revision-hash";
/// Label of a Pod with the name of the Pod. A Service can select a single Pod by it, and this controller watches Pods by it.
pub const POD_NAME_LABEL: &str = "statefulset.kubernetes.io/pod-name";
/// Label of a Pod with the ordinal of the Pod.
pub const POD_INDEX_LABEL: &str = "apps.kubernetes.io/pod-index";
/// Label of a revision with the hash of the revision's data.
pub const REVISION_HASH_LABEL: &str = "controller.kubernetes.io/hash";

/// A cached revision that a StatefulSet controls, or an orphan.
#[derive(Debug)]
pub struct CachedRevision {
    revision: revision::ControllerRevision,
    /// Digest of the data after API defaults are applied to the template; `None` if the data contain no template.
    defaulted: Option<u128>,
}

impl CachedRevision {
    /// Returns whether the revision equals `data` after API defaults are applied to the stored template.
    pub fn equals_with_defaults(&self, data: &RevisionData) -> bool {
        self.defaulted == Some(data.digest())
    }
}

impl<'de> Deserialize<'de> for CachedRevision {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let (revision, template) = RevisionWithData::deserialize(deserializer)?.into_revision_and_template();
        let defaulted = template.and_then(|mut template| {
            apply_pod_template_defaults(&mut template);
            Some(RevisionData::from_value(template, NumberEncoding::Doubles)?.digest())
        });
        Ok(Self { revision, defaulted })
    }
}

impl Deref for CachedRevision {
    type Target = revision::ControllerRevision;
    fn deref(&self) -> &revision::ControllerRevision {
        &self.revision
    }
}

impl Object for CachedRevision {
    const RESOURCE: Resource = CONTROLLER_REVISIONS;
    type Indexes = (ByController, OrphansByNamespace);
    const PROTOBUF_SCHEMA: Option<&'static MessageSchema> = Some(&messages::CONTROLLER_REVISION);
    const HEAD_FILTER: Option<fn(&ObjectHead<'_>) -> bool> =
        Some(|head| head.controller_kind().is_none_or(|kind| kind == STATEFUL_SETS.kind()));

    fn meta(&self) -> &Meta {
        &self.revision.meta
    }

    fn drop_unneeded_fields(&mut self) {
        self.revision.meta.drop_annotations_and_finalizers();
    }
}

//! Projections of PersistentVolumeClaims, PersistentVolumes and VolumeAttributesClasses. [`Pod`] has its own file.

mod pod;

use common::{
    intern::Labels,
    json::null_as_default,
    meta::Annotations,
    prelude::*,
    store::StoreIndex,
    wire::{MessageSchema, messages},
};
use serde::Deserialize;

pub use pod::{ByClaim, EphemeralVolume, Pod, index_value_of_claim};

/// A kind of objects that a finalizer protects while they are in use.
pub trait Protected: Object {
    /// Entry of `metadata.finalizers`, which the API server adds to new objects.
    const FINALIZER: &'static str;

    /// Whether the object is terminating and still has the finalizer.
    fn is_held(&self) -> bool {
        self.meta().is_deleting() && self.meta().has_finalizer(Self::FINALIZER)
    }

    /// Whether the object is not terminating and lacks the finalizer.
    fn lacks_finalizer(&self) -> bool {
        !self.meta().is_deleting() && !self.meta().has_finalizer(Self::FINALIZER)
    }
}

/// Implements the methods of [`Object`] for a kind whose labels and annotations do not matter.
macro_rules! bare_metadata {
    () => {
        fn meta(&self) -> &Meta {
            &self.metadata
        }

        fn drop_unneeded_fields(&mut self) {
            self.metadata.labels = Labels::empty();
            self.metadata.annotations = Annotations::default();
        }
    };
}

/// A PersistentVolumeClaim.
#[derive(Debug, Deserialize)]
pub struct Claim {
    /// Metadata, without labels and annotations.
    pub metadata: Meta,
    #[serde(default, deserialize_with = "null_as_default")]
    spec: Spec,
    #[serde(default, deserialize_with = "null_as_default")]
    status: ClaimStatus,
}

/// A PersistentVolume.
#[derive(Debug, Deserialize)]
pub struct PersistentVolume {
    /// Metadata, without labels and annotations.
    pub metadata: Meta,
    #[serde(default, deserialize_with = "null_as_default")]
    spec: Spec,
    /// Its phase.
    #[serde(default, deserialize_with = "null_as_default")]
    pub status: VolumeStatus,
}

/// A VolumeAttributesClass.
#[derive(Debug, Deserialize)]
pub struct Class {
    /// Metadata, without labels and annotations.
    pub metadata: Meta,
}

/// The field of `spec` that claims and PersistentVolumes have in common.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Spec {
    volume_attributes_class_name: Option<Text>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
struct ClaimStatus {
    current_volume_attributes_class_name: Option<Text>,
    modify_volume_status: Option<ModifyVolumeStatus>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct ModifyVolumeStatus {
    target_volume_attributes_class_name: Option<Text>,
}

/// `status` of a [`PersistentVolume`].
#[derive(Debug, Default, Deserialize)]
pub struct VolumeStatus {
    /// `phase`; empty if it is missing.
    #[serde(default, deserialize_with = "null_as_default")]
    pub phase: Text,
}

impl Claim {
    /// Whether the Pod is the controller of the claim. Only the UID counts.
    pub fn is_controlled_by(&self, pod: &Pod) -> bool {
        self.metadata.controller().is_some_and(|owner| owner.uid == pod.metadata.uid)
    }
}

impl Protected for Claim {
    const FINALIZER: &'static str = "kubernetes.io/pvc-protection";
}

impl Object for Claim {
    const RESOURCE: Resource = Resource::namespaced("", "v1", "persistentvolumeclaims", "PersistentVolumeClaim");
    type Indexes = (ByClass, HeldByNamespace);
    const PROTOBUF_SCHEMA: Option<&'static MessageSchema> = Some(&messages::PERSISTENT_VOLUME_CLAIM);

    bare_metadata!();
}

impl Protected for PersistentVolume {
    const FINALIZER: &'static str = "kubernetes.io/pv-protection";
}

impl Object for PersistentVolume {
    const RESOURCE: Resource = Resource::cluster_scoped("", "v1", "persistentvolumes", "PersistentVolume");
    type Indexes = (ByClass,);
    const PROTOBUF_SCHEMA: Option<&'static MessageSchema> = Some(&messages::PERSISTENT_VOLUME);

    bare_metadata!();
}

impl Protected for Class {
    const FINALIZER: &'static str = "kubernetes.io/vac-protection";
}

impl Object for Class {
    const RESOURCE: Resource =
        Resource::cluster_scoped("storage.k8s.io", "v1", "volumeattributesclasses", "VolumeAttributesClass");
    type Indexes = ();

    bare_metadata!();
}

/// A kind of objects that name classes.
pub trait NamesClasses: Object {
    /// Returns the names of classes, which are not empty.
    fn class_names(&self) -> Vec<&Text>;
}

impl NamesClasses for Claim {
    fn class_names(&self) -> Vec<&Text> {
        let Self { spec, status, .. } = self;
        let target = status.modify_volume_status.as_ref().and_then(|s| s.target_volume_attributes_class_name.as_ref());
        let own = [spec.volume_attributes_class_name.as_ref(), status.current_volume_attributes_class_name.as_ref()];
        own.into_iter().chain([target]).flatten().filter(|name| !name.is_empty()).collect()
    }
}

impl NamesClasses for PersistentVolume {
    fn class_names(&self) -> Vec<&Text> {
        self.spec.volume_attributes_class_name.iter().filter(|name| !name.is_empty()).collect()
    }
}

/// Lists objects by the classes that they name. Objects that cannot be decoded are listed under the empty name.
#[derive(Clone, Copy, Debug)]
pub struct ByClass;

impl<K: NamesClasses> StoreIndex<K> for ByClass {
    fn value(_: &Meta, object: Option<&K>) -> Option<IndexValue> {
        object.is_none().then(|| IndexValue::Text(Text::default()))
    }

    fn further_values(_: &Meta, object: Option<&K>) -> Vec<IndexValue> {
        object.into_iter().flat_map(K::class_names).map(|name| IndexValue::Text(name.clone())).collect()
    }
}

/// Lists the terminating claims with the finalizer by their namespace.
#[derive(Clone, Copy, Debug)]
pub struct HeldByNamespace;

impl StoreIndex<Claim> for HeldByNamespace {
    fn value(meta: &Meta, claim: Option<&Claim>) -> Option<IndexValue> {
        claim.is_some_and(Claim::is_held).then(|| IndexValue::Text(meta.namespace.clone()))
    }
}

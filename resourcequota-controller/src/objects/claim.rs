//! PersistentVolumeClaims, with the storage that they use.

use std::collections::BTreeMap;

use common::{
    json::null_as_default,
    prelude::*,
    quantity::{Amount, Quantity},
    wire::{MessageSchema, messages},
};
use serde::Deserialize;

use super::{CountedObject, CountedUsage, Gates};
use crate::usage::{Amounts, ScopeFacts, Usage, UsageClass};

/// API resource of PersistentVolumeClaims.
pub const CLAIMS: Resource = Resource::namespaced("", "v1", "persistentvolumeclaims", "PersistentVolumeClaim");
/// Annotation that has precedence over `spec.storageClassName`.
const CLASS_ANNOTATION: &str = "volume.beta.kubernetes.io/storage-class";

/// The fields of a PersistentVolumeClaim that decide what it uses.
#[derive(Debug, Deserialize)]
pub struct Claim {
    /// Metadata, which is dropped after the object was counted.
    pub metadata: Meta,
    #[serde(default)]
    spec: Spec,
    #[serde(default, deserialize_with = "null_as_default")]
    status: Status,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Spec {
    storage_class_name: Option<Text>,
    volume_attributes_class_name: Option<Text>,
    #[serde(deserialize_with = "null_as_default")]
    resources: Requirements,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Requirements {
    #[serde(deserialize_with = "null_as_default")]
    requests: BTreeMap<Text, Quantity>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
#[expect(clippy::struct_field_names, reason = "the API has these names")]
struct Status {
    #[serde(deserialize_with = "null_as_default")]
    allocated_resources: BTreeMap<Text, Quantity>,
    current_volume_attributes_class_name: Option<Text>,
    #[serde(deserialize_with = "null_as_default")]
    modify_volume_status: ModifyVolumeStatus,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct ModifyVolumeStatus {
    target_volume_attributes_class_name: Option<Text>,
}

impl Claim {
    /// Returns the storage class; `None` if it is empty or missing.
    fn storage_class(&self) -> Option<&str> {
        let annotation = self.metadata.annotations.get(CLASS_ANNOTATION);
        annotation.or(self.spec.storage_class_name.as_deref()).filter(|class| !class.is_empty())
    }

    /// Returns the storage in whole bytes; `None` without a request.
    fn storage(&self) -> Option<Amount> {
        let requested = Amount::from(self.spec.resources.requests.get("storage")?);
        let allocated = self.status.allocated_resources.get("storage").map(Amount::from);
        Some(allocated.map_or(requested, |allocated| requested.max(allocated)).rounded_to_whole())
    }
}

impl Object for Claim {
    const RESOURCE: Resource = CLAIMS;
    type Indexes = ();
    const PROTOBUF_SCHEMA: Option<&'static MessageSchema> = Some(&messages::PERSISTENT_VOLUME_CLAIM);

    fn meta(&self) -> &Meta {
        &self.metadata
    }
}

impl CountedObject for Claim {
    fn usage(&self, _: Gates) -> CountedUsage {
        let mut amounts = Amounts::new();
        let (class, storage) = (self.storage_class(), self.storage());
        if let Some(storage) = storage {
            amounts.insert("requests.storage".into(), storage);
        }
        if let Some(class) = class {
            let name = |suffix: &str| Text::new(&format!("{class}.storageclass.storage.k8s.io/{suffix}"));
            amounts.insert(name("persistentvolumeclaims"), Amount::ONE);
            amounts.extend(storage.map(|storage| (name("requests.storage"), storage)));
        }
        let classes = [
            &self.spec.volume_attributes_class_name,
            &self.status.current_volume_attributes_class_name,
            &self.status.modify_volume_status.target_volume_attributes_class_name,
        ];
        let mut attributes_classes: Vec<Text> =
            classes.into_iter().flatten().filter(|class| !class.is_empty()).cloned().collect();
        attributes_classes.sort();
        attributes_classes.dedup();
        let facts = ScopeFacts::VolumeClaim { attributes_classes: attributes_classes.into() };
        CountedUsage { usage: Usage { class: UsageClass { facts, amounts_end: None }, amounts }, link: None }
    }
}

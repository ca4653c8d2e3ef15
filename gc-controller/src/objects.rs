//! Projection of objects of any kind: the metadata that garbage collection reads.

use std::sync::Arc;

use common::{
    meta::OwnerRefs,
    prelude::*,
    wire::{MessageSchema, messages},
};
use jiff::Timestamp;
use serde::{Deserialize, Deserializer};

/// The metadata of an object of any kind.
#[derive(Debug, Deserialize)]
pub(crate) struct PartialObject {
    /// Metadata without labels and annotations, because a cluster may have a million objects.
    #[serde(deserialize_with = "lean")]
    pub(crate) metadata: Meta,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Lean {
    namespace: Option<Text>,
    name: Option<Arc<str>>,
    uid: Uid,
    resource_version: ResourceVersion,
    deletion_timestamp: Option<Timestamp>,
    owner_references: Option<OwnerRefs>,
    finalizers: Option<Box<[Text]>>,
}

fn lean<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Meta, D::Error> {
    let lean = Lean::deserialize(deserializer)?;
    Ok(Meta {
        namespace: lean.namespace.unwrap_or_default(),
        name: lean.name.unwrap_or_default(),
        uid: lean.uid,
        resource_version: lean.resource_version,
        deletion_timestamp: lean.deletion_timestamp,
        owners: lean.owner_references.unwrap_or_default(),
        finalizers: lean.finalizers.unwrap_or_default(),
        ..Meta::default()
    })
}

impl Object for PartialObject {
    /// A placeholder: each monitor watches the resource that it was started for.
    const RESOURCE: Resource =
        Resource::cluster_scoped("meta.k8s.io", "v1", "partialobjectmetadata", "PartialObjectMetadata");
    type Indexes = ();
    const PROTOBUF_SCHEMA: Option<&'static MessageSchema> = Some(&messages::METADATA_ONLY_OBJECT);

    fn meta(&self) -> &Meta {
        &self.metadata
    }

    fn from_metadata_json(json: &str) -> Option<serde_json::Result<Self>> {
        Some(lean(&mut serde_json::Deserializer::from_str(json)).map(|metadata| Self { metadata }))
    }
}

pub(crate) fn has_finalizer(meta: &Meta, finalizer: &str) -> bool {
    meta.finalizers.iter().any(|own| own == finalizer)
}

/// Whether the object is terminating and has this finalizer.
pub(crate) fn is_terminating_with(meta: &Meta, finalizer: &str) -> bool {
    meta.is_deleting() && has_finalizer(meta, finalizer)
}

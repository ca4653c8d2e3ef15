//! Projection of objects of any kind: the metadata that controllers of all kinds read, and pages of lists of such objects.

use std::sync::Arc;

use jiff::Timestamp;
use serde::{Deserialize, Deserializer};

use crate::{
    intern::Text,
    json::null_as_default,
    meta::{Meta, OwnerRefs, ResourceVersion, Uid},
    object::{Object, Resource},
    wire::{MessageSchema, messages},
};

/// The metadata of an object of any kind.
#[derive(Debug)]
pub struct PartialObject {
    /// Metadata without labels and annotations, because a cluster may have a million objects.
    pub metadata: Meta,
    /// `metadata.deletionGracePeriodSeconds`; `None` unless the object is terminating.
    pub deletion_grace_period_seconds: Option<i64>,
}

/// A page of a list of objects, as an API server answers it to a list or to the deletion of a collection.
#[derive(Debug, Deserialize)]
#[serde(default, bound(deserialize = "T: Deserialize<'de>"))]
pub struct ObjectPage<T> {
    /// Version of the list, and the token of the next page.
    #[serde(deserialize_with = "null_as_default")]
    pub metadata: PageMetadata,
    /// The objects of the page; empty if the answer is not a list.
    #[serde(deserialize_with = "null_as_default")]
    pub items: Vec<T>,
}

impl<T> Default for ObjectPage<T> {
    fn default() -> Self {
        Self { metadata: PageMetadata::default(), items: Vec::new() }
    }
}

/// The metadata of a list.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct PageMetadata {
    /// `resourceVersion`; unknown if the answer is not a list.
    pub resource_version: ResourceVersion,
    /// `continue`: the token of the next page; empty on the last page.
    #[serde(rename = "continue")]
    pub continue_token: String,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Lean {
    namespace: Option<Text>,
    name: Option<Arc<str>>,
    uid: Uid,
    resource_version: ResourceVersion,
    deletion_timestamp: Option<Timestamp>,
    deletion_grace_period_seconds: Option<i64>,
    owner_references: Option<OwnerRefs>,
    finalizers: Option<Box<[Text]>>,
}

impl From<Lean> for PartialObject {
    fn from(lean: Lean) -> Self {
        let metadata = Meta {
            namespace: lean.namespace.unwrap_or_default(),
            name: lean.name.unwrap_or_default(),
            uid: lean.uid,
            resource_version: lean.resource_version,
            deletion_timestamp: lean.deletion_timestamp,
            owners: lean.owner_references.unwrap_or_default(),
            finalizers: lean.finalizers.unwrap_or_default(),
            ..Meta::default()
        };
        Self { metadata, deletion_grace_period_seconds: lean.deletion_grace_period_seconds }
    }
}

impl<'de> Deserialize<'de> for PartialObject {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        struct Stored {
            metadata: Lean,
        }
        Ok(Stored::deserialize(deserializer)?.metadata.into())
    }
}

impl Object for PartialObject {
    /// A placeholder: each informer watches the resource that it was started for.
    const RESOURCE: Resource =
        Resource::cluster_scoped("meta.k8s.io", "v1", "partialobjectmetadata", "PartialObjectMetadata");
    type Indexes = ();
    const PROTOBUF_SCHEMA: Option<&'static MessageSchema> = Some(&messages::METADATA_ONLY_OBJECT);

    fn meta(&self) -> &Meta {
        &self.metadata
    }

    fn from_metadata_json(json: &str) -> Option<serde_json::Result<Self>> {
        Some(Lean::deserialize(&mut serde_json::Deserializer::from_str(json)).map(Self::from))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_page_has_objects_and_a_token_and_any_other_answer_has_neither() {
        let object =
            json!({"metadata": {"name": "a", "uid": "u", "deletionGracePeriodSeconds": 30, "labels": {"x": "y"}}});
        let page = json!({"kind": "PartialObjectMetadataList", "items": [object],
            "metadata": {"resourceVersion": "7", "continue": "next", "remainingItemCount": 2}});
        let page: ObjectPage<PartialObject> = serde_json::from_value(page).unwrap();
        assert_eq!((page.items.len(), &*page.metadata.continue_token), (1, "next"));
        assert_eq!(page.items[0].deletion_grace_period_seconds, Some(30));
        assert!(page.metadata.resource_version.is_known() && page.items[0].metadata.labels.is_empty());
        for other in [json!({"kind": "Status", "status": "Success"}), json!({"items": null, "metadata": null})] {
            let other: ObjectPage<PartialObject> = serde_json::from_value(other).unwrap();
            assert!(other.items.is_empty() && !other.metadata.resource_version.is_known());
        }
    }
}

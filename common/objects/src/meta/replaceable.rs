//! Metadata of objects that a controller replaces.

use std::{
    collections::BTreeMap,
    ops::{Deref, DerefMut},
};

use serde::{Deserialize, Deserializer, Serialize, Serializer, de::Error as _, ser::Error as _, ser::SerializeMap};

use super::{Meta, OwnerRef, ResourceVersion};
use crate::{
    json::JsonStr,
    wire::{RawMessage, messages::OBJECT_META},
};

/// Metadata, and the same metadata as received, with which the object can be replaced.
///
/// `managedFields` are not kept: a server keeps those of an object that is replaced without them.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ReplaceableMeta {
    meta: Meta,
    received: RawMessage,
}

impl ReplaceableMeta {
    /// Returns the metadata as received, for the body of a replacement.
    pub fn replacement(&self) -> MetadataReplacement<'_> {
        MetadataReplacement::new(&self.received)
    }
}

impl Deref for ReplaceableMeta {
    type Target = Meta;
    fn deref(&self) -> &Meta {
        &self.meta
    }
}

/// Changes of the decoded metadata are not part of a replacement.
impl DerefMut for ReplaceableMeta {
    fn deref_mut(&mut self) -> &mut Meta {
        &mut self.meta
    }
}

impl<'de> Deserialize<'de> for ReplaceableMeta {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let received = RawMessage::deserialize_without(deserializer, &OBJECT_META, &["managedFields"])?;
        let meta = received.decode(&OBJECT_META).map_err(D::Error::custom)?;
        Ok(Self { meta, received })
    }
}

/// New values of labels or annotations by key; `None` removes a key.
pub type MapEdits<'a> = BTreeMap<&'a str, Option<&'a str>>;

/// The metadata in the body of a replacement: as received, with changes.
#[derive(Clone, Debug)]
pub struct MetadataReplacement<'a> {
    received: &'a RawMessage,
    labels: MapEdits<'a>,
    annotations: MapEdits<'a>,
    owners: Option<&'a [OwnerRef]>,
    version: Option<ResourceVersion>,
}

impl<'a> MetadataReplacement<'a> {
    /// Creates metadata without changes.
    pub(crate) fn new(raw_metadata: &'a RawMessage) -> Self {
        Self {
            received: raw_metadata,
            labels: BTreeMap::new(),
            annotations: BTreeMap::new(),
            owners: None,
            version: None,
        }
    }

    /// Sets and removes labels, and keeps all others.
    #[must_use]
    pub fn with_label_edits(self, edits: MapEdits<'a>) -> Self {
        Self { labels: edits, ..self }
    }

    /// Sets and removes annotations, and keeps all others.
    #[must_use]
    pub fn with_annotation_edits(self, edits: MapEdits<'a>) -> Self {
        Self { annotations: edits, ..self }
    }

    /// Replaces the owner references; `None` keeps them.
    #[must_use]
    pub fn with_owner_references(self, owners: Option<&'a [OwnerRef]>) -> Self {
        Self { owners, ..self }
    }

    /// Sets `resourceVersion`, by default that of the received object.
    #[must_use]
    pub fn with_resource_version(self, version: ResourceVersion) -> Self {
        Self { version: Some(version), ..self }
    }
}

impl Serialize for MetadataReplacement<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        #[derive(Default, Deserialize)]
        #[serde(default)]
        struct Maps<'a> {
            #[serde(borrow)]
            labels: Option<BTreeMap<JsonStr<'a>, JsonStr<'a>>>,
            #[serde(borrow)]
            annotations: Option<BTreeMap<JsonStr<'a>, JsonStr<'a>>>,
        }
        let Self { received, labels, annotations, owners, version } = self;
        let maps: Maps<'_> = if labels.is_empty() && annotations.is_empty() {
            Maps::default()
        } else {
            received.decode(&OBJECT_META).map_err(S::Error::custom)?
        };
        let edited = [("labels", maps.labels, labels), ("annotations", maps.annotations, annotations)];
        let replaced = edited.iter().filter(|(.., edits)| !edits.is_empty()).map(|(name, ..)| *name);
        let replaced = replaced.chain(owners.map(|_| "ownerReferences")).chain(version.map(|_| "resourceVersion"));
        let replaced: Vec<&str> = replaced.collect();
        let mut map = serializer.serialize_map(None)?;
        received.fields_without(&OBJECT_META, &replaced).serialize_into(&mut map)?;
        for (name, pairs, edits) in edited {
            if edits.is_empty() {
                continue;
            }
            let mut pairs = pairs.unwrap_or_default();
            for (key, value) in edits {
                match value {
                    Some(value) => pairs.insert((*key).into(), (*value).into()),
                    None => pairs.remove(&JsonStr::from(*key)),
                };
            }
            map.serialize_entry(name, &pairs)?;
        }
        if let Some(owners) = owners {
            map.serialize_entry("ownerReferences", owners)?;
        }
        if let Some(version) = version {
            map.serialize_entry("resourceVersion", version)?;
        }
        map.end()
    }
}

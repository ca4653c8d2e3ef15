//! Request bodies: new slices, and replacements of existing slices.

use std::collections::BTreeMap;

use common::{
    intern::Labels,
    meta::{MapEdits, MetadataReplacement},
    prelude::*,
    wire::{RawFields, messages},
};
use serde::Serialize;

use crate::{
    objects::{AddressType, ENDPOINT_SLICES, Endpoint, MANAGED_BY_MIRRORING, Slice, SlicePort},
    plan::{SliceDraft, SliceMetadata},
};

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct NewSliceBody<'a> {
    api_version: String,
    kind: &'static str,
    metadata: NewMeta<'a>,
    address_type: AddressType,
    endpoints: &'a [Endpoint],
    ports: &'a [SlicePort],
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct NewMeta<'a> {
    generate_name: &'a str,
    namespace: &'a str,
    labels: &'a Labels,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    annotations: BTreeMap<&'a str, &'a str>,
    owner_references: [&'a OwnerRef; 1],
}

impl<'a> NewSliceBody<'a> {
    pub(crate) fn new(slice_metadata: &'a SliceMetadata, address_type: AddressType, draft: &'a SliceDraft) -> Self {
        Self {
            api_version: ENDPOINT_SLICES.api_version(),
            kind: "EndpointSlice",
            metadata: NewMeta {
                generate_name: &slice_metadata.generate_name,
                namespace: &slice_metadata.namespace,
                labels: &slice_metadata.labels,
                annotations: slice_metadata.all_annotations().collect(),
                owner_references: [&slice_metadata.owner_reference],
            },
            address_type,
            endpoints: &draft.endpoints,
            ports: &draft.ports,
        }
    }
}

/// A whole slice that replaces the received one, with its metadata and all fields that this version does not know.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct SliceReplacement<'a> {
    api_version: String,
    kind: &'static str,
    metadata: MetadataReplacement<'a>,
    address_type: &'a Text,
    endpoints: &'a [Endpoint],
    ports: &'a [SlicePort],
    #[serde(flatten)]
    undeclared: RawFields<'a>,
}

/// Returns the edits that change the map `from` into `to`.
pub(crate) fn map_edits<'a>(
    from: impl Iterator<Item = (&'a str, &'a str)>,
    to: impl Iterator<Item = (&'a str, &'a str)>,
) -> MapEdits<'a> {
    let from: BTreeMap<&str, &str> = from.collect();
    let to: BTreeMap<&str, &str> = to.collect();
    let gone = from.keys().filter(|key| !to.contains_key(*key)).map(|key| (*key, None));
    let new = to.iter().filter(|(key, value)| from.get(*key) != Some(value)).map(|(key, value)| (*key, Some(*value)));
    gone.chain(new).collect()
}

impl<'a> SliceReplacement<'a> {
    /// Builds the body that changes `slice` into the draft. It leaves the owner references unchanged unless the slice is
    /// mirrored.
    pub(crate) fn new(slice_metadata: &'a SliceMetadata, slice: &'a Slice, draft: &'a SliceDraft) -> Self {
        let Meta { labels, annotations, owners, .. } = &*slice.metadata;
        let owner = &slice_metadata.owner_reference;
        let has_wrong_owner = slice.is_managed_by(MANAGED_BY_MIRRORING) && owners.iter().ne([owner]);
        let metadata = slice.metadata.replacement();
        Self {
            api_version: ENDPOINT_SLICES.api_version(),
            kind: "EndpointSlice",
            metadata: metadata
                .with_label_edits(map_edits(labels.iter(), slice_metadata.labels.iter()))
                .with_annotation_edits(map_edits(annotations.iter(), slice_metadata.all_annotations()))
                .with_owner_references(has_wrong_owner.then_some(std::slice::from_ref(owner))),
            address_type: &slice.address_type,
            endpoints: &draft.endpoints,
            ports: &draft.ports,
            undeclared: slice.undeclared.fields_without(&messages::ENDPOINT_SLICE, &["apiVersion", "kind"]),
        }
    }
}

#[cfg(test)]
mod tests;

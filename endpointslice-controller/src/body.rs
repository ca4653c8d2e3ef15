//! Request bodies: new slices, and merge patches of existing slices.

use std::collections::BTreeMap;

use common::{intern::Labels, prelude::*};
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

/// A merge patch of a slice. Fields that are `None` or empty are omitted, and the server keeps their values.
#[derive(Serialize)]
pub(crate) struct SlicePatch<'a> {
    metadata: ChangedMeta<'a>,
    #[serde(skip_serializing_if = "Option::is_none")]
    endpoints: Option<&'a [Endpoint]>,
    #[serde(skip_serializing_if = "Option::is_none")]
    ports: Option<&'a [SlicePort]>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct ChangedMeta<'a> {
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    labels: BTreeMap<&'a str, Option<&'a str>>,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    annotations: BTreeMap<&'a str, Option<&'a str>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    owner_references: Option<[&'a OwnerRef; 1]>,
}

/// Returns the merge patch that changes the map `from` into `to`: new and changed values, and `None` for removed keys.
fn map_patch<'a>(
    from: impl Iterator<Item = (&'a str, &'a str)>,
    to: impl Iterator<Item = (&'a str, &'a str)>,
) -> BTreeMap<&'a str, Option<&'a str>> {
    let from: BTreeMap<&str, &str> = from.collect();
    let to: BTreeMap<&str, &str> = to.collect();
    let gone = from.keys().filter(|key| !to.contains_key(*key)).map(|key| (*key, None));
    let new = to.iter().filter(|(key, value)| from.get(*key) != Some(value)).map(|(key, value)| (*key, Some(*value)));
    gone.chain(new).collect()
}

impl<'a> SlicePatch<'a> {
    /// Builds the patch that changes `slice` into the draft. It leaves the owner references unchanged unless the slice is
    /// mirrored.
    pub(crate) fn new(slice_metadata: &'a SliceMetadata, slice: &'a Slice, draft: &'a SliceDraft) -> Self {
        let Meta { labels, annotations, owners, .. } = &slice.metadata;
        let owner = &slice_metadata.owner_reference;
        let has_wrong_owner = slice.is_managed_by(MANAGED_BY_MIRRORING) && owners.iter().ne([owner]);
        Self {
            metadata: ChangedMeta {
                labels: map_patch(labels.iter(), slice_metadata.labels.iter()),
                annotations: map_patch(annotations.iter(), slice_metadata.all_annotations()),
                owner_references: has_wrong_owner.then_some([owner]),
            },
            endpoints: (slice.endpoints != draft.endpoints).then_some(&draft.endpoints),
            ports: (slice.ports != draft.ports).then_some(&draft.ports),
        }
    }
}

//! The part of a watch event that the sampler reads: the metadata with `managedFields`.

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde::{Deserialize, de::IgnoredAny};
use serde_json::value::RawValue;

use crate::{api::WireFormat, json::JsonStr, object::EncodedObject, wire::WatchEvent};

/// Decodes the metadata of the object in a watch frame; `None` if the decoding fails.
pub(super) fn decode_metadata(format: WireFormat, frame: &[u8]) -> Option<WatchedMetadata<'_>> {
    match format {
        WireFormat::Json => serde_json::from_slice(frame).ok().map(|event: JsonWatchEvent<'_>| event.object.metadata),
        WireFormat::Protobuf => {
            EncodedObject::Protobuf(WatchEvent::decode(frame).ok()?.object.object).decode_metadata().ok()
        }
    }
}

/// A watch event in JSON, decoded only as far as the sampler needs it.
#[derive(Deserialize)]
pub struct JsonWatchEvent<'a> {
    /// Type of the event: `ADDED`, `MODIFIED`, `DELETED`, `BOOKMARK` or `ERROR`.
    #[serde(borrow, rename = "type")]
    pub kind: JsonStr<'a>,
    /// The object in the state that the event reports.
    #[serde(borrow)]
    pub object: WatchedObject<'a>,
}

/// The object of a watch event; all fields except `metadata` are skipped.
#[derive(Deserialize)]
pub struct WatchedObject<'a> {
    /// `metadata`, which includes the managed fields.
    #[serde(borrow)]
    pub metadata: WatchedMetadata<'a>,
}

/// The fields of `metadata` that identify an object and show its writers.
#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
pub struct WatchedMetadata<'a> {
    /// Name of the object; empty if the field is absent.
    #[serde(borrow)]
    pub name: JsonStr<'a>,
    /// `metadata.namespace`; `None` for a cluster-scoped object.
    #[serde(borrow)]
    pub namespace: Option<JsonStr<'a>>,
    /// `metadata.labels`; a value may be `null`.
    #[serde(borrow)]
    pub labels: Option<BTreeMap<String, Option<JsonStr<'a>>>>,
    /// `metadata.deletionTimestamp`; only its presence matters.
    pub deletion_timestamp: Option<IgnoredAny>,
    /// `metadata.managedFields`: one entry for each field manager and subresource.
    #[serde(borrow)]
    pub managed_fields: Vec<ManagedFields<'a>>,
}

/// An entry of `managedFields`: the fields that one manager has written.
#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
pub struct ManagedFields<'a> {
    /// Name of the field manager, such as `kube-controller-manager`.
    #[serde(borrow)]
    pub manager: JsonStr<'a>,
    /// Subresource that was written; `None` for the object itself.
    #[serde(borrow)]
    pub subresource: Option<JsonStr<'a>>,
    /// Time of the manager's latest write, in whole seconds.
    pub time: Option<Timestamp>,
    /// Raw JSON of the set of fields that the manager owns.
    #[serde(borrow)]
    pub fields_v1: Option<&'a RawValue>,
}

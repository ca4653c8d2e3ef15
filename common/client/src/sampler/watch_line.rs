//! The part of a watch event that names the writers of its object.

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde::{Deserialize, de::IgnoredAny};
use serde_json::value::RawValue;

use crate::{api::Format, json::Str, object::Encoded, wire::WatchEvent};

/// The metadata of the object in a frame of a watch.
pub(super) fn metadata(format: Format, frame: &[u8]) -> Option<Metadata<'_>> {
    match format {
        Format::Json => serde_json::from_slice(frame).ok().map(|line: WatchLine<'_>| line.object.metadata),
        Format::Protobuf => Encoded::Protobuf(WatchEvent::read(frame).ok()?.object.object).metadata().ok(),
    }
}

/// A line of a watch.
#[derive(Deserialize)]
pub struct WatchLine<'a> {
    /// `ADDED`, `MODIFIED`, `DELETED`, `BOOKMARK` or `ERROR`.
    #[serde(borrow, rename = "type")]
    pub kind: Str<'a>,
    /// The object as the event shows it.
    #[serde(borrow)]
    pub object: Object<'a>,
}

/// The part of an object that shows its writers.
#[derive(Deserialize)]
pub struct Object<'a> {
    /// Its metadata.
    #[serde(borrow)]
    pub metadata: Metadata<'a>,
}

/// Metadata of an object.
#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
pub struct Metadata<'a> {
    /// Its name.
    #[serde(borrow)]
    pub name: Str<'a>,
    /// Its namespace; none for a cluster-scoped object.
    #[serde(borrow)]
    pub namespace: Option<Str<'a>>,
    /// Its labels.
    #[serde(borrow)]
    pub labels: Option<BTreeMap<String, Option<Str<'a>>>>,
    /// Present once its deletion was requested.
    pub deletion_timestamp: Option<IgnoredAny>,
    /// The field managers of the object, each with its fields.
    #[serde(borrow)]
    pub managed_fields: Vec<ManagedFields<'a>>,
}

/// The fields that one manager owns.
#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
pub struct ManagedFields<'a> {
    /// Name of the field manager.
    #[serde(borrow)]
    pub manager: Str<'a>,
    /// Subresource that was written; none for the object itself.
    #[serde(borrow)]
    pub subresource: Option<Str<'a>>,
    /// Time of the latest write.
    pub time: Option<Timestamp>,
    /// The fields that the manager owns.
    #[serde(borrow)]
    pub fields_v1: Option<&'a RawValue>,
}

//! A line of a watch, as far as it tells who has written the object.

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde::{Deserialize, de::IgnoredAny};
use serde_json::value::RawValue;

use crate::json::Str;

/// A line of a watch.
#[derive(Deserialize)]
pub(super) struct WatchLine<'a> {
    #[serde(borrow, rename = "type")]
    pub(super) kind: Str<'a>,
    #[serde(borrow)]
    pub(super) object: Object<'a>,
}

#[derive(Deserialize)]
pub(super) struct Object<'a> {
    #[serde(borrow)]
    pub(super) metadata: Metadata<'a>,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct Metadata<'a> {
    #[serde(borrow)]
    pub(super) name: Str<'a>,
    #[serde(borrow)]
    pub(super) namespace: Option<Str<'a>>,
    #[serde(borrow)]
    pub(super) labels: Option<BTreeMap<String, Option<Str<'a>>>>,
    pub(super) deletion_timestamp: Option<IgnoredAny>,
    #[serde(borrow)]
    pub(super) managed_fields: Vec<ManagedFields<'a>>,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct ManagedFields<'a> {
    #[serde(borrow)]
    pub(super) manager: Str<'a>,
    #[serde(borrow)]
    pub(super) subresource: Option<Str<'a>>,
    pub(super) time: Option<Timestamp>,
    #[serde(borrow)]
    pub(super) fields_v1: Option<&'a RawValue>,
}

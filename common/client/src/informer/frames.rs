//! Decodes the frames of a watch and the pages of a list, in JSON or protobuf, into typed objects.

use std::{borrow::Cow, sync::Arc};

use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;

use crate::{
    api::{ErrorStatus, WireFormat},
    head::ObjectHead,
    json::for_each_item,
    meta::{Meta, ResourceVersion},
    object::{DecodeError, EncodedObject, Object, Resource},
    store::CacheEntry,
    wire::{self, Envelope, WatchEvent, messages},
};

use super::Sink;

/// A watch event, by the change that it makes in the sink.
pub(super) enum DecodedEvent<'a, K> {
    /// An added or changed object that may concern this controller.
    Put { entry: CacheEntry<K>, added: bool },
    /// Identity and version of an object that does not concern this controller, from an event of any type.
    Foreign { head: ObjectHead<'a>, added: bool },
    /// Final state of a deleted object.
    DeletedObject(Meta),
    /// The version up to which all events were sent. `initial_end` marks the end of the objects of a streaming list.
    Bookmark { version: ResourceVersion, initial_end: bool },
    /// An error with which the server ends the watch.
    Error(ErrorStatus),
}

impl<K: Object> DecodedEvent<'_, K> {
    /// Passes the event to `sink`. An error event changes nothing.
    pub(super) fn apply_to_sink<S: Sink<Object = K>>(self, sink: &S) {
        match self {
            Self::Put { entry, .. } => sink.put_object(entry),
            Self::Foreign { head, .. } => sink.handle_foreign(&head),
            Self::DeletedObject(meta) => sink.remove_deleted(&meta),
            Self::Bookmark { version, .. } => sink.raise_version(version),
            Self::Error(_) => {}
        }
    }
}

/// Decodes a watch frame and passes its event to `sink`.
///
/// The informer handles each frame in the same way. This function is public so that tests can measure the cost of an event.
///
/// # Errors
/// If the frame is not a watch event, or the metadata of its object cannot be read.
pub fn apply_watch_frame<S: Sink>(sink: &S, format: WireFormat, frame: &[u8]) -> Result<(), String> {
    decode_watch_frame::<S::Object>(format, frame).map(|event| event.apply_to_sink(sink))
}

/// Annotation of the bookmark that ends the objects of a streaming list; the events of the watch follow.
const INITIAL_EVENTS_END: &str = "k8s.io/initial-events-end";

#[derive(Deserialize)]
struct Line<'a> {
    #[serde(borrow, rename = "type")]
    kind: Cow<'a, str>,
    #[serde(borrow)]
    object: &'a RawValue,
}

/// Decodes one frame of a watch.
///
/// # Errors
/// If the frame is not a watch event, or the metadata of its object cannot be read.
pub(super) fn decode_watch_frame<K: Object>(format: WireFormat, frame: &[u8]) -> Result<DecodedEvent<'_, K>, String> {
    match format {
        WireFormat::Json => {
            let text = std::str::from_utf8(frame).map_err(|e| format!("not UTF-8: {e}"))?;
            let (kind, object) = match split(text) {
                Some(parts) => parts,
                None => {
                    let line: Line<'_> = serde_json::from_str(text).map_err(|e| format!("not a watch event: {e}"))?;
                    (line.kind, line.object.get())
                }
            };
            match &*kind {
                "ERROR" => Ok(DecodedEvent::Error(serde_json::from_str(object).unwrap_or_default())),
                kind => event(kind, EncodedObject::Json(object)),
            }
        }
        WireFormat::Protobuf => match WatchEvent::decode(frame).map_err(|e| format!("not a watch event: {e}"))? {
            WatchEvent { event_type: "ERROR", object } => Ok(DecodedEvent::Error(ErrorStatus::from_protobuf(object))),
            WatchEvent { event_type, object } => event(event_type, message::<K>(object)?),
        },
    }
}

/// Decodes the object of a watch event; `kind` is the type of the event.
fn event<'a, K: Object>(kind: &str, object: EncodedObject<'a>) -> Result<DecodedEvent<'a, K>, String> {
    match kind {
        "ADDED" | "MODIFIED" => {
            let added = kind == "ADDED";
            match object.head_if_filtered_out::<K>() {
                Some(head) => Ok(DecodedEvent::Foreign { head, added }),
                None => Ok(DecodedEvent::Put { entry: entry(object)?, added }),
            }
        }
        "DELETED" => match object.head_if_filtered_out::<K>() {
            Some(head) => Ok(DecodedEvent::Foreign { head, added: false }),
            None => Ok(DecodedEvent::DeletedObject(
                object.decode_metadata().map_err(|e| format!("no readable metadata: {e}"))?,
            )),
        },
        "BOOKMARK" => {
            let meta: Meta = object.decode_metadata().map_err(|e| format!("no readable metadata: {e}"))?;
            let initial_end = meta.annotations.get(INITIAL_EVENTS_END) == Some("true");
            Ok(DecodedEvent::Bookmark { version: meta.resource_version, initial_end })
        }
        other => Err(format!("unknown watch event type {other:?}")),
    }
}

/// Returns the object in an envelope. Fails for an object of another kind than `K`, which might be decodable by chance.
fn message<K: Object>(envelope: Envelope<'_>) -> Result<EncodedObject<'_>, String> {
    if is_of::<K>(envelope.api_version, envelope.kind) {
        Ok(EncodedObject::Protobuf(envelope.object))
    } else {
        Err(format!("unexpected object of kind {:?} in {:?}", envelope.kind, envelope.api_version))
    }
}

fn is_of<K: Object>(api_version: &str, kind: &str) -> bool {
    let is_any_kind =
        K::PROTOBUF_SCHEMA.is_some_and(|message| std::ptr::eq(message, &raw const messages::METADATA_ONLY_OBJECT));
    if is_any_kind { kind != "Status" } else { kind == K::RESOURCE.kind() && is_in(api_version, &K::RESOURCE) }
}

/// Splits a line that begins as API servers write it into event type and object, without parsing the object; otherwise `None`.
fn split(text: &str) -> Option<(Cow<'_, str>, &str)> {
    let rest = text.strip_prefix("{\"type\":\"")?;
    let (kind, rest) = rest.split_once('"')?;
    let object = rest.strip_prefix(",\"object\":")?.trim_end().strip_suffix('}')?;
    kind.bytes().all(|b| b.is_ascii_uppercase()).then_some((Cow::Borrowed(kind), object))
}

fn entry<K: Object>(object: EncodedObject<'_>) -> Result<CacheEntry<K>, String> {
    match object.decode::<K>() {
        Ok(object) => Ok(CacheEntry::Decoded(Arc::new(object))),
        Err(DecodeError::Malformed(bad)) => {
            tracing::warn!(resource = %K::RESOURCE, key = %bad.meta.key(), err = %bad.error, "Object cannot be read");
            Ok(CacheEntry::Unreadable(bad))
        }
        Err(DecodeError::InvalidMetadata(error)) => Err(format!("object without readable metadata: {error}")),
    }
}

/// One page of a list, without the objects that do not concern this controller.
pub(super) struct ListPage<K> {
    pub(super) version: ResourceVersion,
    /// Continue token for the next page; empty on the last page.
    pub(super) continue_token: String,
    /// Objects that may concern this controller; some may be unreadable.
    pub(super) items: Vec<CacheEntry<K>>,
    /// Number of objects on the page that do not concern this controller.
    pub(super) filtered_out_object_count: usize,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
struct ListMeta {
    resource_version: ResourceVersion,
    #[serde(rename = "continue")]
    next: Option<String>,
}

fn is_in(api_version: &str, resource: &Resource) -> bool {
    let (group, version) = api_version.rsplit_once('/').unwrap_or(("", api_version));
    (group, version) == (resource.group(), resource.version())
}

/// Decodes a page of a list, item by item.
///
/// # Errors
/// If the body is not a list, or the metadata of an item cannot be read.
pub(super) fn decode_list_page<K: Object>(format: WireFormat, body: &[u8]) -> Result<ListPage<K>, String> {
    #[derive(Deserialize)]
    #[serde(expecting = "a list of objects", bound = "K: Object")]
    struct List<K> {
        #[serde(default)]
        metadata: ListMeta,
        #[serde(default, deserialize_with = "items")]
        items: Items<K>,
    }

    let no_list = |error: &dyn std::fmt::Display| format!("not a list: {error}");
    let (metadata, items) = match format {
        WireFormat::Json => {
            let list = List::deserialize(&mut serde_json::Deserializer::from_slice(body)).map_err(|e| no_list(&e))?;
            (list.metadata, list.items)
        }
        WireFormat::Protobuf => {
            let mut list = wire::EncodedList::read(body).map_err(|e| no_list(&e))?;
            if !list.kind.strip_suffix("List").is_some_and(|kind| is_of::<K>(list.api_version, kind)) {
                return Err(format!("not a list of {}, but {:?}", K::RESOURCE, list.kind));
            }
            let metadata = wire::decode_message(&messages::LIST_META, list.metadata).map_err(|e| no_list(&e))?;
            let mut items = Items::default();
            while let Some(item) = list.next_item().map_err(|e| no_list(&e))? {
                items.add(EncodedObject::Protobuf(item))?;
            }
            (metadata, items)
        }
    };
    let ListMeta { resource_version: version, next } = metadata;
    Ok(ListPage {
        version,
        continue_token: next.unwrap_or_default(),
        items: items.concerning,
        filtered_out_object_count: items.foreign,
    })
}

/// The decoded items of one page of a list.
struct Items<K> {
    /// Objects that may concern this controller; some may be unreadable.
    concerning: Vec<CacheEntry<K>>,
    /// Number of objects on the page that do not concern this controller.
    foreign: usize,
}

impl<K> Default for Items<K> {
    fn default() -> Self {
        Self { concerning: Vec::new(), foreign: 0 }
    }
}

impl<K: Object> Items<K> {
    fn add(&mut self, object: EncodedObject<'_>) -> Result<(), String> {
        if object.head_if_filtered_out::<K>().is_some() {
            self.foreign += 1;
        } else {
            self.concerning.push(entry(object)?);
        }
        Ok(())
    }
}

fn items<'de, K: Object, D: Deserializer<'de>>(deserializer: D) -> Result<Items<K>, D::Error> {
    let mut items = Items::default();
    for_each_item(deserializer, |item: &'de RawValue| items.add(EncodedObject::Json(item.get())))?;
    Ok(items)
}

#[cfg(test)]
mod tests;

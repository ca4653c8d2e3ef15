//! Decodes the frames of a watch and the pages of a list, in JSON or protobuf, into typed objects.

use std::{borrow::Cow, sync::Arc};

use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;

use crate::{
    api::{Format, Status},
    head::Head,
    json::each_item,
    meta::{Meta, Version},
    object::{DecodeError, Encoded, Object, Resource},
    store::Entry,
    wire::{self, Envelope, WatchEvent, messages},
};

use super::Sink;

/// A decoded watch event.
pub(super) enum Frame<'a, K> {
    /// An added or changed object that may concern this controller.
    Put { entry: Entry<K>, added: bool },
    /// Identity and version of an object that does not concern this controller, from an event of any type.
    Foreign { head: Head<'a>, added: bool },
    /// Final state of a deleted object.
    Gone(Meta),
    /// The version up to which all events were sent. `initial_end` marks the end of the first set of a streaming list.
    Bookmark { version: Version, initial_end: bool },
    /// An error with which the server ends the watch.
    Error(Status),
}

impl<K: Object> Frame<'_, K> {
    /// Passes the event to `sink`. An error event changes nothing.
    pub(super) fn apply<S: Sink<Object = K>>(self, sink: &S) {
        match self {
            Self::Put { entry, .. } => sink.put(entry),
            Self::Foreign { head, .. } => sink.foreign(&head),
            Self::Gone(meta) => sink.gone(&meta),
            Self::Bookmark { version, .. } => sink.bookmark(version),
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
pub fn apply_frame<S: Sink>(sink: &S, format: Format, frame: &[u8]) -> Result<(), String> {
    read::<S::Object>(format, frame).map(|event| event.apply(sink))
}

/// Annotation of the bookmark that ends the first set of objects in a streaming list.
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
pub(super) fn read<K: Object>(format: Format, frame: &[u8]) -> Result<Frame<'_, K>, String> {
    match format {
        Format::Json => {
            let text = std::str::from_utf8(frame).map_err(|e| format!("not UTF-8: {e}"))?;
            let (kind, object) = match split(text) {
                Some(parts) => parts,
                None => {
                    let line: Line<'_> = serde_json::from_str(text).map_err(|e| format!("not a watch event: {e}"))?;
                    (line.kind, line.object.get())
                }
            };
            match &*kind {
                "ERROR" => Ok(Frame::Error(serde_json::from_str(object).unwrap_or_default())),
                kind => event(kind, Encoded::Json(object)),
            }
        }
        Format::Protobuf => match WatchEvent::read(frame).map_err(|e| format!("not a watch event: {e}"))? {
            WatchEvent { kind: "ERROR", object } => Ok(Frame::Error(Status::of_message(object))),
            WatchEvent { kind, object } => event(kind, message::<K>(object)?),
        },
    }
}

/// Decodes the object in an event of type `kind`.
fn event<'a, K: Object>(kind: &str, object: Encoded<'a>) -> Result<Frame<'a, K>, String> {
    match kind {
        "ADDED" | "MODIFIED" => {
            let added = kind == "ADDED";
            match object.foreign_head::<K>() {
                Some(head) => Ok(Frame::Foreign { head, added }),
                None => Ok(Frame::Put { entry: entry(object)?, added }),
            }
        }
        "DELETED" => match object.foreign_head::<K>() {
            Some(head) => Ok(Frame::Foreign { head, added: false }),
            None => Ok(Frame::Gone(object.metadata().map_err(|e| format!("no readable metadata: {e}"))?)),
        },
        "BOOKMARK" => {
            let meta: Meta = object.metadata().map_err(|e| format!("no readable metadata: {e}"))?;
            let initial_end = meta.annotations.get(INITIAL_EVENTS_END) == Some("true");
            Ok(Frame::Bookmark { version: meta.resource_version, initial_end })
        }
        other => Err(format!("unknown watch event type {other:?}")),
    }
}

/// Returns the object in an envelope if it is of the kind of `K`, because an object of another kind might decode by chance.
fn message<K: Object>(envelope: Envelope<'_>) -> Result<Encoded<'_>, String> {
    if is_of::<K>(envelope.api_version, envelope.kind) {
        Ok(Encoded::Protobuf(envelope.object))
    } else {
        Err(format!("unexpected object of kind {:?} in {:?}", envelope.kind, envelope.api_version))
    }
}

/// Whether `K` is the type for objects of this API version and kind.
fn is_of<K: Object>(api_version: &str, kind: &str) -> bool {
    let is_any_kind = K::PROTOBUF.is_some_and(|message| std::ptr::eq(message, &raw const messages::OBJECT));
    if is_any_kind { kind != "Status" } else { kind == K::RESOURCE.kind && is_in(api_version, K::RESOURCE) }
}

/// Splits a line of the usual form into event type and object, without parsing the object; `None` if the line has another form.
fn split(text: &str) -> Option<(Cow<'_, str>, &str)> {
    let rest = text.strip_prefix("{\"type\":\"")?;
    let (kind, rest) = rest.split_once('"')?;
    let object = rest.strip_prefix(",\"object\":")?.trim_end().strip_suffix('}')?;
    kind.bytes().all(|b| b.is_ascii_uppercase()).then_some((Cow::Borrowed(kind), object))
}

fn entry<K: Object>(object: Encoded<'_>) -> Result<Entry<K>, String> {
    match object.decode::<K>() {
        Ok(object) => Ok(Entry::Good(Arc::new(object))),
        Err(DecodeError::Malformed(bad)) => {
            tracing::warn!(resource = %K::RESOURCE, key = %bad.meta.key(), err = %bad.error, "Object cannot be read");
            Ok(Entry::Bad(bad))
        }
        Err(DecodeError::Nameless(error)) => Err(format!("object without readable metadata: {error}")),
    }
}

/// A decoded page of a list.
pub(super) struct Page<K> {
    pub(super) version: Version,
    /// Continue token for the next page; empty on the last page.
    pub(super) next: String,
    /// Objects that may concern this controller; some may be unreadable.
    pub(super) items: Vec<Entry<K>>,
    /// Number of objects on the page that do not concern this controller.
    pub(super) foreign: usize,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
struct ListMeta {
    resource_version: Version,
    #[serde(rename = "continue")]
    next: Option<String>,
}

/// Whether `api_version` is the group and version of `resource`.
fn is_in(api_version: &str, resource: Resource) -> bool {
    let (group, version) = api_version.rsplit_once('/').unwrap_or(("", api_version));
    (group, version) == (resource.group, resource.version)
}

/// Decodes a page of a list, item by item.
///
/// # Errors
/// If the body is not a list, or the metadata of an item cannot be read.
pub(super) fn read_page<K: Object>(format: Format, body: &[u8]) -> Result<Page<K>, String> {
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
        Format::Json => {
            let list = List::deserialize(&mut serde_json::Deserializer::from_slice(body)).map_err(|e| no_list(&e))?;
            (list.metadata, list.items)
        }
        Format::Protobuf => {
            let mut list = wire::List::read(body).map_err(|e| no_list(&e))?;
            if !list.kind.strip_suffix("List").is_some_and(|kind| is_of::<K>(list.api_version, kind)) {
                return Err(format!("not a list of {}, but {:?}", K::RESOURCE, list.kind));
            }
            let metadata = wire::read(&messages::LIST_META, list.metadata).map_err(|e| no_list(&e))?;
            let mut items = Items::default();
            while let Some(item) = list.next_item().map_err(|e| no_list(&e))? {
                items.add(Encoded::Protobuf(item))?;
            }
            (metadata, items)
        }
    };
    let ListMeta { resource_version: version, next } = metadata;
    Ok(Page { version, next: next.unwrap_or_default(), items: items.concerning, foreign: items.foreign })
}

/// The decoded items of one page of a list.
struct Items<K> {
    /// Objects that may concern this controller; some may be unreadable.
    concerning: Vec<Entry<K>>,
    /// Number of objects on the page that do not concern this controller.
    foreign: usize,
}

impl<K> Default for Items<K> {
    fn default() -> Self {
        Self { concerning: Vec::new(), foreign: 0 }
    }
}

impl<K: Object> Items<K> {
    fn add(&mut self, item: Encoded<'_>) -> Result<(), String> {
        if item.foreign_head::<K>().is_some() {
            self.foreign += 1;
        } else {
            self.concerning.push(entry(item)?);
        }
        Ok(())
    }
}

/// Deserializes the items of a JSON list.
fn items<'de, K: Object, D: Deserializer<'de>>(deserializer: D) -> Result<Items<K>, D::Error> {
    let mut items = Items::default();
    each_item(deserializer, |item: &'de RawValue| items.add(Encoded::Json(item.get())))?;
    Ok(items)
}

#[cfg(test)]
mod tests;

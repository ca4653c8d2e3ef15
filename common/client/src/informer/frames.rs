//! The lines of a watch and the pages of a list, read into projections.

use std::{borrow::Cow, sync::Arc};

use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;

use crate::{
    api::Status,
    meta::{Meta, Version},
    object::{DecodeError, Object, decode, decode_meta},
    store::Entry,
};

use super::head::{Head, each};

/// One line of a watch.
pub(super) enum Frame<'a, K> {
    /// An object as it is now.
    Put { entry: Entry<K>, added: bool },
    /// An object that does not concern this controller as it is now.
    Foreign { head: Head<'a>, added: bool },
    /// The last state of an object that is gone.
    Gone(Meta),
    /// Everything up to this version has been sent; the first set is complete if `initial_end`.
    Bookmark { version: Version, initial_end: bool },
    /// The server ends the watch with an error.
    Error(Status),
}

/// The annotation of the bookmark that ends the first set of a streaming list.
const INITIAL_EVENTS_END: &str = "k8s.io/initial-events-end";

#[derive(Deserialize)]
struct Line<'a> {
    #[serde(borrow, rename = "type")]
    kind: Cow<'a, str>,
    #[serde(borrow)]
    object: &'a RawValue,
}

/// Reads one line.
///
/// # Errors
/// If the line is no watch event, or an object in it has not even metadata.
pub(super) fn read<K: Object>(line: &[u8]) -> Result<Frame<'_, K>, String> {
    let text = std::str::from_utf8(line).map_err(|e| format!("not UTF-8: {e}"))?;
    let (kind, object) = match split(text) {
        Some(parts) => parts,
        None => {
            let line: Line<'_> = serde_json::from_str(text).map_err(|e| format!("no watch event: {e}"))?;
            (line.kind, line.object.get())
        }
    };
    match &*kind {
        "ADDED" | "MODIFIED" => {
            let added = kind == "ADDED";
            match Head::of_foreign::<K>(object) {
                Some(head) => Ok(Frame::Foreign { head, added }),
                None => Ok(Frame::Put { entry: entry(object)?, added }),
            }
        }
        "DELETED" => Ok(Frame::Gone(decode_meta(object).map_err(|e| format!("no metadata: {e}"))?)),
        "BOOKMARK" => {
            let meta = decode_meta(object).map_err(|e| format!("no metadata: {e}"))?;
            let initial_end = meta.annotations.get(INITIAL_EVENTS_END) == Some("true");
            Ok(Frame::Bookmark { version: meta.resource_version, initial_end })
        }
        "ERROR" => Ok(Frame::Error(serde_json::from_str(object).unwrap_or_default())),
        other => Err(format!("unknown watch event type {other:?}")),
    }
}

/// Takes a line apart that looks as every server writes it, without looking through the object twice.
fn split(text: &str) -> Option<(Cow<'_, str>, &str)> {
    let rest = text.strip_prefix("{\"type\":\"")?;
    let (kind, rest) = rest.split_once('"')?;
    let object = rest.strip_prefix(",\"object\":")?.trim_end().strip_suffix('}')?;
    kind.bytes().all(|b| b.is_ascii_uppercase()).then_some((Cow::Borrowed(kind), object))
}

fn entry<K: Object>(json: &str) -> Result<Entry<K>, String> {
    match decode::<K>(json) {
        Ok(object) => Ok(Entry::Good(Arc::new(object))),
        Err(DecodeError::Malformed(bad)) => {
            tracing::warn!(resource = %K::RESOURCE, key = %bad.meta.key(), err = %bad.error, "Object cannot be read");
            Ok(Entry::Bad(bad))
        }
        Err(DecodeError::Nameless(error)) => Err(format!("object without metadata: {error}")),
    }
}

/// A page of a list.
pub(super) struct Page<K> {
    pub(super) version: Version,
    /// Token that the request for the next page carries; empty on the last page.
    pub(super) next: String,
    /// The objects that may concern this controller.
    pub(super) items: Vec<Entry<K>>,
    /// How many others there are.
    pub(super) foreign: usize,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
struct ListMeta {
    resource_version: Version,
    #[serde(rename = "continue")]
    next: Option<String>,
}

/// Reads a page of a list, item by item.
///
/// # Errors
/// If it is no list, or an item has not even metadata.
pub(super) fn read_page<K: Object>(json: &[u8]) -> Result<Page<K>, String> {
    #[derive(Deserialize)]
    #[serde(expecting = "a list of objects", bound = "K: Object")]
    struct List<K> {
        #[serde(default)]
        metadata: ListMeta,
        #[serde(default, deserialize_with = "items")]
        items: (Vec<Entry<K>>, usize),
    }

    let list =
        List::deserialize(&mut serde_json::Deserializer::from_slice(json)).map_err(|e| format!("no list: {e}"))?;
    let List { metadata: ListMeta { resource_version: version, next }, items: (items, foreign) } = list;
    Ok(Page { version, next: next.unwrap_or_default(), items, foreign })
}

/// The objects among the items of a list that may concern this controller, and how many others there are.
fn items<'de, K: Object, D: Deserializer<'de>>(deserializer: D) -> Result<(Vec<Entry<K>>, usize), D::Error> {
    let (mut items, mut foreign) = (Vec::new(), 0);
    each(deserializer, |item: &'de RawValue| {
        if Head::of_foreign::<K>(item.get()).is_some() {
            foreign += 1;
        } else {
            items.push(entry(item.get())?);
        }
        Ok(())
    })?;
    Ok((items, foreign))
}

#[cfg(test)]
mod tests;

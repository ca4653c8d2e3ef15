//! Objects as bytes, in the formats that clients ask for.
//!
//! An object is encoded once, within the watch event that announces it; answers and lists are slices of that event.

use std::ops::Range;

use bytes::Bytes;
use serde_json::{Map, Value};

use crate::{
    api::{protobuf, raw},
    value::json,
};

/// The format of an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Format {
    Json,
    /// JSON under the media type of YAML, of which it is a subset.
    Yaml,
    Protobuf,
}

impl Format {
    /// The media type of objects and lists.
    pub(crate) fn media_type(self) -> &'static str {
        match self {
            Self::Json => "application/json",
            Self::Yaml => "application/yaml",
            Self::Protobuf => protobuf::MEDIA_TYPE,
        }
    }

    /// The media type of watches.
    pub(crate) fn stream_media_type(self) -> &'static str {
        match self {
            Self::Json | Self::Yaml => "application/json",
            Self::Protobuf => protobuf::STREAM_MEDIA_TYPE,
        }
    }

    /// Encodes an object. JSON always succeeds.
    pub(crate) fn object(self, object: &Value) -> Result<Bytes, String> {
        match self {
            Self::Json | Self::Yaml => Ok(json::body(object)),
            Self::Protobuf => Ok(protobuf::write(object, None)?.bytes.into()),
        }
    }

    /// Encodes a watch event.
    pub(crate) fn event(self, event: &str, object: &Value) -> Result<Bytes, String> {
        Ok(self.event_around(event, &self.object(object)?))
    }

    /// A watch event around an encoded object.
    fn event_around(self, event: &str, object: &[u8]) -> Bytes {
        match self {
            Self::Json | Self::Yaml => {
                let mut line = Vec::with_capacity(object.len() + 40);
                open_line(&mut line, event);
                line.extend_from_slice(object);
                line.extend_from_slice(END_OF_LINE);
                line.into()
            }
            Self::Protobuf => protobuf::frame(event, object).into(),
        }
    }
}

/// `{"type":"...","object":`
fn open_line(line: &mut Vec<u8>, event: &str) {
    line.extend_from_slice(b"{\"type\":\"");
    line.extend_from_slice(event.as_bytes());
    line.extend_from_slice(b"\",\"object\":");
}

const END_OF_LINE: &[u8] = b"}\n";

/// How much of an object is encoded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Content {
    Whole,
    /// The metadata, as `PartialObjectMetadata`.
    Metadata,
}

/// An object within a watch event. Cheap to clone.
#[derive(Clone, Debug)]
pub(crate) struct Encoded {
    format: Format,
    event: Bytes,
    /// The part of the event that is the object.
    object: Range<usize>,
    /// The part of the event that a list contains: the JSON after `apiVersion` and `kind`, or the message without its
    /// envelope.
    item: Range<usize>,
}

impl Encoded {
    /// Encodes an object and the event that announces it. `raw` is the text of the field whose bytes are kept.
    pub(crate) fn new(format: Format, event: &str, object: &Value, raw: Option<&str>) -> Result<Self, String> {
        match format {
            Format::Json | Format::Yaml => Ok(Self::json(event, object, raw)),
            Format::Protobuf => {
                let object = protobuf::write(object, raw.map(|text| (raw::FIELD, text)))?;
                let event = protobuf::frame(event, &object.bytes);
                let start = event.len() - object.bytes.len();
                let message = object.message();
                Ok(Self {
                    format,
                    object: start..event.len(),
                    item: start + message.start..start + message.end,
                    event: event.into(),
                })
            }
        }
    }

    /// As [`Encoded::new`] in JSON, which cannot fail.
    pub(crate) fn json(event: &str, object: &Value, raw: Option<&str>) -> Self {
        let mut line = Vec::with_capacity(1024);
        open_line(&mut line, event);
        let start = line.len();
        let fields = write_object(&mut line, object, raw);
        let end = line.len();
        line.extend_from_slice(END_OF_LINE);
        Self { format: Format::Json, event: line.into(), object: start..end, item: fields..end }
    }

    /// The event for which the object was encoded.
    pub(crate) fn own_event(&self) -> &Bytes {
        &self.event
    }

    /// An event of another type with the same object.
    pub(crate) fn event(&self, event: &str) -> Bytes {
        self.format.event_around(event, self.object_bytes())
    }

    /// The object with `apiVersion` and `kind`.
    pub(crate) fn object(&self) -> Bytes {
        self.event.slice(self.object.clone())
    }

    /// As [`Encoded::object`].
    pub(crate) fn object_bytes(&self) -> &[u8] {
        &self.event[self.object.clone()]
    }

    /// The object as an item of a list. In JSON, the caller writes the opening `{` before it.
    pub(crate) fn item(&self) -> &[u8] {
        &self.event[self.item.clone()]
    }
}

/// Writes an object, `apiVersion` and `kind` first; returns where the other fields start.
fn write_object(out: &mut Vec<u8>, value: &Value, raw: Option<&str>) -> usize {
    out.extend_from_slice(b"{\"apiVersion\":");
    json::write(out, value.get("apiVersion").unwrap_or(&Value::Null));
    out.extend_from_slice(b",\"kind\":");
    json::write(out, value.get("kind").unwrap_or(&Value::Null));
    out.push(b',');
    let fields = out.len();
    if let Some(text) = raw {
        json::write(out, raw::FIELD);
        out.push(b':');
        out.extend_from_slice(raw::encoded(text).as_bytes());
        out.push(b',');
    }
    let written = |field: &str| matches!(field, "apiVersion" | "kind") || (raw.is_some() && field == raw::FIELD);
    let rest = value.as_object().into_iter().flatten().filter(|(field, _)| !written(field));
    json::write_fields(out, rest);
    out.push(b'}');
    fields
}

/// Kind of a list of objects without anything but their metadata.
pub(crate) const METADATA_LIST: &str = "PartialObjectMetadataList";

/// A list without its items.
pub(crate) struct ListHead<'a> {
    pub(crate) api_version: &'a str,
    pub(crate) kind: &'a str,
    pub(crate) metadata: Map<String, Value>,
}

impl ListHead<'_> {
    /// A list in JSON; each item is given in the parts that make it up.
    pub(crate) fn json<'a>(self, items: impl Iterator<Item = [&'a [u8]; 2]>) -> Bytes {
        let mut out = Vec::with_capacity(4096);
        out.extend_from_slice(b"{\"kind\":");
        json::write(&mut out, self.kind);
        out.extend_from_slice(b",\"apiVersion\":");
        json::write(&mut out, self.api_version);
        out.extend_from_slice(b",\"metadata\":");
        json::write(&mut out, &self.metadata);
        let mut items = items.peekable();
        // As a real API server answers.
        if self.kind == METADATA_LIST && items.peek().is_none() {
            out.extend_from_slice(b",\"items\":null}");
            return out.into();
        }
        out.extend_from_slice(b",\"items\":[");
        for (i, parts) in items.enumerate() {
            if i > 0 {
                out.push(b',');
            }
            for part in parts {
                out.extend_from_slice(part);
            }
        }
        out.extend_from_slice(b"]}");
        out.into()
    }

    /// A list in protobuf, of messages without an envelope.
    pub(crate) fn protobuf<'a>(self, items: impl Iterator<Item = &'a [u8]>) -> Result<Bytes, String> {
        Ok(protobuf::write_list(self.api_version, self.kind, self.metadata, items)?.into())
    }
}

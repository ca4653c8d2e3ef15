//! The envelope that names the kind of a message, lists of messages, and the frames of a watch.

use serde_json::{Map, Value};

use super::{
    MAGIC,
    write::{Kept, delimited, head, object},
};

/// The media type of objects and lists.
pub(crate) const MEDIA_TYPE: &str = "application/vnd.kubernetes.protobuf";
/// The media type of watches.
pub(crate) const STREAM_MEDIA_TYPE: &str = "application/vnd.kubernetes.protobuf;stream=watch";

/// Bytes of the length at the start of each frame, highest byte first.
const LENGTH: usize = 4;

/// A message, given in parts, in its envelope.
fn envelope(api_version: &str, kind: &str, message: &[&[u8]]) -> Vec<u8> {
    let mut kind_of = Vec::with_capacity(64);
    delimited(&mut kind_of, 1, &[api_version.as_bytes()]);
    delimited(&mut kind_of, 2, &[kind.as_bytes()]);
    let length: usize = message.iter().map(|part| part.len()).sum();
    let mut out = Vec::with_capacity(length + 128);
    out.extend_from_slice(MAGIC);
    delimited(&mut out, 1, &[&kind_of]);
    delimited(&mut out, 2, message);
    out.extend_from_slice(&TAIL);
    out
}

/// The empty content encoding and content type at the end of an envelope.
const TAIL: [u8; 4] = [3 << 3 | 2, 0, 4 << 3 | 2, 0];

fn text<'a>(object: &'a Value, field: &str) -> &'a str {
    object.get(field).and_then(Value::as_str).unwrap_or_default()
}

/// An encoded object with its envelope.
pub(crate) struct Enveloped {
    pub(crate) bytes: Vec<u8>,
    message: usize,
}

impl Enveloped {
    /// The part of the bytes that is the message.
    pub(crate) fn message(&self) -> std::ops::Range<usize> {
        let end = self.bytes.len() - TAIL.len();
        end - self.message..end
    }
}

/// Writes an object. `kept` is a field of it that is written from its text, and that text.
pub(crate) fn write(value: &Value, kept: Kept<'_>) -> Result<Enveloped, String> {
    let (api_version, kind) = (text(value, "apiVersion"), text(value, "kind"));
    let message = object(api_version, kind, value, kept)?;
    Ok(Enveloped { bytes: envelope(api_version, kind, &[&message]), message: message.len() })
}

/// Writes a list of messages.
pub(crate) fn write_list<'a>(
    api_version: &str,
    kind: &str,
    metadata: Map<String, Value>,
    items: impl Iterator<Item = &'a [u8]>,
) -> Result<Vec<u8>, String> {
    let metadata = object("meta/v1", "ListMeta", &Value::Object(metadata), None)?;
    let mut list = Vec::new();
    delimited(&mut list, 1, &[&metadata]);
    for item in items {
        delimited(&mut list, 2, &[item]);
    }
    Ok(envelope(api_version, kind, &[&list]))
}

/// The frame of a watch event around an object in its envelope; the object is at the end of the frame.
pub(crate) fn frame(event: &str, object: &[u8]) -> Vec<u8> {
    let mut extension = Vec::with_capacity(16);
    // The tag and the length of the field; the object follows.
    head(&mut extension, 1, object.len());
    let mut out = Vec::with_capacity(object.len() + 64);
    out.extend_from_slice(&[0; LENGTH]);
    delimited(&mut out, 1, &[event.as_bytes()]);
    delimited(&mut out, 2, &[&extension, object]);
    let length = u32::try_from(out.len() - LENGTH).unwrap_or(u32::MAX);
    out[..LENGTH].copy_from_slice(&length.to_be_bytes());
    out
}

/// Writes a watch event, which is a frame without its length. The object has its `apiVersion` and `kind`.
///
/// # Errors
/// If the kind has no protobuf encoding, or a field is of another type.
pub fn write_event(event: &str, object: &Value) -> Result<Vec<u8>, String> {
    Ok(frame(event, &write(object, None)?.bytes).split_off(LENGTH))
}

//! Wrappers of encoded objects: the envelope of a body, watch events, and lists.

use serde::Serialize;

use super::{
    Error,
    fields::{RemainingFields, WireValue, last_field_value},
    raw::keep_fields,
    schema::MessageSchema,
    serializer::{append_bytes, append_message, append_nested},
};

/// Media type of the protobuf encoding.
const MEDIA_TYPE: &str = "application/vnd.kubernetes.protobuf";
/// First bytes of every body in the protobuf encoding of Kubernetes.
const MAGIC: &[u8] = b"k8s\0";

/// The message around an encoded object, which names the object's kind and API version.
#[derive(Clone, Copy, Debug)]
pub struct Envelope<'a> {
    /// `apiVersion` of the object: group and version.
    pub api_version: &'a str,
    /// `kind` of the object.
    pub kind: &'a str,
    /// Encoded object without the envelope.
    pub object: &'a [u8],
}

impl<'a> Envelope<'a> {
    /// Decodes the envelope of a body or of a watch event's object.
    ///
    /// # Errors
    /// The bytes are not an envelope, or the object in it is compressed or not protobuf.
    pub fn decode(body: &'a [u8]) -> Result<Self, Error> {
        let body = body.strip_prefix(MAGIC).ok_or_else(|| Error::new("the body has no protobuf envelope"))?;
        let (mut api_version, mut kind, mut object) = ("", "", &b""[..]);
        let mut fields = RemainingFields(body);
        while let Some((number, datum)) = fields.next()? {
            match number {
                1 => {
                    api_version = last_field_value(datum.bytes()?, 1)?.map_or(Ok(""), WireValue::text)?;
                    kind = last_field_value(datum.bytes()?, 2)?.map_or(Ok(""), WireValue::text)?;
                }
                2 => object = datum.bytes()?,
                3 if !datum.bytes()?.is_empty() => return Err(Error::new("the object is compressed")),
                4 if !matches!(datum.text()?, "" | MEDIA_TYPE) => {
                    return Err(Error::new("the object is not encoded as protobuf"));
                }
                _ => {}
            }
        }
        Ok(Self { api_version, kind, object })
    }

    /// Returns the object with another `metadata.resourceVersion`, in its envelope.
    ///
    /// # Errors
    /// The object is corrupted.
    pub fn with_resource_version(self, version: &str) -> Result<Vec<u8>, Error> {
        let metadata = last_field_value(self.object, 1)?.map_or(Ok(&b""[..]), WireValue::bytes)?;
        encode_envelope(self.api_version, self.kind, self.object.len(), |out| {
            append_nested(out, 1, |out| {
                out.extend(keep_fields(metadata, |number| number != 6)?);
                append_bytes(out, 6, version.as_bytes());
                Ok(())
            })?;
            out.extend(keep_fields(self.object, |number| number != 1)?);
            Ok(())
        })
    }
}

/// Encodes `body` as an object with the schema `message`, in its envelope. Members `apiVersion` and `kind` of the body must
/// have these values.
///
/// # Errors
/// The body does not fit the message, or contains JSON text ([`Error::JsonText`]).
pub fn encode_object<T: Serialize + ?Sized>(
    api_version: &str,
    kind: &str,
    message: &'static MessageSchema,
    body: &T,
) -> Result<Vec<u8>, Error> {
    let type_meta = [("apiVersion", api_version), ("kind", kind)];
    encode_envelope(api_version, kind, 0, |out| append_message(out, message, Some(type_meta), body))
}

fn encode_envelope(
    api_version: &str,
    kind: &str,
    object_length: usize,
    append_object: impl FnOnce(&mut Vec<u8>) -> Result<(), Error>,
) -> Result<Vec<u8>, Error> {
    let mut out = Vec::with_capacity(object_length + 512);
    out.extend_from_slice(MAGIC);
    append_nested(&mut out, 1, |out| {
        append_bytes(out, 1, api_version.as_bytes());
        append_bytes(out, 2, kind.as_bytes());
        Ok(())
    })?;
    append_nested(&mut out, 2, append_object)?;
    Ok(out)
}

/// A decoded watch event with an object that is still encoded.
#[derive(Clone, Copy, Debug)]
pub struct WatchEvent<'a> {
    /// `ADDED`, `MODIFIED`, `DELETED`, `BOOKMARK` or `ERROR`.
    pub event_type: &'a str,
    /// The object that was added, changed or deleted, in its envelope.
    pub object: Envelope<'a>,
}

impl<'a> WatchEvent<'a> {
    /// Decodes a frame of a watch, without the length before it.
    ///
    /// # Errors
    /// The frame is not an event with an object.
    pub fn decode(frame: &'a [u8]) -> Result<Self, Error> {
        let kind = last_field_value(frame, 1)?.map_or(Ok(""), WireValue::text)?;
        let object = last_field_value(frame, 2)?.ok_or_else(|| Error::new("the frame is not a watch event"))?;
        let object =
            last_field_value(object.bytes()?, 1)?.ok_or_else(|| Error::new("the watch event has no object"))?;
        Ok(Self { event_type: kind, object: Envelope::decode(object.bytes()?)? })
    }
}

/// A list with metadata and items that are still encoded.
#[derive(Clone, Copy, Debug)]
pub struct EncodedList<'a> {
    /// `apiVersion` of the list: group and version.
    pub api_version: &'a str,
    /// `kind` of the list, for example `PodList`.
    pub kind: &'a str,
    /// Encoded `ListMeta`.
    pub metadata: &'a [u8],
    items: RemainingFields<'a>,
}

impl<'a> EncodedList<'a> {
    /// Decodes the envelope and the metadata field of a list.
    ///
    /// # Errors
    /// The body is not an envelope with a list.
    pub fn read(body: &'a [u8]) -> Result<Self, Error> {
        let envelope = Envelope::decode(body)?;
        let metadata = last_field_value(envelope.object, 1)?.map_or(Ok(&b""[..]), WireValue::bytes)?;
        Ok(Self {
            api_version: envelope.api_version,
            kind: envelope.kind,
            metadata,
            items: RemainingFields(envelope.object),
        })
    }

    /// Returns the next encoded item, or `None` at the end of the list.
    ///
    /// # Errors
    /// The list is corrupted.
    pub fn next_item(&mut self) -> Result<Option<&'a [u8]>, Error> {
        while let Some((number, datum)) = self.items.next()? {
            if number == 2 {
                return datum.bytes().map(Some);
            }
        }
        Ok(None)
    }
}

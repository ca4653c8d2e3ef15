//! What an object is wrapped in: the envelope of a body, the events of a watch, and lists.

use super::{
    Error,
    fields::{Datum, Fields, only},
};

/// The media type of the encoding.
const MEDIA_TYPE: &str = "application/vnd.kubernetes.protobuf";
/// What every body begins with.
const MAGIC: &[u8] = b"k8s\0";

/// An object in its envelope.
#[derive(Clone, Copy, Debug)]
pub struct Envelope<'a> {
    /// Its group and version.
    pub api_version: &'a str,
    /// Its kind.
    pub kind: &'a str,
    /// The encoded object.
    pub object: &'a [u8],
}

impl<'a> Envelope<'a> {
    /// Reads a body, or the object of a watch event.
    ///
    /// # Errors
    /// If it is no envelope, or its content is encoded once more.
    pub fn read(body: &'a [u8]) -> Result<Self, Error> {
        let body = body.strip_prefix(MAGIC).ok_or_else(|| Error::new("no protobuf envelope"))?;
        let (mut api_version, mut kind, mut object) = ("", "", &b""[..]);
        let mut fields = Fields(body);
        while let Some((number, datum)) = fields.next()? {
            match number {
                1 => {
                    api_version = only(datum.bytes()?, 1)?.map_or(Ok(""), Datum::text)?;
                    kind = only(datum.bytes()?, 2)?.map_or(Ok(""), Datum::text)?;
                }
                2 => object = datum.bytes()?,
                3 if !datum.bytes()?.is_empty() => return Err(Error::new("an object that is compressed")),
                4 if !matches!(datum.text()?, "" | MEDIA_TYPE) => {
                    return Err(Error::new("an object that is not protobuf"));
                }
                _ => {}
            }
        }
        Ok(Self { api_version, kind, object })
    }
}

/// An event of a watch.
#[derive(Clone, Copy, Debug)]
pub struct WatchEvent<'a> {
    /// `ADDED`, `MODIFIED`, `DELETED`, `BOOKMARK` or `ERROR`.
    pub kind: &'a str,
    /// The object.
    pub object: Envelope<'a>,
}

impl<'a> WatchEvent<'a> {
    /// Reads a frame of a watch, without the length in front of it.
    ///
    /// # Errors
    /// If it is no event with an object.
    pub fn read(frame: &'a [u8]) -> Result<Self, Error> {
        let kind = only(frame, 1)?.map_or(Ok(""), Datum::text)?;
        let object = only(frame, 2)?.ok_or_else(|| Error::new("no watch event"))?;
        let object = only(object.bytes()?, 1)?.ok_or_else(|| Error::new("a watch event without an object"))?;
        Ok(Self { kind, object: Envelope::read(object.bytes()?)? })
    }
}

/// A list: its metadata and its items, each still encoded.
#[derive(Clone, Copy, Debug)]
pub struct List<'a> {
    /// Its group and version.
    pub api_version: &'a str,
    /// Its kind: `PodList`.
    pub kind: &'a str,
    /// The encoded `ListMeta`.
    pub metadata: &'a [u8],
    items: Fields<'a>,
}

impl<'a> List<'a> {
    /// Reads the body of a list.
    ///
    /// # Errors
    /// If it is no list.
    pub fn read(body: &'a [u8]) -> Result<Self, Error> {
        let envelope = Envelope::read(body)?;
        let metadata = only(envelope.object, 1)?.map_or(Ok(&b""[..]), Datum::bytes)?;
        Ok(Self { api_version: envelope.api_version, kind: envelope.kind, metadata, items: Fields(envelope.object) })
    }

    /// The next item; `None` at the end.
    ///
    /// # Errors
    /// If the list is damaged.
    pub fn next_item(&mut self) -> Result<Option<&'a [u8]>, Error> {
        while let Some((number, datum)) = self.items.next()? {
            if number == 2 {
                return datum.bytes().map(Some);
            }
        }
        Ok(None)
    }
}

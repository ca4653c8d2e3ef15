//! The fields of an encoded message, one after the other.

use prost::encoding::{WireType, decode_key, decode_varint};

use super::Error;

/// The value of a field, before its type is known.
#[derive(Clone, Copy, Debug)]
pub(super) enum Datum<'a> {
    /// A number or a boolean.
    Varint(u64),
    /// A string, bytes, or a message.
    Bytes(&'a [u8]),
    /// Four or eight bytes, which no field that is read has.
    Fixed,
}

impl<'a> Datum<'a> {
    /// The bytes.
    pub(super) fn bytes(self) -> Result<&'a [u8], Error> {
        if let Self::Bytes(bytes) = self { Ok(bytes) } else { Err(Error::new("bytes are expected, not a number")) }
    }

    /// The string.
    pub(super) fn text(self) -> Result<&'a str, Error> {
        std::str::from_utf8(self.bytes()?).map_err(|error| Error::new(&format!("not UTF-8: {error}")))
    }

    /// The number.
    pub(super) fn number(self) -> Result<u64, Error> {
        if let Self::Varint(number) = self { Ok(number) } else { Err(Error::new("a number is expected, not bytes")) }
    }
}

/// What is left of an encoded message.
#[derive(Clone, Copy, Debug)]
pub(super) struct Fields<'a>(pub(super) &'a [u8]);

impl<'a> Fields<'a> {
    /// The next field: its number and value; `None` at the end.
    ///
    /// # Errors
    /// If the message is truncated, or has a field of a type that Kubernetes does not use.
    #[inline]
    pub(super) fn next(&mut self) -> Result<Option<(u32, Datum<'a>)>, Error> {
        if self.0.is_empty() {
            return Ok(None);
        }
        // Nearly every key and length is one byte.
        let (number, kind) = match self.0 {
            [key, rest @ ..] if *key < 0x80 && *key & 7 == WireType::LengthDelimited as u8 && *key > 7 => {
                self.0 = rest;
                (u32::from(*key >> 3), WireType::LengthDelimited)
            }
            _ => decode_key(&mut self.0).map_err(|error| Error::new(&error.to_string()))?,
        };
        let datum = match kind {
            WireType::Varint => Datum::Varint(self.varint()?),
            WireType::LengthDelimited => {
                let length = self.varint()?;
                Datum::Bytes(self.take(usize::try_from(length).unwrap_or(usize::MAX))?)
            }
            WireType::SixtyFourBit => self.take(8).map(|_| Datum::Fixed)?,
            WireType::ThirtyTwoBit => self.take(4).map(|_| Datum::Fixed)?,
            WireType::StartGroup | WireType::EndGroup => {
                return Err(Error::new("a group, which Kubernetes never sends"));
            }
        };
        Ok(Some((number, datum)))
    }

    #[inline]
    fn varint(&mut self) -> Result<u64, Error> {
        if let [byte, rest @ ..] = self.0
            && *byte < 0x80
        {
            self.0 = rest;
            return Ok(u64::from(*byte));
        }
        decode_varint(&mut self.0).map_err(|error| Error::new(&error.to_string()))
    }

    #[inline]
    fn take(&mut self, length: usize) -> Result<&'a [u8], Error> {
        let (taken, rest) =
            self.0.split_at_checked(length).ok_or_else(|| Error::new("the message ends in the middle of a field"))?;
        self.0 = rest;
        Ok(taken)
    }
}

/// The value of the only field of a message that is a wrapper; the last one counts. `None` if it is not there.
pub(super) fn only(message: &[u8], number: u32) -> Result<Option<Datum<'_>>, Error> {
    let (mut fields, mut found) = (Fields(message), None);
    while let Some((at, datum)) = fields.next()? {
        if at == number {
            found = Some(datum);
        }
    }
    Ok(found)
}

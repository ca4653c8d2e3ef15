//! Iteration over the fields of an encoded message.

use prost::encoding::{WireType, decode_key, decode_varint};

use super::Error;

/// The value of a field before its type is known.
#[derive(Clone, Copy, Debug)]
pub(super) enum WireValue<'a> {
    /// A number or a boolean.
    Varint(u64),
    /// A string, a byte string or a message.
    Bytes(&'a [u8]),
    /// A value of four or eight bytes. No field that projections read has this type.
    Fixed,
}

impl<'a> WireValue<'a> {
    /// Returns a string, byte string or message as bytes. Any other value is an error.
    pub(super) fn bytes(self) -> Result<&'a [u8], Error> {
        if let Self::Bytes(bytes) = self { Ok(bytes) } else { Err(Error::new("bytes are expected, not a number")) }
    }

    /// Returns a string. Any other value, or invalid UTF-8, is an error.
    pub(super) fn text(self) -> Result<&'a str, Error> {
        std::str::from_utf8(self.bytes()?).map_err(|error| Error::new(&format!("not UTF-8: {error}")))
    }

    /// Returns a number or boolean as an integer. Any other value is an error.
    pub(super) fn number(self) -> Result<u64, Error> {
        if let Self::Varint(number) = self { Ok(number) } else { Err(Error::new("a number is expected, not bytes")) }
    }
}

/// The undecoded rest of a message.
#[derive(Clone, Copy, Debug)]
pub(super) struct RemainingFields<'a>(pub(super) &'a [u8]);

impl<'a> RemainingFields<'a> {
    /// Returns the number and the value of the next field, or `None` at the end of the message.
    ///
    /// # Errors
    /// The message is truncated, or contains a group, which Kubernetes does not use.
    #[inline]
    pub(super) fn next(&mut self) -> Result<Option<(u32, WireValue<'a>)>, Error> {
        if self.0.is_empty() {
            return Ok(None);
        }
        // Fast path: nearly all keys and lengths take one byte.
        let (number, kind) = match self.0 {
            [key, rest @ ..] if *key < 0x80 && *key & 7 == WireType::LengthDelimited as u8 && *key > 7 => {
                self.0 = rest;
                (u32::from(*key >> 3), WireType::LengthDelimited)
            }
            _ => decode_key(&mut self.0).map_err(|error| Error::new(&error.to_string()))?,
        };
        let datum = match kind {
            WireType::Varint => WireValue::Varint(self.varint()?),
            WireType::LengthDelimited => {
                let length = self.varint()?;
                WireValue::Bytes(self.take(usize::try_from(length).unwrap_or(usize::MAX))?)
            }
            WireType::SixtyFourBit => self.take(8).map(|_| WireValue::Fixed)?,
            WireType::ThirtyTwoBit => self.take(4).map(|_| WireValue::Fixed)?,
            WireType::StartGroup | WireType::EndGroup => {
                return Err(Error::new("the message contains a group, which Kubernetes never sends"));
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

/// Returns the value of field `number`, or `None` if the message lacks the field. The last value of a repeated field counts.
pub(super) fn last_field_value(message: &[u8], number: u32) -> Result<Option<WireValue<'_>>, Error> {
    let (mut fields, mut found) = (RemainingFields(message), None);
    while let Some((at, datum)) = fields.next()? {
        if at == number {
            found = Some(datum);
        }
    }
    Ok(found)
}

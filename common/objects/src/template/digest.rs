//! A digest of the meaning of a Pod template, computed in one pass over its text or message.
//!
//! [`super::Template`] defines which templates mean the same. Each value has a digest. Before the members of an object are
//! hashed, they are sorted by the digests of their names, so that the order in the text does not matter.

use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, Error, IgnoredAny, MapAccess, SeqAccess, Visitor};

use super::POD_TEMPLATE_HASH_LABEL;
use crate::{
    layout::{GoBaseType, GoType, GoTypeWrapper, PodTemplateLayout},
    object::EncodedObject,
    quantity::Quantity,
    siphash::SipHash,
    wire::{self, RawMessage},
};

/// `SipHash` key for digests of templates. The value is arbitrary, and the same in every process.
const KEY: [u64; 2] = [0x6e6f_6e65_7420_706f, 0x6420_7465_6d70_6c61];
/// Digest of a list element or map value that is the zero value of its type.
const ZERO: u128 = 0;

/// Computes the digest of a template. In protobuf, the bytes of fields that the schema does not have are hashed, too.
///
/// # Errors
/// The template is corrupted or nested too deeply.
pub(super) fn meaning_digest(raw_template: &RawMessage) -> Result<u128, wire::Error> {
    let root =
        Reader { shape: Some(GoType::single_value(PodTemplateLayout::get().template_type())), place: Place::Template };
    let node = match raw_template.encoded() {
        EncodedObject::Json(json) => root.deserialize(&mut serde_json::Deserializer::from_str(json))?,
        EncodedObject::Protobuf(bytes) => {
            root.deserialize(wire::deserializer_with_unknown_fields(&wire::messages::POD_TEMPLATE_SPEC, bytes))?
        }
    };
    Ok(node.present().unwrap_or(ZERO))
}

/// Computes the digest of an object that is not a valid template.
pub(super) fn invalid_digest(raw_template: &RawMessage) -> u128 {
    Kind::Broken.digest(&[match raw_template.encoded() {
        EncodedObject::Json(json) => json.as_bytes(),
        EncodedObject::Protobuf(bytes) => bytes,
    }])
}

/// Type of the hashed value, which is part of the hash, so that a number never equals a string.
#[derive(Clone, Copy)]
enum Kind {
    Name,
    Bool,
    Integer,
    Float,
    Text,
    Quantity,
    Time,
    List,
    Object,
    Broken,
}

impl Kind {
    fn digest(self, parts: &[&[u8]]) -> u128 {
        let mut hash = SipHash::new(KEY);
        hash.update(&[self as u8]);
        for part in parts {
            hash.update(part);
        }
        hash.finish()
    }
}

/// The digest of a value, or the reason why the value means the same as an absent field.
#[derive(Clone, Copy)]
enum ValueDigest {
    /// JSON `null`, which means the same as an absent field.
    Null,
    /// A value that means the same as an absent field: an empty list or map, or the zero value of a type that is not a pointer.
    Zero,
    /// A value that differs from an absent field, with its digest.
    Value(u128),
}

impl ValueDigest {
    fn present(self) -> Option<u128> {
        match self {
            Self::Null | Self::Zero => None,
            Self::Value(digest) => Some(digest),
        }
    }
}

/// Position of a value in the template, needed to find the label `pod-template-hash`.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Place {
    Template,
    Metadata,
    Labels,
    Elsewhere,
}

impl Place {
    fn under(self, name: &str) -> Self {
        match (self, name) {
            (Self::Template, "metadata") => Self::Metadata,
            (Self::Metadata, "labels") => Self::Labels,
            _ => Self::Elsewhere,
        }
    }
}

/// Reads one value and computes its digest.
#[derive(Clone, Copy)]
struct Reader {
    /// Expected type of the value; `None` in a field that the layout does not know.
    shape: Option<GoType>,
    place: Place,
}

impl Reader {
    /// Returns [`ValueDigest::Zero`] for a zero value that means the same as an absent field, otherwise the digest.
    fn digest_unless_zero(self, zero: bool, digest: impl FnOnce() -> u128) -> ValueDigest {
        let absent = self.shape.is_some_and(|shape| shape.wrapper != GoTypeWrapper::Pointer);
        if zero && absent { ValueDigest::Zero } else { ValueDigest::Value(digest()) }
    }

    fn base(self) -> Option<GoBaseType> {
        self.shape.map(|shape| shape.base)
    }

    fn quantity(self, text: &str) -> ValueDigest {
        match Quantity::parse(text.trim()) {
            Ok(quantity) => self.digest_unless_zero(quantity.is_zero(), || {
                let (negative, digits, exponent) = quantity.sign_digits_and_exponent();
                Kind::Quantity.digest(&[&[u8::from(negative)], &exponent.to_le_bytes(), digits.as_bytes()])
            }),
            Err(_) => ValueDigest::Value(Kind::Text.digest(&[text.as_bytes()])),
        }
    }

    fn integer(self, value: i128) -> ValueDigest {
        if self.base() == Some(GoBaseType::Quantity) {
            return self.quantity(&value.to_string());
        }
        self.digest_unless_zero(value == 0, || Kind::Integer.digest(&[&value.to_le_bytes()]))
    }

    /// Returns the reader for the elements of this value, which is a list or a map as `wrapper` says.
    fn element(self, wrapper: GoTypeWrapper) -> Self {
        let shape = self.shape.filter(|shape| shape.wrapper == wrapper).map(|shape| GoType::single_value(shape.base));
        Self { shape, place: Place::Elsewhere }
    }
}

impl<'de> DeserializeSeed<'de> for Reader {
    type Value = ValueDigest;
    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<ValueDigest, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Reader {
    type Value = ValueDigest;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JSON")
    }

    fn visit_unit<E: Error>(self) -> Result<ValueDigest, E> {
        Ok(ValueDigest::Null)
    }

    fn visit_bool<E: Error>(self, value: bool) -> Result<ValueDigest, E> {
        Ok(self.digest_unless_zero(!value, || Kind::Bool.digest(&[&[u8::from(value)]])))
    }

    fn visit_i64<E: Error>(self, value: i64) -> Result<ValueDigest, E> {
        Ok(self.integer(value.into()))
    }

    fn visit_u64<E: Error>(self, value: u64) -> Result<ValueDigest, E> {
        Ok(self.integer(value.into()))
    }

    fn visit_f64<E: Error>(self, value: f64) -> Result<ValueDigest, E> {
        if self.base() == Some(GoBaseType::Quantity) {
            return Ok(self.quantity(&value.to_string()));
        }
        Ok(ValueDigest::Value(Kind::Float.digest(&[&value.to_bits().to_le_bytes()])))
    }

    fn visit_str<E: Error>(self, value: &str) -> Result<ValueDigest, E> {
        let text = || Kind::Text.digest(&[value.as_bytes()]);
        Ok(match self.base() {
            Some(GoBaseType::Quantity) => self.quantity(value),
            Some(GoBaseType::Time) => match value.parse::<jiff::Timestamp>() {
                Ok(time) => ValueDigest::Value(Kind::Time.digest(&[&time.as_nanosecond().to_le_bytes()])),
                Err(_) => self.digest_unless_zero(value.is_empty(), text),
            },
            // For this type, an absent field means the number 0, which differs from an empty string.
            Some(GoBaseType::IntOrString) => ValueDigest::Value(text()),
            _ => self.digest_unless_zero(value.is_empty(), text),
        })
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<ValueDigest, A::Error> {
        let reader = self.element(GoTypeWrapper::List);
        let mut hash = SipHash::new(KEY);
        hash.update(&[Kind::List as u8]);
        let mut empty = true;
        while let Some(node) = list.next_element_seed(reader)? {
            empty = false;
            hash.update(&node.present().unwrap_or(ZERO).to_le_bytes());
        }
        Ok(if empty { ValueDigest::Zero } else { ValueDigest::Value(hash.finish()) })
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<ValueDigest, A::Error> {
        let is_map = self.shape.is_some_and(|shape| shape.wrapper == GoTypeWrapper::Map);
        let mut members: Vec<(u128, Option<u128>)> = Vec::with_capacity(map.size_hint().unwrap_or(8));
        while let Some(member) = map.next_key_seed(Name(self))? {
            let Some((name, reader)) = member else {
                map.next_value::<IgnoredAny>()?;
                continue;
            };
            let node = map.next_value_seed(reader)?;
            let zero = (is_map && matches!(node, ValueDigest::Zero)).then_some(ZERO);
            members.push((name, node.present().or(zero)));
        }
        // Of members with the same name, the last counts. The reversal puts it first, and the stable sort keeps it there.
        members.reverse();
        members.sort_by_key(|(name, _)| *name);
        members.dedup_by_key(|(name, _)| *name);
        let mut hash = SipHash::new(KEY);
        hash.update(&[Kind::Object as u8]);
        let mut empty = true;
        for (name, value) in members {
            if let Some(value) = value {
                empty = false;
                hash.update(&name.to_le_bytes());
                hash.update(&value.to_le_bytes());
            }
        }
        Ok(self.digest_unless_zero(empty, || hash.finish()))
    }
}

/// Reads the name of a member. Returns its digest and the reader of the value; `None` for the label `pod-template-hash`.
struct Name(Reader);

impl<'de> DeserializeSeed<'de> for Name {
    type Value = Option<(u128, Reader)>;
    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        deserializer.deserialize_str(self)
    }
}

impl Visitor<'_> for Name {
    type Value = Option<(u128, Reader)>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a name")
    }

    fn visit_str<E: Error>(self, name: &str) -> Result<Self::Value, E> {
        if self.0.place == Place::Labels && name == POD_TEMPLATE_HASH_LABEL {
            return Ok(None);
        }
        let mut reader = self.0.element(GoTypeWrapper::Map);
        if let Some(GoType { wrapper: GoTypeWrapper::Plain | GoTypeWrapper::Pointer, base: GoBaseType::Struct(id) }) =
            self.0.shape
        {
            reader.shape = PodTemplateLayout::get().struct_member_type(id, name);
        }
        reader.place = self.0.place.under(name);
        Ok(Some((Kind::Name.digest(&[name.as_bytes()]), reader)))
    }
}

//! Raw JSON that is passed on unparsed, and functions to read and edit JSON.

use std::{borrow::Cow, fmt, marker::PhantomData, ops::Deref, sync::Arc};

use serde::{
    Deserialize, Deserializer, Serialize, Serializer,
    de::{SeqAccess, Visitor},
};
use serde_json::{Map, Value, value::RawValue};

use crate::wire::JSON_TEXT;

/// JSON text kept exactly as the API server sent it.
///
/// Values that a controller passes on, above all Pod templates, are not parsed into structs, so that fields unknown to this
/// version are preserved.
#[derive(Clone, Deserialize)]
#[serde(transparent)]
pub struct RawJson(Arc<RawValue>);

impl Serialize for RawJson {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        if serializer.is_human_readable() {
            self.0.serialize(serializer)
        } else {
            serializer.serialize_unit_struct(JSON_TEXT)
        }
    }
}

impl RawJson {
    /// Returns the text as it was received or serialized.
    pub fn text(&self) -> &str {
        self.0.get()
    }

    /// Parses the text into a value that can be searched and edited.
    pub fn parse_value(&self) -> serde_json::Result<Value> {
        serde_json::from_str(self.0.get())
    }

    /// Serializes a value to raw JSON.
    pub fn from_value(value: &Value) -> serde_json::Result<Self> {
        Ok(Self(Arc::from(serde_json::value::to_raw_value(value)?)))
    }
}

impl PartialEq for RawJson {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0) || self.0.get() == other.0.get()
    }
}

impl fmt::Debug for RawJson {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0.get())
    }
}

/// A string that borrows from the JSON text if it contains no escapes. Serde, in contrast, copies a [`Cow`] inside an `Option`.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct JsonStr<'a>(#[serde(borrow)] Cow<'a, str>);

impl Deref for JsonStr<'_> {
    type Target = str;
    fn deref(&self) -> &str {
        &self.0
    }
}

impl<'a> From<&'a str> for JsonStr<'a> {
    fn from(text: &'a str) -> Self {
        Self(Cow::Borrowed(text))
    }
}

/// Calls `read` with each item of a list, without keeping the items. `null` counts as an empty list.
pub fn for_each_item<'de, T, D>(deserializer: D, read: impl FnMut(T) -> Result<(), String>) -> Result<(), D::Error>
where
    T: Deserialize<'de>,
    D: Deserializer<'de>,
{
    struct Each<T, F>(F, PhantomData<T>);
    impl<'de, T: Deserialize<'de>, F: FnMut(T) -> Result<(), String>> Visitor<'de> for Each<T, F> {
        type Value = ();
        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("a list")
        }
        fn visit_unit<E: serde::de::Error>(self) -> Result<(), E> {
            Ok(())
        }
        fn visit_seq<A: SeqAccess<'de>>(mut self, mut seq: A) -> Result<(), A::Error> {
            while let Some(item) = seq.next_element()? {
                self.0(item).map_err(serde::de::Error::custom)?;
            }
            Ok(())
        }
    }
    deserializer.deserialize_any(Each(read, PhantomData))
}

/// A visitor that reads a string without copying it. `null` gives the default value, if the deserializer allows `null`.
pub(crate) struct StrVisitor<T> {
    /// Description of the string for error messages, for example `a string`.
    pub(crate) expected: &'static str,
    pub(crate) from_text: fn(&str) -> T,
}

impl<T: Default> Visitor<'_> for StrVisitor<T> {
    type Value = T;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.expected)
    }

    fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<T, E> {
        Ok((self.from_text)(text))
    }

    fn visit_unit<E: serde::de::Error>(self) -> Result<T, E> {
        Ok(T::default())
    }

    fn visit_none<E: serde::de::Error>(self) -> Result<T, E> {
        Ok(T::default())
    }
}

/// Reads a value, and `null` as the default value. Used in `#[serde(deserialize_with)]`.
pub fn null_as_default<'de, D, T>(deserializer: D) -> Result<T, D::Error>
where
    D: Deserializer<'de>,
    T: Deserialize<'de> + Default,
{
    Ok(Option::deserialize(deserializer)?.unwrap_or_default())
}

/// Converts a number that must not be negative. The error names the field.
pub fn parse_count(field: &str, value: i64) -> Result<i32, String> {
    i32::try_from(value).ok().filter(|count| *count >= 0).ok_or_else(|| format!("{field} is {value}"))
}

/// Writes a value, and the default value as `null`, with which a patch removes a field. Used in `#[serde(serialize_with)]`.
pub fn null_if_default<T: Default + PartialEq + Serialize, S: Serializer>(
    value: &T,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    if *value == T::default() { serializer.serialize_none() } else { value.serialize(serializer) }
}

/// Sets field `key` to `value` if the field is missing or `null`.
pub fn insert_default(map: &mut Map<String, Value>, key: &str, value: impl Into<Value>) {
    if map.get(key).is_none_or(Value::is_null) {
        map.insert(key.to_owned(), value.into());
    }
}

/// Calls `change` with each object of the list in field `key`.
pub fn for_each_object_in_list(map: &mut Map<String, Value>, key: &str, change: impl FnMut(&mut Map<String, Value>)) {
    let elements = map.get_mut(key).and_then(Value::as_array_mut).into_iter().flatten();
    elements.filter_map(Value::as_object_mut).for_each(change);
}

/// Calls `change` with the object in field `key`, if it exists.
pub fn with_object_in_field(map: &mut Map<String, Value>, key: &str, change: impl FnOnce(&mut Map<String, Value>)) {
    if let Some(Value::Object(inner)) = map.get_mut(key) {
        change(inner);
    }
}

//! Raw JSON that is passed on unread, and short ways to edit JSON values.

use std::{borrow::Cow, fmt, marker::PhantomData, ops::Deref, sync::Arc};

use serde::{
    Deserialize, Deserializer, Serialize,
    de::{SeqAccess, Visitor},
};
use serde_json::{Map, Value, value::RawValue};

/// A piece of JSON kept exactly as the server sent it.
///
/// What a controller passes on (Pod templates first of all) is never taken apart into typed structs: a field this project
/// has never heard of survives.
#[derive(Clone, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Raw(Arc<RawValue>);

impl Raw {
    /// The JSON text.
    pub fn text(&self) -> &str {
        self.0.get()
    }

    /// Parses it into a value to look into or to edit.
    pub fn value(&self) -> serde_json::Result<Value> {
        serde_json::from_str(self.0.get())
    }

    /// From a value.
    pub fn from_value(value: &Value) -> serde_json::Result<Self> {
        Ok(Self(Arc::from(serde_json::value::to_raw_value(value)?)))
    }
}

impl PartialEq for Raw {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0) || self.0.get() == other.0.get()
    }
}

impl fmt::Debug for Raw {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0.get())
    }
}

/// A string that is borrowed from the JSON text where it holds no escapes, also inside an `Option`: there serde copies every [`Cow`].
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(transparent)]
pub struct Str<'a>(#[serde(borrow)] Cow<'a, str>);

impl Deref for Str<'_> {
    type Target = str;
    fn deref(&self) -> &str {
        &self.0
    }
}

impl<'a> From<&'a str> for Str<'a> {
    fn from(text: &'a str) -> Self {
        Self(Cow::Borrowed(text))
    }
}

/// Reads a list item by item, and keeps none of them. `null` is an empty list.
pub fn each_item<'de, T, D>(deserializer: D, read: impl FnMut(T) -> Result<(), String>) -> Result<(), D::Error>
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

/// Reads a string without copying it; `null` is the default value where the deserializer allows it.
pub(crate) struct StrVisitor<T> {
    /// What error messages call the string.
    pub(crate) expected: &'static str,
    pub(crate) make: fn(&str) -> T,
}

impl<T: Default> Visitor<'_> for StrVisitor<T> {
    type Value = T;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.expected)
    }

    fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<T, E> {
        Ok((self.make)(text))
    }

    fn visit_unit<E: serde::de::Error>(self) -> Result<T, E> {
        Ok(T::default())
    }

    fn visit_none<E: serde::de::Error>(self) -> Result<T, E> {
        Ok(T::default())
    }
}

/// Reads what is missing, because the sender wrote `null`, as its default: for `#[serde(deserialize_with)]`.
pub fn null_as_default<'de, D, T>(deserializer: D) -> Result<T, D::Error>
where
    D: Deserializer<'de>,
    T: Deserialize<'de> + Default,
{
    Ok(Option::deserialize(deserializer)?.unwrap_or_default())
}

/// Sets a field that is not there, or null.
pub fn default_to(map: &mut Map<String, Value>, key: &str, value: impl Into<Value>) {
    if map.get(key).is_none_or(Value::is_null) {
        map.insert(key.to_owned(), value.into());
    }
}

/// Calls `change` on each object of the list below `key`.
pub fn each(map: &mut Map<String, Value>, key: &str, change: impl FnMut(&mut Map<String, Value>)) {
    let elements = map.get_mut(key).and_then(Value::as_array_mut).into_iter().flatten();
    elements.filter_map(Value::as_object_mut).for_each(change);
}

/// Calls `change` on the object below `key`, if it is there.
pub fn within(map: &mut Map<String, Value>, key: &str, change: impl FnOnce(&mut Map<String, Value>)) {
    if let Some(Value::Object(inner)) = map.get_mut(key) {
        change(inner);
    }
}

//! Interned strings and label sets: a value that thousands of objects share is stored once.
//!
//! Namespaces, node names, label sets and owner references repeat across objects. [`Text`] and [`Labels`] are handles to the
//! stored copy. Equal values of the same type share one allocation, except for strings longer than 512 bytes.
//! Therefore, a comparison compares pointers first. A sweep drops unused entries when the size of the table has doubled.

use std::{borrow::Borrow, fmt, hash::Hash, ops::Deref, sync::Arc, sync::LazyLock};

use parking_lot::Mutex;
use serde::{
    Deserialize, Deserializer, Serialize, Serializer,
    de::{MapAccess, Visitor},
};
use serde_json::Value;

use crate::{json::StrVisitor, map::HashSet};

/// Minimum number of values in a table before unused values are removed.
const SWEEP_FLOOR: usize = 1024;
/// Maximum length in bytes of a shared string. A longer string is not a name, and a few thousand unused long strings would take
/// much memory until the next sweep.
const MAX_INTERNED_BYTES: usize = 512;

/// A table of shared values of one type.
pub(crate) struct InternTable<T: ?Sized> {
    entries: HashSet<Arc<T>>,
    sweep_at: usize,
}

impl<T: ?Sized + Eq + Hash> InternTable<T> {
    pub(crate) fn new() -> Self {
        Self { entries: HashSet::default(), sweep_at: SWEEP_FLOOR }
    }

    /// Returns the stored copy of `value`. If the table has none, stores the copy that `make` creates.
    pub(crate) fn intern<Q>(&mut self, value: &Q, make: impl FnOnce(&Q) -> Arc<T>) -> Arc<T>
    where
        Q: ?Sized + Eq + Hash,
        Arc<T>: Borrow<Q>,
    {
        if let Some(found) = self.entries.get(value) {
            return Arc::clone(found);
        }
        if self.entries.len() >= self.sweep_at {
            self.entries.retain(|entry| Arc::strong_count(entry) > 1);
            self.sweep_at = (self.entries.len() * 2).max(SWEEP_FLOOR);
        }
        let made = make(value);
        self.entries.insert(Arc::clone(&made));
        made
    }
}

/// Labels as key and value, sorted by key.
type Pairs = Box<[(Text, Text)]>;

static TEXTS: LazyLock<Mutex<InternTable<str>>> = LazyLock::new(|| Mutex::new(InternTable::new()));
static PAIRS: LazyLock<Mutex<InternTable<Pairs>>> = LazyLock::new(|| Mutex::new(InternTable::new()));

/// A shared, immutable string.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Text(Arc<str>);

impl Text {
    /// Returns the shared copy of `value`; a string longer than 512 bytes gets its own copy.
    pub fn new(value: &str) -> Self {
        if value.len() > MAX_INTERNED_BYTES {
            return Self(Arc::from(value));
        }
        Self(TEXTS.lock().intern(value, |v| Arc::from(v)))
    }

    /// Returns the string without copying it.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Whether all strings equal to this string share one allocation, which they do up to 512 bytes.
    pub fn is_interned(&self) -> bool {
        self.0.len() <= MAX_INTERNED_BYTES
    }
}

impl Default for Text {
    fn default() -> Self {
        Self::new("")
    }
}

impl Deref for Text {
    type Target = str;
    fn deref(&self) -> &str {
        &self.0
    }
}

impl Borrow<str> for Text {
    fn borrow(&self) -> &str {
        &self.0
    }
}

impl From<&str> for Text {
    fn from(value: &str) -> Self {
        Self::new(value)
    }
}

impl PartialEq<str> for Text {
    fn eq(&self, other: &str) -> bool {
        &*self.0 == other
    }
}

impl PartialEq<&str> for Text {
    fn eq(&self, other: &&str) -> bool {
        &*self.0 == *other
    }
}

impl fmt::Display for Text {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for Text {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&*self.0, f)
    }
}

impl Serialize for Text {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.0)
    }
}

impl<'de> Deserialize<'de> for Text {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(StrVisitor { expected: "a string", from_text: Self::new })
    }
}

/// A shared set of labels, sorted by key. Each key occurs once. A `Labels` has the size of one pointer.
#[derive(Clone, Default, PartialEq, Eq, Hash)]
pub struct Labels(Option<Arc<Pairs>>);

impl Labels {
    /// Returns the set without labels.
    pub const fn empty() -> Self {
        Self(None)
    }

    /// Returns the shared copy of these labels. If a key is repeated, its last value counts, as in JSON.
    pub fn from_pairs<'a>(pairs: impl IntoIterator<Item = (&'a str, &'a str)>) -> Self {
        Self::from_texts(pairs.into_iter().map(|(k, v)| (Text::new(k), Text::new(v))).collect())
    }

    /// Reads labels from a JSON map of strings; `null` gives the empty set. Returns `None` for any other value.
    pub(crate) fn from_value(map: &Value) -> Option<Self> {
        if map.is_null() {
            return Some(Self::empty());
        }
        let pairs = map.as_object()?.iter().map(|(key, value)| Some((key.as_str(), value.as_str()?)));
        Some(Self::from_pairs(pairs.collect::<Option<Vec<_>>>()?))
    }

    fn from_texts(mut pairs: Vec<(Text, Text)>) -> Self {
        if pairs.is_empty() {
            return Self::empty();
        }
        // If a key is repeated, its last pair counts. The reversal puts that pair first, and the stable sort keeps it there.
        pairs.reverse();
        pairs.sort_by(|a, b| a.0.cmp(&b.0));
        pairs.dedup_by(|a, b| a.0 == b.0);
        Self(Some(PAIRS.lock().intern(&pairs.into_boxed_slice(), |pairs| Arc::new(pairs.clone()))))
    }

    /// Returns the value of the label `key`; `None` if the set lacks the label.
    pub fn get(&self, key: &str) -> Option<&str> {
        let pairs = self.as_slice();
        let at = pairs.binary_search_by(|(k, _)| k.as_str().cmp(key)).ok()?;
        Some(pairs[at].1.as_str())
    }

    /// Returns all labels as a slice, sorted by key.
    pub fn as_slice(&self) -> &[(Text, Text)] {
        self.0.as_deref().map(|pairs| &**pairs).unwrap_or_default()
    }

    /// Iterates over all labels, sorted by key.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        self.as_slice().iter().map(|(k, v)| (k.as_str(), v.as_str()))
    }

    /// Whether there are no labels. True also if `metadata.labels` was missing or `null`.
    pub fn is_empty(&self) -> bool {
        self.0.is_none()
    }

    /// Whether every label of `other` is in this set with the same value.
    pub fn contains_all(&self, other: &Labels) -> bool {
        other.iter().all(|(k, v)| self.get(k) == Some(v))
    }
}

impl fmt::Debug for Labels {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(self.iter()).finish()
    }
}

impl Serialize for Labels {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.iter())
    }
}

impl<'de> Deserialize<'de> for Labels {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct LabelsVisitor;
        impl<'de> Visitor<'de> for LabelsVisitor {
            type Value = Labels;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a map of strings")
            }
            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Labels, A::Error> {
                let mut pairs = Vec::with_capacity(map.size_hint().unwrap_or(4));
                while let Some(pair) = map.next_entry()? {
                    pairs.push(pair);
                }
                Ok(Labels::from_texts(pairs))
            }
            fn visit_unit<E: serde::de::Error>(self) -> Result<Labels, E> {
                Ok(Labels::empty())
            }
            fn visit_none<E: serde::de::Error>(self) -> Result<Labels, E> {
                Ok(Labels::empty())
            }
        }
        deserializer.deserialize_any(LabelsVisitor)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_label_sets_are_one_allocation() {
        let a: Labels = serde_json::from_str(r#"{"app":"web","tier":"front"}"#).unwrap();
        let b: Labels = serde_json::from_str(r#"{"tier":"front","app":"web"}"#).unwrap();
        assert!(Arc::ptr_eq(a.0.as_ref().unwrap(), b.0.as_ref().unwrap()));
        assert_eq!(serde_json::to_string(&b).unwrap(), r#"{"app":"web","tier":"front"}"#);
    }

    #[test]
    fn of_a_repeated_key_the_last_value_counts() {
        assert_eq!(Labels::from_pairs([("a", "1"), ("b", "2"), ("a", "3")]).get("a"), Some("3"));
    }

    #[test]
    fn unused_values_are_dropped() {
        // This test has a separate table, because concurrent tests hold entries of the global table.
        let mut table: InternTable<str> = InternTable::new();
        let held = table.intern("held", |value| Arc::from(value));
        for n in 0..10 * SWEEP_FLOOR {
            table.intern(format!("churn-{n}").as_str(), |value| Arc::from(value));
            assert!(table.entries.len() <= SWEEP_FLOOR, "after {n} values: {}", table.entries.len());
        }
        assert!(Arc::ptr_eq(&held, &table.intern("held", |value| Arc::from(value))));
    }

    #[test]
    fn very_long_strings_are_not_shared() {
        let (long, same) =
            (Text::new(&"x".repeat(MAX_INTERNED_BYTES + 1)), Text::new(&"x".repeat(MAX_INTERNED_BYTES + 1)));
        assert_eq!(long, same);
        assert_eq!((Arc::strong_count(&long.0), Arc::strong_count(&same.0)), (1, 1));
    }

    #[test]
    fn null_is_read_as_empty() {
        assert!(serde_json::from_str::<Labels>("null").unwrap().is_empty());
        assert_eq!(serde_json::from_str::<Text>("null").unwrap(), "");
    }
}

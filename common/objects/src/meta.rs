//! Object metadata: compact in memory, partly shared between objects, and exact in the fields that a controller writes back.

mod grace_period;
mod replaceable;

use std::{
    fmt,
    ops::Deref,
    sync::{Arc, LazyLock},
};

pub use grace_period::MetaWithGracePeriod;
pub use replaceable::{MapEdits, MetadataReplacement, ReplaceableMeta};

use jiff::Timestamp;
use parking_lot::Mutex;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::{
    intern::{InternTable, Labels, Text},
    json::{StrVisitor, null_as_default},
};

/// Namespace and name of an object.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NamespacedName {
    /// Namespace; empty for cluster-scoped objects.
    pub namespace: Text,
    /// `metadata.name`, unique within the namespace for each kind.
    pub name: Arc<str>,
}

impl NamespacedName {
    /// Creates a key. `namespace` is empty for a cluster-scoped object.
    pub fn new(namespace: &str, name: &str) -> Self {
        Self { namespace: Text::new(namespace), name: Arc::from(name) }
    }
}

impl fmt::Display for NamespacedName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.namespace.is_empty() { f.write_str(&self.name) } else { write!(f, "{}/{}", self.namespace, self.name) }
    }
}

impl fmt::Debug for NamespacedName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// `metadata.uid`, which distinguishes an object from earlier and later objects of the same name. A UUID takes 16 bytes; other
/// texts are stored unchanged.
///
/// Ordered like the text form, because some of upstream's decisions compare the text.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct Uid(Repr);

#[derive(Clone, PartialEq, Eq, Hash)]
enum Repr {
    Uuid([u8; 16]),
    Text(Text),
}

impl Uid {
    /// Parses a UID. Any text other than a canonical lower-case UUID is stored unchanged.
    pub fn new(text: &str) -> Self {
        parse_uuid(text).map_or_else(|| Self(Repr::Text(Text::new(text))), Self::from)
    }

    /// Whether the text is empty, as for an object without `metadata.uid`.
    pub fn is_empty(&self) -> bool {
        matches!(&self.0, Repr::Text(t) if t.is_empty())
    }
}

fn parse_uuid(text: &str) -> Option<[u8; 16]> {
    if text.len() != 36 {
        return None;
    }
    let uuid = text.bytes().enumerate().try_fold(0u128, |read, (at, byte)| match (at, byte) {
        (8 | 13 | 18 | 23, b'-') => Some(read),
        (8 | 13 | 18 | 23, _) => None,
        (_, b'0'..=b'9') => Some((read << 4) | u128::from(byte - b'0')),
        (_, b'a'..=b'f') => Some((read << 4) | u128::from(byte - b'a' + 10)),
        _ => None,
    });
    uuid.map(u128::to_be_bytes)
}

impl From<[u8; 16]> for Uid {
    fn from(uuid: [u8; 16]) -> Self {
        Self(Repr::Uuid(uuid))
    }
}

impl Default for Uid {
    fn default() -> Self {
        Self(Repr::Text(Text::default()))
    }
}

impl fmt::Display for Uid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Repr::Text(t) => f.write_str(t),
            Repr::Uuid(bytes) => {
                for (at, byte) in bytes.iter().enumerate() {
                    write!(f, "{}{byte:02x}", if matches!(at, 4 | 6 | 8 | 10) { "-" } else { "" })?;
                }
                Ok(())
            }
        }
    }
}

impl fmt::Debug for Uid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl PartialOrd for Uid {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Uid {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        match (&self.0, &other.0) {
            (Repr::Uuid(a), Repr::Uuid(b)) => a.cmp(b),
            _ => self.to_string().cmp(&other.to_string()),
        }
    }
}

impl Serialize for Uid {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Uid {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_str(StrVisitor { expected: "a string", from_text: Self::new })
    }
}

/// A `resourceVersion` as a number; 0 means unknown.
///
/// Versions of one resource are comparable numbers on every supported API server. Versions of different resources must not be
/// compared.
#[derive(Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ResourceVersion(u64);

impl ResourceVersion {
    /// The version 0, for objects without a `resourceVersion` that is a number.
    pub const UNKNOWN: Self = Self(0);

    /// Parses a `resourceVersion`. A text that is not a positive decimal number gives [`ResourceVersion::UNKNOWN`].
    pub fn parse(text: &str) -> Self {
        Self(text.parse().unwrap_or(0))
    }

    /// Returns the last 15 digits, which a floating-point number represents exactly; 0 if the version is unknown.
    pub fn last_15_digits(self) -> u64 {
        self.0 % 1_000_000_000_000_000
    }

    /// Whether the version is a number, and not [`ResourceVersion::UNKNOWN`].
    pub fn is_known(self) -> bool {
        self.0 != 0
    }

    /// Returns the version as an integer; 0 if the version is unknown.
    pub fn to_u64(self) -> u64 {
        self.0
    }
}

impl fmt::Display for ResourceVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0 == 0 { Ok(()) } else { write!(f, "{}", self.0) }
    }
}

impl fmt::Debug for ResourceVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}

impl Serialize for ResourceVersion {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for ResourceVersion {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_str(StrVisitor { expected: "a resource version", from_text: Self::parse })
    }
}

/// An entry of `metadata.ownerReferences`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct OwnerRef {
    /// `apiVersion` of the owner: group and version.
    pub api_version: Text,
    /// `kind` of the owner, for example `ReplicaSet`.
    pub kind: Text,
    /// `metadata.name` of the owner, which is in the same namespace or cluster-scoped.
    pub name: Text,
    /// `metadata.uid` of the owner, which no other object ever has.
    pub uid: Uid,
    /// Whether the owner is the managing controller of this object. An object has at most one managing controller.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub controller: Option<bool>,
    /// Whether foreground deletion of the owner waits for the deletion of this object.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub block_owner_deletion: Option<bool>,
}

impl OwnerRef {
    /// Whether all strings are short enough for the table of shared values, in which unused values remain until the next sweep.
    fn is_shared(&self) -> bool {
        let uid = match &self.uid.0 {
            Repr::Uuid(_) => true,
            Repr::Text(text) => text.is_interned(),
        };
        uid && [&self.api_version, &self.kind, &self.name].into_iter().all(Text::is_interned)
    }

    /// Whether the field `controller` is `true`; false if the field is missing.
    pub fn is_controller(&self) -> bool {
        self.controller == Some(true)
    }
}

static OWNERS: LazyLock<Mutex<InternTable<Box<[OwnerRef]>>>> = LazyLock::new(|| Mutex::new(InternTable::new()));

/// Maximum number of owner references in a list that objects share. Most objects have one owner; a list with thousands of
/// owners is unlikely to occur a second time.
const MAX_SHARED_OWNERS: usize = 16;

/// The owner references of an object, in order. The Pods of a ReplicaSet share one copy. `OwnerRefs` has the size of one pointer.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct OwnerRefs(Option<Arc<Box<[OwnerRef]>>>);

impl From<Vec<OwnerRef>> for OwnerRefs {
    fn from(refs: Vec<OwnerRef>) -> Self {
        if refs.is_empty() {
            return Self(None);
        }
        if refs.len() > MAX_SHARED_OWNERS || !refs.iter().all(OwnerRef::is_shared) {
            return Self(Some(Arc::new(refs.into())));
        }
        Self(Some(OWNERS.lock().intern(&refs.into_boxed_slice(), |refs| Arc::new(refs.clone()))))
    }
}

impl Deref for OwnerRefs {
    type Target = [OwnerRef];
    fn deref(&self) -> &[OwnerRef] {
        self.0.as_deref().map(|refs| &**refs).unwrap_or_default()
    }
}

impl fmt::Debug for OwnerRefs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.iter()).finish()
    }
}

impl<'de> Deserialize<'de> for OwnerRefs {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Ok(Vec::<OwnerRef>::deserialize(deserializer)?.into())
    }
}

/// The fields of `metadata` that every projection contains.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Meta {
    /// `metadata.namespace`; empty for cluster-scoped objects.
    #[serde(deserialize_with = "null_as_default")]
    pub namespace: Text,
    /// `metadata.name`; empty if it is missing.
    #[serde(deserialize_with = "null_as_default")]
    pub name: Arc<str>,
    /// `metadata.uid`; empty if it is missing.
    pub uid: Uid,
    /// `metadata.resourceVersion`, which changes with every write of the object.
    pub resource_version: ResourceVersion,
    /// `metadata.generation`, which the server increments when the spec changes; 0 if it is missing.
    #[serde(deserialize_with = "null_as_default")]
    pub generation: i64,
    /// `metadata.creationTimestamp`; `None` if it is missing.
    #[serde(rename = "creationTimestamp")]
    pub creation_timestamp: Option<Timestamp>,
    /// `metadata.deletionTimestamp`, which only terminating objects have.
    #[serde(rename = "deletionTimestamp")]
    pub deletion_timestamp: Option<Timestamp>,
    /// `metadata.labels`. Objects with equal labels share one copy.
    pub labels: Labels,
    /// `metadata.annotations`. [`Object::drop_unneeded_fields`](crate::object::Object::drop_unneeded_fields) drops annotations
    /// that a projection does not need.
    #[serde(deserialize_with = "null_as_default")]
    pub annotations: Annotations,
    /// `metadata.ownerReferences`. Objects with equal lists share one copy.
    #[serde(rename = "ownerReferences", deserialize_with = "null_as_default")]
    pub owners: OwnerRefs,
    /// `metadata.finalizers`. A terminating object exists until the list is empty.
    #[serde(deserialize_with = "null_as_default")]
    pub finalizers: Box<[Text]>,
}

impl Meta {
    /// Returns namespace and name, which identify the object within its kind.
    pub fn key(&self) -> NamespacedName {
        NamespacedName { namespace: self.namespace.clone(), name: Arc::clone(&self.name) }
    }

    /// Whether `finalizers` contains `finalizer`.
    pub fn has_finalizer(&self, finalizer: &str) -> bool {
        self.finalizers.iter().any(|own| own == finalizer)
    }

    /// Returns the first owner reference with `controller: true`, which refers to the managing controller.
    pub fn controller(&self) -> Option<&OwnerRef> {
        self.owners.iter().find(|o| o.is_controller())
    }

    /// Whether `self` is another version of the object `old`, and generation, labels, controller and termination are the same.
    pub fn is_status_change_of(&self, old: &Self) -> bool {
        self.resource_version != old.resource_version
            && self.uid == old.uid
            && self.generation == old.generation
            && self.labels == old.labels
            && self.controller() == old.controller()
            && self.is_deleting() == old.is_deleting()
    }

    /// Drops annotations and finalizers, for projections that do not need them.
    pub fn drop_annotations_and_finalizers(&mut self) {
        self.annotations = Annotations::default();
        self.finalizers = Box::default();
    }

    /// Whether `metadata.deletionTimestamp` is set, which means that the object is terminating.
    pub fn is_deleting(&self) -> bool {
        self.deletion_timestamp.is_some()
    }
}

/// Annotations, sorted by key. Keys are shared with other objects, values are not. An empty set has the size of one pointer.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Annotations(Option<Box<Pairs>>);

type Pairs = Box<[(Text, Box<str>)]>;

impl Annotations {
    /// Creates annotations from pairs of key and value. If a key is repeated, its last value counts.
    pub fn from_pairs<'a>(pairs: impl IntoIterator<Item = (&'a str, &'a str)>) -> Self {
        let sorted: std::collections::BTreeMap<&str, &str> = pairs.into_iter().collect();
        Self::from_sorted_pairs(sorted.into_iter().map(|(k, v)| (Text::new(k), Box::from(v))).collect())
    }

    fn from_sorted_pairs(pairs: Pairs) -> Self {
        Self((!pairs.is_empty()).then(|| Box::new(pairs)))
    }

    fn as_slice(&self) -> &[(Text, Box<str>)] {
        self.0.as_deref().map(|pairs| &**pairs).unwrap_or_default()
    }

    /// Returns the value of the annotation `key`; `None` if there is no such annotation.
    pub fn get(&self, key: &str) -> Option<&str> {
        let at = self.as_slice().binary_search_by(|(k, _)| k.as_str().cmp(key)).ok()?;
        Some(&self.as_slice()[at].1)
    }

    /// Iterates over all annotations, sorted by key.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        self.as_slice().iter().map(|(k, v)| (k.as_str(), &**v))
    }

    /// Whether there are no annotations. A projection may have dropped all annotations of an object.
    pub fn is_empty(&self) -> bool {
        self.0.is_none()
    }

    /// Keeps the annotations with keys for which `keep` returns true, and removes all others.
    pub fn retain(&mut self, keep: impl Fn(&str) -> bool) {
        if !self.as_slice().iter().all(|(k, _)| keep(k)) {
            let all = std::mem::take(&mut self.0).map(|pairs| pairs.into_vec()).unwrap_or_default();
            *self = Self::from_sorted_pairs(all.into_iter().filter(|(k, _)| keep(k)).collect());
        }
    }
}

impl fmt::Debug for Annotations {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(self.iter()).finish()
    }
}

impl<'de> Deserialize<'de> for Annotations {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let sorted = std::collections::BTreeMap::<Text, Box<str>>::deserialize(deserializer)?;
        Ok(Self::from_sorted_pairs(sorted.into_iter().collect()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn uids_survive_the_round_trip_and_are_ordered_like_text() {
        for text in ["2ff731ae-b0d1-491c-a286-da4a1c1a8b15", "not-a-uuid", "2FF731AE-B0D1-491C-A286-DA4A1C1A8B15", ""] {
            assert_eq!(Uid::new(text).to_string(), text);
        }
        assert!(Uid::new("2ff731ae-b0d1-491c-a286-da4a1c1a8b15") < Uid::new("30f731ae-b0d1-491c-a286-da4a1c1a8b15"));
        assert!(Uid::new("a") < Uid::new("b0f731ae-b0d1-491c-a286-da4a1c1a8b15"));
    }

    #[test]
    fn metadata_are_read_as_a_server_writes_them() {
        let meta: Meta = serde_json::from_str(
            r#"{"name":"web","namespace":"shop","uid":"2ff731ae-b0d1-491c-a286-da4a1c1a8b15","resourceVersion":"208",
                "creationTimestamp":"2026-11-21T09:50:29Z","labels":null,"annotations":{"b":"2","a":"1"},"managedFields":[{"x":1}],
                "ownerReferences":[{"apiVersion":"apps/v1","kind":"Deployment","name":"web","uid":"u","controller":true}]}"#,
        )
        .unwrap();
        assert_eq!(meta.key().to_string(), "shop/web");
        assert_eq!(meta.controller().unwrap().kind, "Deployment");
        assert_eq!(meta.annotations.get("b"), Some("2"));
        assert_eq!(meta.resource_version, ResourceVersion::parse("208"));
        assert_eq!(meta.generation, 0);
    }
}

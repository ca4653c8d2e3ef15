//! Pod templates, which are passed on unparsed and compared by meaning.

pub mod defaults;
mod digest;

use std::{fmt, sync::Arc};

use serde::{Deserialize, Deserializer, Serialize, Serializer, de::DeserializeOwned};
use serde_json::Value;

use crate::{
    hash,
    intern::{Labels, Text},
    meta::{Annotations, MapEdits, MetadataReplacement},
    wire::{
        self, RawFields, RawMessage,
        messages::{OBJECT_META, POD_TEMPLATE_SPEC},
    },
};

/// Label that distinguishes the `ReplicaSets` of one Deployment and their Pods. The comparison of templates ignores it.
pub const POD_TEMPLATE_HASH_LABEL: &str = "pod-template-hash";

/// A Pod template as the server sent it, with a digest of its meaning.
///
/// Two templates are equal if they differ only in ways without meaning:
///
/// - the order of members, and the label `pod-template-hash`;
/// - null or an empty list in place of an absent field;
/// - in fields that 1.36 knows: an empty map in place of an absent field, and, in fields that are not optional, the zero value
///   (`securityContext` is optional, so `{}` differs from an absent field);
/// - in fields that 1.36 knows: the notation of quantities and times, which are compared by value;
/// - the format, if 1.36 knows all fields. In protobuf, unknown fields are compared byte by byte.
///
/// The digests are compared, not the templates.
///
/// Every object can be decoded. One without labels and a spec of the right types becomes a template with a
/// [`Template::validation_error`], which equals only the same object. Upstream: `pkg/controller/deployment/util`,
/// `EqualIgnoreHash`, which uses `apimachinery`'s semantic equality.
#[derive(Clone)]
pub struct Template {
    raw: Option<RawMessage>,
    digest: u128,
    labels: Labels,
    problem: Option<Arc<str>>,
}

impl Template {
    /// Decodes the labels of a template, and computes its digest.
    pub fn new(raw: RawMessage) -> Self {
        match validate(&raw) {
            Ok((digest, labels)) => Self { raw: Some(raw), digest, labels, problem: None },
            Err(error) => Self::unreadable(raw, &error),
        }
    }

    fn unreadable(raw: RawMessage, error: &wire::Error) -> Self {
        let digest = digest::invalid_digest(&raw);
        let problem = Some(format!("Pod template cannot be read: {error}").into());
        Self { raw: Some(raw), digest, labels: Labels::empty(), problem }
    }

    /// Reads a value as a template in JSON. A value that is not an object becomes a missing template.
    pub fn from_value(value: &Value) -> Self {
        Self::deserialize(value).unwrap_or_default()
    }

    /// Returns the reason why the value is not a valid template; `None` for a valid template.
    pub fn validation_error(&self) -> Option<&str> {
        self.problem.as_deref()
    }

    /// Returns the digest of the template's meaning. It is the same in every process, and equal for equal templates.
    pub fn meaning_digest(&self) -> u128 {
        self.digest
    }

    /// Returns the template as the server sent it; `None` if the template was missing.
    pub fn raw(&self) -> Option<&RawMessage> {
        self.raw.as_ref()
    }

    /// Whether the template has fields that 1.36 does not know and that are therefore absent from [`Template::parse_value`].
    pub fn has_hidden_fields(&self) -> bool {
        self.valid().is_some_and(|raw| raw.has_unknown_fields(&POD_TEMPLATE_SPEC))
    }

    /// Decodes the template into a value that can be searched and edited; `null` if the template has a
    /// [`Template::validation_error`].
    pub fn parse_value(&self) -> Value {
        match self.valid() {
            Some(raw) => raw.decode(&POD_TEMPLATE_SPEC).unwrap_or_default(),
            None => Value::Null,
        }
    }

    /// Returns `metadata.labels` of the template.
    pub fn labels(&self) -> &Labels {
        &self.labels
    }

    /// Decodes `metadata.annotations`. Values that are not strings are left out.
    pub fn annotations(&self) -> Annotations {
        let metadata = self.metadata();
        let map = metadata.get("annotations").and_then(Value::as_object);
        let pairs = map.into_iter().flatten().filter_map(|(key, value)| Some((key.as_str(), value.as_str()?)));
        Annotations::from_pairs(pairs)
    }

    /// Decodes `metadata.finalizers`.
    pub fn finalizers(&self) -> Vec<Text> {
        let metadata = self.metadata();
        let list = metadata.get("finalizers").and_then(Value::as_array);
        list.into_iter().flatten().filter_map(|name| Some(Text::new(name.as_str()?))).collect()
    }

    /// Returns `spec` of the template undecoded; `None` if it is absent or the template has a [`Template::validation_error`].
    pub fn spec(&self) -> Option<RawMessage> {
        self.parts().spec
    }

    /// Returns a copy with the label `key` set to `value`; an unchanged copy if the template has a
    /// [`Template::validation_error`]. A template that cannot be edited becomes one with such an error.
    #[must_use]
    pub fn with_label(&self, key: &str, value: &str) -> Self {
        #[derive(Serialize)]
        struct Labelled<'a> {
            metadata: MetadataReplacement<'a>,
            #[serde(flatten)]
            others: RawFields<'a>,
        }
        let Some(raw) = self.valid() else { return self.clone() };
        let metadata = self.parts().metadata.unwrap_or_default();
        let labelled = Labelled {
            metadata: MetadataReplacement::new(&metadata).with_label_edits(MapEdits::from([(key, Some(value))])),
            others: raw.fields_without(&POD_TEMPLATE_SPEC, &["metadata"]),
        };
        let encoded = raw.encode_in_same_format(&POD_TEMPLATE_SPEC, &labelled);
        encoded.map_or_else(|error| Self::unreadable(raw.clone(), &error), Self::new)
    }

    /// Computes the hash in the name of a `ReplicaSet` (or a `DaemonSet`'s revision) of this template.
    pub fn hash(&self, collision_count: Option<i32>) -> String {
        hash::pod_template_hash(&self.parse_value(), collision_count)
    }

    /// Decodes `spec` of the template.
    ///
    /// # Errors
    /// The template has a [`Template::validation_error`], or its `spec` does not fit `T`.
    pub fn decode_spec<T: DeserializeOwned + Default>(&self) -> Result<T, String> {
        #[derive(Deserialize)]
        #[serde(bound(deserialize = "T: DeserializeOwned"))]
        struct Parts<T> {
            spec: Option<T>,
        }
        let raw = self.valid().ok_or_else(|| self.problem.as_deref().unwrap_or_default().to_owned())?;
        let parts: Parts<T> = raw.decode(&POD_TEMPLATE_SPEC).map_err(|error| error.to_string())?;
        Ok(parts.spec.unwrap_or_default())
    }

    fn valid(&self) -> Option<&RawMessage> {
        self.raw.as_ref().filter(|_| self.problem.is_none())
    }

    fn metadata(&self) -> Value {
        let metadata = self.parts().metadata;
        metadata.and_then(|metadata| metadata.decode(&OBJECT_META).ok()).unwrap_or_default()
    }

    /// Splits the template into undecoded `metadata` and `spec`. Returns `None` for each if the template has a
    /// [`Template::validation_error`].
    fn parts(&self) -> TemplateParts {
        self.valid().and_then(|raw| raw.decode(&POD_TEMPLATE_SPEC).ok()).unwrap_or_default()
    }
}

/// Stands for the missing template of an object, and therefore has a [`Template::problem`].
impl Default for Template {
    fn default() -> Self {
        let problem = Some(Arc::from("Pod template is missing"));
        Self { raw: None, digest: digest::invalid_digest(&RawMessage::default()), labels: Labels::empty(), problem }
    }
}

/// Shows the meaning, which is the same in every format.
impl fmt::Debug for Template {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { raw: _, digest, labels, problem } = self;
        write!(f, "Template {{ digest: {digest:x}, labels: {labels:?}, problem: {problem:?} }}")
    }
}

impl PartialEq for Template {
    fn eq(&self, other: &Self) -> bool {
        self.digest == other.digest
    }
}

impl Eq for Template {}

impl Serialize for Template {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.raw.serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Template {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        RawMessage::deserialize(deserializer).map(Self::new)
    }
}

/// The undecoded `metadata` and `spec` of a template.
#[derive(Default, Deserialize)]
struct TemplateParts {
    metadata: Option<RawMessage>,
    spec: Option<RawMessage>,
}

/// Returns the digest and the labels of a template, or the reason why it is invalid.
fn validate(raw: &RawMessage) -> Result<(u128, Labels), wire::Error> {
    #[derive(Deserialize)]
    struct Checked {
        metadata: Option<Metadata>,
        #[serde(rename = "spec")]
        _spec: Option<AnyObject>,
    }
    #[derive(Default, Deserialize)]
    #[serde(expecting = "metadata")]
    struct Metadata {
        #[serde(default)]
        labels: Labels,
    }
    #[derive(Deserialize)]
    #[serde(expecting = "an object")]
    struct AnyObject {}
    let checked: Checked = raw.decode(&POD_TEMPLATE_SPEC)?;
    Ok((digest::meaning_digest(raw)?, checked.metadata.unwrap_or_default().labels))
}

#[cfg(test)]
mod tests;

//! Pod templates, which are passed on unparsed and compared by meaning.

pub mod defaults;
mod digest;

use std::sync::Arc;

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::{Value, value::RawValue};

use crate::{
    hash,
    intern::{Labels, Text},
    json::RawJson,
    meta::Annotations,
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
/// - in fields that 1.36 knows: the notation of quantities and times, which are compared by value.
///
/// The digests are compared, not the texts.
///
/// Decoding never fails. A value that is not an object with labels and a spec of the right types becomes a template with a
/// [`Template::problem`], which equals only the same text. Upstream: `pkg/controller/deployment/util`, `EqualIgnoreHash`, which
/// uses `apimachinery`'s semantic equality.
#[derive(Clone, Debug)]
pub struct Template {
    raw: Option<RawJson>,
    digest: u128,
    labels: Labels,
    problem: Option<Arc<str>>,
}

impl Template {
    /// Parses a template and computes its digest.
    pub fn new(raw: RawJson) -> Self {
        match parse_digest_and_labels(raw.text()) {
            Ok((digest, labels)) => Self { raw: Some(raw), digest, labels, problem: None },
            Err(problem) => {
                let digest = digest::text_digest(raw.text());
                Self { raw: Some(raw), digest, labels: Labels::empty(), problem: Some(problem.into()) }
            }
        }
    }

    /// Serializes `value`, and parses the text as a template.
    pub fn from_value(value: &Value) -> Self {
        RawJson::from_value(value).map(Self::new).unwrap_or_default()
    }

    /// Returns the reason why the text is not a valid template; `None` for a valid template.
    pub fn validation_error(&self) -> Option<&str> {
        self.problem.as_deref()
    }

    /// Returns the digest of the template's meaning. It is the same in every process, and equal for equal templates.
    pub fn meaning_digest(&self) -> u128 {
        self.digest
    }

    /// Returns the text as the server sent it; `None` if the template was missing.
    pub fn raw_json(&self) -> Option<&RawJson> {
        self.raw.as_ref()
    }

    /// Parses the template into a value that can be searched and edited; `null` if the template has a [`Template::problem`].
    pub fn parse_value(&self) -> Value {
        match (&self.raw, &self.problem) {
            (Some(raw), None) => raw.parse_value().unwrap_or_default(),
            _ => Value::Null,
        }
    }

    /// Returns `metadata.labels` of the template.
    pub fn labels(&self) -> &Labels {
        &self.labels
    }

    /// Parses `metadata.annotations`. Values that are not strings are left out.
    pub fn annotations(&self) -> Annotations {
        let metadata = self.metadata();
        let map = metadata.get("annotations").and_then(Value::as_object);
        let pairs = map.into_iter().flatten().filter_map(|(key, value)| Some((key.as_str(), value.as_str()?)));
        Annotations::from_pairs(pairs)
    }

    /// Parses `metadata.finalizers`.
    pub fn finalizers(&self) -> Vec<Text> {
        let metadata = self.metadata();
        let list = metadata.get("finalizers").and_then(Value::as_array);
        list.into_iter().flatten().filter_map(|name| Some(Text::new(name.as_str()?))).collect()
    }

    /// Returns `spec` of the template as raw JSON; `None` if it is absent or the template has a [`Template::problem`].
    pub fn spec(&self) -> Option<RawJson> {
        serde_json::from_str(self.parts().spec?.get()).ok()
    }

    /// Returns a copy with the label `key` set to `value`; an unchanged copy if the template has a [`Template::problem`].
    #[must_use]
    pub fn with_label(&self, key: &str, value: &str) -> Self {
        let mut template = self.parse_value();
        if template.is_null() {
            return self.clone();
        }
        // Without a problem, `metadata` and `labels` are each an object, null or absent.
        template["metadata"]["labels"][key] = value.into();
        Self::from_value(&template)
    }

    /// Computes the hash in the name of a `ReplicaSet` (or a `DaemonSet`'s revision) of this template.
    pub fn hash(&self, collision_count: Option<i32>) -> String {
        hash::pod_template_hash(&self.parse_value(), collision_count)
    }

    fn metadata(&self) -> Value {
        let metadata = self.parts().metadata.and_then(|metadata| serde_json::from_str(metadata.get()).ok());
        metadata.unwrap_or_default()
    }

    /// Splits the text into raw `metadata` and `spec`. Returns `None` for each if the template has a [`Template::problem`].
    fn parts(&self) -> RawTemplateParts<'_> {
        let raw = self.raw.as_ref().filter(|_| self.problem.is_none());
        raw.and_then(|raw| serde_json::from_str(raw.text()).ok()).unwrap_or_default()
    }
}

/// Stands for the missing template of an object, and therefore has a [`Template::problem`].
impl Default for Template {
    fn default() -> Self {
        let problem = Some(Arc::from("Pod template is missing"));
        Self { raw: None, digest: digest::text_digest(""), labels: Labels::empty(), problem }
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
        RawJson::deserialize(deserializer).map(Self::new)
    }
}

/// The undecoded `metadata` and `spec` of a template.
#[derive(Default, Deserialize)]
struct RawTemplateParts<'a> {
    #[serde(borrow)]
    metadata: Option<&'a RawValue>,
    #[serde(borrow)]
    spec: Option<&'a RawValue>,
}

/// Returns the digest and the labels of a template, or the reason why `text` is not a valid template.
fn parse_digest_and_labels(text: &str) -> Result<(u128, Labels), String> {
    #[derive(Default, Deserialize)]
    struct Metadata {
        #[serde(default)]
        labels: Labels,
    }
    if !text.starts_with('{') {
        return Err("Pod template is not an object".to_owned());
    }
    let parts: RawTemplateParts<'_> =
        serde_json::from_str(text).map_err(|error| format!("Pod template cannot be read: {error}"))?;
    for (name, part) in [("metadata", parts.metadata), ("spec", parts.spec)] {
        if part.is_some_and(|part| !part.get().starts_with('{')) {
            return Err(format!("Pod template's {name} is not an object"));
        }
    }
    let metadata = parts.metadata.map_or(Ok(Metadata::default()), |raw| serde_json::from_str(raw.get()));
    let labels = metadata.map_err(|error| format!("Pod template's labels cannot be read: {error}"))?.labels;
    let digest = digest::meaning_digest(text).map_err(|error| format!("Pod template cannot be read: {error}"))?;
    Ok((digest, labels))
}

#[cfg(test)]
mod tests;

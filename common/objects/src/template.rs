//! Pod templates: passed on unread, compared by meaning.

pub mod defaults;
mod digest;

use std::sync::Arc;

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::{Value, value::RawValue};

use crate::{
    hash,
    intern::{Labels, Text},
    json::Raw,
    meta::Annotations,
};

/// The label that tells the `ReplicaSets` of one Deployment, and their Pods, apart; it is no part of a template's meaning.
pub const POD_TEMPLATE_HASH: &str = "pod-template-hash";

/// A Pod template as the server sent it, and a digest of its meaning.
///
/// Two templates are equal if they say the same, label `pod-template-hash` aside: object members in any order; null, an
/// empty list and an empty map the same as nothing; of fields that 1.36 knows and that are not optional, the zero value
/// the same as nothing (but `securityContext: {}` is something); quantities by value; times by instant. In fields nobody
/// knows everything else counts. Digests are compared, not texts.
///
/// Reading one never fails: what is not an object with labels and a specification of the right kind is a template with
/// a [`Template::problem`], equal only to the same text. Upstream: `pkg/controller/deployment/util`,
/// `EqualIgnoreHash`, over `apimachinery`'s semantic equality.
#[derive(Clone, Debug)]
pub struct Template {
    raw: Option<Raw>,
    digest: u128,
    labels: Labels,
    problem: Option<Arc<str>>,
}

impl Template {
    /// Reads a template.
    pub fn new(raw: Raw) -> Self {
        match read(raw.text()) {
            Ok((digest, labels)) => Self { raw: Some(raw), digest, labels, problem: None },
            Err(problem) => {
                let digest = digest::text(raw.text());
                Self { raw: Some(raw), digest, labels: Labels::empty(), problem: Some(problem.into()) }
            }
        }
    }

    /// From a value.
    pub fn from_value(value: &Value) -> Self {
        Raw::from_value(value).map(Self::new).unwrap_or_default()
    }

    /// Why this is no template, if it is none.
    pub fn problem(&self) -> Option<&str> {
        self.problem.as_deref()
    }

    /// The digest of its meaning: the same in every process, equal for equal templates.
    pub fn digest(&self) -> u128 {
        self.digest
    }

    /// Its text; nothing if there was no template at all.
    pub fn raw(&self) -> Option<&Raw> {
        self.raw.as_ref()
    }

    /// The template as a value to look into or to edit; `null` if it has a [`Template::problem`].
    pub fn value(&self) -> Value {
        match (&self.raw, &self.problem) {
            (Some(raw), None) => raw.value().unwrap_or_default(),
            _ => Value::Null,
        }
    }

    /// Its labels.
    pub fn labels(&self) -> &Labels {
        &self.labels
    }

    /// Its annotations; none that are not strings.
    pub fn annotations(&self) -> Annotations {
        let metadata = self.metadata();
        let map = metadata.get("annotations").and_then(Value::as_object);
        let pairs = map.into_iter().flatten().filter_map(|(key, value)| Some((key.as_str(), value.as_str()?)));
        Annotations::from_pairs(pairs)
    }

    /// Its finalizers.
    pub fn finalizers(&self) -> Vec<Text> {
        let metadata = self.metadata();
        let list = metadata.get("finalizers").and_then(Value::as_array);
        list.into_iter().flatten().filter_map(|name| Some(Text::new(name.as_str()?))).collect()
    }

    /// The specification for its Pods, unread.
    pub fn spec(&self) -> Option<Raw> {
        serde_json::from_str(self.parts().spec?.get()).ok()
    }

    /// The same with label `key` set.
    #[must_use]
    pub fn with_label(&self, key: &str, value: &str) -> Self {
        let mut template = self.value();
        if template.is_null() {
            return self.clone();
        }
        // Without a problem, metadata and labels are objects, null or absent.
        template["metadata"]["labels"][key] = value.into();
        Self::from_value(&template)
    }

    /// The hash that names the `ReplicaSet` (or the `DaemonSet`'s revision) made from this template.
    pub fn hash(&self, collision_count: Option<i32>) -> String {
        hash::pod_template_hash(&self.value(), collision_count)
    }

    fn metadata(&self) -> Value {
        let metadata = self.parts().metadata.and_then(|metadata| serde_json::from_str(metadata.get()).ok());
        metadata.unwrap_or_default()
    }

    /// The unread parts; none if the template has a [`Template::problem`].
    fn parts(&self) -> Parts<'_> {
        let raw = self.raw.as_ref().filter(|_| self.problem.is_none());
        raw.and_then(|raw| serde_json::from_str(raw.text()).ok()).unwrap_or_default()
    }
}

/// No template at all.
impl Default for Template {
    fn default() -> Self {
        let problem = Some(Arc::from("Pod template is missing"));
        Self { raw: None, digest: digest::text(""), labels: Labels::empty(), problem }
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
        Raw::deserialize(deserializer).map(Self::new)
    }
}

/// The parts of a template's text, unread.
#[derive(Default, Deserialize)]
struct Parts<'a> {
    #[serde(borrow)]
    metadata: Option<&'a RawValue>,
    #[serde(borrow)]
    spec: Option<&'a RawValue>,
}

/// Digest and labels of a template's text, or what is wrong with it.
fn read(text: &str) -> Result<(u128, Labels), String> {
    #[derive(Default, Deserialize)]
    struct Metadata {
        #[serde(default)]
        labels: Labels,
    }
    if !text.starts_with('{') {
        return Err("Pod template is not an object".to_owned());
    }
    let parts: Parts<'_> =
        serde_json::from_str(text).map_err(|error| format!("Pod template cannot be read: {error}"))?;
    for (name, part) in [("metadata", parts.metadata), ("spec", parts.spec)] {
        if part.is_some_and(|part| !part.get().starts_with('{')) {
            return Err(format!("Pod template's {name} is not an object"));
        }
    }
    let metadata = parts.metadata.map_or(Ok(Metadata::default()), |raw| serde_json::from_str(raw.get()));
    let labels = metadata.map_err(|error| format!("Pod template's labels cannot be read: {error}"))?.labels;
    let digest = digest::meaning(text).map_err(|error| format!("Pod template cannot be read: {error}"))?;
    Ok((digest, labels))
}

#[cfg(test)]
mod tests;

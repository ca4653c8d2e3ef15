//! The Pod template of a set, parsed once for each of its texts.

use std::sync::Arc;

use common::{
    intern::Labels,
    json::Raw,
    map::HashMap,
    meta::Uid,
    revision::{Data, Numbers},
};
use parking_lot::Mutex;
use serde_json::Value;

/// A Pod template in the form that a `ControllerRevision` stores.
#[derive(Debug)]
pub struct PodTemplate {
    raw: Raw,
    labels: Labels,
    data: Data,
}

impl PodTemplate {
    /// Parses a template. The error says what the API server's validation would have refused.
    pub fn new(raw: Raw) -> Result<Self, String> {
        let value = raw.value().map_err(|error| format!("spec.template cannot be read: {error}"))?;
        for part in ["metadata", "spec"] {
            if value.get(part).is_some_and(|part| !part.is_object() && !part.is_null()) {
                return Err(format!("spec.template.{part} is not an object"));
            }
        }
        let labels = labels(&value).ok_or("spec.template.metadata.labels is not a map of strings")?;
        let data = Data::from_value(value, Numbers::Doubles).ok_or("spec.template is not an object")?;
        Ok(Self { raw, labels, data })
    }

    /// The labels of Pods made from it.
    pub fn labels(&self) -> &Labels {
        &self.labels
    }

    /// What a revision of it holds.
    pub fn data(&self) -> &Data {
        &self.data
    }
}

fn labels(template: &Value) -> Option<Labels> {
    let Some(labels) = template.pointer("/metadata/labels").filter(|labels| !labels.is_null()) else {
        return Some(Labels::empty());
    };
    let pairs = labels.as_object()?.iter().map(|(key, value)| Some((key.as_str(), value.as_str()?)));
    Some(Labels::from_pairs(pairs.collect::<Option<Vec<_>>>()?))
}

/// The parsed templates of all sets that have been synced, by the uid of the set.
///
/// Every write of a status brings a new version of the set with the template it had before: comparing the text is much cheaper
/// than parsing, encoding and hashing it again.
#[derive(Debug, Default)]
pub struct PodTemplates(Mutex<HashMap<Uid, Arc<PodTemplate>>>);

impl PodTemplates {
    /// The parsed template of a set, parsed now if the set had another one or none before.
    pub fn get(&self, set: &Uid, raw: &Raw) -> Result<Arc<PodTemplate>, String> {
        if let Some(known) = self.0.lock().get(set).filter(|known| known.raw == *raw) {
            return Ok(Arc::clone(known));
        }
        let parsed = Arc::new(PodTemplate::new(raw.clone())?);
        self.0.lock().insert(set.clone(), Arc::clone(&parsed));
        Ok(parsed)
    }

    /// Drops the template of a set that is gone.
    pub fn forget(&self, set: &Uid) {
        self.0.lock().remove(set);
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn raw(value: &Value) -> Raw {
        Raw::from_value(value).unwrap()
    }

    #[test]
    fn a_text_is_parsed_once_for_each_set() {
        let (templates, uid) = (PodTemplates::default(), Uid::new("SET"));
        let (a, b) = (raw(&json!({"spec": {"a": 1}})), raw(&json!({"spec": {"b": 1}})));
        let first = templates.get(&uid, &a).unwrap();
        assert!(Arc::ptr_eq(&first, &templates.get(&uid, &raw(&json!({"spec": {"a": 1}}))).unwrap()));
        let second = templates.get(&uid, &b).unwrap();
        assert_ne!(first.data().digest(), second.data().digest());
        assert!(Arc::ptr_eq(&second, &templates.get(&uid, &b).unwrap()));
        templates.forget(&uid);
        assert!(!Arc::ptr_eq(&second, &templates.get(&uid, &b).unwrap()));
    }

    #[test]
    fn a_template_that_validation_refuses_is_an_error() {
        for (template, error) in [
            (json!("x"), "spec.template is not an object"),
            (json!(null), "spec.template is not an object"),
            (json!({"metadata": 7}), "spec.template.metadata is not an object"),
            (json!({"spec": []}), "spec.template.spec is not an object"),
            (json!({"metadata": {"labels": {"a": 1}}}), "spec.template.metadata.labels is not a map of strings"),
            (json!({"metadata": {"labels": "a"}}), "spec.template.metadata.labels is not a map of strings"),
        ] {
            assert_eq!(PodTemplate::new(raw(&template)).unwrap_err(), error, "{template}");
        }
        let fine = json!({"metadata": {"labels": {"app": "web"}, "annotations": null}, "spec": null});
        assert_eq!(PodTemplate::new(raw(&fine)).unwrap().labels().get("app"), Some("web"));
    }
}

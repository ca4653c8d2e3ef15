//! A Pod template in the form that revisions store.

use super::{Data, Numbers};
use crate::{intern::Labels, json::Raw};

/// A Pod template in the form that a `ControllerRevision` stores.
#[derive(Debug)]
pub struct PodTemplate {
    raw: Raw,
    labels: Labels,
    data: Data,
}

impl PodTemplate {
    /// Parses a template. `numbers` is how its revision writes them. The error says what the API server's validation would have refused.
    pub fn new(raw: Raw, numbers: Numbers) -> Result<Self, String> {
        let value = raw.value().map_err(|error| format!("spec.template cannot be read: {error}"))?;
        for part in ["metadata", "spec"] {
            if value.get(part).is_some_and(|part| !part.is_object() && !part.is_null()) {
                return Err(format!("spec.template.{part} is not an object"));
            }
        }
        let labels = Labels::from_value(&value["metadata"]["labels"]);
        let labels = labels.ok_or("spec.template.metadata.labels is not a map of strings")?;
        let data = Data::from_value(value, numbers).ok_or("spec.template is not an object")?;
        Ok(Self { raw, labels, data })
    }

    /// Its text, as the server sent it.
    pub fn raw(&self) -> &Raw {
        &self.raw
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

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn raw(value: &Value) -> Raw {
        Raw::from_value(value).unwrap()
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
            assert_eq!(PodTemplate::new(raw(&template), Numbers::Exact).unwrap_err(), error, "{template}");
        }
        let fine = json!({"metadata": {"labels": {"app": "web"}, "annotations": null}, "spec": null});
        assert_eq!(PodTemplate::new(raw(&fine), Numbers::Exact).unwrap().labels().get("app"), Some("web"));
    }
}

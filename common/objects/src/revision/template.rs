//! Pod templates of StatefulSets and DaemonSets, parsed for their revisions.

use serde_json::Value;

use super::{NumberEncoding, RevisionData};
use crate::{
    intern::Labels,
    wire::{RawMessage, messages::POD_TEMPLATE_SPEC},
};

/// A Pod template with its labels and the data for its `ControllerRevision`.
#[derive(Debug)]
pub struct PodTemplateWithRevisionData {
    raw: RawMessage,
    labels: Labels,
    data: RevisionData,
}

impl PodTemplateWithRevisionData {
    /// Parses a template; `numbers` is for its revision. An error names a field that the API server should have rejected.
    ///
    /// The template must have no [unknown fields](RawMessage::has_unknown_fields), which would be absent from its revision.
    pub fn new(raw: RawMessage, numbers: NumberEncoding) -> Result<Self, String> {
        let value: Value =
            raw.decode(&POD_TEMPLATE_SPEC).map_err(|error| format!("spec.template cannot be read: {error}"))?;
        for part in ["metadata", "spec"] {
            if value.get(part).is_some_and(|part| !part.is_object() && !part.is_null()) {
                return Err(format!("spec.template.{part} is not an object"));
            }
        }
        let labels = Labels::from_value(&value["metadata"]["labels"]);
        let labels = labels.ok_or("spec.template.metadata.labels is not a map of strings")?;
        let data = RevisionData::from_value(value, numbers).ok_or("spec.template is not an object")?;
        Ok(Self { raw, labels, data })
    }

    /// Returns the template as the server sent it.
    pub fn raw(&self) -> &RawMessage {
        &self.raw
    }

    /// Returns `metadata.labels` of the template.
    pub fn labels(&self) -> &Labels {
        &self.labels
    }

    /// Returns the data for a revision of this template.
    pub fn revision_data(&self) -> &RevisionData {
        &self.data
    }
}

#[cfg(test)]
mod tests {
    use serde::Deserialize;
    use serde_json::json;

    use super::*;

    fn raw(value: &Value) -> RawMessage {
        RawMessage::deserialize(value).unwrap()
    }

    #[test]
    fn a_template_that_validation_rejects_is_an_error() {
        for (template, error) in [
            (json!({"metadata": 7}), "spec.template.metadata is not an object"),
            (json!({"spec": []}), "spec.template.spec is not an object"),
            (json!({"metadata": {"labels": {"a": 1}}}), "spec.template.metadata.labels is not a map of strings"),
            (json!({"metadata": {"labels": "a"}}), "spec.template.metadata.labels is not a map of strings"),
        ] {
            assert_eq!(
                PodTemplateWithRevisionData::new(raw(&template), NumberEncoding::Exact).unwrap_err(),
                error,
                "{template}"
            );
        }
        let fine = json!({"metadata": {"labels": {"app": "web"}, "annotations": null}, "spec": null});
        assert_eq!(
            PodTemplateWithRevisionData::new(raw(&fine), NumberEncoding::Exact).unwrap().labels().get("app"),
            Some("web")
        );
    }
}

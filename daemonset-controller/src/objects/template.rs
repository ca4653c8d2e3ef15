//! The Pod template of a DaemonSet in two forms: the data of its revision, and its requirements on nodes.

use common::{
    hash::pod_template_hash,
    json::RawJson,
    revision::{NumberEncoding, template::PodTemplateWithRevisionData},
};

use super::NodePlacement;

/// A parsed Pod template. The syncs of a DaemonSet share it until the template changes.
#[derive(Debug)]
pub struct ParsedPodTemplate {
    /// The template in the form that revisions store.
    pub pod_template: PodTemplateWithRevisionData,
    /// The requirements of the template on nodes.
    pub placement: NodePlacement,
}

impl ParsedPodTemplate {
    /// Parses `spec.template`. The error names a value that the API server's validation refuses.
    pub fn new(raw: &RawJson) -> Result<Self, String> {
        let template = PodTemplateWithRevisionData::new(raw.clone(), NumberEncoding::Exact)?;
        let value = raw.parse_value().map_err(|error| format!("spec.template cannot be read: {error}"))?;
        let placement = NodePlacement::new(&value["spec"])?;
        Ok(Self { pod_template: template, placement })
    }

    /// Returns the hash for a new revision of this template. `collisions` is `status.collisionCount`.
    pub fn new_revision_hash(&self, collisions: Option<i32>) -> String {
        pod_template_hash(&self.pod_template.raw_json().parse_value().unwrap_or_default(), collisions)
    }
}

//! The Pod template of a DaemonSet in two forms: the data of its revision, and its requirements on nodes.

use common::{
    hash::pod_template_hash,
    revision::{NumberEncoding, template::PodTemplateWithRevisionData},
    wire::{RawMessage, messages},
};
use serde_json::Value;

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
    pub fn new(raw: &RawMessage) -> Result<Self, String> {
        let template = PodTemplateWithRevisionData::new(raw.clone(), NumberEncoding::Exact)?;
        let placement = NodePlacement::new(&parse_value(raw)["spec"])?;
        Ok(Self { pod_template: template, placement })
    }

    /// Returns the hash for a new revision of this template. `collisions` is `status.collisionCount`.
    pub fn new_revision_hash(&self, collisions: Option<i32>) -> String {
        pod_template_hash(&parse_value(self.pod_template.raw()), collisions)
    }
}

/// Decodes a template that was decoded before without an error.
fn parse_value(raw: &RawMessage) -> Value {
    raw.decode(&messages::POD_TEMPLATE_SPEC).unwrap_or_default()
}

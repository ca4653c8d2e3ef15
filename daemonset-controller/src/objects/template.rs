//! The Pod template of a DaemonSet: what its revision holds, and where its Pods may run.

use common::{
    hash::pod_template_hash,
    json::Raw,
    revision::{Numbers, template::PodTemplate},
};

use super::Placement;

/// A parsed Pod template.
#[derive(Debug)]
pub struct DaemonTemplate {
    /// The template in the form that revisions store.
    pub template: PodTemplate,
    /// Where its Pods may run.
    pub placement: Placement,
}

impl DaemonTemplate {
    /// Parses a template. The error says what the API server's validation would have refused.
    pub fn new(raw: &Raw) -> Result<Self, String> {
        let template = PodTemplate::new(raw.clone(), Numbers::Exact)?;
        let value = raw.value().map_err(|error| format!("spec.template cannot be read: {error}"))?;
        let placement = Placement::new(&value["spec"])?;
        Ok(Self { template, placement })
    }

    /// The hash that a new revision of this template gets after so many collisions of names.
    pub fn hash(&self, collisions: Option<i32>) -> String {
        pod_template_hash(&self.template.raw().value().unwrap_or_default(), collisions)
    }
}

//! The Pod template of a DaemonSet in two forms: the data of its revision, and its requirements on nodes.

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
    /// The nodes on which Pods of the template may run.
    pub placement: Placement,
}

impl DaemonTemplate {
    /// Parses a template. The error names a value that the API server's validation refuses.
    pub fn new(raw: &Raw) -> Result<Self, String> {
        let template = PodTemplate::new(raw.clone(), Numbers::Exact)?;
        let value = raw.value().map_err(|error| format!("spec.template cannot be read: {error}"))?;
        let placement = Placement::new(&value["spec"])?;
        Ok(Self { template, placement })
    }

    /// Returns the hash of a new revision of this template after this number of collisions.
    pub fn hash(&self, collisions: Option<i32>) -> String {
        pod_template_hash(&self.template.raw().value().unwrap_or_default(), collisions)
    }
}

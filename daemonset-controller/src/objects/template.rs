//! The Pod template of a DaemonSet in two forms: the data of its revision, and its requirements on nodes.

use common::{
    hash::pod_template_hash,
    json::Raw,
    revision::{Numbers, template::PodTemplate},
};

use super::Placement;

/// A parsed Pod template, which the syncs of a DaemonSet share while the template stays unchanged.
#[derive(Debug)]
pub struct DaemonTemplate {
    /// The template in the form that revisions store.
    pub template: PodTemplate,
    /// The requirements of the template on nodes.
    pub placement: Placement,
}

impl DaemonTemplate {
    /// Parses `spec.template`. The error names a value that the API server's validation refuses.
    pub fn new(raw: &Raw) -> Result<Self, String> {
        let template = PodTemplate::new(raw.clone(), Numbers::Exact)?;
        let value = raw.value().map_err(|error| format!("spec.template cannot be read: {error}"))?;
        let placement = Placement::new(&value["spec"])?;
        Ok(Self { template, placement })
    }

    /// Returns the hash for a new revision of this template. `collisions` is `status.collisionCount`.
    pub fn hash(&self, collisions: Option<i32>) -> String {
        pod_template_hash(&self.template.raw().value().unwrap_or_default(), collisions)
    }
}

//! The decoded fields of DaemonSets, Pods, ControllerRevisions and Nodes.

mod node;
mod placement;
mod pod;
mod set;
mod template;

use std::{ops::Deref, sync::Arc};

use common::{
    head::ObjectHead,
    prelude::*,
    revision::{self, CONTROLLER_REVISIONS},
    wire::{MessageSchema, messages},
};
use serde::Deserialize;

pub use node::{NODES, Node};
pub(crate) use placement::automatic_tolerations;
pub use placement::{FieldRequirement, LabelRequirement, NodePlacement, NodeSelectorTerm};
pub use pod::CachedPod;
pub use set::{DaemonSet, DaemonSetStatus, UpdateStrategy};
pub use template::ParsedPodTemplate;

/// A cached Pod. Clones share its memory with the cache.
pub type SharedPod = Arc<CachedPod>;
/// A cached ControllerRevision. Clones share its memory with the cache.
pub type SharedRevision = Arc<ControllerRevision>;

/// The resource `daemonsets`, for requests, informers and owner references.
pub const DAEMON_SETS: Resource = Resource::namespaced("apps", "v1", "daemonsets", "DaemonSet");

/// Label of Pods and revisions with the hash of the revision. The watch of Pods selects this label.
pub const REVISION_HASH_LABEL: &str = "controller-revision-hash";
/// Label of a Pod. Its value is that of the annotation [`TEMPLATE_GENERATION_ANNOTATION`] at the creation of the Pod.
pub const TEMPLATE_GENERATION_LABEL: &str = "pod-template-generation";
/// Annotation of a DaemonSet in which the API server counts the changes of the Pod template.
pub const TEMPLATE_GENERATION_ANNOTATION: &str = "deprecated.daemonset.template.generation";

/// A cached ControllerRevision with a DaemonSet as its controller, or without a controller.
#[derive(Debug, Deserialize)]
#[serde(transparent)]
pub struct ControllerRevision(revision::ControllerRevision);

impl ControllerRevision {
    /// Returns the value of the label `controller-revision-hash`; `None` without the label. Pods of this revision have the same
    /// value.
    ///
    /// The hash depends on the release of the controller that created the revision, so it is read and never computed again.
    pub fn revision_hash(&self) -> Option<&str> {
        self.0.meta.labels.get(REVISION_HASH_LABEL)
    }
}

impl Deref for ControllerRevision {
    type Target = revision::ControllerRevision;
    fn deref(&self) -> &revision::ControllerRevision {
        &self.0
    }
}

impl Object for ControllerRevision {
    const RESOURCE: Resource = CONTROLLER_REVISIONS;
    type Indexes = (ByController, OrphansByNamespace);

    const PROTOBUF_SCHEMA: Option<&'static MessageSchema> = Some(&messages::CONTROLLER_REVISION);
    const HEAD_FILTER: Option<fn(&ObjectHead<'_>) -> bool> =
        Some(|head| head.controller_kind().is_none_or(|kind| kind == DAEMON_SETS.kind()));

    fn meta(&self) -> &Meta {
        &self.0.meta
    }

    fn drop_unneeded_fields(&mut self) {
        self.0.meta.drop_annotations_and_finalizers();
    }
}

//! Projections of DaemonSets, Pods, ControllerRevisions and Nodes.

mod node;
mod placement;
mod pod;
mod set;
mod template;

use std::{ops::Deref, sync::Arc};

use common::{
    head::Head,
    meta::{Annotations, Meta},
    object::{Object, Resource},
    revision::{self, CONTROLLER_REVISIONS},
    store::{ByController, OrphansByNamespace},
    wire::{Message, messages},
};
use serde::Deserialize;

pub use node::{NODES, Node};
pub(crate) use placement::automatic_tolerations;
pub use placement::{FieldRequirement, LabelRequirement, Placement, Term};
pub use pod::CachedPod;
pub use set::{DaemonSet, Status, Update};
pub use template::DaemonTemplate;

/// A Pod, shared with the cache.
pub type PodRef = Arc<CachedPod>;
/// A revision, shared with the cache.
pub type RevisionRef = Arc<ControllerRevision>;

/// The resource `daemonsets` of `apps/v1`.
pub const DAEMON_SETS: Resource =
    Resource { group: "apps", version: "v1", plural: "daemonsets", kind: "DaemonSet", namespaced: true };

/// Label of Pods and revisions: the hash of the revision. Pods are watched by this label.
pub const HASH_LABEL: &str = "controller-revision-hash";
/// Label of a Pod: the generation of the template that the Pod was created from.
pub const TEMPLATE_GENERATION_LABEL: &str = "pod-template-generation";
/// The annotation of a DaemonSet in which the API server counts the changes of its template.
pub const TEMPLATE_GENERATION: &str = "deprecated.daemonset.template.generation";

/// A cached revision that a DaemonSet controls, or an orphan.
#[derive(Debug, Deserialize)]
#[serde(transparent)]
pub struct ControllerRevision(revision::ControllerRevision);

impl ControllerRevision {
    /// Returns the hash in the label, which Pods of this revision have as well; `None` without the label.
    ///
    /// The hash depends on the version of the controller that created the revision. It is read, and never computed again.
    pub fn hash(&self) -> Option<&str> {
        self.0.meta.labels.get(HASH_LABEL)
    }
}

impl Deref for ControllerRevision {
    type Target = revision::ControllerRevision;
    fn deref(&self) -> &revision::ControllerRevision {
        &self.0
    }
}

impl AsRef<revision::ControllerRevision> for ControllerRevision {
    fn as_ref(&self) -> &revision::ControllerRevision {
        &self.0
    }
}

impl Object for ControllerRevision {
    const RESOURCE: Resource = CONTROLLER_REVISIONS;
    type Indexes = (ByController, OrphansByNamespace);

    const PROTOBUF: Option<&'static Message> = Some(&messages::CONTROLLER_REVISION);
    const CONCERNS: Option<fn(&Head<'_>) -> bool> =
        Some(|head| head.controller().is_none_or(|kind| kind == DAEMON_SETS.kind));

    fn meta(&self) -> &Meta {
        &self.0.meta
    }

    fn trim(&mut self) {
        self.0.meta.annotations = Annotations::default();
        self.0.meta.finalizers = Box::default();
    }
}

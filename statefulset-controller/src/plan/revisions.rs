//! The revisions that Pods are created from.

use std::sync::Arc;

use common::{
    prelude::*,
    revision::{self, template::PodTemplateWithRevisionData},
};
use serde_json::Value;

use crate::snapshot::SharedRevision;

/// The stored revisions of a set, and the current and the update revision.
#[derive(Clone, Debug)]
pub struct Revisions {
    /// The stored revisions, oldest first.
    pub stored_revisions: Vec<SharedRevision>,
    /// The write that precedes the work on Pods.
    pub revision_write: RevisionWrite,
    /// The revision of Pods before the rolling update.
    pub current_revision: Revision,
    /// The revision of the set's template.
    pub update_revision: Revision,
    /// How often the name of a new revision was taken by a revision with other data (`status.collisionCount`).
    pub collision_count: i32,
}

impl Revisions {
    /// Returns the revision in the given role.
    pub fn get(&self, role: RevisionRole) -> &Revision {
        match role {
            RevisionRole::Current => &self.current_revision,
            RevisionRole::Update => &self.update_revision,
        }
    }
}

/// The role of a revision in a rolling update.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RevisionRole {
    /// The revision before the rolling update.
    Current,
    /// The revision of the set's template.
    Update,
}

/// The write of a revision that precedes the work on Pods.
#[derive(Clone, Debug)]
pub enum RevisionWrite {
    /// No write is needed, or the set is terminating.
    Nothing,
    /// An earlier revision equals the template and becomes the newest.
    Renumber {
        /// The earlier revision, which has the data of the template.
        revision: SharedRevision,
        /// The new value of the field `revision`.
        number: i64,
    },
    /// The template is new, and its revision is stored.
    Create {
        /// The value of the field `revision`.
        number: i64,
    },
}

/// A revision from which Pods are created.
#[derive(Clone, Debug)]
pub struct Revision {
    /// `metadata.name`, which Pods have in the label `controller-revision-hash`.
    pub name: Text,
    /// Where the Pod template is read.
    pub template_source: TemplateSource,
}

/// The place where a revision's Pod template is found.
#[derive(Clone, Debug)]
pub enum TemplateSource {
    /// The stored revision. The template is read from the server, because the cache keeps only a digest of the data.
    Stored(SharedRevision),
    /// The set, because the stored revision holds the same template.
    StoredTemplate(Arc<PodTemplateWithRevisionData>),
    /// The set, because this sync stores the revision.
    Template(Arc<PodTemplateWithRevisionData>),
    /// No place: only the status of a terminating set names the revision, and its template is unknown.
    OnlyNameKnown,
}

impl Revision {
    /// Creates a [`Revision`] from a stored revision. `template` is the template of the set.
    pub fn from_stored(revision: &SharedRevision, template: &Arc<PodTemplateWithRevisionData>) -> Self {
        let source = if revision.has_data(template.revision_data()) {
            TemplateSource::StoredTemplate(Arc::clone(template))
        } else {
            TemplateSource::Stored(Arc::clone(revision))
        };
        Self { name: Text::new(&revision.meta.name), template_source: source }
    }

    /// Creates the revision `name` of the set's template.
    pub fn from_template(template: &Arc<PodTemplateWithRevisionData>, name: &str) -> Self {
        Self { name: Text::new(name), template_source: TemplateSource::Template(Arc::clone(template)) }
    }
}

impl TemplateSource {
    /// Returns the Pod template if the set holds it; `None` if it must be read from the server.
    pub fn template_in_set(&self) -> Option<Value> {
        match self {
            Self::StoredTemplate(template) | Self::Template(template) => {
                revision::extract_template(template.revision_data().bytes())
            }
            Self::Stored(_) | Self::OnlyNameKnown => None,
        }
    }
}

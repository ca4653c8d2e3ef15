//! The revisions that Pods are made from.

use std::sync::Arc;

use common::{
    intern::Text,
    revision::{self, template::PodTemplate},
};
use serde_json::Value;

use crate::snapshot::RevisionRef;

/// The revisions of a set.
#[derive(Clone, Debug)]
pub struct Revisions {
    /// All that are stored, oldest first.
    pub stored: Vec<RevisionRef>,
    /// The write to do first.
    pub step: Step,
    /// The current revision: that of Pods which the rolling update has not reached.
    pub current: Revision,
    /// The update revision: that of the set's template.
    pub update: Revision,
    /// How many names were taken by a revision with other data.
    pub collisions: i32,
}

impl Revisions {
    /// The revision in that role.
    pub fn get(&self, role: RevisionRole) -> &Revision {
        match role {
            RevisionRole::Current => &self.current,
            RevisionRole::Update => &self.update,
        }
    }
}

/// The part that a revision plays for its set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RevisionRole {
    /// The revision before the rolling update.
    Current,
    /// The revision of the set's template.
    Update,
}

/// The write that precedes making Pods from the update revision.
#[derive(Clone, Debug)]
pub enum Step {
    /// No write.
    Nothing,
    /// An older revision becomes the newest.
    Renumber {
        /// The revision.
        revision: RevisionRef,
        /// Its new number.
        number: i64,
    },
    /// The revision is stored.
    Create {
        /// Its number.
        number: i64,
    },
}

/// A revision that Pods are made from.
#[derive(Clone, Debug)]
pub struct Revision {
    /// Its name, which Pods carry in a label.
    pub name: Text,
    /// Where its Pod template is found.
    pub source: Source,
}

/// Where the Pod template of a revision is found.
#[derive(Clone, Debug)]
pub enum Source {
    /// In the data of this stored revision, which are read from the server: the cache has none.
    Stored(RevisionRef),
    /// In the set: the stored revision holds the same template.
    StoredTemplate(Arc<PodTemplate>),
    /// In the set, whose revision this sync stores.
    Template(Arc<PodTemplate>),
    /// Nowhere: only the status of a set that is being deleted names the revision.
    Recorded,
}

impl Revision {
    /// A revision that is stored. `template` is that of the set.
    pub fn stored(revision: &RevisionRef, template: &Arc<PodTemplate>) -> Self {
        let source = if revision.holds(template.data()) {
            Source::StoredTemplate(Arc::clone(template))
        } else {
            Source::Stored(Arc::clone(revision))
        };
        Self { name: Text::new(&revision.meta.name), source }
    }

    /// The revision of a set's template under that name.
    pub fn of_template(template: &Arc<PodTemplate>, name: &str) -> Self {
        Self { name: Text::new(name), source: Source::Template(Arc::clone(template)) }
    }
}

impl Source {
    /// The Pod template, unless it is read from the server.
    pub fn known(&self) -> Option<Value> {
        match self {
            Self::StoredTemplate(template) | Self::Template(template) => revision::template_in(template.data().bytes()),
            Self::Stored(_) | Self::Recorded => None,
        }
    }
}

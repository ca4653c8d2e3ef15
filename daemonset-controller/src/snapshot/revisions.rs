//! The revisions that a sync adopts, releases, labels, renumbers, creates or deletes.

use std::{collections::BTreeSet, sync::Arc};

use common::prelude::*;

use crate::objects::SharedRevision;

/// The revisions of a DaemonSet, divided by the change that each of them needs.
#[derive(Clone, Debug)]
pub struct Revisions {
    /// Revisions without a controller that the selector matches.
    pub revisions_to_adopt: Vec<SharedRevision>,
    /// Revisions of the DaemonSet that the selector no longer matches.
    pub revisions_to_release: Vec<SharedRevision>,
    /// Revisions without the hash label. The sync labels them with their own name.
    pub revisions_without_hash_label: Vec<SharedRevision>,
    /// Revisions of earlier templates, oldest first.
    pub earlier_revisions: Vec<SharedRevision>,
    /// The revision of the present template, and the write that it needs.
    pub current_revision: CurrentRevision,
    /// Other revisions of the present template. The sync deletes them.
    pub duplicate_revisions: Vec<SharedRevision>,
    /// The hash of the current revision, which new Pods get as a label.
    pub current_hash: Text,
    /// The other hashes under which the present template is stored. A Pod with such a hash is not outdated.
    pub duplicate_hashes: BTreeSet<Text>,
}

/// The revision of a DaemonSet's present template, and the write that it needs.
#[derive(Clone, Debug)]
pub enum CurrentRevision {
    /// The revision is stored, and has the highest number.
    Stored(SharedRevision),
    /// The revision is stored, and must get this number, the highest of all, because users have returned to its template.
    Renumber(SharedRevision, i64),
    /// The revision is not stored yet.
    Create {
        /// The value of the field `revision` of the new revision.
        number: i64,
        /// The hash of the new revision. If an existing revision has its name and its data, Pods get the hash of that revision.
        hash: Text,
    },
}

impl Revisions {
    /// Drops the planned changes of a revision if `is_refused` returns true for it.
    pub(crate) fn drop_denied_changes(&mut self, is_refused: impl Fn(&SharedRevision) -> bool) {
        self.revisions_without_hash_label.retain(|revision| !is_refused(revision));
        self.duplicate_revisions.retain(|revision| !is_refused(revision));
        if let CurrentRevision::Renumber(revision, _) = &self.current_revision
            && is_refused(revision)
        {
            self.current_revision = CurrentRevision::Stored(Arc::clone(revision));
        }
    }

    /// Removes the duplicates with these hashes from the deletions, because the server has denied their Pods' relabelling.
    pub(crate) fn keep_duplicates_with_hashes(&mut self, hashes: &BTreeSet<Text>) {
        self.duplicate_revisions.retain(|revision| !hashes.contains(revision_hash_or_name(revision)));
    }
}

/// Returns the value of the hash label of a revision; without the label, the name of the revision, which becomes the label.
pub fn revision_hash_or_name(revision: &SharedRevision) -> &str {
    revision.revision_hash().unwrap_or(&revision.meta.name)
}

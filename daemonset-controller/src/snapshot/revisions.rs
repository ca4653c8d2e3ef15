//! The revisions of a set in a snapshot.

use std::{collections::BTreeSet, sync::Arc};

use common::intern::Text;

use crate::objects::RevisionRef;

/// The revisions of a set, divided by the changes that they need.
#[derive(Clone, Debug)]
pub struct Revisions {
    /// Orphaned revisions that the selector matches.
    pub adopt: Vec<RevisionRef>,
    /// Revisions of the set that the selector no longer matches.
    pub release: Vec<RevisionRef>,
    /// Revisions without the label of the hash. They are labelled with their own name.
    pub unlabelled: Vec<RevisionRef>,
    /// Revisions of earlier templates, oldest first.
    pub old: Vec<RevisionRef>,
    /// The revision of the set's template, or its creation.
    pub current: Current,
    /// Other revisions of the set's template, to be deleted.
    pub duplicates: Vec<RevisionRef>,
    /// The hash of the current revision, with which Pods are labelled.
    pub hash: Text,
    /// Other hashes under which the set's template is stored. A Pod with such a hash is not outdated.
    pub same_hashes: BTreeSet<Text>,
}

/// The revision of a set's template, and the write that it needs.
#[derive(Clone, Debug)]
pub enum Current {
    /// The revision is stored, and newer than all others.
    Stored(RevisionRef),
    /// The revision is stored with a number that is not the highest, because the template is an earlier one again. It gets this
    /// number.
    Renumber(RevisionRef, i64),
    /// The revision is not stored yet.
    Create {
        /// The value of the new revision's field `revision`.
        number: i64,
        /// The hash of the new revision. If its name is taken by a revision with the same data, Pods get the hash of that
        /// revision.
        hash: Text,
    },
}

impl Revisions {
    /// Removes the changes of revisions that the server has refused to change.
    pub(crate) fn leave(&mut self, is_refused: impl Fn(&RevisionRef) -> bool) {
        self.unlabelled.retain(|revision| !is_refused(revision));
        self.duplicates.retain(|revision| !is_refused(revision));
        if let Current::Renumber(revision, _) = &self.current
            && is_refused(revision)
        {
            self.current = Current::Stored(Arc::clone(revision));
        }
    }

    /// Keeps the duplicates with these hashes: the server has refused to relabel Pods that have them.
    pub(crate) fn keep_duplicates(&mut self, hashes: &BTreeSet<&str>) {
        self.duplicates.retain(|revision| !hashes.contains(hash_of(revision)));
    }
}

/// Returns the hash in the label of a revision; without the label, the name of the revision, which becomes its hash.
pub fn hash_of(revision: &RevisionRef) -> &str {
    revision.hash().unwrap_or(&revision.meta.name)
}

//! The revisions of a set.

use std::{collections::BTreeSet, sync::Arc};

use common::intern::Text;

use crate::objects::RevisionRef;

/// The revisions of a set, and what is to be written so that they are as they should be.
#[derive(Clone, Debug)]
pub struct Revisions {
    /// Revisions to adopt.
    pub adopt: Vec<RevisionRef>,
    /// Revisions to release.
    pub release: Vec<RevisionRef>,
    /// Revisions without the label of the hash. They get their own name as hash.
    pub unlabelled: Vec<RevisionRef>,
    /// Revisions of other templates, oldest first.
    pub old: Vec<RevisionRef>,
    /// The revision of the set's template.
    pub current: Current,
    /// Other revisions of the same template, which are deleted.
    pub duplicates: Vec<RevisionRef>,
    /// The hash of the current revision, which its Pods carry.
    pub hash: Text,
    /// The other hashes under which the set's template is stored. A Pod that carries one is not outdated.
    pub same_hashes: BTreeSet<Text>,
}

/// The revision of a set's template.
#[derive(Clone, Debug)]
pub enum Current {
    /// It is stored, and newer than all others.
    Stored(RevisionRef),
    /// It is stored under a number that is not the highest, because the template is an earlier one again.
    Renumber(RevisionRef, i64),
    /// It is not stored yet.
    Create {
        /// The number that it gets.
        number: i64,
        /// The hash that it gets. Pods carry another one if its name is taken by a revision with the same data and that hash.
        hash: Text,
    },
}

impl Revisions {
    /// Leaves revisions as they are that the server has refused to change.
    pub(crate) fn leave(&mut self, is_refused: impl Fn(&RevisionRef) -> bool) {
        self.unlabelled.retain(|revision| !is_refused(revision));
        self.duplicates.retain(|revision| !is_refused(revision));
        if let Current::Renumber(revision, _) = &self.current
            && is_refused(revision)
        {
            self.current = Current::Stored(Arc::clone(revision));
        }
    }

    /// Leaves the duplicates with these hashes as they are: Pods carry them, and the server has refused to relabel those Pods.
    pub(crate) fn keep_duplicates(&mut self, hashes: &BTreeSet<&str>) {
        self.duplicates.retain(|revision| !hashes.contains(hash_of(revision)));
    }
}

/// The hash that a revision has, or gets: its name if it has none.
pub fn hash_of(revision: &RevisionRef) -> &str {
    revision.hash().unwrap_or(&revision.meta.name)
}

//! The current and the earlier revisions of a set.

use std::{collections::BTreeSet, sync::Arc};

use common::{intern::Text, refs::Claims, revision};

use crate::{
    objects::{DaemonSet, DaemonTemplate},
    snapshot::RevisionRef,
};

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

/// The name of the revision with that hash.
pub fn name(set: &DaemonSet, hash: &str) -> String {
    format!("{}-{hash}", set.metadata.name)
}

/// Decides which revision is current. Upstream: `pkg/controller/daemon`, `constructHistory`.
///
/// Revisions are equal if they hold the same data in canonical form. The number of the current one is the highest; a revision that is
/// stored under a still higher number keeps it.
pub fn choose(set: &DaemonSet, template: &DaemonTemplate, claims: Claims<RevisionRef>) -> Revisions {
    let mut all: Vec<RevisionRef> = claims.keep.iter().chain(&claims.adopt).cloned().collect();
    revision::sort(&mut all);
    let unlabelled = all.iter().filter(|revision| revision.hash().is_none()).cloned().collect();
    let data = template.template.data();
    let (mut equal, old): (Vec<RevisionRef>, Vec<RevisionRef>) = all.into_iter().partition(|one| one.holds(data));
    let number = revision::next_revision(old.iter().map(|one| &***one));
    let (current, hash) = match equal.pop() {
        None => {
            let hash = Text::new(&template.hash(set.status.collision_count));
            (Current::Create { number, hash: hash.clone() }, hash)
        }
        Some(kept) => {
            let hash = Text::new(hash_of(&kept));
            let newest = kept.revision >= number;
            (if newest { Current::Stored(kept) } else { Current::Renumber(kept, number) }, hash)
        }
    };
    let same_hashes = equal.iter().map(hash_of).filter(|same| *same != &*hash).map(Text::new).collect();
    let (adopt, release) = (claims.adopt, claims.release);
    Revisions { adopt, release, unlabelled, old, current, duplicates: equal, hash, same_hashes }
}

/// Decides which revisions are deleted because the history is longer than its limit: the oldest that no Pod has.
///
/// `is_live` says whether a Pod carries a hash. Revisions that are in use do not count as deleted: others are deleted in their place.
/// Upstream: `pkg/controller/daemon`, `cleanupHistory`.
pub fn surplus(old: &[RevisionRef], limit: i32, is_live: impl Fn(&str) -> bool) -> Vec<RevisionRef> {
    let surplus = old.len().saturating_sub(usize::try_from(limit).unwrap_or(0));
    if surplus == 0 {
        return Vec::new();
    }
    old.iter().filter(|revision| !is_live(hash_of(revision))).take(surplus).map(Arc::clone).collect()
}

#[cfg(test)]
mod tests;

//! Chooses the current revision of a DaemonSet, and the revisions to delete.

use std::{collections::BTreeSet, sync::Arc};

use common::{prelude::*, revision};

use crate::{
    objects::{DaemonSet, ParsedPodTemplate, SharedRevision},
    snapshot::revisions::{CurrentRevision, Revisions, revision_hash_or_name},
};

/// Returns the name of a revision: the name of the DaemonSet, a dash and the hash.
pub fn revision_name(set: &DaemonSet, hash: &str) -> String {
    format!("{}-{hash}", set.metadata.name)
}

/// Decides the changes of revisions without the denied changes that are in back-off.
///
/// `taken_name_and_hash` is the name of an existing revision of the same template, and the hash that Pods get because of it.
pub fn decide_revisions(
    set: &DaemonSet,
    template: &ParsedPodTemplate,
    mut claims: DependentClaims<SharedRevision>,
    denied_uids: &BTreeSet<Uid>,
    taken_name_and_hash: Option<&(String, Text)>,
) -> Revisions {
    let is_denied = |revision: &SharedRevision| denied_uids.contains(&revision.meta.uid);
    claims.to_adopt.retain(|revision| !is_denied(revision));
    claims.to_release.retain(|revision| !is_denied(revision));
    let mut revisions = choose_current_revision(set, template, claims);
    revisions.drop_denied_changes(is_denied);
    if let (CurrentRevision::Create { hash, .. }, Some((name, stored_hash))) =
        (&revisions.current_revision, taken_name_and_hash)
        && *name == revision_name(set, hash)
    {
        revisions.current_hash = stored_hash.clone();
    }
    revisions
}

/// Chooses the current revision among the claimed revisions. Upstream: `pkg/controller/daemon`, `constructHistory`.
///
/// Two revisions are equal if their data are equal in canonical form. The current revision gets a higher number than all
/// earlier revisions, or keeps its number if that is already higher.
pub fn choose_current_revision(
    set: &DaemonSet,
    template: &ParsedPodTemplate,
    claims: DependentClaims<SharedRevision>,
) -> Revisions {
    let mut all: Vec<SharedRevision> = claims.to_keep.iter().chain(&claims.to_adopt).cloned().collect();
    all.sort_by(|a, b| revision::compare_revisions(a, b));
    let revisions_without_hash_label =
        all.iter().filter(|revision| revision.revision_hash().is_none()).cloned().collect();
    let data = template.pod_template.revision_data();
    let (mut equal_revisions, earlier_revisions): (Vec<SharedRevision>, Vec<SharedRevision>) =
        all.into_iter().partition(|revision| revision.has_data(data));
    let number = revision::next_revision_number(earlier_revisions.iter().map(|revision| &***revision));
    let (current_revision, current_hash) = match equal_revisions.pop() {
        None => {
            let hash = Text::new(&template.new_revision_hash(set.status.collision_count));
            (CurrentRevision::Create { number, hash: hash.clone() }, hash)
        }
        Some(revision) => {
            let hash = Text::new(revision_hash_or_name(&revision));
            let has_highest_number = revision.revision >= number;
            let current_revision = if has_highest_number {
                CurrentRevision::Stored(revision)
            } else {
                CurrentRevision::Renumber(revision, number)
            };
            (current_revision, hash)
        }
    };
    let hashes = equal_revisions.iter().map(revision_hash_or_name);
    Revisions {
        revisions_to_adopt: claims.to_adopt,
        revisions_to_release: claims.to_release,
        revisions_without_hash_label,
        earlier_revisions,
        current_revision,
        duplicate_hashes: hashes.filter(|hash| **hash != *current_hash).map(Text::new).collect(),
        duplicate_revisions: equal_revisions,
        current_hash,
    }
}

/// Returns the revisions to delete because there are more than `limit` earlier revisions: the oldest revisions without a Pod.
///
/// `is_live` returns whether any Pod has the given hash. If an old revision is in use, a newer unused revision is deleted in
/// its place. Terminating revisions are neither counted nor deleted again. Upstream: `pkg/controller/daemon`, `cleanupHistory`.
pub fn surplus_revisions(old: &[SharedRevision], limit: i32, is_live: impl Fn(&str) -> bool) -> Vec<SharedRevision> {
    let old: Vec<_> = old.iter().filter(|revision| !revision.meta.is_deleting()).collect();
    let surplus = old.len().saturating_sub(usize::try_from(limit).unwrap_or(0));
    let unused = old.into_iter().filter(|revision| !is_live(revision_hash_or_name(revision)));
    unused.take(surplus).map(Arc::clone).collect()
}

#[cfg(test)]
mod tests;

//! Chooses the current revision of a DaemonSet, and the revisions to delete.

use std::sync::Arc;

use common::{intern::Text, refs::DependentClaims, revision};

use crate::{
    objects::{DaemonSet, ParsedPodTemplate, SharedRevision},
    snapshot::revisions::{CurrentRevision, Revisions, revision_hash_or_name},
};

/// Returns the name of a revision: the name of the DaemonSet, a dash and the hash.
pub fn revision_name(set: &DaemonSet, hash: &str) -> String {
    format!("{}-{hash}", set.metadata.name)
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
    revision::sort_revisions(&mut all);
    let unlabelled = all.iter().filter(|revision| revision.revision_hash().is_none()).cloned().collect();
    let data = template.pod_template.revision_data();
    let (mut equal, old): (Vec<SharedRevision>, Vec<SharedRevision>) =
        all.into_iter().partition(|one| one.has_data(data));
    let number = revision::next_revision_number(old.iter().map(|one| &***one));
    let (current, hash) = match equal.pop() {
        None => {
            let hash = Text::new(&template.new_revision_hash(set.status.collision_count));
            (CurrentRevision::Create { number, hash: hash.clone() }, hash)
        }
        Some(kept) => {
            let hash = Text::new(revision_hash_or_name(&kept));
            let newest = kept.revision >= number;
            (if newest { CurrentRevision::Stored(kept) } else { CurrentRevision::Renumber(kept, number) }, hash)
        }
    };
    let same_hashes = equal.iter().map(revision_hash_or_name).filter(|same| *same != &*hash).map(Text::new).collect();
    let (adopt, release) = (claims.to_adopt, claims.to_release);
    Revisions {
        revisions_to_adopt: adopt,
        revisions_to_release: release,
        revisions_without_hash_label: unlabelled,
        earlier_revisions: old,
        current_revision: current,
        duplicate_revisions: equal,
        current_hash: hash,
        duplicate_hashes: same_hashes,
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

//! The limit on the number of stored revisions.

use std::collections::BTreeSet;

use crate::{
    objects::StatefulSet,
    plan::revisions::Revisions,
    snapshot::{SharedPod, SharedRevision},
};

/// Returns the oldest unused revisions beyond `spec.revisionHistoryLimit`. Upstream: `truncateHistory`.
///
/// A revision is in use if it is the current or the update revision, or if the status or a Pod names it. Terminating revisions are
/// neither counted nor deleted again.
pub fn revisions_to_delete(
    set: &StatefulSet,
    revisions: &Revisions,
    claimed_pods: &[SharedPod],
) -> Vec<SharedRevision> {
    let Ok(limit) = usize::try_from(set.revision_history_limit) else { return Vec::new() };
    let mut live: BTreeSet<&str> = claimed_pods.iter().map(|pod| pod.revision_name()).collect();
    live.extend([&*revisions.current_revision.name, &*revisions.update_revision.name]);
    live.extend([&*set.status.current_revision, &*set.status.update_revision]);
    let is_unused = |revision: &&SharedRevision| !revision.meta.is_deleting() && !live.contains(&*revision.meta.name);
    let unused: Vec<&SharedRevision> = revisions.stored_revisions.iter().filter(is_unused).collect();
    let surplus = unused.len().saturating_sub(limit);
    unused.into_iter().take(surplus).cloned().collect()
}

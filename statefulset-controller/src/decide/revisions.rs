//! The current and the update revision of a set, and the limit on the number of stored revisions.

use std::{collections::BTreeSet, sync::Arc};

use common::{
    hash::controller_revision_hash,
    prelude::*,
    revision::{self, template::PodTemplateWithRevisionData},
};

use crate::{
    objects::StatefulSet,
    plan::revisions::{Revision, RevisionWrite, Revisions, TemplateSource},
    snapshot::{SharedPod, SharedRevision, Snapshot},
};

/// Maximum length in bytes of the set's name in the names of its revisions. A longer name is cut.
const MAX_NAME_PREFIX: usize = 223;

/// Returns the revisions of the set and the orphans to adopt, oldest first.
pub fn sorted_revisions(snapshot: &Snapshot) -> Vec<SharedRevision> {
    let claims = &snapshot.revisions;
    let mut all: Vec<SharedRevision> = claims.to_keep.iter().chain(&claims.to_adopt).cloned().collect();
    all.sort_by(|a, b| revision::compare_revisions(a, b));
    all
}

/// Returns the hash of a template after this number of collisions.
pub fn template_hash(template: &PodTemplateWithRevisionData, collisions: i32) -> String {
    controller_revision_hash(template.revision_data().bytes(), Some(collisions))
}

/// Returns the name of the revision with this hash: `<set>-<hash>`.
pub fn revision_name(set: &StatefulSet, hash: &str) -> String {
    let name: &str = &set.metadata.name;
    // Servers store only ASCII names. If the cut would split a character of any other name, the prefix is empty.
    format!("{}-{hash}", name.get(..name.len().min(MAX_NAME_PREFIX)).unwrap_or_default())
}

/// Chooses the current and the update revision, and decides whether a revision is written. Upstream: `getStatefulSetRevisions`.
///
/// Revisions are equal if they hold the same bytes. The newest revision also equals the template if they differ only by
/// defaults that a newer or older server version writes. Such a difference must not restart Pods
/// (kubernetes/kubernetes#134773).
///
/// No revision of a terminating set is written. The garbage collector may already have removed the owner references of a
/// revision, which then exists although the caches do not show it as a revision of the set.
pub fn choose_revisions(snapshot: &Snapshot, stored_revisions: Vec<SharedRevision>) -> Revisions {
    let (set, template) = (&snapshot.set, &snapshot.template);
    let number = revision::next_revision_number(stored_revisions.iter().map(|r| &***r));
    let collisions = set.status.collision_count.unwrap_or(0);
    let latest = stored_revisions.last();
    let equal = stored_revisions.iter().rfind(|revision| revision.has_data(template.revision_data()));
    let equal_with_defaults = |revision: &&SharedRevision| {
        snapshot.features.compares_revisions_semantically && revision.equals_with_defaults(template.revision_data())
    };
    let new = || Revision::from_template(template, &revision_name(set, &template_hash(template, collisions)));
    let recorded = |name: &Text| {
        (!name.is_empty()).then(|| Revision { name: name.clone(), template_source: TemplateSource::OnlyNameKnown })
    };
    let (update, step) = match (equal, latest) {
        (Some(equal), Some(latest)) if Arc::ptr_eq(equal, latest) => {
            (Revision::from_stored(latest, template), RevisionWrite::Nothing)
        }
        (Some(equal), _) => {
            (Revision::from_stored(equal, template), RevisionWrite::Renumber { revision: Arc::clone(equal), number })
        }
        (None, latest) => match latest.filter(equal_with_defaults) {
            Some(latest) => (Revision::from_stored(latest, template), RevisionWrite::Nothing),
            None if snapshot.owner.is_deleting => {
                (recorded(&set.status.update_revision).unwrap_or_else(new), RevisionWrite::Nothing)
            }
            None => (new(), RevisionWrite::Create { number }),
        },
    };
    let step = if snapshot.owner.is_deleting { RevisionWrite::Nothing } else { step };
    let current_name = &set.status.current_revision;
    let current = stored_revisions.iter().find(|revision| *revision.meta.name == **current_name);
    let current = current.map(|revision| Revision::from_stored(revision, template));
    let current = match current {
        None if snapshot.owner.is_deleting => recorded(current_name),
        current => current,
    };
    Revisions {
        current_revision: current.unwrap_or_else(|| update.clone()),
        stored_revisions,
        revision_write: step,
        update_revision: update,
        collision_count: collisions,
    }
}

/// Returns the revisions after the update revision was stored as `name`.
///
/// A stored current revision is kept. Otherwise, the update revision becomes the current one. Equal names do not show which
/// case applies: after a collision, a stored current revision has the name that was planned for the update revision.
pub fn with_created_revision(
    revisions: &Revisions,
    template: &Arc<PodTemplateWithRevisionData>,
    name: &str,
    collisions: i32,
) -> Revisions {
    let update = Revision::from_template(template, name);
    let current = match revisions.current_revision.template_source {
        TemplateSource::Stored(_) | TemplateSource::StoredTemplate(_) => revisions.current_revision.clone(),
        TemplateSource::Template(_) | TemplateSource::OnlyNameKnown => update.clone(),
    };
    Revisions {
        current_revision: current,
        update_revision: update,
        collision_count: collisions,
        revision_write: RevisionWrite::Nothing,
        stored_revisions: revisions.stored_revisions.clone(),
    }
}

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

#[cfg(test)]
mod tests;

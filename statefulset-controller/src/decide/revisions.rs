//! The current and the update revision of a set.

use std::sync::Arc;

use common::{
    hash::controller_revision_hash,
    intern::Text,
    revision::{self, template::PodTemplate},
};

use crate::{
    objects::StatefulSet,
    plan::revisions::{Revision, Revisions, Source, Step},
    snapshot::{RevisionRef, Snapshot},
};

/// Maximum length in bytes of the set's name in the names of its revisions. A longer name is cut.
const PREFIX: usize = 223;

/// Returns the revisions of the set and the orphans to adopt, oldest first.
pub fn sorted(snapshot: &Snapshot) -> Vec<RevisionRef> {
    let claims = &snapshot.revisions;
    let mut all: Vec<RevisionRef> = claims.keep.iter().chain(&claims.adopt).cloned().collect();
    revision::sort(&mut all);
    all
}

/// Returns the hash of a template after this number of collisions.
pub fn hash(template: &PodTemplate, collisions: i32) -> String {
    controller_revision_hash(template.data().bytes(), Some(collisions))
}

/// Returns the name of the revision with this hash: `<set>-<hash>`.
pub fn name(set: &StatefulSet, hash: &str) -> String {
    let name: &str = &set.metadata.name;
    // Servers store only ASCII names. If the cut would split a character of any other name, the prefix is empty.
    format!("{}-{hash}", name.get(..name.len().min(PREFIX)).unwrap_or_default())
}

/// Chooses the current and the update revision, and decides whether a revision is written. Upstream: `getStatefulSetRevisions`.
///
/// Revisions are equal if they hold the same bytes. The newest revision also equals the template if they differ only by
/// defaults that a newer or older server version writes. Such a difference must not restart Pods
/// (kubernetes/kubernetes#134773).
///
/// No revision of a terminating set is written. The garbage collector may already have removed the owner references of a
/// revision, which then exists although the caches do not show it as a revision of the set.
pub fn choose(snapshot: &Snapshot, stored: Vec<RevisionRef>) -> Revisions {
    let (set, template) = (&snapshot.set, &snapshot.template);
    let number = revision::next_revision(stored.iter().map(|r| &***r));
    let collisions = set.status.collision_count.unwrap_or(0);
    let latest = stored.last();
    let equal = stored.iter().rfind(|revision| revision.holds(template.data()));
    let equal_with_defaults =
        |latest: &&RevisionRef| snapshot.limits.semantic_comparison && latest.holds_with_defaults(template.data());
    let new = || Revision::of_template(template, &name(set, &hash(template, collisions)));
    let recorded = |name: &Text| (!name.is_empty()).then(|| Revision { name: name.clone(), source: Source::Recorded });
    let (update, step) = match (equal, latest) {
        (Some(equal), Some(latest)) if Arc::ptr_eq(equal, latest) => {
            (Revision::stored(latest, template), Step::Nothing)
        }
        (Some(equal), _) => (Revision::stored(equal, template), Step::Renumber { revision: Arc::clone(equal), number }),
        (None, latest) => match latest.filter(equal_with_defaults) {
            Some(latest) => (Revision::stored(latest, template), Step::Nothing),
            None if snapshot.owner.deleting => {
                (recorded(&set.status.update_revision).unwrap_or_else(new), Step::Nothing)
            }
            None => (new(), Step::Create { number }),
        },
    };
    let step = if snapshot.owner.deleting { Step::Nothing } else { step };
    let current_name = &set.status.current_revision;
    let current = stored.iter().find(|revision| *revision.meta.name == **current_name);
    let current = current.map(|revision| Revision::stored(revision, template));
    let current = match current {
        None if snapshot.owner.deleting => recorded(current_name),
        current => current,
    };
    Revisions { current: current.unwrap_or_else(|| update.clone()), stored, step, update, collisions }
}

/// Returns the revisions after the update revision was stored as `name`.
///
/// A current revision that is already stored stays the same. Otherwise, the update revision becomes the current one. Names do
/// not show this: after a collision, the current revision has the very name that was planned for the update revision.
pub fn created(revisions: &Revisions, template: &Arc<PodTemplate>, name: &str, collisions: i32) -> Revisions {
    let update = Revision::of_template(template, name);
    let current = match revisions.current.source {
        Source::Stored(_) | Source::StoredTemplate(_) => revisions.current.clone(),
        Source::Template(_) | Source::Recorded => update.clone(),
    };
    Revisions { current, update, collisions, step: Step::Nothing, stored: revisions.stored.clone() }
}

#[cfg(test)]
mod tests;

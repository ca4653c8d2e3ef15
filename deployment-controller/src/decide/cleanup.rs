//! Deletes old ReplicaSets beyond `spec.revisionHistoryLimit`.

use crate::{
    decide::draft::{DraftReplicaSet, PlanDraft},
    plan::{Action, ReplicaSetNameAndUid, Step},
};

/// Plans the deletion of the lowest revisions beyond `spec.revisionHistoryLimit`. A ReplicaSet with Pods is kept, and no
/// other ReplicaSet is deleted in its place. Upstream: `cleanupDeployment`.
pub fn plan_history_cleanup(draft: &mut PlanDraft<'_>) {
    let Some(limit) = draft.spec().effective_revision_history_limit() else { return };
    let candidates: Vec<&DraftReplicaSet<'_>> =
        draft.old_sets().filter(|set| set.cached.is_some_and(|source| !source.metadata.is_deleting())).collect();
    let excess = candidates.len().saturating_sub(usize::try_from(limit).unwrap_or(0));
    let steps: Vec<Step> = sorted_by_revision(candidates, |set| set.revision(), |set| set.creation_sort_key())
        .into_iter()
        .take(excess)
        .filter(|set| is_idle(set))
        .filter_map(|set| {
            let action = Action::DeleteReplicaSet(ReplicaSetNameAndUid::from_meta(&set.cached?.metadata));
            Some(Step::new(action, format!("only {limit} old ReplicaSets are kept")))
        })
        .collect();
    draft.steps.extend(steps);
}

fn is_idle(set: &DraftReplicaSet<'_>) -> bool {
    let Some(source) = set.cached else { return false };
    set.replicas_in_status == 0
        && set.replicas == 0
        && set.status_replicas() == 0
        && source.metadata.generation <= source.status.observed_generation
}

/// Sorts by revision, lowest first. If two revisions are equal, or one of them is not an integer, the older ReplicaSet comes
/// first.
///
/// These rules alone are no total order if only some revisions are integers. The ReplicaSets are therefore sorted by age, and
/// then by revision between two ReplicaSets without an integer revision. The result does not depend on the order of `sets`.
fn sorted_by_revision<T, Age: Ord>(
    sets: Vec<T>,
    revision: impl Fn(&T) -> Option<i64>,
    age: impl Fn(&T) -> Age,
) -> Vec<T> {
    let mut sorted = sets;
    sorted.sort_by_key(&age);
    for run in sorted.chunk_by_mut(|a, b| revision(a).is_some() && revision(b).is_some()) {
        // The sort is stable, so ReplicaSets with the same revision remain sorted by age.
        run.sort_by_key(&revision);
    }
    sorted
}

#[cfg(test)]
mod tests;

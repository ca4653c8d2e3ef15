//! The revision history: old ReplicaSets beyond `revisionHistoryLimit` are deleted.

use crate::{
    decide::draft::{Draft, Set},
    plan::{Action, SetRef, Step},
};

/// Plans the deletion of the oldest revisions beyond the limit, where they have no Pods. One that is still busy counts, and
/// is not replaced by a later one.
///
/// Upstream: `cleanupDeployment`.
pub fn clean_up(draft: &mut Draft<'_>) {
    let Some(limit) = draft.spec().history_limit() else { return };
    let candidates: Vec<&Set<'_>> =
        draft.old_sets().filter(|set| set.source.is_some_and(|source| !source.metadata.is_deleting())).collect();
    let excess = candidates.len().saturating_sub(usize::try_from(limit).unwrap_or(0));
    let steps: Vec<Step> = by_revision(candidates, |set| set.revision(), |set| set.age())
        .into_iter()
        .take(excess)
        .filter(|set| is_idle(set))
        .filter_map(|set| {
            let action = Action::DeleteReplicaSet(SetRef::of(&set.source?.metadata));
            Some(Step::new(action, format!("only {limit} old ones are kept")))
        })
        .collect();
    for step in steps {
        draft.push(step);
    }
}

fn is_idle(set: &Set<'_>) -> bool {
    let Some(source) = set.source else { return false };
    set.counted == 0
        && set.replicas == 0
        && set.actual() == 0
        && source.metadata.generation <= source.status.observed_generation
}

/// Lowest revision first; where one of two is no integer, or both are equal, the older of the two first.
///
/// That is no order where some are integers and some are not. There, one that is no integer parts those that are older from those
/// that are younger, so that the result does not depend on the order of `sets`.
fn by_revision<T, Age: Ord>(sets: Vec<T>, revision: impl Fn(&T) -> Option<i64>, age: impl Fn(&T) -> Age) -> Vec<T> {
    let mut sorted: Vec<(T, Option<i64>)> = sets
        .into_iter()
        .map(|set| {
            let revision = revision(&set);
            (set, revision)
        })
        .collect();
    sorted.sort_by_key(|(set, _)| age(set));
    for run in sorted.chunk_by_mut(|(_, a), (_, b)| a.is_some() && b.is_some()) {
        // Stable: those of the same revision stay in the order of their ages.
        run.sort_by_key(|(_, revision)| *revision);
    }
    sorted.into_iter().map(|(set, _)| set).collect()
}

#[cfg(test)]
mod tests;
